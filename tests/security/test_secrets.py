"""A secret that somebody types, or has in the environment, is written down nowhere."""

import os
import subprocess
import sys

import pytest

from src.errors import InputError
from src.sweeps import overrides
from src.tracking import Tracker
from tests.conftest import places, precomputed
from tests.generators.chat import said, served
from tests.paths import CHECKOUT
from tests.test_generate import HEADER

pytestmark = pytest.mark.timeout(1300)  # a busy machine takes its time
# No part is a hexadecimal number: a run's id may end in any, and a database put any byte behind it.
SECRET = "Hush-7f3a,qz9"
ENVIRONMENT = {
    name: f"{SECRET}-{name}"
    for name in (
        *(
            "OPENAI_API_KEY",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_SESSION_TOKEN",
            "HF_TOKEN",
            "MLFLOW_TRACKING_PASSWORD",
        ),
        *("MLFLOW_TRACKING_TOKEN", "PGPASSWORD"),
    )
}
WHERE = (b"Hush", b"qz9-", SECRET.encode())


def command(folder, module, *arguments):
    return subprocess.run(
        [sys.executable, "-m", module, *arguments], cwd=CHECKOUT, capture_output=True, text=True,
        check=False, timeout=1200,
        env={**os.environ, **ENVIRONMENT, "PYTHONPATH": str(CHECKOUT), "TMPDIR": str(folder / "tmp")},
    )  # fmt: skip


def leaks(folder):
    """Files, and names of files, below a folder that hold any part of the secret."""
    found = []
    for path in folder.rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        found += [str(path) for part in WHERE if part in content or part in os.fsencode(path.name)]
    return found


def silent(done, folder):
    assert not [part for part in WHERE if part.decode() in done.stdout + done.stderr]
    assert leaks(folder) == []


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "tmp").mkdir()
    return tmp_path


def test_the_search_finds_a_secret(folder):
    (folder / "a").write_text(f"key={SECRET}")
    assert leaks(folder) == [str(folder / "a")] * 2


@pytest.mark.parametrize("form", ["job", pytest.param("sweep", marks=pytest.mark.thorough)])
def test_a_job_of_vectors_writes_no_secret(folder, form):
    vectors = precomputed(folder / "vectors")
    arguments = [f"model.path={vectors}", "model=precomputed", "protocol.k=10", "protocol.extremes=10"]
    arguments += [
        "protocol.set_size=10",
        "protocol.placebo=19",
        "protocol.bootstrap=0",
        *places(folder),
        "report=true",
    ]
    arguments = [one for one in arguments if one != "report=false"]
    where = [f"hydra.{'sweep' if form == 'sweep' else 'run'}.dir={folder}/out"]
    exps = ["-m", "exp=faces_to_words,scenes_to_words"] if form == "sweep" else ["exp=faces_to_words"]
    done = command(folder, "src.run", *exps, *arguments, *where)
    assert done.returncode == 0, done.stderr
    assert (folder / "mlruns" / "mlflow.db").exists()
    silent(done, folder)


@pytest.mark.thorough
@pytest.mark.parametrize("uri", ["http://me:{}@127.0.0.1:9", "http://{}@127.0.0.1:9"])
def test_a_password_of_the_tracking_store_is_written_nowhere(folder, uri):
    vectors = precomputed(folder / "vectors")
    own = [one for one in places(folder) if not one.startswith("tracking")]
    arguments = ["model=precomputed", f"model.path={vectors}", "exp=faces_to_words", *own]
    done = command(
        folder, "src.run", *arguments, f"'tracking.uri={uri.format(SECRET)}'".strip("'").replace(",", "\\,"),
        f"hydra.run.dir={folder}/out",
    )  # fmt: skip
    assert done.returncode == 1
    assert "nothing listens there" in done.stderr + done.stdout
    assert "127.0.0.1:9" in done.stderr + done.stdout
    assert "oc.env:CARRYOVER_SECRET" in (folder / "out" / ".hydra" / "config.yaml").read_text()
    silent(done, folder)


@pytest.mark.thorough
def test_a_job_that_asks_a_server_with_a_password_reaches_it_and_writes_no_secret(folder):
    rows = [f"ageism,{who},Young Kim is BLANK,slow,quick,tall,positive,type1" for who in ("male", "female")]
    (folder / "items.csv").write_text("\n".join([HEADER, *rows]) + "\n")
    with served(lambda *_: said("quick")) as (chat, url):
        secret = url.replace("://", f"://me:{SECRET}@")
        done = command(
            folder, "src.generate", "llm=openai_compatible", f"llm.url='{secret}'", "llm.id=m",
            "answer=generate", "llm.key=OPENAI_API_KEY", f"task.path={folder}/items.csv", "task.bootstrap=10",
            f"store.answers={folder}/kept",
            f"tracking.uri=sqlite:///{folder}/m/mlflow.db", f"hydra.run.dir={folder}/out",
        )  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout
    assert len(chat.asked) == 2
    assert chat.keys[0]
    silent(done, folder)


