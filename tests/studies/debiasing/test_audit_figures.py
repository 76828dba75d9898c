"""Check figures of debiased audits against hand-made cosines, and counts of models against the paper's."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from src.studies.debiasing import audit_figures
from src.studies.debiasing.improved_models import compute_share_interval, count_improved
from tests.report import factory

FACES = 8
GROUPS = ("Black Men", "White Men", "White Women")
# Method -> factor of the planted differences between groups.
STRENGTHS = {"none": 1.0, "orth_proj": 0.4}


@pytest.fixture
def findings(tmp_path):
    """Synthesise two audits of a model; one has two sets of words."""
    frames, folders = [], {}
    for exp, sets in (("cles_warmth", ["warmth"]), ("cles_emotions", ["positive", "negative"])):
        for method, strength in STRENGTHS.items():
            config = f"{len(folders):032x}"
            folders[config] = tmp_path / config
            folders[config].mkdir()
            cosines = _cosines(exp, sets, strength)
            cosines.sample(frac=1, random_state=1).to_parquet(folders[config] / "similarities.parquet")
            pairs = pd.DataFrame(combinations(GROUPS, 2), columns=["group_a", "group_b"])
            rows = pairs.merge(pd.DataFrame({"attribute": sets}), how="cross")
            gaps = 0.1 * np.arange(1, len(rows) + 1) * strength
            frames.append(rows.assign(exp=exp, debias=method, config=config, delta_gap=gaps))
    return factory.build(implicit=pd.concat(frames, ignore_index=True), folders=folders)


def _cosines(exp, sets, strength):
    # Methods share their noise.
    rng = np.random.default_rng(len(sets))
    index = pd.MultiIndex.from_product([GROUPS, range(FACES), sets, ["a", "b"]])
    frame = pd.DataFrame(index=index.set_names(["group", "id", "set", "word"])).reset_index()
    shift = frame["group"].map(dict(zip(GROUPS, (0, 1, 2), strict=True)))
    frame["cosine"] = strength * shift + rng.normal(size=len(frame))
    return frame.assign(id=frame["group"] + frame["id"].astype(str))


def change_rows(findings):
    """Return rows as `changes` does, with draws that say which audit and side they are of."""
    configs = findings.of("implicit").groupby(["exp", "debias"], sort=False)["config"].first()
    rows = []
    for exp, attributes in (("cles_warmth", ["warmth"]), ("cles_emotions", ["positive", "negative"])):
        for number, attribute in enumerate(attributes):
            row = {
                "model": "toy_m",
                "debias": "orth_proj",
                "measure": "cles_gap",
                "exp": exp,
                "lacks_results": False,
            }
            row |= {"attribute": attribute, "over": 3, "before": 0.2 + 0.1 * number, "after": 0.1}
            row |= {f"config_{side}": configs[exp, method] for side, method in
                    (("before", "none"), ("after", "orth_proj"))}  # fmt: skip
            rows.append(row | {"draws": np.array([np.arange(101) / 100, np.full(101, 0.1)])})
    return pd.DataFrame(rows)


def test_baseline_and_change_are_measured_on_different_faces(findings):
    table = audit_figures.measure_split_changes(findings, change_rows(findings)).set_index("exp")
    for exp in ("cles_warmth", "cles_emotions"):
        before, after = (
            pd.read_parquet(findings.folders[config] / "similarities.parquet")
            for config in change_rows(findings)
            .set_index("exp")
            .loc[[exp], ["config_before", "config_after"]]
            .iloc[0]
        )
        faces = before[["group", "id"]].drop_duplicates()
        first = audit_figures._draw_half(faces.assign(cluster=faces["id"]))
        assert {
            group: len([name for name in first if name.startswith(group)]) for group in GROUPS
        } == dict.fromkeys(GROUPS, 4)
        rest = {*before["id"]} - first
        baseline = _brute_force_gap(before, first)
        change = _brute_force_gap(after, rest) - _brute_force_gap(before, rest)
        assert table.loc[exp, ["baseline", "change"]].tolist() == pytest.approx([baseline, change])
        assert table.loc[exp, "n_faces"] == 4
    assert (table["change"] < 0).all()
    drawing = audit_figures.draw_split_changes(table.reset_index())
    assert "orth_proj: 2 of 2 below 0" in drawing.alt_text


def write_attributes(findings, **clusters):
    """Write the audits' tables of faces, with clusters as functions of (group, number)."""
    rows = [{"group": group, "id": f"{group}{number}"} for group in GROUPS for number in range(FACES)]
    for name, function in clusters.items():
        for row, (group, number) in zip(rows, ((g, n) for g in GROUPS for n in range(FACES)), strict=True):
            row[name] = function(group, number)
    for folder in findings.folders.values():
        pd.DataFrame(rows).assign(template=None, set=None).to_parquet(folder / "attributes.parquet")


