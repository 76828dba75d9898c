"""The built-in world's words: what is planted is found, and relabelled faces are not."""

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from src import stimuli
from src.embeddings import embeddings
from src.stimuli import PROMPTS
from src.storage.results import read
from src.studies.protocol import study_of
from src.studies.sobit.axes import faces_of
from src.studies.sobit.caption_association import associations
from tests.commands import command
from tests.conftest import SHRUNK, places

FEW = ["protocol.vocabulary=200", "protocol.permutations=199", "protocol.bootstrap=100", "protocol.top_k=20"]
MEASURES = ("association", "retrieval", "strength")


@pytest.fixture(scope="module")
def swept(kept, sweeps, tmp_path_factory):
    """All three experiments on the suite's toy, with a report; `sweeps` has trained it."""
    place = tmp_path_factory.mktemp("sobit")
    own = [*places(kept), f"tracking.uri=sqlite:///{place}/mlflow.db", "report=true"]
    done = command(place, "-m", "exp=glob(sobit_*)", *SHRUNK, *own, *FEW)
    assert (done.code, done.trained) == (0, 0)
    return place


@pytest.fixture(scope="module")
def rows(swept):
    found = {
        path.parent.parent: read(path.parent.parent)
        for path in swept.rglob("analyses.csv")
        if path.parent.name == "results"
    }
    return {str(frame["exp"].iloc[0]).removeprefix("sobit_"): frame for frame in found.values()}


def test_planted_words_rank_above_the_others(rows, job):
    found = rows["association"]
    assert {*rows} == {*MEASURES}
    probes = job(*SHRUNK).cfg.demo.probes
    whose = {caption: name for name, captions in probes.items() for caption in captions}
    largest = found.assign(size=found["association"].abs()).groupby(["axis", "caption"])["size"].max()
    for axis in ("race", "gender", "both"):
        size = largest.loc[axis]
        named = size.index.map(whose)
        planted, others = (
            size[named.isin({*found.loc[found["axis"] == axis, "group"]})],
            size[named.str.islower()],
        )
        assert len(others) == 24
        won = stats.mannwhitneyu(planted, others).statistic / len(planted) / len(others)
        assert won >= 0.95, axis
    own = found[found["group"] == found["caption"].map(whose)]
    assert (own["association_low"] > 0).all()
    assert (own["q"] <= 0.05).all()


def test_planted_words_retrieve_their_own(rows, job):
    probes = job(*SHRUNK).cfg.demo.probes
    whose = {caption: name for name, captions in probes.items() for caption in captions}
    found = rows["retrieval"]
    own = found[found["group"] == found["caption"].map(whose)]
    assert len(own) == 24
    assert (own["ratio"] > 1).mean() >= 0.95
    sums = found.groupby(["caption", "axis"])[["share_topk", "base_share"]].sum()
    assert sums.to_numpy() == pytest.approx(1)


@pytest.mark.thorough
def test_relabelled_faces_of_the_world_reject_as_often_as_asked(kept, sweeps, job):
    """A trained toy's vectors, race and gender dealt out anew: p <= .05 in the binomial band, by word."""
    made = job(
        "exp=sobit_association",
        *SHRUNK,
        *places(kept),
        "protocol.bootstrap=0",
        "protocol.permutations=99",
        "protocol.vocabulary=0",
    )
    cfg, own = made.cfg, study_of(made.cfg.exp).prompts(made.cfg)
    table = partial(stimuli.load, cfg)
    faces = table("faces")
    seen = embeddings(cfg, "faces", table).vectors
    said = embeddings(cfg, PROMPTS, lambda role: own if role == PROMPTS else table(role)).vectors
    worlds, rng, labels = 200, np.random.default_rng(0), ["race", "gender", "group"]
    rejected = np.zeros((len(own.frame), 3))
    for _ in range(worlds):
        dealt = faces.frame[labels].iloc[rng.permutation(len(faces.frame))].set_axis(faces.frame.index)
        shown = faces_of(replace(faces, frame=faces.frame.assign(**dealt)), cfg.exp.axes)
        p = pd.DataFrame(associations(shown, seen, said, cfg.protocol, 0).p)
        axes = np.repeat([0, 1, 2], [len(axis.groups) for axis in shown.axes])
        rejected += p.T.groupby(axes).min().T.to_numpy() <= 0.05
    band = stats.binom(worlds, 0.05).ppf([0.0005 / rejected.size, 1 - 0.0005 / rejected.size])
    assert band[0] <= rejected.min() <= rejected.max() <= band[1]


def test_the_report_says_it(swept):
    page = (swept / "report" / "index.html").read_text()
    assert "probes, not claims" in page
    assert "clockmaker" in page
    assert (swept / "report" / "tables" / "sobit-words.csv").is_file()
