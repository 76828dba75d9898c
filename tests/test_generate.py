"""Run python -m src.generate: items of subtler biases, and poems about faces."""

import signal
import sys
import threading
from unittest import mock

import mlflow
import numpy as np
import pandas as pd
import pytest

from src import generate
from src.encoders import hub
from src.generators.language_models import Multimodal
from tests.generators.checkpoint import llava, write_checkpoint
from tests.launched import Started
from tests.served import completion, serve_json

HEADER = "bias_type,target_gender,context,anti_stereotype,stereotype,unrelated,item_category,type_category"


def command(output, *arguments):
    folder_key = "hydra.sweep.dir" if "-m" in arguments else "hydra.run.dir"
    options = [f"tracking.uri=sqlite:///{output}/mlflow.db", f"store.answers={output}/kept", "trainer=cpu"]
    with mock.patch.object(sys, "argv", ["generate", *arguments, *options, f"{folder_key}={output}/out"]):
        return generate.main()


def recorded(folder, answers):
    """Write answers in the published format; return the overrides that select them."""
    rows = [
        f"ageism,{gender},{age} is BLANK,{options},tall,{sign},type1,{answer}"
        for gender in ("male", "female", "not_spacified")
        for age, options, sign in (("Young", "slow,quick", "positive"), ("Old", "quick,slow", "negative"))
        for answer in answers
    ]
    (folder / "answers.csv").write_text("\n".join([f"{HEADER},response", *rows]) + "\n")
    return ["llm=recorded", f"llm.path={folder}/answers.csv"]


def test_recorded_answers_are_scored_tracked_and_reused(tmp_path):
    overrides = [*recorded(tmp_path, ("quick", "SLOW.", "tall", "no idea")), "task.bootstrap=50"]
    assert command(tmp_path, *overrides) == 0
    analyses = pd.read_csv(tmp_path / "out" / "results" / "analyses.csv")
    assert analyses.columns[:11].tolist() == [
        *(
            "study",
            "exp",
            "paper",
            "model",
            "dataset",
            "debias",
            "perturb",
            "protocol",
            "seed",
            "config",
            "coding",
        )
    ]
    assert set(analyses["model"]) == {"answers"}
    assert set(analyses["protocol"]) == {"recorded+bootstrap=50"}
    assert analyses["gender"].tolist().count("all") == 2
    (total,) = analyses[(analyses["domain"] == "all") & (analyses["gender"] == "all")].to_dict("records")
    assert (total["n"], total["n_unmatched"]) == (24, 6)
    assert total["tau_c"] == pytest.approx(0)
    table = pd.read_csv(tmp_path / "out" / "results" / "subtler.csv")
    assert table.columns[:6].tolist() == ["model", "task", "coding", "domain", "direction", "gender"]
    pd.testing.assert_frame_equal(table.iloc[:, 2:], analyses[table.columns[2:]])
    answers = pd.read_parquet(tmp_path / "out" / "results" / "answers.parquet")
    assert answers["matched"].sum() == 18
    client = mlflow.MlflowClient(f"sqlite:///{tmp_path}/mlflow.db")
    (run,) = client.search_runs([client.get_experiment_by_name("subtler").experiment_id])
    assert run.data.metrics["share_unmatched"] == 0.25
    assert run.data.metrics["tau_c/SAI.published"] == pytest.approx(0)
    assert command(tmp_path, *overrides) == 0
    assert len(client.search_runs([run.info.experiment_id])) == 1


def test_a_plan_knows_what_is_finished(tmp_path, capsys):
    overrides = [*recorded(tmp_path, ("quick", "SLOW.", "tall", "no idea")), "task.bootstrap=50"]
    for options, counts in (
        (["plan=true"], "0 finished, 1 to do"),
        ([], ""),
        (["plan=true"], "1 finished, 0 to do"),
        (["plan=true", "resume=false"], "0 finished, 1 to do"),
    ):
        assert command(tmp_path, *overrides, *options) == 0
        assert counts in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("answer", ["likelihood", "likelihood_per_token", "generate"])
def test_the_shipped_items_are_answered_by_a_model_made_on_the_spot(tmp_path, answer):
    few = ["task.count=12", "task.bootstrap=20", "llm.most=4"]
    assert command(tmp_path, f"answer={answer}", *few) == 0
    analyses = pd.read_csv(tmp_path / "out" / "results" / "analyses.csv")
    domains = {"ageism", "beauty", "beauty_profession", "institution", "nationality", "all"}
    assert set(analyses["domain"]) == domains
    answers = pd.read_parquet(tmp_path / "out" / "results" / "answers.parquet")
    assert len(answers) == 60
    if answer != "generate":
        options = answers[["stereotype", "anti_stereotype", "unrelated"]]
        best = answers[[f"p_{name}" for name in options]].to_numpy().argmax(axis=1)
        assert answers["response"].tolist() == options.to_numpy()[range(60), best].tolist()


CHAT = ["llm=openai_compatible", "llm.id=m", "answer=generate", "task.domains=[ageism]", "task.count=12"]
CHAT += ["llm.concurrency=1", "task.bootstrap=20"]


