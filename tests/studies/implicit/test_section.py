"""What a reader sees of the audits: figures that say what they show, and the page."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from src.report import page
from src.report.drawing import save
from src.report.folder import Folder
from src.storage import results
from src.studies.implicit import bubble_chart, figures, section
from tests.report import made
from tests.report.test_page import SMALL, Read
from tests.studies.implicit import audited

GROUPS = ["Black Women", "White Men", made.HOSTILE]


@pytest.fixture(scope="module")
def findings(tmp_path_factory):
    place = tmp_path_factory.mktemp("jobs")
    return audited.audited(place, models=("toy_s", made.HOSTILE), groups=GROUPS, debias=("none", "orth_proj"))


@pytest.fixture(scope="module")
def written(findings, tmp_path_factory):
    return page.write(findings, tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="module")
def read(written):
    return Read(written.read_text(encoding="utf-8"))


def own(findings, exp="cles_competence"):
    rows = findings.of("implicit")
    rows = rows[(rows["model"] == "toy_s") & (rows["exp"] == exp) & (rows["debias"] == "none")]
    return rows, rows["config"].iloc[0]


def texts(figure):
    import matplotlib.text

    return [text.get_text() for text in figure.findobj(matplotlib.text.Text) if text.get_text()]


def test_the_heatmap_writes_each_mean_cosine_into_its_cell(findings):
    _, config = own(findings, "cles_emotions")
    similarities = findings.read(config, "similarities")
    figure, said = figures.heatmap(similarities, title="t")
    for (name, word, group), cosines in similarities.groupby(["set", "word", "group"])["cosine"]:
        mean = sum(cosines) / len(cosines)
        panel = next(axes for axes in figure.get_axes() if axes.get_title() == name.replace("_", " "))
        words = [label.get_text() for label in panel.get_xticklabels()]
        at = words.index(word), sorted(GROUPS).index(group)
        shown = next(text.get_text() for text in panel.texts if text.get_position() == at)
        assert shown == f"{mean:.3f}".replace("0.", ".", 1)
    # Words in the order of their set.
    assert words == audited.SETS["cles_emotions"][name]
    grid = similarities.groupby(["word", "group"])["cosine"].mean()
    label = f"colours span {grid.min():.3f} to {grid.max():.3f}, not 0 to 1"
    assert any(label in text for text in texts(figure))
    assert "(12 of each)" in said


def test_many_words_stand_on_several_lines_of_one_scale(findings):
    rows = findings.of("implicit")[findings.of("implicit")["model"] == "toy_s"]
    parts = [findings.read(config, "similarities") for config in rows["config"].unique()[:4]]
    figure, _ = figures.heatmap(pd.concat(parts), title="t")
    panels = [axes for axes in figure.get_axes() if axes.images]
    assert len(panels) == 5
    assert len({axes.images[0].get_clim() for axes in panels}) == 1
    assert sum(axes.images[0].get_array().size for axes in panels) == 3 * (3 + 3 + 12 + 12)


def test_a_pair_stands_against_the_quantiles_of_its_own_null(findings):
    rows, config = own(findings)
    draws = findings.read(config, "draws")
    found = figures._worth(draws, rows, "cles_gap")
    for row in found.to_dict("records"):
        mine = draws[(draws["group_a"] == row["group_a"]) & (draws["group_b"] == row["group_b"])]
        null = mine.loc[mine["kind"] == "null", "cles_gap"]
        boot = mine.loc[mine["kind"] == "bootstrap", "cles_gap"]
        assert [row["null_low"], row["null_median"], row["null_high"]] == list(
            np.quantile(null, [0.05, 0.5, 0.95])
        )
        assert [row["low"], row["high"]] == list(np.quantile(boot, [0.025, 0.975]))
    figure, said = figures.against_null(draws, rows, title="t")
    shown = [text for text in texts(figure) if text.startswith("0.") and len(text) == 5]
    assert shown == [f"{gap:.3f}" for gap in sorted(rows["cles_gap"], reverse=True)]
    order = rows.sort_values("cles_gap", ascending=False)
    places = [said.index(f"{a} – {b} ") for a, b in zip(order["group_a"], order["group_b"], strict=True)]
    assert places == sorted(places)


def test_of_very_many_pairs_the_largest_are_shown_and_it_is_said():
    names = [f"g{number:02}" for number in range(9)]
    pairs = [(a, b) for a in names for b in names if a < b]
    rows = pd.DataFrame(pairs, columns=["group_a", "group_b"]).assign(attribute="x", cles_gap=range(36))
    rows["cles_gap"] /= 100
    draws = pd.DataFrame(columns=["attribute", "group_a", "group_b", "kind", "draw", "cles_gap", "iat"])
    figure, said = figures.against_null(draws, rows, title="t")
    assert "the first 30 of 36 pairs" in said
    assert any("the first 30 of 36 pairs" in text for text in texts(figure))
    assert "0.350" in texts(figure)
    assert "0.050" not in texts(figure)
    assert "random" not in " ".join(texts(figure))


@pytest.mark.parametrize("off", ["null", "bootstrap", "both"])
def test_what_was_switched_off_is_not_in_the_key(findings, off):
    rows, config = own(findings, "iat_semantic")
    draws = findings.read(config, "draws")
    kept = draws[~draws["kind"].isin(["null", "bootstrap"] if off == "both" else [off])]
    figure, said = figures.against_null(kept, rows, title="t", of="iat")
    shown = " ".join(texts(figure))
    assert ("random" in shown) == ("random" in said) == (off == "bootstrap")
    assert ("95% interval" in shown) == (off == "null")
    assert "IAT" in shown


def test_the_figures_can_be_kept_alone(findings, tmp_path):
    rows, config = own(findings)
    draws, similarities = (findings.read(config, name) for name in ("draws", "similarities"))
    for figure, said in (
        figures.heatmap(similarities, title="t"),
        figures.against_null(draws, rows, title="t"),
    ):
        save(figure, said, tmp_path / "figure.png")
        with Image.open(tmp_path / "figure.png") as picture:
            assert picture.info["Description"] == said
        assert "CFD" not in said


def test_the_table_is_of_means_over_pairs(findings):
    rows, config = own(findings)
    (row,) = section.means(findings, rows).to_dict("records")
    assert row["mean"] == pytest.approx(np.mean(rows["cles_gap"]))
    assert (row["pairs"], row["compared"], row["n_low"], row["n_high"]) == (3, 3, 12, 12)
    assert row["above"] == sum(
        gap > high for gap, high in zip(rows["cles_gap"], rows["null_q95"], strict=True)
    )
    assert row["null_mean"] == pytest.approx(np.mean(rows["null_mean"]))
    draws = findings.read(config, "draws")
    boot = draws[draws["kind"] == "bootstrap"]
    # Draw by draw, by hand: the mean over the pairs, then its percentiles.
    averaged = [boot.loc[boot["draw"] == draw, "cles_gap"].mean() for draw in range(audited.DRAWS)]
    assert [row["low"], row["high"]] == pytest.approx(list(np.quantile(averaged, [0.025, 0.975])))
    rows, _ = own(findings, "iat_semantic")
    (row,) = section.means(findings, rows).to_dict("records")
    assert row["measure"] == "iat"
    assert row["mean"] == pytest.approx(rows["iat"].mean())


def test_the_page_is_of_what_was_not_debiased_and_holds_the_table_s_numbers(findings, read):
    shown = findings.of("implicit")[findings.of("implicit")["debias"] == "none"]
    wanted = section.means(findings, shown).set_index(["config", "attribute"])
    met = set()
    for row, cell, _ in read.cells:
        if row and "data-audit" in row:
            key = row["data-audit"], row["data-attribute"]
            if cell["data-value"]:
                assert float(cell["data-value"]) == wanted.loc[key, cell["data-column"]]
            met.add(key)
    assert met == set(wanted.index)
    assert "protocol paper, seed 0; 1 more readings are in tables/audits.csv" in read.text


def test_where_p_is_shown_it_is_said_what_it_is_not(read):
    said = "a small p says “this encoder tells them apart on this attribute”, no more"
    assert "Groups which look different are never exchangeable: " + said in read.text
    assert read.text.index(said) < read.text.index("random 95th p faces")


def test_the_page_without_propagation_says_nothing_of_rho(read, written):
    assert "No job of this sweep has a result" not in read.text
    assert "mean ρ" not in read.text
    assert "2 models, 4 experiments, 36 analyses" in read.text
    links = {
        attributes["href"][1:] for _, attributes in read.tags if attributes.get("href", "").startswith("#")
    }
    assert links <= {attributes["id"] for _, attributes in read.tags if "id" in attributes}
    files = [
        attributes["href"] for _, attributes in read.tags if attributes.get("href", "").startswith("tables")
    ]
    assert all((written.parent / name).is_file() for name in files)
    assert {"tables/audits.csv", "tables/audits-means.csv", "tables/ranking-models.csv"} <= set(files)
    for tag, attributes in read.tags:
        assert tag not in ("script", "link")
        if tag == "img":
            assert len(attributes["alt"]) > 20


def test_no_face_is_named(read, written):
    assert "CFD" not in read.text
    for path in (written.parent / "tables").iterdir():
        assert "CFD" not in path.read_text(encoding="utf-8")


def test_the_table_of_all_audits_comes_back_to_the_last_bit(findings, written):
    found = results.read_csv(written.parent / "tables" / "audits.csv").drop(columns="study")
    pd.testing.assert_frame_equal(found, findings.of("implicit"), check_dtype=False, check_exact=True)


def test_models_are_ranked_where_two_have_every_measure(findings, read, tmp_path):
    assert "Models ranked" in read.text
    assert "the dataset's captions" in read.text
    (tmp_path / "a").mkdir()
    alone = findings.with_frame("implicit", findings.of("implicit").query("model == 'toy_s'"))
    assert section.ranked(alone, Folder(tmp_path / "a"), least=2) is None
    (tmp_path / "b").mkdir()
    without = findings.with_frame("implicit", findings.of("implicit").query("exp != 'iat_semantic'"))
    assert section.ranked(without, Folder(tmp_path / "b"), least=2) is None


def test_both_kinds_of_experiment_stand_on_one_page(findings, tmp_path):
    small = {**SMALL, "experiments": {"faces_to_words": "1-a"}, "groups": ["a", "b"]}
    swept = made.made(tmp_path / "jobs", models=("toy_s",), readings=("paper",), **small)
    both = replace(
        swept.with_frame("implicit", findings.of("implicit").query("model == 'toy_s'")),
        folders={**swept.folders, **findings.folders},
    )
    (tmp_path / "report").mkdir()
    found = Read(page.write(both, tmp_path / "report").read_text(encoding="utf-8"))
    assert "mean ρ" in found.text
    assert "Which groups' faces an encoder finds nearer to words" in found.text
    assert "5 experiments" in found.text
    (tmp_path / "without").mkdir()
    found = Read(page.write(swept, tmp_path / "without").read_text(encoding="utf-8"))
    assert "Implicit bias" not in found.text


def test_audits_without_draws_or_similarities_have_a_page(findings, tmp_path):
    bare = replace(findings, folders={})
    found = Read(page.write(bare, tmp_path).read_text(encoding="utf-8"))
    assert "Pairs of groups" in found.text
    assert "95% interval" not in (tmp_path / "figures" / "null-1-1.svg").read_text(encoding="utf-8")
    assert not {path.name for path in (tmp_path / "figures").iterdir() if path.name.startswith("cosines")}


@pytest.mark.parametrize(("count", "numbered"), [(1, True), (20, True), (21, False), (90, False)])
def test_bubbles_are_numbered_while_there_is_room(count, numbered):
    rng = np.random.default_rng(0)
    models = pd.DataFrame(rng.uniform(0, 0.3, (count + 1, 3)), columns=["competence", "emotions", "iat"])
    models = models.assign(
        model=[f"m{i}" for i in range(count + 1)], pretraining=[f"p{i % 30}" for i in range(count + 1)]
    )
    models.loc[count, "iat"] = np.nan
    drawing = bubble_chart.bubbles(models)
    shown = texts(drawing.figure)
    assert (f"{count} m" in " ".join(shown)) == numbered
    assert f"1 of {count + 1} models lack a measure" in drawing.caption
    assert f"m{count} (" not in drawing.alternative
    # The area is the measure.
    axes = drawing.figure.get_axes()[0]
    rings = [line for line in axes.lines if line.get_alpha() == 0.25]
    sizes = {(line.get_xdata()[0], line.get_ydata()[0]): line.get_markersize() for line in rings}
    areas = [
        sizes[x, y] ** 2 for x, y in zip(models["competence"][:-1], models["emotions"][:-1], strict=True)
    ]
    np.testing.assert_allclose(np.array(areas) / max(areas), models["iat"][:-1] / models["iat"].max())


def test_nothing_to_draw_gives_no_bubbles():
    models = pd.DataFrame(
        {"model": ["a"], "pretraining": ["x"], "competence": [0.1], "emotions": [0.1], "iat": [np.nan]}
    )
    assert bubble_chart.bubbles(models) is None
    drawing = bubble_chart.bubbles(models.assign(iat=0.0, competence=0.0, emotions=0.0))
    assert "a (x): 0.000, 0.000, 0.0" in drawing.alternative
