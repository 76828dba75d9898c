"""python -m src.generate, as typed."""

import signal
import subprocess
import sys
import threading
import time
from unittest import mock

import mlflow
import pandas as pd
import pytest

from src import generate
from src.configs import CHECKOUT
from tests.generators.chat import said, served

HEADER = "bias_type,target_gender,context,anti_stereotype,stereotype,unrelated,item_category,type_category"


def command(output, *arguments):
    place = "hydra.sweep.dir" if "-m" in arguments else "hydra.run.dir"
    own = [f"tracking.uri=sqlite:///{output}/mlflow.db", f"store.answers={output}/kept", "trainer=cpu"]
    with mock.patch.object(sys, "argv", ["generate", *arguments, *own, f"{place}={output}/out"]):
        return generate.main()


@pytest.fixture
def recorded(tmp_path):
    rows = [
        f"ageism,{gender},{age} is BLANK,{anti},{kind},tall,{sign},type1,{answer}"
        for gender in ("male", "female", "not_spacified")
        for age, kind, anti, sign in (
            ("Young Kim", "quick", "slow", "positive"),
            ("Old Kim", "slow", "quick", "negative"),
        )
        for answer in ("quick", "SLOW.", "tall", "no idea")
    ]
    path = tmp_path / "answers.csv"
    path.write_text("\n".join([f"{HEADER},response", *rows]) + "\n")
    return path


def test_recorded_answers_are_scored_tracked_and_taken_over(tmp_path, recorded, capsys):
    asked = ["llm=recorded", f"llm.path={recorded}", "task.bootstrap=50"]
    assert command(tmp_path, *asked) == 0
    found = pd.read_csv(tmp_path / "out" / "results" / "analyses.csv")
    assert found.columns[:10].tolist() == [
        *("study", "exp", "paper", "model", "dataset", "debias", "protocol", "seed", "config", "coding"),
    ]
    assert set(found["model"]) == {"answers"}
    assert set(found["protocol"]) == {"recorded+bootstrap=50"}
    assert found["gender"].tolist().count("all") == 2
    (whole,) = found[(found["domain"] == "all") & (found["gender"] == "all")].to_dict("records")
    assert (whole["n"], whole["n_unmatched"]) == (24, 6)
    assert whole["tau_c"] == pytest.approx(0)
    told = pd.read_csv(tmp_path / "out" / "results" / "subtler.csv")
    assert told.columns[:6].tolist() == ["model", "task", "coding", "domain", "direction", "gender"]
    pd.testing.assert_frame_equal(told.iloc[:, 2:], found[told.columns[2:]])
    assert {*told["model"]} == {"answers"}
    assert {*told["task"]} == {"subtler_en"}
    answers = pd.read_parquet(tmp_path / "out" / "results" / "answers.parquet")
    assert answers["matched"].sum() == 18
    client = mlflow.MlflowClient(f"sqlite:///{tmp_path}/mlflow.db")
    (run,) = client.search_runs([client.get_experiment_by_name("subtler").experiment_id])
    assert run.data.metrics["share_unmatched"] == 0.25
    assert run.data.metrics["tau_c.SAI.published"] == pytest.approx(0)
    assert command(tmp_path, *asked) == 0
    assert len(client.search_runs([run.info.experiment_id])) == 1


@pytest.mark.parametrize("answer", ["likelihood", "likelihood_per_token", "generate"])
def test_the_shipped_items_are_answered_by_a_model_made_on_the_spot(tmp_path, answer):
    few = ["task.count=12", "task.bootstrap=20", "llm.most=4"]
    assert command(tmp_path, f"answer={answer}", *few) == 0
    found = pd.read_csv(tmp_path / "out" / "results" / "analyses.csv")
    assert set(found["domain"]) == {
        "ageism",
        "beauty",
        "beauty_profession",
        "institution",
        "nationality",
        "all",
    }
    answers = pd.read_parquet(tmp_path / "out" / "results" / "answers.parquet")
    assert len(answers) == 60
    if answer != "generate":
        options = answers[["stereotype", "anti_stereotype", "unrelated"]]
        chosen = options.to_numpy()[
            range(60), answers[[f"p_{name}" for name in options]].to_numpy().argmax(axis=1)
        ]
        assert answers["response"].tolist() == chosen.tolist()


def test_a_server_is_asked_once_for_each_item(tmp_path):
    def behave(number, asked):
        lines = asked["messages"][0]["content"].splitlines()
        return said(lines[-1].removeprefix("Option 3: ")) if number < 8 or number > 8 else (401, "no")

    few = ["llm=openai_compatible", "llm.id=m", "answer=generate", "task.domains=[ageism]", "task.count=12"]
    with served(behave) as (chat, url):
        asked = [*few, f"llm.url={url}", "llm.concurrency=1", "task.bootstrap=20"]
        assert command(tmp_path, *asked) == 1
        assert command(tmp_path, *asked) == 0
    assert len(chat.asked) == 13
    answers = pd.read_parquet(tmp_path / "out" / "results" / "answers.parquet")
    assert answers["matched"].all()


