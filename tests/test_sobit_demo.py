"""Check that planted words are detected: they rank above the others and retrieve their groups."""

import pytest
from scipy import stats

from src.storage.results import read
from tests.commands import command
from tests.conftest import SHRUNK, store_overrides

FEW = ["protocol.vocabulary=200", "protocol.permutations=199", "protocol.bootstrap=100", "protocol.top_k=20"]


@pytest.fixture(scope="module")
def swept(stores, sweeps, tmp_path_factory):
    """Run all three experiments on the suite's toy, with a report; `sweeps` has trained it."""
    output = tmp_path_factory.mktemp("sobit")
    overrides = [*store_overrides(stores), f"tracking.uri=sqlite:///{output}/mlflow.db", "report=true"]
    done = command(output, "-m", "exp=glob(sobit_*)", *SHRUNK, *overrides, *FEW)
    assert (done.code, done.trained) == (0, 0)
    return output


def test_planted_words_rank_above_the_others_and_retrieve_their_groups(swept, job):
    frames = [read(path.parent.parent) for path in swept.glob("*/results/analyses.csv")]
    rows = {str(frame["exp"].iloc[0]).removeprefix("sobit_"): frame for frame in frames}
    associations = rows["association"]
    probes = job(*SHRUNK).cfg.demo.probes
    group_of = {caption: name for name, captions in probes.items() for caption in captions}
    largest = (
        associations.assign(size=associations["association"].abs()).groupby(["axis", "caption"])["size"].max()
    )
    for axis in ("race", "gender", "both"):
        sizes = largest.loc[axis]
        groups = sizes.index.map(group_of)
        planted = sizes[groups.isin({*associations.loc[associations["axis"] == axis, "group"]})]
        # Captions planted for places, whose names are in small letters.
        others = sizes[groups.str.islower()]
        assert len(others) == 24
        share = stats.mannwhitneyu(planted, others).statistic / len(planted) / len(others)
        assert share >= 0.95, axis
    of_planted = associations[associations["group"] == associations["caption"].map(group_of)]
    assert (of_planted["association_low"] > 0).all()
    assert (of_planted["q"] <= 0.05).all()
    retrieved = rows["retrieval"]
    of_planted = retrieved[retrieved["group"] == retrieved["caption"].map(group_of)]
    assert (len(of_planted), (of_planted["ratio"] > 1).mean() >= 0.95) == (24, True)
    sums = retrieved.groupby(["caption", "axis"])[["share_topk", "base_share"]].sum()
    assert sums.to_numpy() == pytest.approx(1)
    page = (swept / "report" / "index.html").read_text()
    assert "probes, not claims" in page
    assert "clockmaker" in page
    assert (swept / "report" / "tables" / "sobit-words.csv").is_file()