def first_half(findings):
    config = change_rows(findings)["config_before"].iloc[0]
    faces = findings.read(config, "similarities")[["group", "id"]].drop_duplicates()
    named = audit_figures._name_clusters(faces, findings, config)
    return audit_figures._draw_half(named)


def test_halves_of_single_faces_are_drawn_by_id(findings):
    write_attributes(findings)
    by_id = first_half(findings)
    expected = set()
    for group in GROUPS:
        ids = pd.Series(sorted(f"{group}{number}" for number in range(FACES)))
        expected |= {*ids.sample(FACES // 2, random_state=0)}
    assert by_id == expected
    write_attributes(findings, cluster=lambda group, number: f"person {group} {number}")
    assert first_half(findings) == expected


@pytest.mark.parametrize(
    ("columns", "cluster_of"),
    [
        (["cluster"], lambda group, number: f"{group}{number // 2}"),
        (["cluster"], lambda _, number: f"s{number}"),
        (["parent_a", "parent_b"], lambda group, number: f"{group}{number // 4}"),
    ],
    ids=["people", "sets", "families"],
)
def test_halves_share_no_person_no_set_and_no_parent(findings, columns, cluster_of):
    # The second parent of a morph is of its own.
    functions = [cluster_of, lambda group, number: f"{group}x{number}"]
    write_attributes(findings, **dict(zip(columns, functions, strict=False)))
    first = first_half(findings)
    halves = [set(), set()]
    for group in GROUPS:
        assert len([name for name in first if name.startswith(group)]) == 4
        for number in range(FACES):
            halves[f"{group}{number}" in first].add(cluster_of(group, number))
    assert not halves[0] & halves[1]
    assert len(audit_figures.measure_split_changes(findings, change_rows(findings))) == 2


def test_a_group_of_a_single_cluster_is_not_halved(findings):
    write_attributes(
        findings, cluster=lambda group, number: group if group == GROUPS[0] else f"{group}{number}"
    )
    assert first_half(findings) == set()
    assert audit_figures.measure_split_changes(findings, change_rows(findings)).empty


def _brute_force_gap(cosines, ids):
    gaps = []
    for _, rows in cosines[cosines["id"].isin(ids)].groupby("set"):
        for a, b in combinations(GROUPS, 2):
            wins = [
                x > y
                for _, of_word in rows.groupby("word")
                for x in of_word.loc[of_word["group"] == a, "cosine"]
                for y in of_word.loc[of_word["group"] == b, "cosine"]
            ]
            gaps.append(abs(np.mean(wins) - 0.5))
    return np.mean(gaps)


def test_jobs_on_different_faces_are_not_split(findings):
    rows = change_rows(findings)
    path = findings.folders[rows["config_after"].iloc[0]] / "similarities.parquet"
    pd.read_parquet(path).replace({"id": {"Black Men0": "another"}}).to_parquet(path)
    assert [*audit_figures.measure_split_changes(findings, rows)["exp"]] == ["cles_emotions"]
    assert (
        audit_figures.draw_split_changes(audit_figures.measure_split_changes(findings, rows.head(1))) is None
    )


def test_gaps_are_summed_over_audits_and_pairs(findings):
    table = audit_figures.sum_gaps(findings, change_rows(findings)).set_index("debias")
    # By hand: warmth .1 + .2 + .3; emotions, a mean of two sets for each pair, .15 + .35 + .55.
    assert table["delta_gap"].to_dict() == pytest.approx({"none": 1.65, "orth_proj": 0.66})
    # Three pairs each: 3 x .2 + 3 x (.2 + .3) / 2 without, 3 x .1 + 3 x .1 with.
    assert table["cles_gap"].to_dict() == pytest.approx({"none": 1.35, "orth_proj": 0.6})
    # Draws of both audits are added draw by draw: six times 0 to 1, and six times .1.
    assert table.loc["none", ["cles_low", "cles_high"]].tolist() == pytest.approx([0.15, 5.85])
    assert table.loc["orth_proj", ["cles_low", "cles_high"]].tolist() == pytest.approx([0.6, 0.6])
    assert [*table["n_audits"]] == [2, 2]
    drawing = audit_figures.draw_summed_gaps(table.reset_index())
    assert "toy_m: none 1.650, orth_proj 0.660" in drawing.alt_text


def test_only_audits_of_all_methods_are_summed(findings):
    rows = change_rows(findings)
    another = rows[rows["exp"] == "cles_warmth"].assign(debias="orth_proj_scm")
    table = audit_figures.sum_gaps(findings, pd.concat([rows, another])).set_index("debias")
    assert table["n_audits"].to_dict() == {"none": 1, "orth_proj": 1, "orth_proj_scm": 1}
    assert table.loc["none", "delta_gap"] == pytest.approx(0.6)


def test_methods_without_a_common_audit_have_no_sum(findings):
    rows = change_rows(findings)
    rows.loc[rows["exp"] == "cles_warmth", "debias"] = "orth_proj_scm"
    table = audit_figures.sum_gaps(findings, rows)
    assert table.empty
    assert audit_figures.draw_summed_gaps(table) is None


@pytest.mark.parametrize(
    ("count", "total", "low", "high"),
    # Wilson's formula by hand: (p + z²/2n ± z √(p(1 − p)/n + z²/4n²)) / (1 + z²/n), z = 1.96.
    [(47, 90, 0.420, 0.622), (33, 90, 0.274, 0.470), (3, 3, 0.4385, 1.0), (0, 4, 0.0, 0.490)],
)
def test_the_interval_of_a_share_is_wilsons(count, total, low, high):
    assert compute_share_interval(count, total) == pytest.approx((low, high), abs=5e-4)


def test_models_are_counted_as_in_the_paper():
    values = {
        "orth_proj_scm": [-0.1, -0.2, 0.1, 0.0],
        "orth_proj_calibrated": [-0.2, -0.1, 0.2, np.nan],
        "orth_proj": [-0.1] * 4,
    }
    rows = [
        {"model": f"m{number}", "debias": method, "measure": "cles_gap", "value": value}
        for method, numbers in values.items()
        for number, value in enumerate(numbers)
    ]
    table = count_improved(pd.DataFrame(rows)).set_index(["debias", "against"])
    counts = ["published_lower", "published_models", "lower", "models"]
    assert table.loc[("orth_proj_scm", "none"), counts].tolist() == [47, 90, 2, 4]
    assert table.loc[("orth_proj_calibrated", "none"), counts].tolist() == [33, 90, 2, 3]
    assert table.loc[("orth_proj_scm", "orth_proj_calibrated"), counts].tolist() == [64, 90, 2, 3]
    of_projection = [row for row in rows if row["debias"] == "orth_proj"]
    assert count_improved(pd.DataFrame(of_projection)).empty
