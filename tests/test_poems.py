"""Run python -m src.generate task=poem."""

import mlflow
import numpy as np
import pandas as pd
import pytest

from src.generators.language_models import Multimodal
from tests.generators.seeing import llava, saved
from tests.test_generate import command

FEW = ("task=poem", "task.faces=3", "task.most=6", "task.permutations=50", "task.bootstrap=50")


def poem(output, *arguments):
    return command(output, *arguments, *FEW, "faces.per_group=4", f"store.stimuli={output}/stimuli")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("model"), llava)


def test_poems_are_written_compared_tracked_and_reused(tmp_path, folder, monkeypatch, capsys):
    model = ["llm=vlm_hf", f"llm.id={folder}"]
    assert poem(tmp_path, *model) == 0
    rows = pd.read_csv(tmp_path / "out" / "results" / "analyses.csv")
    assert len(rows) == 15 * 4  # six groups
    assert set(rows["dataset"]) == {"poem"}
    assert set(rows["protocol"]) == {"greedy+dataset=demo+most=6+faces=3+permutations=50+bootstrap=50"}
    scores = pd.read_parquet(tmp_path / "out" / "results" / "scores.parquet")
    assert scores.groupby("group").size().tolist() == [3] * 6
    for row in rows[rows["pool_size"] > 0].to_dict("records"):
        a, b = (
            scores.loc[scores["group"] == row[f"group_{side}"], f"{row['pool']}_{row['shared']}"].to_numpy()
            for side in "ab"
        )
        signs = np.sign(a[:, None] - b[None])
        assert row["cles"] == pytest.approx((signs.mean() + 1) / 2)
    pools = pd.read_parquet(tmp_path / "out" / "results" / "pools.parquet")
    for pool in ("positive", "negative"):
        pool_words = pools[pools["pool"] == pool]
        sizes = rows[rows["pool"] == pool].groupby("shared")["pool_size"].unique().explode()
        assert sizes.to_dict() == {"kept": len(pool_words), "removed": int((~pool_words["in_both"]).sum())}
    assert "Poems about faces" in " ".join(capsys.readouterr().out.split())
    client = mlflow.MlflowClient(f"sqlite:///{tmp_path}/mlflow.db")
    (run,) = client.search_runs([client.get_experiment_by_name("poem").experiment_id])
    assert run.data.metrics["faces"] == 18
    assert run.data.metrics["cles_gap/positive.kept"] == pytest.approx(
        rows.loc[(rows["pool"] == "positive") & (rows["shared"] == "kept"), "cles_gap"].mean()
    )
    assert len(run.data.tags["weights.sha256"]) == 64
    monkeypatch.setattr(Multimodal, "generate", lambda *_: pytest.fail("written again"))
    assert poem(tmp_path, *model) == 0
    assert len(client.search_runs([run.info.experiment_id])) == 1


def test_poems_are_scored_by_given_pools(tmp_path, folder):
    model = ["llm=vlm_hf", f"llm.id={folder}", "task=poem_words"]
    few = [setting for setting in FEW if setting != "task=poem"]
    stimuli = ["faces.per_group=4", f"store.stimuli={tmp_path}/stimuli"]
    assert command(tmp_path, *model, *few, *stimuli) == 0
    rows = pd.read_csv(tmp_path / "out" / "results" / "analyses.csv")
    assert rows["protocol"].str.startswith("greedy+dataset=demo+pools=given+most=6").all()
    words = pd.read_parquet(tmp_path / "out" / "results" / "words.parquet")
    assert [*words["word"]][:2] == ["surprise", "attraction"]
    assert len(words) == 12
    assert (words["text"] == words["word"]).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["llm=tiny"], "needs a multimodal model"),
        (["llm=tiny_vlm", "~dataset"], "the dataset has no faces. Use dataset=demo"),
        (["llm=tiny_vlm", "task.faces=1"], "task.faces=1: must be at least 2"),
        (["llm=tiny_vlm", "task.image_prompt=Well"], "expected <image> once"),
        (["llm=tiny_vlm", "task=subtler_en"], "needs a text-only model"),
    ],
)
def test_impossible_settings_are_refused(tmp_path, arguments, message, capsys):
    store = [f"store.stimuli={tmp_path}/stimuli"]
    few = [] if "task=subtler_en" in arguments else list(FEW)
    assert command(tmp_path, *few, *store, *arguments) == 1
    printed = capsys.readouterr()
    assert message in printed.out + printed.err
    assert "Traceback" not in printed.out + printed.err
