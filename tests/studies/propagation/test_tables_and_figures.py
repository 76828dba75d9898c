"""The table like the paper's, and figures that say in words what they show."""

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from rich.console import Console

from src.report import findings
from src.report.drawing import save
from src.report.tables import plain, reasons
from src.studies.propagation import figures, tables


@pytest.fixture
def analyses():
    rng = np.random.default_rng(0)
    rows = [
        {"model": model, "exp": exp, "paper": paper, "group": group, "stratum": group or "extremes"}
        for model in ("toy_s", "toy_m", "<script>alert(1)</script>")
        for exp, paper, groups in (
            ("scenes_to_words", "1*-a", [None]),
            ("faces_to_words", "1-a", ["Black Women", "[bold]Men", "x" * 40]),
        )
        for group in groups
    ]
    frame = pd.DataFrame(rows)
    fixed = {"rho": rng.uniform(-1, 1, len(frame)), "debias": "none", "protocol": "paper", "seed": 0, "n": 40}
    frame = frame.assign(**fixed, reason="")
    frame.loc[5, ["rho", "reason"]] = [np.nan, "every unit has the same outcome"]
    return frame


def test_summary_is_mean_and_sd_over_single_rhos(analyses):
    found = tables.summary(analyses).set_index(["exp", "model"])
    own = analyses[(analyses["exp"] == "faces_to_words") & (analyses["model"] == "toy_s")]["rho"]
    row = found.loc[("faces_to_words", "toy_s")]
    assert row["mean"] == pytest.approx(own.mean())
    assert row["sd"] == pytest.approx(np.std(own, ddof=1))
    overall = found.loc[("all", "all")]
    assert overall["mean"] == pytest.approx(np.nanmean(analyses["rho"]))
    assert (overall["analyses"], overall["undefined"]) == (11, 1)


def test_the_paper_s_own_figures_stand_beside_a_replication_only(analyses):
    assert "published_mean" not in tables.summary(analyses.assign(dataset="demo"))
    found = tables.summary(analyses.assign(dataset="paper")).set_index(["exp", "model"])
    # The paper's table: 1*-a .84 ± .04, 1-a .81 ± .10, all .83 ± .10.
    for exp, own in (
        ("scenes_to_words", (0.84, 0.04)),
        ("faces_to_words", (0.81, 0.1)),
        ("all", (0.83, 0.1)),
    ):
        assert tuple(found.loc[(exp, "all"), ["published_mean", "published_sd"]]) == own
    console = Console(width=200, record=True)
    console.print(tables.terminal(analyses.assign(dataset="paper"), "title"))
    shown = console.export_text()
    assert "Ghate et al." in shown
    assert "0.84 ± 0.04" in shown


@pytest.fixture
def several(analyses):
    """Three readings of the same analyses, the paper's in the middle; of each but one rho a placebo."""
    rng = np.random.default_rng(1)
    parts = [
        analyses.assign(protocol=protocol, rho=analyses["rho"] + shift)
        for protocol, shift in (("k_100+k=60", -0.3), ("paper+k=60", 0.0), ("ddof_0+k=60", 0.2))
    ]
    found = pd.concat(parts, ignore_index=True)
    q95 = found["rho"] + rng.choice([-0.1, 0.1], len(found))
    return found.assign(placebo_q95=q95.mask(found.index == 1))


def test_readings_are_not_averaged(analyses, several):
    """The terminal's table and summary.csv are of the first reading; another table is of all."""
    assert findings.readings(several)[0] == ("paper+k=60", 0, "none")
    pd.testing.assert_frame_equal(tables.summary(several), tables.summary(analyses))
    console = Console(width=400, record=True)
    console.print(tables.terminal(several, "title"))
    shown = " ".join(console.export_text().split())
    assert "of protocol paper+k=60, seed 0, the first of 3 readings" in shown
    assert "11, 1 undefined" in shown
    own = several[several["protocol"] == "paper+k=60"]
    over = (own["rho"] > own["placebo_q95"]).sum()
    assert 0 < over < 11
    assert f"{over} of 11" in shown
    console.print(tables.terminal(analyses, "title"))
    assert "above placebo" not in console.export_text()


