"""Check the page, figures, sentences and terminal tables of matched pictures."""

import copy

import numpy as np
import pandas as pd
import pytest
import torch

from src import configs
from src.jobs.identity import Job
from src.stimuli import PROMPTS, build_table
from src.studies.matched import experiment, figures, section
from src.studies.matched.captions import ALL_CAPTIONS, ALL_GROUPS, compose_prompts
from src.studies.matched.study import STUDY, build_terminal_tables, compute_metrics
from tests.report import factory
from tests.report.conftest import check_page, check_rows, frame_of, texts
from tests.studies.matched import set_world

OPTIONS = ["protocol.top_k=16", "protocol.permutations=99", "protocol.article=literal", "protocol.extremes=5"]
OPTIONS += ["protocol.k=7"]


def analyse(exp, model, protocol, person, shares=None):
    """Run an experiment in which an occupation has a hostile name (HTML, `$`, long).

    `person` is the pull of the first group's pictures towards all captions. Returns rows of analyses.csv, and
    the result.
    """
    cfg = copy.deepcopy(CONFIGS[exp])
    cfg.exp.shares = shares
    occupations = ("actor", factory.HOSTILE, "chemist")
    frame, vectors, _, caption_vectors = set_world.draw(
        1, sets=6, person=person, groups=("Men", "Women"), occupations=occupations
    )
    words, word_vectors, vectors = set_world.draw_words(1, vectors.shape[1], frame, vectors, person / 3)
    tables = {"faces": build_table("faces", frame, "test"), "words": build_table("words", words, "test")}
    arrays = {"faces": vectors[np.argsort(frame["id"])], "words": word_vectors[np.argsort(words["id"])]}
    if exp == "matched":
        tables[PROMPTS] = compose_prompts(cfg, tables["faces"])
        arrays[PROMPTS] = caption_vectors
    result = experiment.run(cfg, tables, {name: torch.from_numpy(array) for name, array in arrays.items()})
    common = {
        "exp": exp,
        "paper": "",
        "model": model,
        "dataset": "demo",
        "debias": "none",
        "perturb": "none",
    }
    common |= {"protocol": protocol, "seed": 0, "config": f"{exp} {model} {protocol}"}
    return pd.concat([pd.DataFrame([common] * len(result.analyses)), result.analyses], axis=1), result


CONFIGS = {}


@pytest.fixture(scope="module", autouse=True)
def configurations():
    for exp in ("matched", "matched_words"):
        CONFIGS[exp] = Job.of(*configs.compose([f"exp={exp}", *OPTIONS]), "").cfg


@pytest.fixture(scope="module")
def findings(configurations, tmp_path_factory):
    path = tmp_path_factory.mktemp("shares") / "real.csv"
    rows = [
        ("actor", "Men", 0.55),
        ("actor", "Women", 0.45),
        ("chemist", "Men", 0.2),
        ("chemist", "Women", 0.8),
    ]
    pd.DataFrame(rows, columns=["occupation", "group", "real_share"]).to_csv(path, index=False)
    frames = [
        analyse(exp, model, "paper", person, str(path))[0]
        for exp in ("matched", "matched_words")
        for model, person in (("toy_s", 0.0), ("toy_m", 1.5))
    ]
    # A second specification, with the same numbers.
    others = [frame.assign(protocol="pooling_mean", config=frame["config"] + " pooled") for frame in frames]
    frames = [*frames, *others]
    analyses = pd.concat(frames, ignore_index=True)
    jobs = analyses[["exp", "model", "protocol", "config"]].drop_duplicates()
    jobs = jobs.assign(status="finished", run="r", reason="", dataset="demo", paper="")
    jobs = jobs.assign(debias="none", perturb="none", seed=0)
    models = pd.DataFrame({"model": ["toy_s", "toy_m"], "pretraining": "captions"})
    return factory.build(matched=analyses, jobs=jobs, models=models, status="FINISHED", missing=[])