@pytest.mark.thorough
def test_a_server_that_refuses_is_named_without_its_password(folder):
    rows = [f"ageism,{who},Young Kim is BLANK,slow,quick,tall,positive,type1" for who in ("male", "female")]
    (folder / "items.csv").write_text("\n".join([HEADER, *rows]) + "\n")
    done = command(
        folder, "src.generate", "llm=openai_compatible", f"llm.url='http://me:{SECRET}@127.0.0.1:9/v1'",
        "llm.id=m",
        "llm.retries=0", "answer=generate", f"task.path={folder}/items.csv", f"store.answers={folder}/kept",
        f"tracking.uri=sqlite:///{folder}/m/mlflow.db", f"hydra.run.dir={folder}/out",
    )  # fmt: skip
    assert done.returncode == 1
    assert "http://me:…@127.0.0.1:9/v1/chat/completions: cannot be reached" in done.stdout + done.stderr
    silent(done, folder)


@pytest.mark.parametrize("given", ["llm.key=sk-abc-123", "+llm.key='sk-abc-123'", "llm.key=my key"])
def test_a_key_in_the_place_of_its_variable_is_refused_before_it_is_written(given):
    with pytest.raises(InputError, match="names the variable that holds the key") as refused:
        overrides.without_secrets([given])
    assert "abc" not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "secret"),
    [
        ("tracking.uri=postgresql://me:p@ss@host/db", "p@ss"),
        ("tracking.uri=postgresql://me:a/b@host/db", "a/b"),
        ("tracking.uri=http://token@host", "token"),
        (r"tracking.uri=http://me:p\,w@host", "p,w"),
        (r"tracking.uri='http://me:p\w@host'", r"p\w"),
        ("+llm.url=https://:pass@host/v1", "pass"),
    ],
)
def test_a_password_goes_into_the_environment(monkeypatch, given, secret):
    monkeypatch.setenv("CARRYOVER_SECRET_1", "")
    (found,) = overrides.without_secrets([given])
    assert os.environ["CARRYOVER_SECRET_1"] == secret
    assert "${oc.env:CARRYOVER_SECRET_1}@host" in found
    assert secret not in found.replace("CARRYOVER_SECRET_1", "")


@pytest.mark.parametrize("mark", ["", "'"])
def test_each_address_of_a_sweep_has_a_password_of_its_own(monkeypatch, mark):
    for number in "123":
        monkeypatch.setenv(f"CARRYOVER_SECRET_{number}", "")
    listed = ",".join(f"{mark}http://me:{word}@{host}/v1{mark}" for word, host in (("a@b", "h"), ("c", "i")))
    found = overrides.without_secrets([f"llm.url={listed}", "tracking.uri=http://token@host"])
    one, two, three = (f"${{oc.env:CARRYOVER_SECRET_{number}}}" for number in (1, 2, 3))
    assert found == [
        f"llm.url={mark}http://me:{one}@h/v1{mark},{mark}http://me:{two}@i/v1{mark}",
        f"tracking.uri=http://{three}@host",
    ]
    assert [os.environ[f"CARRYOVER_SECRET_{number}"] for number in "123"] == ["a@b", "c", "token"]


@pytest.mark.parametrize(
    "given",
    ["tracking.uri=sqlite:///a@b/c.db", "model.id=owner/name@main", "faces@faces.parents=fairface",
     "llm.key=''",      "llm.key=OPENAI_API_KEY", "tracking.uri=postgresql://me:${oc.env:PW}@host/db", "tracking.uri=http://host:5000"],
)  # fmt: skip
def test_what_holds_no_secret_stays_as_it_was(given):
    assert overrides.without_secrets([given]) == [given]


def test_errors_of_a_store_are_told_without_the_password():
    with pytest.raises(InputError, match=r"tracking.uri=nosuch://me:…@host") as refused:
        Tracker("nosuch://me:hush@host/db")
    assert "hush" not in str(refused.value)


@pytest.mark.thorough
@pytest.mark.parametrize("launcher", ["here", "joblib"])
def test_what_a_sweep_asked_for_is_kept_without_the_password(folder, launcher):
    rows = [f"ageism,{who},Young Kim is BLANK,slow,quick,tall,positive,type1" for who in ("male", "female")]
    (folder / "items.csv").write_text("\n".join([HEADER, *rows]) + "\n")
    with served(lambda *_: said("quick")) as (_, url):
        secret = url.replace("://", f"://me:{SECRET}@")
        done = command(
            folder, "src.generate", "-m", f"hydra/launcher={launcher}", "llm=openai_compatible",
            f"llm.url='{secret}'", "llm.id=m,n",
            "answer=generate", f"task.path={folder}/items.csv", "task.bootstrap=10",
            f"store.answers={folder}/kept", f"tracking.uri=sqlite:///{folder}/m/mlflow.db",
            f"hydra.sweep.dir={folder}/out",
        )  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout
    (asked_for,) = (folder / "m").rglob("asked.json")
    assert asked_for.read_text().count("${oc.env:CARRYOVER_SECRET_") == 2
    assert len(list((folder / "out").glob("*/results/analyses.csv"))) == 2
    silent(done, folder)
