"""Check associations and regressions over families of models against brute force, and their section."""

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from src.report.folder import ReportFolder
from src.studies.predictors import associations, conclusions, family_table, figures, regression, study
from src.studies.propagation.components import estimate_components
from src.studies.propagation.scaling import join_quantities
from tests import reference
from tests.metrics.test_explained_variance import compute_r2, enumerate_orders
from tests.studies.predictors import model_facts

KEY = ("level", "faces_to_words", "")


def select(table, key=KEY):
    return table[(table[family_table.KEYS] == key).all(axis=1)]


def change_facts(findings, **columns):
    return replace(findings, models=findings.models.assign(**columns))


def relate(findings):
    return associations.measure_associations(family_table.build_family_table(findings))


def regress(findings):
    return regression.regress_outcomes(family_table.build_family_table(findings))


@pytest.fixture(scope="module")
def findings():
    return model_facts.draw_findings(12)


@pytest.fixture(scope="module")
def regressions(findings):
    return regress(findings)


# Family means.


def test_outcomes_are_means_over_analyses_then_models(findings):
    families = [f"f{number // 2}" for number in range(12)]
    other = findings.of("propagation").assign(seed=1, level=9.0)
    varied = change_facts(findings, family=families).with_frame(
        "propagation", pd.concat([findings.of("propagation"), other])
    )
    table = family_table.build_family_table(varied)
    keys = [*map(tuple, table[family_table.KEYS].drop_duplicates().to_numpy())]
    assert keys == [
        *[("level", exp, "") for exp in model_facts.EXPERIMENTS],
        *[("rho", exp, "") for exp in model_facts.EXPERIMENTS],
        *[("d", "eat_ieat", order) for order in ("image_image", "image_text")],
    ]
    facts = varied.models
    row = select(table)[select(table)["family"] == "f1"].iloc[0]
    chosen = findings.of("propagation").query("exp == 'faces_to_words'")
    levels = [chosen["level"][chosen["model"] == name].abs().mean() for name in ("m002", "m003")]
    assert (row["models"], row["value"]) == (2, pytest.approx(np.mean(levels)))
    assert row["pairs_seen"] == pytest.approx(np.log10(facts["pairs_seen"][2:4]).mean())
    assert row["zero_shot"] == pytest.approx(facts["zero_shot"][2:4].mean())
    # m002 and m003 have different data with the same filter.
    assert pd.isna(row["pretraining"])
    assert row["filter"] == "none"
    tests = findings.of("eat").query("order == 'image_text'")
    d = [tests["d"][tests["model"] == name].abs().mean() for name in ("m002", "m003")]
    of_d = select(table, ("d", "eat_ieat", "image_text"))
    assert of_d["value"].iloc[1] == pytest.approx(np.mean(d))


def test_a_second_instruction_counts_no_model_and_no_family_twice(findings):
    """Add a neutral instruction to half of the models: all that is of families stays the same."""
    frames = {}
    for name in ("propagation", "eat"):
        analyses = findings.of(name)
        neutral = analyses[analyses["model"] <= "m005"].assign(protocol="paper+prompt=", level=9.0, d=9.0)
        frames[name] = pd.concat([neutral, analyses], ignore_index=True)
    doubled = replace(findings, frames=frames)
    pd.testing.assert_frame_equal(
        family_table.build_family_table(doubled), family_table.build_family_table(findings)
    )
    pd.testing.assert_frame_equal(relate(doubled), relate(findings))
    pd.testing.assert_frame_equal(join_quantities(doubled), join_quantities(findings))
    pd.testing.assert_frame_equal(estimate_components(doubled), estimate_components(findings))