@pytest.mark.thorough
def test_the_page_shows_the_means_levels_and_verdicts(findings, html, page_path):
    rows = findings.of("matched").query("protocol == 'paper'")
    values = {
        (row.get("data-matched"), row.get("data-level"), row["data-group"], cell["data-column"]): cell[
            "data-value"
        ]
        for row, cell, _ in html.cells
        if row and "data-group" in row and cell["data-value"]
    }
    means = rows[rows["caption"] == ALL_CAPTIONS].set_index(["model", "group"])
    for model in ("toy_s", "toy_m"):
        for group in ("Men", "Women"):
            for column in ("share_topk", "rank", "p"):
                if pd.notna(means.loc[(model, group), column]):
                    written = values[model, None, group, column]
                    assert float(written) == pytest.approx(means.loc[(model, group), column])
    levels = rows[rows["level"].notna()].set_index(["model", "group"])
    assert float(values[None, "toy_m", "Men", "level"]) == levels.loc[("toy_m", "Men"), "level"]
    assert "a random ranker is fair and useless" in html.text
    assert "amplifies" in html.text
    assert "other specifications are in tables/matched.csv (1)" in html.text
    check_page(page_path, html)
    check_rows(findings, page_path, "matched", "matched")


def test_the_figures_have_a_point_per_caption_group_and_model(findings):
    rows = section.split_measures(findings.of("matched").query("protocol == 'paper'"))[0]
    for draw, column in ((figures.draw_shares, "share_topk"), (figures.draw_ranks, "rank")):
        drawing = draw(rows, title="t", models=["toy_s", "toy_m"])
        numbers = [text for text in texts(drawing.figure) if text.replace(".", "").isdigit()]
        written = [figures.format_digits(value) for value in rows[column]]
        assert all(numbers.count(text) >= written.count(text) for text in written)
        assert "Men, toy_s" in drawing.alt_text


@pytest.mark.thorough
def test_of_many_captions_those_with_the_smallest_p_are_drawn(findings):
    rows = section.split_measures(findings.of("matched").query("protocol == 'paper' and model == 'toy_s'"))[0]
    is_mean = rows["caption"] == ALL_CAPTIONS
    copies = [
        rows[~is_mean].assign(caption=rows["caption"] + f" {number}", p=1 - number / 50)
        for number in range(40)
    ]
    drawing = figures.draw_shares(pd.concat([*copies, rows[is_mean]]), title="t", models=["toy_s"])
    assert "Drawn: the 29 of 120 captions with the smallest p." in drawing.caption
    assert any(text.startswith(ALL_CAPTIONS) for text in texts(drawing.figure))


def test_figures_of_several_experiments_have_different_names(findings):
    class Folder:
        names = ()

        def write_table(self, *_):
            pass

        def write_figures(self, drawings):
            self.names = [drawing.name for drawing in drawings]
            return []

    analyses, folder = findings.of("matched"), Folder()
    mine = analyses.assign(exp="my_" + analyses["exp"])
    both = findings.with_frame("matched", pd.concat([analyses, mine], ignore_index=True))
    section.build_section(both, folder)
    names = ("matched-shares", "matched-ranks", "matched-levels")
    assert folder.names == [f"{name}-{number}" for name in names for number in (1, 2)]


def test_sentences_state_share_order_recall_real_share_and_level(findings):
    sentences = "\n".join(section.draw_conclusions(findings.of("matched")))
    assert "matched, toy_m: of the pictures that 3 captions retrieve first," in sentences
    assert "recall of the right pictures" in sentences
    assert "of a random ranker 0.44" in sentences
    assert "of 2 captions" in sentences
    assert "matched_words, toy_m: within a set, pictures of " in sentences
    assert section.draw_conclusions(findings.of("matched").head(0)) == []


def test_the_terminal_has_a_row_per_group_and_measure(findings):
    (table,) = build_terminal_tables(findings.of("matched"), "demo")
    frame = frame_of(table)
    labels = {*frame[frame.columns[0]]}
    assert {"matched, rank within sets: Men", "matched_words, level within sets: Women"} <= labels
    assert not any(ALL_GROUPS in label for label in labels)
    assert build_terminal_tables(findings.of("matched").head(0), "demo") == []


@pytest.mark.thorough
def test_metrics_and_figures_of_a_job():
    for exp, names in (
        ("matched", {"rank.Men", "recall", "significant"}),
        ("matched_words", {"level.Men", "rho"}),
    ):
        rows, result = analyse(exp, "toy", "paper", 0.5)
        assert names <= {*compute_metrics(result)}
        columns = {"model": "toy", "exp": exp, "dataset": "demo"}
        ((name, figure, alt_text),) = STUDY.figures(CONFIGS[exp].exp, columns, result)
        assert name.endswith(".png")
        assert texts(figure)
        assert len(alt_text) > 40
        assert rows["reason"].notna().all()
