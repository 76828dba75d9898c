"""Check the main table, its layout as in the paper, and figures with their alt texts."""

import math
import re

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from src.report import findings
from src.report.tables import build_table, lay_out
from src.studies.propagation import figures, tables
from src.studies.propagation.study import average_columns


@pytest.fixture
def analyses():
    groups = [("scenes_to_words", "1*-a", None)]
    groups += [("faces_to_words", "1-a", group) for group in ("Black Women", "[bold]Men", "x" * 40)]
    rows = [(model, *row) for model in ("toy_s", "toy_m", "<script>alert(1)</script>") for row in groups]
    frame = pd.DataFrame(rows, columns=["model", "exp", "paper", "group"])
    frame["rho"] = np.random.default_rng(0).uniform(-1, 1, len(frame))
    fixed = {"debias": "none", "perturb": "none", "protocol": "paper", "seed": 0, "n": 40, "reason": ""}
    frame = frame.assign(stratum=frame["group"].fillna("extremes"), **fixed)
    frame.loc[5, ["rho", "reason"]] = [np.nan, "every unit has the same outcome"]
    return frame


def render_text(*renderables):
    console = Console(width=400, record=True)
    for renderable in renderables:
        console.print(renderable)
    return " ".join(console.export_text().split())


def test_summary_is_mean_and_sd_over_single_rhos_next_to_those_published(analyses):
    table = tables.summarise_rhos(analyses).set_index(["exp", "model"])
    rhos = analyses[(analyses["exp"] == "faces_to_words") & (analyses["model"] == "toy_s")]["rho"]
    row = table.loc[("faces_to_words", "toy_s")]
    assert row["mean"] == pytest.approx(rhos.mean())
    assert row["sd"] == pytest.approx(np.std(rhos, ddof=1))
    overall = table.loc[("all", "all")]
    assert overall["mean"] == pytest.approx(np.nanmean(analyses["rho"]))
    assert (overall["analyses"], overall["undefined"]) == (11, 1)
    # Join published numbers with dataset=paper only.
    assert "published_mean" not in tables.summarise_rhos(analyses.assign(dataset="demo"))
    table = tables.summarise_rhos(analyses.assign(dataset="paper")).set_index(["exp", "model"])
    # The paper's table: 1*-a .84 ± .04, 1-a .81 ± .10, all .83 ± .10.
    expected = {"scenes_to_words": (0.84, 0.04), "faces_to_words": (0.81, 0.1), "all": (0.83, 0.1)}
    for exp, published in expected.items():
        assert tuple(table.loc[(exp, "all"), ["published_mean", "published_sd"]]) == published
    text = render_text(tables.build_terminal_table(analyses.assign(dataset="paper"), "title"))
    assert "Ghate et al." in text
    assert "0.84 ± 0.04" in text


@pytest.mark.parametrize("n_models", [1, 3, 6, 7, 100])
def test_the_main_table_has_no_empty_cell_and_models_down_if_they_are_many(n_models):
    rng = np.random.default_rng(0)
    cells = [(f"m{n}", exp) for n in range(n_models) for exp in ("scenes_to_words", "faces_to_words")]
    rows = pd.DataFrame(cells[1:], columns=["model", "exp"])  # the first model lacks an experiment
    rows = rows.assign(paper=rows["exp"].map({"scenes_to_words": "1*-a", "faces_to_words": ""}), stratum="x")
    rows = rows.assign(rho=rng.uniform(-1, 1, len(rows)), debias="none", protocol="paper")
    rows = rows.assign(perturb="none", seed=0, reason="")
    rows.loc[0, "rho"] = np.nan
    table = tables.build_main_table(rows)
    assert table.map(lambda text: isinstance(text, str) and bool(text.strip())).all(axis=None)
    assert not table.isin(["nan", "None"]).any(axis=None)
    models = {f"m{n}" for n in range(n_models)}
    if n_models > 6:
        assert [*table["model"]] == [*dict.fromkeys(rows["model"]), "all"]
        rho = rows.set_index(["model", "exp"])["rho"]["m5", "faces_to_words"]
        assert table.set_index("model").loc["m5", "faces_to_words"] == f"{rho:.2f}"
        return
    assert models <= {*table.columns}
    overall = table.set_index("experiment").loc["all", "all" if n_models > 1 else "m0"]
    assert overall.split(" ")[0] in (tables.DASH, f"{rows['rho'].mean():.2f}")