def test_the_table_of_readings_is_of_their_means(several):
    found = tables.readings(several).set_index("exp")
    rows = several[several["exp"] == "faces_to_words"]
    means = [rows["rho"][rows["protocol"] == protocol].mean() for protocol in rows["protocol"].unique()]
    one = found.loc["faces_to_words"]
    assert one["readings"] == 3
    expected = (min(means), sorted(means)[1], max(means))
    assert tuple(one[["lowest", "median", "highest"]]) == pytest.approx(expected)
    known = rows.dropna(subset=["rho", "placebo_q95"])
    assert one["compared"] == len(known) == 3 * 9 - 3 - 1
    assert one["above"] == (known["rho"] > known["placebo_q95"]).sum()
    assert one["share"] == pytest.approx(one["above"] / one["compared"])
    console = Console(width=160, record=True)
    console.print(plain(*tables.spread(several, "demo")))
    shown = console.export_text()
    assert f"{min(means):.2f} to {max(means):.2f}" in shown
    assert f"{one['above']} of {one['compared']}" in shown


def test_the_first_reading_is_the_paper_s_or_nearest_to_it():
    def first(*given):
        return findings.readings(pd.DataFrame(given, columns=["protocol", "seed", "debias"]))[0]

    assert first(("ddof_0", 0, "none"), ("paper", 1, "none"), ("paper", 0, "none")) == ("paper", 0, "none")
    assert first(("paper", 0, "gone"), ("paper", 0, "none")) == ("paper", 0, "none")
    assert first(("paper+ddof=0+k=60", 0, "none"), ("paper+k=60", 0, "none")) == ("paper+k=60", 0, "none")
    assert first(("paperback", 0, "none"), ("paper+k=60", 0, "none")) == ("paper+k=60", 0, "none")


def test_the_terminal_s_table_counts_what_is_undefined(analyses):
    console = Console(width=160, record=True)
    console.print(tables.terminal(analyses, "title"))
    shown = console.export_text()
    assert "11, 1 undefined" in shown
    assert "<script>alert(1)</script>" in shown
    console.print(reasons({"a": "[bold]no", "b": "[bold]no", "c": "yes"}, "Failed"))
    assert console.export_text().count("[bold]no") == 1


@pytest.mark.parametrize("kind", ["heatmap", "scatter"])
def test_figures_carry_their_text_alternative(analyses, kind, tmp_path):
    if kind == "heatmap":
        figure, said = figures.heatmap(analyses, title="t")
        assert "faces_to_words, toy_s: " in said
    else:
        one = analyses[analyses["exp"] == "faces_to_words"].iloc[1:4].copy()
        one["stratum"] = ["a", "b", "c"]
        rng = np.random.default_rng(0)
        targets = pd.DataFrame({"stratum": np.repeat(one["stratum"].to_numpy(), 1500)})
        targets = targets.assign(intrinsic=rng.normal(size=4500), extrinsic=rng.normal(size=4500))
        figure, said = figures.scatter(
            targets, one, title="t", intrinsic="SC-EAT effect size", outcome="mean valence"
        )
        assert f"a: ρ = {one['rho'].iloc[0]:.2f}, n = 40" in said
        assert said.count("ρ = ") + said.count("every unit has the same outcome") == 3
    save(figure, said, tmp_path / "figure.png")
    with Image.open(tmp_path / "figure.png") as picture:
        assert picture.info["Description"] == said


def test_a_job_s_metrics_say_what_its_rhos_are_worth():
    from src.studies.propagation.study import reliability

    rows = pd.DataFrame(
        {"rho": [0.5, 0.2, np.nan], "placebo_q95": [0.3, 0.3, 0.3], "placebo_mean": [0.1] * 3}
    )
    rows = rows.assign(ci_low=[0.4, 0.0, np.nan], ci_high=[0.6, 0.4, np.nan], validity=np.nan)
    found = reliability(rows)
    assert np.isnan(found.pop("validity"))
    expected = {"placebo_mean": 0.1, "placebo_q95": 0.3, "ci_width": 0.3, "above_placebo": 1}
    assert found == pytest.approx(expected)
    assert reliability(rows[["rho"]]) == {}