def test_unknown_values_are_not_filled_in(findings):
    facts = findings.models.astype({"filter": object})
    facts.loc[0, ["pretraining", "filter"]] = ["none", "none"]  # untrained
    facts.loc[1, ["pairs_seen", "filter", "zero_shot"]] = [np.nan, "unknown", np.nan]
    facts.loc[2, ["pairs_seen", "filter"]] = [0, ""]
    table = select(family_table.build_family_table(replace(findings, models=facts)))
    assert len(table) == 11
    assert table["pairs_seen"].isna().tolist() == [True, True, *[False] * 9]
    assert table["filter"].isna().tolist() == [True, True, *[False] * 9]
    assert table["zero_shot"].isna().tolist() == [True, *[False] * 10]
    rows = select(relate(replace(findings, models=facts))).set_index("predictor")
    assert rows["unknown"].to_dict() == {
        "pairs_seen": 2, "parameters_millions": 0, "gflops_image": 0, "zero_shot": 1, "pretraining": 0,
        "filter": 2,
    }  # fmt: skip
    # Findings of older versions lack the columns.
    older = replace(findings, models=findings.models[["model", "family", "parameters_millions"]])
    reasons = select(relate(older)).set_index("predictor")["reason"]
    assert reasons["parameters_millions"] == ""
    assert {*reasons.drop("parameters_millions")} == {"unknown for all families"}
    assert family_table.build_family_table(older.with_frame("propagation", pd.DataFrame()))["order"].all()


# One predictor alone.


def test_associations_are_those_of_permuted_families():
    """Permute 7 families in a loop: 14 models, of which some have equal sizes."""
    findings = model_facts.draw_findings(14)
    families = [f"f{number // 2}" for number in range(14)]
    data = [*"aaaabbbbccccdd"]
    sizes = np.repeat([10.0, 20, 20, 30, 40, 50, 60], 2)
    varied = change_facts(findings, family=families, pretraining=data, parameters_millions=sizes)
    rows = select(relate(varied)).set_index("predictor")
    table = select(family_table.build_family_table(varied))
    y = table["value"].to_numpy()
    x = stats.rankdata(table["parameters_millions"])
    assert len({*x}) == 6
    rho = stats.spearmanr(x, y).statistic
    rhos = [np.corrcoef(x, order)[0, 1] for order in itertools.permutations(stats.rankdata(y))]
    row = rows.loc["parameters_millions"]
    assert (row["statistic"], row["families"], row["value"]) == ("spearman", 7, pytest.approx(rho))
    assert row["p"] == np.mean(np.abs(rhos) >= abs(rho) - 1e-9)
    # The family with data d is alone.
    row, labels = rows.loc["pretraining"], np.array([*"aabbcc"])
    assert (row["statistic"], row["families"], row["categories"]) == ("eta_squared", 6, 3)
    assert (row["alone"], row["unknown"], row["expected"]) == (1, 0, pytest.approx(2 / 5))

    def explain(order):
        return 1 - sum(np.var(order[labels == name]) * 2 for name in "abc") / (6 * np.var(order))

    shares = [explain(np.array(order)) for order in itertools.permutations(y[:6])]
    assert row["value"] == pytest.approx(explain(y[:6]))
    assert row["p"] == np.mean(np.array(shares) >= explain(y[:6]) - 1e-9)
    assert np.mean(shares) == pytest.approx(row["expected"])


@pytest.mark.parametrize(
    ("count", "facts", "predictor", "reason"),
    [
        (5, {}, "pairs_seen", "5 of 5 families have a known value: at least 6 are needed"),
        (12, {"pairs_seen": np.nan}, "pairs_seen", "unknown for all families"),
        (12, {"filter": "unknown"}, "filter", "unknown for all families"),
        (12, {"zero_shot": [0.5] * 5 + [np.nan] * 7}, "zero_shot", "5 of 12 families have a known value: "
         "at least 6 are needed"),
        (12, {"filter": [*"aabbbcdefghi"]}, "filter", "5 of 12 families share their category with another: "
         "at least 6 are needed"),
        (12, {"filter": "a"}, "filter", "the same for all 12 families"),
        (12, {"gflops_image": 5.0}, "gflops_image", "the same for all 12 families"),
    ],
)  # fmt: skip
def test_associations_that_cannot_be_computed_have_a_reason(count, facts, predictor, reason):
    rows = relate(change_facts(model_facts.draw_findings(count), **facts))
    rows = rows[rows["predictor"] == predictor]
    assert {*rows["reason"]} == {reason}
    assert rows[["value", "expected", "p"]].isna().all(axis=None)