@pytest.mark.parametrize("width", [80, 100, 140])
@pytest.mark.parametrize("name", ["clip_b32", "a_model_with_a_name_of_forty_letters_____"])
def test_no_cell_of_the_terminal_is_cut_off(analyses, width, name):
    rows = analyses.assign(dataset="paper", model=analyses["model"].replace("toy_s", name))
    rows = rows.assign(group="x", stratum="x", level_q=0.01, level=0.1, slope=0.5, placebo_q95=0.0)
    console = Console(width=width, record=True)
    with console.capture() as printed:
        console.print(tables.build_terminal_table(rows, "title"))
    lines = printed.get().splitlines()
    assert max(map(len, lines)) <= width
    assert "…" not in printed.get()
    assert not any(double in printed.get() for double in ("││", "┃┃"))
    cells = [re.split("[│┃]", line)[1:-1] for line in lines if line[:1] in "│┃"]
    text = "".join("".join(cell.split()) for column in zip(*cells, strict=True) for cell in column)
    assert all(
        "".join(str(cell).split()) in text for cell in tables.build_main_table(rows).to_numpy().ravel()
    )


@pytest.mark.parametrize("n_models", [6, 7])
def test_other_studies_have_models_down_if_they_are_many(n_models):
    specification = {"protocol": "paper", "seed": 0, "debias": "none", "perturb": "none"}
    cells = [(f"m{n}", label, f"{n} {label}") for n in range(n_models) for label in ("first", "second")]
    rows = pd.DataFrame(cells[1:], columns=["model", "label", "text"]).assign(**specification)
    table = lay_out(rows, "seed")
    models = [f"m{n}" for n in range(n_models)]
    if n_models > 6:
        assert table.columns.tolist() == ["model", "seed", "second", "first"]
        assert table["model"].tolist() == models
        assert table.iloc[0].tolist() == ["m0", 0, "0 second", "–"]
    else:
        assert table.columns.tolist() == ["", "seed", *models]
        assert table.iloc[1].tolist() == ["first", 0, "–", *(f"{n} first" for n in range(1, 6))]


@pytest.fixture
def specifications(analyses):
    """Build three specifications, the second as in the paper, with a rho that lacks a placebo."""
    rng = np.random.default_rng(1)
    frames = [
        analyses.assign(protocol=protocol, rho=analyses["rho"] + shift)
        for protocol, shift in (("k_100+k=60", -0.3), ("paper+k=60", 0.0), ("ddof_0+k=60", 0.2))
    ]
    table = pd.concat(frames, ignore_index=True)
    q95 = table["rho"] + rng.choice([-0.1, 0.1], len(table))
    return table.assign(placebo_q95=q95.mask(table.index == 1))


def test_specifications_are_not_averaged(analyses, specifications):
    """Check that the terminal's table and summary.csv show the first specification."""
    assert findings.list_specifications(specifications)[0] == ("paper+k=60", 0, "none", "none")
    pd.testing.assert_frame_equal(tables.summarise_rhos(specifications), tables.summarise_rhos(analyses))
    text = render_text(tables.build_terminal_table(specifications, "title"))
    assert "of protocol paper+k=60, seed 0, the first of 3 specifications" in text
    assert "11, 1 undefined" in text
    rows = specifications[specifications["protocol"] == "paper+k=60"]
    n_above = (rows["rho"] > rows["placebo_q95"]).sum()
    assert 0 < n_above < 11
    assert f"{n_above} of 11" in text


