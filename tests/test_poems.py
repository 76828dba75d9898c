"""python -m src.generate task=poem, as typed."""

import mlflow
import numpy as np
import pandas as pd
import pytest

from src.generators.multimodal import Multimodal
from tests.generators.seeing import llava, saved
from tests.test_generate import command

FEW = ("task=poem", "task.faces=3", "task.most=6", "task.permutations=50", "task.bootstrap=50")


def poem(output, *arguments):
    return command(output, *arguments, *FEW, "faces.per_group=4", f"store.stimuli={output}/stimuli")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("model"), llava)


def test_poems_are_written_compared_tracked_and_taken_over(tmp_path, folder, monkeypatch, capsys):
    asked = ["llm=vlm_hf", f"llm.id={folder}"]
    assert poem(tmp_path, *asked) == 0
    rows = pd.read_csv(tmp_path / "out" / "results" / "analyses.csv")
    assert len(rows) == 15 * 4  # six groups
    assert set(rows["dataset"]) == {"poem"}
    assert set(rows["protocol"]) == {"greedy+dataset=demo+most=6+faces=3+permutations=50+bootstrap=50"}
    assert set(rows["most"]) == {6}
    assert set(rows["n_a"]) == {3}
    scores = pd.read_parquet(tmp_path / "out" / "results" / "scores.parquet")
    assert scores.groupby("group").size().tolist() == [3] * 6
    for row in rows[rows["pool_size"] > 0].to_dict("records"):
        a, b = (
            scores.loc[scores["group"] == row[f"group_{side}"], f"{row['pool']}_{row['shared']}"].to_numpy()
            for side in "ab"
        )
        signs = np.sign(a[:, None] - b[None])
        assert row["cles"] == pytest.approx((signs.mean() + 1) / 2)
    words = pd.read_parquet(tmp_path / "out" / "results" / "words.parquet")
    pools = pd.read_parquet(tmp_path / "out" / "results" / "pools.parquet")
    for pool in ("positive", "negative"):
        own = pools[pools["pool"] == pool]
        ids = {number for row in words.loc[words["pool"] == pool, "ids"] for number in row}
        assert set(own["token"]) == {number for number in ids if number < 256}
        sizes = rows[rows["pool"] == pool].groupby("shared")["pool_size"].unique().explode()
        assert sizes.to_dict() == {"kept": len(own), "removed": int((~own["in_both"]).sum())}
    assert "Poems about faces" in " ".join(capsys.readouterr().out.split())
    client = mlflow.MlflowClient(f"sqlite:///{tmp_path}/mlflow.db")
    (run,) = client.search_runs([client.get_experiment_by_name("poem").experiment_id])
    assert run.data.metrics["faces"] == 18
    assert run.data.metrics["cles_gap.positive.kept"] == pytest.approx(
        rows.loc[(rows["pool"] == "positive") & (rows["shared"] == "kept"), "cles_gap"].mean()
    )
    assert len(run.data.tags["weights.sha256"]) == 64
    monkeypatch.setattr(Multimodal, "written", lambda *_: pytest.fail("written again"))
    assert poem(tmp_path, *asked) == 0
    assert len(client.search_runs([run.info.experiment_id])) == 1
    # Another YAML's faces, but the same ones: nothing of the other roles decides.
    assert poem(tmp_path, *asked, "words.count=7") == 0
    assert len(client.search_runs([run.info.experiment_id])) == 1


@pytest.mark.thorough
def test_a_sweep_of_models_ends_in_one_table(tmp_path, capsys):
    assert poem(tmp_path, "-m", "llm=tiny_vlm", "llm.seed=0,1", "report=false") == 0
    out = capsys.readouterr().out
    assert "tiny_vlm+seed=1" in "".join(out.split())
    client = mlflow.MlflowClient(f"sqlite:///{tmp_path}/mlflow.db")
    (parent,) = client.search_runs(
        [client.get_experiment_by_name("poem").experiment_id], "tags.kind = 'sweep'"
    )
    assert parent.data.metrics["analyses"] == 120


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["llm=tiny"], "needs a model that sees"),
        (["llm=vlm_hf", "llm.id=no such folder"], "neither a folder that exists nor owner/name"),
        (["llm=vlm_hf"], "llm.id: not set"),
        (["llm=tiny_vlm", "~dataset"], "no faces. Name a dataset"),
        (["llm=tiny_vlm", "task.faces=1"], "task.faces=1: must be at least 2"),
        (["llm=tiny_vlm", "task.image_prompt=Well"], "<image> must stand in it once"),
        (["llm=tiny_vlm", "task=subtler_en"], "asks models of texts alone"),
        (["llm=tiny_vlm", "dataset=photos", "dataset.root=nowhere"], "nowhere"),
    ],
)
def test_what_cannot_be_done_is_said(tmp_path, arguments, message, capsys):
    own = [f"store.stimuli={tmp_path}/stimuli"]
    rest = [] if "task=subtler_en" in arguments else list(FEW)
    assert command(tmp_path, *rest, *own, *arguments) == 1
    said = capsys.readouterr()
    assert message in said.out + said.err
    assert "Traceback" not in said.out + said.err