def test_an_outcome_without_variance_has_no_association(findings):
    constant = findings.of("propagation").assign(level=0.25)
    rows = select(relate(findings.with_frame("propagation", constant)))
    assert {*rows["reason"]} == {"the outcome is the same for all 12 families"}
    shares, _ = regress(findings.with_frame("propagation", constant))
    assert select(shares)["reason"].iloc[0] == "the outcome is the same for all 12 families"


# Regression.


def compute_shares(rows):
    """Return R² and its share of each predictor by brute force, from rows of the family table."""
    x = [rows["pairs_seen"], rows["parameters_millions"], rows["filter"] == "none"]
    design = np.column_stack(x).astype(float)
    y = rows["value"].to_numpy()
    return [compute_r2(design, y), *enumerate_orders(design, np.arange(3), y)]


def test_shares_and_coefficients_are_those_of_brute_force(findings, regressions):
    shares, coefficients = (select(table) for table in regressions)
    rows = select(family_table.build_family_table(findings))
    defined = shares[shares["share"].notna()]
    assert defined["predictor"].tolist() == ["all", "pairs_seen", "parameters_millions", "filter"]
    expected = compute_shares(rows)
    assert defined["share"].tolist() == pytest.approx(expected, abs=1e-12)
    assert {*zip(defined["families"], defined["left_out"], strict=True)} == {(12, 0)}
    assert defined["coefficients"].tolist() == [3, 1, 1, 1]
    without = np.array([compute_shares(rows.drop(index=index)) for index in rows.index])
    half = stats.t.ppf(0.975, 11) * np.sqrt(11 / 12 * ((without - without.mean(axis=0)) ** 2).sum(axis=0))
    total, *rows_of_predictors = defined.to_dict("records")
    assert np.isnan([total["low"], total["high"]]).all()
    for row, share, width in zip(rows_of_predictors, expected[1:], half[1:], strict=True):
        ends = [max(0, share - width), min(1, share + width)]
        assert [row["low"], row["high"]] == pytest.approx(ends, abs=1e-9)

    def fit(rows):
        x = np.column_stack([np.ones(len(rows)), rows["pairs_seen"], rows["parameters_millions"]])
        # Both filters are as frequent; the first in alphabetical order is the reference.
        x = np.column_stack([x, rows["filter"] == "none"])
        return np.linalg.lstsq(x.astype(float), rows["value"].to_numpy(), rcond=None)[0][1:]

    assert coefficients["term"].tolist() == ["per tenfold", "per tenfold", "none against clip_score"]
    estimates = fit(rows)
    assert coefficients["coefficient"].tolist() == pytest.approx(estimates, abs=1e-12)
    names = [[str(index)] for index in rows.index]
    for number, row in enumerate(coefficients.to_dict("records")):
        variance = reference.jackknife_variance(
            lambda stay, number=number: fit(rows[stay])[number], [[name for (name,) in names]]
        )
        assert [row["low"], row["high"]] == pytest.approx(
            reference.t_interval(estimates[number], variance, 11), abs=1e-9
        )
        assert row["df"] == 11


def test_the_null_permutes_the_outcome_over_families(findings, regressions):
    """Compare null and p with a loop over other permutations."""
    defined = select(regressions[0]).dropna(subset=["share"]).set_index("predictor")
    rows = select(family_table.build_family_table(findings))
    rng, null = np.random.default_rng(5), []
    for _ in range(400):
        null.append(compute_shares(rows.assign(value=rng.permutation(rows["value"]))))
    null = np.array(null)
    assert defined["null_mean"].tolist() == pytest.approx(null.mean(axis=0), abs=0.03)
    # The mean of R² over permutations is exactly p/(n − 1).
    assert defined["null_mean"]["all"] == pytest.approx(3 / 11, abs=0.01)
    assert defined["null_low"].tolist() == pytest.approx(np.quantile(null, 0.025, axis=0), abs=0.03)
    assert defined["null_high"].tolist() == pytest.approx(np.quantile(null, 0.975, axis=0), abs=0.08)
    assert defined["p"]["all"] == pytest.approx((null[:, 0] >= defined["share"]["all"]).mean(), abs=0.03)
    assert defined["p"].drop("all").isna().all()