def test_table_of_specifications_is_of_their_means(specifications):
    table = tables.summarise_specifications(specifications).set_index("exp")
    rows = specifications[specifications["exp"] == "faces_to_words"]
    means = [rows["rho"][rows["protocol"] == protocol].mean() for protocol in rows["protocol"].unique()]
    row = table.loc["faces_to_words"]
    assert row["readings"] == 3
    expected = (min(means), sorted(means)[1], max(means))
    assert tuple(row[["lowest", "median", "highest"]]) == pytest.approx(expected)
    compared = rows.dropna(subset=["rho", "placebo_q95"])
    assert row["compared"] == len(compared) == 3 * 9 - 3 - 1
    assert row["above"] == (compared["rho"] > compared["placebo_q95"]).sum()
    assert row["share"] == pytest.approx(row["above"] / row["compared"])
    text = render_text(build_table(*tables.build_spread_table(specifications, "demo")))
    assert f"{min(means):.2f} to {max(means):.2f}".replace("-", "−") in text
    assert f"{row['above']} of {row['compared']}" in text


def test_specifications_without_rho_are_not_counted(specifications):
    lost = specifications["protocol"] == "ddof_0+k=60"
    rows = specifications.assign(rho=specifications["rho"].mask(lost))
    assert {*tables.summarise_specifications(rows)["readings"]} == {2}
    text = render_text(build_table(*tables.build_spread_table(rows.assign(rho=math.nan), "demo")))
    assert "– to –" in text


@pytest.mark.parametrize(
    "keys",
    [
        [("ddof_0", 0, "none"), ("paper", 1, "none"), ("paper", 0, "none")],
        [("paper", 0, "projected"), ("paper", 0, "none")],
        [("paper+ddof=0+k=60", 0, "none"), ("paper+k=60", 0, "none")],
        [("paperback", 0, "none"), ("paper+k=60", 0, "none")],
        [("paper", 0, "none", "flip"), ("paper", 0, "none", "none")],
        [("ddof_0", 0, "none", "none"), ("paper", 0, "none", "flip")],
    ],
)
def test_the_first_specification_is_as_in_the_paper(keys):
    keys = [(*key, "none")[:4] for key in keys]
    rows = pd.DataFrame(keys, columns=["protocol", "seed", "debias", "perturb"])
    assert findings.list_specifications(rows)[0] == keys[-1]


def test_figures_have_text_alternatives(analyses):
    _, alt_text = figures.plot_heatmap(analyses, title="t")
    assert "faces_to_words, toy_s: " in alt_text
    rows = analyses[analyses["exp"] == "faces_to_words"].iloc[1:4].assign(stratum=[*"abc"])
    scores = np.random.default_rng(0).normal(size=(4500, 2))
    targets = pd.DataFrame(scores, columns=["intrinsic", "extrinsic"])
    targets = targets.assign(stratum=np.repeat(rows["stratum"].to_numpy(), 1500))
    _, alt_text = figures.plot_scatter(targets, rows, title="t", intrinsic="x", outcome="y")
    assert f"a: ρ = {rows['rho'].iloc[0]:.2f}, n = 40" in alt_text
    assert alt_text.count("ρ = ") + alt_text.count("every unit has the same outcome") == 3


def test_averages_over_analyses():
    columns = {"rho": [0.5, 0.2, np.nan], "ci_low": [0.4, 0.0, np.nan], "ci_high": [0.6, 0.4, np.nan]}
    rows = pd.DataFrame(columns).assign(placebo_q95=0.3, placebo_mean=0.1, validity=np.nan)
    table = average_columns(rows)
    assert np.isnan(table.pop("validity"))
    expected = {"placebo_mean": 0.1, "placebo_q95": 0.3, "ci_width": 0.3, "above_placebo": 1}
    assert table == pytest.approx(expected)
    assert average_columns(rows[["rho"]]) == {}