def test_a_reply_of_a_content_filter_is_counted_apart_and_the_rest_is_asked(tmp_path):
    filtered = {"error": {"code": "content_filter", "message": "The response was filtered"}}

    def behave(number, asked):
        lines = asked["messages"][0]["content"].splitlines()
        return said(lines[-1].removeprefix("Option 3: ")) if number != 3 else (400, filtered)

    few = ["llm=openai_compatible", "llm.id=m", "answer=generate", "task.domains=[ageism]", "task.count=12"]
    with served(behave) as (chat, url):
        for _ in range(2):
            chosen = [f"llm.url={url}", "llm.concurrency=1", "task.bootstrap=20", "resume=false"]
            assert command(tmp_path, *few, *chosen) == 0
    assert len(chat.asked) == 12
    found = pd.read_csv(tmp_path / "out" / "results" / "analyses.csv")
    whole = found[(found["domain"] == "all") & (found["gender"] == "all")]
    assert whole[["n", "n_unmatched", "n_unanswered"]].sum().tolist() == [12, 1, 1]
    answers = pd.read_parquet(tmp_path / "out" / "results" / "answers.parquet")
    assert answers["unanswered"].dropna().tolist() == ["content_filter"]
    assert answers.loc[answers["unanswered"].notna(), "response"].isna().all()
    client = mlflow.MlflowClient(f"sqlite:///{tmp_path}/mlflow.db")
    run, *_ = client.search_runs([client.get_experiment_by_name("subtler").experiment_id])
    assert run.data.metrics["share_unanswered"] == pytest.approx(1 / 12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["llm=recorded", "llm.path=nowhere.csv"], "nowhere.csv"),
        (["llm=recorded"], "llm.path: not set"),
        (["task.path=nowhere.csv"], "nowhere.csv"),
        (["task.domains=[agism]"], "agism.yaml"),
        (["task.question=Well"], "task.question"),
        (["task.count=5"], "task.count=5: must be at least 12"),
        (["answer=guess"], "answer=guess: must be one of likelihood"),
        (["task.study=propagation"], "expected a study of generative models"),
        (["task.study=subtle"], "Did you mean 'subtler'?"),
        (["llm=openai_compatible", "llm.url=http://127.0.0.1:9", "llm.id=m"], "Say answer=generate"),
        (["llm=hf", "llm.id=no such folder"], "neither a folder that exists nor owner/name"),
    ],
)
def test_what_cannot_be_done_is_said(tmp_path, arguments, message, capsys):
    assert command(tmp_path, *arguments) == 1
    said = capsys.readouterr()
    assert message in said.out + said.err
    assert "Traceback" not in said.out + said.err


@pytest.mark.thorough
def test_ctrl_c_keeps_what_was_answered_and_does_not_wait_for_a_slow_server(tmp_path):
    slow = threading.Event()

    def behave(number, asked):
        if number > 5:
            slow.wait(120)
        return said("nonsense")

    few = ["llm=openai_compatible", "llm.id=m", "answer=generate", "task.domains=[ageism]", "task.count=12"]
    few += ["trainer=cpu", f"tracking.uri=sqlite:///{tmp_path}/mlflow.db", f"store.answers={tmp_path}/kept"]
    with served(behave) as (chat, url):
        typed = [*few, f"llm.url={url}", "llm.concurrency=1", f"hydra.run.dir={tmp_path}/out"]
        job = subprocess.Popen(
            [sys.executable, "-m", "src.generate", *typed],
            cwd=CHECKOUT,
            # A shell's background jobs ignore it, and so would their children.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        until = time.monotonic() + 300
        while len(chat.asked) < 6 and time.monotonic() < until:
            time.sleep(0.1)
        job.send_signal(signal.SIGINT)
        assert job.wait(300) == 130
        slow.set()
    (log,) = (tmp_path / "kept").iterdir()
    assert len(log.read_text().splitlines()) == 5


def unmatched(path, answer):
    """Answers recorded in the published format, all of them alike."""
    rows = [
        f'ageism,{gender},{age} is BLANK,slow,quick,tall,{sign},type1,"{answer}"'
        for gender in ("male", "female", "not_spacified")
        for age, sign in (("Young Kim", "positive"), ("Old Kim", "negative"))
        for _ in range(10)
    ]
    path.write_text("\n".join([f"{HEADER},response", *rows]) + "\n")
    return ["llm=recorded", f"llm.path={path}", "task.bootstrap=20"]


def test_answers_that_are_not_understood_are_said_everywhere_and_no_tau_is(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")  # a cell of the table on one line
    asked = unmatched(tmp_path / "answers.csv", "I rather say quick than slow")
    for _ in range(2):  # taken over the second time
        assert command(tmp_path, *asked) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert "no τ-c: 60 of 60 match no option" in shown
        assert "60 of 60 answers match no option, more than 25%: “I rather say quick than slow”" in shown
    found = pd.read_csv(tmp_path / "out" / "results" / "analyses.csv")
    assert found["tau_c"].isna().all()
    assert found["reason"].str.contains("answers match no option, more than 25%").all()
    client = mlflow.MlflowClient(f"sqlite:///{tmp_path}/mlflow.db")
    (run,) = client.search_runs([client.get_experiment_by_name("subtler").experiment_id])
    assert "no τ-c. 60 of 60 answers match no option" in run.data.tags["mlflow.note.content"]
    assert not [name for name in run.data.metrics if name.startswith("tau")]
    assert run.data.metrics["share_unmatched"] == 1
    assert "undefined_metrics" not in run.data.tags


def test_the_share_that_may_match_no_option_can_be_chosen(tmp_path, capsys):
    asked = unmatched(tmp_path / "answers.csv", "no idea")
    assert command(tmp_path, *asked, "task.max_unmatched=1") == 0
    found = pd.read_csv(tmp_path / "out" / "results" / "analyses.csv")
    assert (found["tau_c"] == 0).all()
    assert set(found["protocol"]) == {"recorded+bootstrap=20+max_unmatched=1"}
    assert command(tmp_path, *asked, "task.max_unmatched=1.5") == 1
    assert "task.max_unmatched=1.5: must be from 0 to 1" in capsys.readouterr().out