def test_predictors_are_left_out_for_a_reason(findings, regressions):
    def reasons(**facts):
        rows = select(regress(change_facts(findings, **facts))[0])
        return rows[rows["predictor"] != "all"].set_index("predictor")["reason"]

    nested = "not entered: they determine the filter, which is entered instead: with them, 5 coefficients, "
    nested += "but only 12 families (at least 3 for each)"
    assert select(regressions[0]).set_index("predictor")["reason"]["pretraining"] == nested
    rows = select(regress(model_facts.draw_findings(15))[0]).set_index("predictor")
    assert rows["reason"]["filter"] == "not entered: training data determine it and are entered instead"
    assert rows["coefficients"]["pretraining"] == 3
    assert reasons(filter="unknown")["filter"] == "not entered: unknown for all families"
    # Without a known filter, training data enter.
    assert reasons(filter="unknown")["pretraining"] == ""
    assert reasons(filter="x")["filter"] == "not entered: the same for all 12 families that have it"
    assert reasons(filter=[*"abcdefghijkl"])["filter"] == "not entered: no two families have the same"
    few = [1e9, 2e9, 3e9, 5e9, *[np.nan] * 8]
    expected = "not entered: usable in 4 families; with it, 4 have all predictors"
    assert reasons(pairs_seen=few)["pairs_seen"] == expected
    # Nine families have pairs seen: three are left out, none is filled in.
    rows = select(regress(change_facts(findings, pairs_seen=[*[np.nan] * 3, *range(1, 10)]))[0])
    assert {*zip(rows["families"], rows["left_out"], strict=True)} == {(9, 3)}


@pytest.mark.parametrize(
    ("count", "facts", "reason"),
    [
        (7, {}, "7 families: at least 8 are needed"),
        (8, {"parameters_millions": np.nan, "pairs_seen": np.nan, "filter": "a", "pretraining": "a"},
         "no predictor can enter"),
        (8, {"pretraining": [*"aabbccdd"], "filter": "unknown"},
         "5 coefficients (pairs seen, parameters, training data) of 8 families leave 2 residual degrees of "
         "freedom: at least 3 are needed"),
        (12, {"parameters_millions": np.arange(1, 13.0), "pairs_seen": np.arange(1, 13.0) * 1e9},
         "predictors are collinear in these 12 families: pairs seen, parameters, filter"),
        (8, {"pairs_seen": [*np.arange(1, 5.0), *[np.nan] * 4], "pretraining": "a", "filter": "a",
             "parameters_millions": [*[np.nan] * 4, *np.arange(1, 5.0)]},
         "no predictor can enter"),
    ],
)  # fmt: skip
def test_regressions_that_cannot_be_computed_have_a_reason(count, facts, reason):
    shares, coefficients = regress(change_facts(model_facts.draw_findings(count), **facts))
    totals = shares[shares["predictor"] == regression.ALL]
    assert {*totals["reason"]} == {reason}
    assert len(totals) == 8
    assert shares["share"].isna().all()
    assert coefficients.empty
    assert [*figures.plot_shares(shares)] == []


def test_families_alone_in_their_category_are_left_out_until_none_is():
    for names in (["filter", "pretraining"], ["pretraining", "filter"]):
        rows = pd.DataFrame(dict(zip(names, ([*"abbb", None], [*"xxyyy"]), strict=True)))
        # The first family is alone with a; then the second is alone with x.
        assert regression.keep_complete(rows, names).index.tolist() == [2, 3]
        assert regression.keep_complete(rows, names[1:]).index.tolist() == [0, 1, 2, 3, 4]


def test_an_interval_needs_predictors_that_are_identified_without_each_family(findings):
    outlier = [2e9, *[1e9] * 11]
    shares, coefficients = (select(table) for table in regress(change_facts(findings, pairs_seen=outlier)))
    assert shares["share"].notna().sum() == 4
    assert shares[["low", "high"]].isna().all(axis=None)
    assert {*coefficients["reason"]} == {regression.NO_INTERVAL}
    assert {*shares["reason"][shares["predictor"] == "pairs_seen"]} == {regression.NO_INTERVAL}