def test_filtered_replies_are_counted_and_the_rest_is_answered(tmp_path):
    filtered = {"error": {"code": "content_filter", "message": "The response was filtered"}}

    def behave(number, request):
        third = request["messages"][0]["content"].splitlines()[-1].removeprefix("Option 3: ")
        return (400, filtered) if number == 3 else completion(third)

    with serve_json(behave) as (chat, url):
        for _ in range(2):
            assert command(tmp_path, *CHAT, f"llm.url={url}", "resume=false") == 0
    assert len(chat.requests) == 12
    analyses = pd.read_csv(tmp_path / "out" / "results" / "analyses.csv")
    total = analyses[(analyses["domain"] == "all") & (analyses["gender"] == "all")]
    assert total[["n", "n_unmatched", "n_unanswered"]].sum().tolist() == [12, 1, 1]
    answers = pd.read_parquet(tmp_path / "out" / "results" / "answers.parquet")
    assert answers["unanswered"].dropna().tolist() == ["content_filter"]
    assert answers.loc[answers["unanswered"].notna(), "response"].isna().all()
    client = mlflow.MlflowClient(f"sqlite:///{tmp_path}/mlflow.db")
    run, *_ = client.search_runs([client.get_experiment_by_name("subtler").experiment_id])
    assert run.data.metrics["share_unanswered"] == pytest.approx(1 / 12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["llm=recorded"], "llm.path: not set"),
        (["task.path=nowhere.csv"], "nowhere.csv"),
        (["task.count=5"], "task.count=5: must be at least 12"),
        (["task.study=subtle"], "Did you mean 'subtler'?"),
        (["task.study=poems"], "task.study=poems: expected subtler, whose fields this task has. Remove"),
        (["llm=openai_compatible", "llm.url=http://127.0.0.1:9", "llm.id=m"], "Use answer=generate"),
        (["llm=hf", "llm.id=no such folder"], "neither a folder that exists nor owner/name"),
    ],
)
def test_invalid_settings_are_reported(tmp_path, arguments, message, capsys):
    assert command(tmp_path, *arguments) == 1
    captured = capsys.readouterr()
    assert message in captured.out + captured.err
    assert "Traceback" not in captured.out + captured.err


@pytest.mark.thorough
def test_ctrl_c_keeps_what_was_answered_and_does_not_wait_for_a_slow_server(tmp_path):
    ended = threading.Event()

    def behave(number, request):
        if number > 5:
            ended.wait(120)
        return completion("nonsense")

    folders = [f"tracking.uri=sqlite:///{tmp_path}/mlflow.db", f"store.answers={tmp_path}/kept"]
    with serve_json(behave) as (chat, url):
        arguments = [*CHAT, "trainer=cpu", *folders, f"llm.url={url}"]
        with Started(tmp_path / "out", arguments, entry="src.generate") as job:
            job.until(lambda: len(chat.requests) >= 6, 300)
            job.process.send_signal(signal.SIGINT)
            code, printed = job.wait(300)
        ended.set()
    assert code == 130, printed
    (log,) = (tmp_path / "kept").iterdir()
    assert len(log.read_text().splitlines()) == 5


FEW = ("task=poem", "task.faces=3", "task.most=6", "task.permutations=50", "task.bootstrap=50")


def poem(output, *arguments):
    return command(output, *arguments, *FEW, "faces.per_group=4", f"store.stimuli={output}/stimuli")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_checkpoint(tmp_path_factory.mktemp("model"), llava)


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


@pytest.mark.parametrize("missing", [["llm=tiny_vlm"], ["llm=vlm_hf", "llm.id=lab/encoder"]])
def test_a_plan_draws_and_fetches_nothing(tmp_path, monkeypatch, capsys, missing):
    monkeypatch.setattr(hub, "_download", lambda *_: pytest.fail("fetched"))
    assert poem(tmp_path, *missing, "plan=true") == 0
    assert "not stored yet" in " ".join(capsys.readouterr().out.split())
    assert not [*tmp_path.glob("stimuli/*")]


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


def test_tasks_of_a_glob_that_a_model_cannot_do_are_not_applicable(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert command(tmp_path, "-m", "task=glob(*)", "llm=tiny", "plan=true") == 0
    assert "not applicable: task=poem: needs a multimodal model" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["llm=tiny"], "needs a multimodal model"),
        (["llm=tiny_vlm", "~dataset"], "the dataset has no faces. Use dataset=demo"),
        (["llm=tiny_vlm", "task.faces=1"], "task.faces=1: must be at least 2"),
        (["llm=tiny_vlm", "task.image_prompt=Well"], "expected <image> once"),
        (["llm=tiny_vlm", "task=subtler_en"], "needs a text-only model"),
        (["llm=tiny", "task=subtler_en", "task.language=es"], "Write the domain there (docs/domains.md)"),
        (["llm=tiny", "task=subtler_en", "task.domains=[age]"], "task.language=en has ageism, "),
        *(
            (["llm=tiny", "task=subtler_en", f"task.domains=[{domains}]"], "expected one or more domains")
            for domains in ("", "ageism,ageism", "a/own.yaml,b/own.yaml")
        ),
    ],
)
def test_impossible_settings_are_refused(tmp_path, arguments, message, capsys):
    store = [f"store.stimuli={tmp_path}/stimuli"]
    few = [] if "task=subtler_en" in arguments else list(FEW)
    assert command(tmp_path, *few, *store, *arguments) == 1
    printed = capsys.readouterr()
    assert message in printed.out + printed.err
    assert "Traceback" not in printed.out + printed.err