@pytest.mark.thorough
def test_p_is_uniform_on_noise_and_intervals_cover():
    """Regress 300 outcomes of 12 families on numbers and a filter that have no effect."""
    rng = np.random.default_rng(0)
    p_values, covering = [], []
    for _ in range(300):
        facts = {name: rng.normal(size=12) for name in ("value", "pairs_seen", "parameters_millions")}
        keys = dict(zip(family_table.KEYS, KEY, strict=True))
        families = pd.DataFrame({**keys, **facts, "family": [f"f{i}" for i in range(12)], "models": 1})
        families["filter"] = rng.permutation([*"aaaaabbbbbbb"])
        shares, coefficients = regression.regress_outcomes(families.reindex(columns=family_table.COLUMNS))
        p_values.append(shares["p"].iloc[0])
        covering.append((coefficients["low"] <= 0) & (coefficients["high"] >= 0))
    assert stats.kstest(p_values, "uniform").pvalue > 0.001
    assert 0.9 < np.mean(covering) < 0.99


# Section.


def test_conclusions_have_families_interval_and_null(findings, regressions):
    texts = conclusions.state_conclusions(relate(findings), regressions[0])
    assert len(texts) == 2
    assert texts[0].startswith("Over 12 families of models, ")
    shares = regressions[0]
    totals = shares[shares["predictor"] == "all"]
    top = totals.loc[totals["share"].idxmax()]
    small = (totals["p"] <= 0.05).sum()
    assert texts[1].startswith(
        f"R² has p ≤ .05 in {small} of 8 regressions (by chance about 0.4); the largest"
    )
    assert f"explains {top['share']:.0%} of the variance of 12 families (shuffled families: " in texts[1]
    assert texts[1].endswith(conclusions.CAVEAT)
    few = model_facts.draw_findings(5)
    assert conclusions.state_conclusions(relate(few), regress(few)[0]) == []


def test_shares_are_drawn_with_interval_and_null(regressions):
    drawings = {drawing.name: drawing for drawing in figures.plot_shares(regressions[0])}
    assert [*drawings] == ["predictors-level", "predictors-rho", "predictors-d"]
    assert "mean |d| of eat_ieat: share of the variance explained. image_image (R² " in (
        drawings["predictors-d"].alt_text
    )
    text = drawings["predictors-level"].alt_text
    shares = select(regressions[0]).set_index("predictor")["share"]
    assert f"pairs seen {shares['pairs_seen']:.0%}" in text
    assert f"faces_to_words (R² {shares['all']:.0%}, shuffled 27%; 12 families)" in text


@pytest.mark.parametrize("count", [1, 5, 6])
def test_the_section_has_tables_for_any_number_of_models(tmp_path, count):
    findings = model_facts.draw_findings(count)
    section = study.build_section(findings, ReportFolder(tmp_path))
    tables = {path.stem: path for path in (tmp_path / "tables").glob("*")}
    if count == 1:
        assert section is None
        assert not tables
        return
    assert [*sorted(tables)] == [
        "predictors", "predictors-coefficients", "predictors-families", "predictors-shares"
    ]  # fmt: skip
    assert len(section.conclusions) == (count >= 6)
    assert section.context["predictors"]["pictures"] == []
    families = pd.read_csv(tables["predictors-families"], keep_default_na=False)
    assert families["family"].nunique() == count


def test_a_hundred_families_have_regressions_on_their_training_data():
    shares, _ = regress(model_facts.draw_findings(100))
    rows = select(shares).set_index("predictor")
    assert rows["families"]["all"] == 100
    assert rows["reason"]["filter"] == "not entered: training data determine it and are entered instead"
    assert (
        rows.loc[["pairs_seen", "parameters_millions", "pretraining"], ["share", "low"]]
        .notna()
        .all(axis=None)
    )
    assert "100 families" in next(figures.plot_shares(shares)).alt_text
