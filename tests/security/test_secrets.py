"""Check that secrets in commands and in the environment are written nowhere."""

import os
import subprocess
import sys

import pytest

from src.errors import InputError
from src.sweeps import overrides
from src.tracking import Tracker
from tests.commands import FEW_DRAWS
from tests.conftest import precomputed, store_overrides
from tests.encoders import embedding_server
from tests.paths import CHECKOUT
from tests.served import completion, serve_json
from tests.test_generate import HEADER

pytestmark = pytest.mark.timeout(1300)  # a busy machine takes its time
# Fragments are searched for as well: a secret may be split at its comma. No fragment is a hexadecimal number,
# which a run's id could contain. The hyphen in `qz9-` precedes the name of a variable, see `run`.
SECRET = "Hush-7f3a,qz9"
VARIABLES = ("OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "HF_TOKEN")
VARIABLES += ("MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN", "PGPASSWORD")
FRAGMENTS = (b"Hush", b"qz9-", SECRET.encode())


def leaks(folder):
    """Return files, and names of files, below a folder that hold a fragment of the secret."""
    paths = []
    for path in folder.rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        text = content + b"\0" + os.fsencode(path.name)
        paths += [str(path) for fragment in FRAGMENTS if fragment in text]
    return paths


def test_the_search_finds_a_secret(tmp_path):
    (tmp_path / "a").write_text(f"key={SECRET}")
    assert leaks(tmp_path) == [str(tmp_path / "a")] * 2


@pytest.fixture
def run(tmp_path):
    """Run a command with secrets in its environment, check that it writes none, and return what it prints."""
    (tmp_path / "tmp").mkdir()
    secrets = {name: f"{SECRET}-{name}" for name in VARIABLES}
    environment = {**os.environ, **secrets, "PYTHONPATH": str(CHECKOUT), "TMPDIR": str(tmp_path / "tmp")}

    def execute(module, *arguments, status=0, sweep=False):
        output = f"hydra.{'sweep' if sweep else 'run'}.dir={tmp_path}/out"
        done = subprocess.run(
            [sys.executable, "-m", module, *["-m"] * sweep, *arguments, output], cwd=CHECKOUT,
            env=environment, capture_output=True, text=True, check=False, timeout=1200,
        )  # fmt: skip
        printed = done.stdout + done.stderr
        assert done.returncode == status, printed
        assert not [fragment for fragment in FRAGMENTS if fragment.decode() in printed]
        assert leaks(tmp_path) == []
        return printed

    return execute


@pytest.fixture
def generate(tmp_path, run):
    """Send two items to a chat server."""
    rows = [f"ageism,{who},Young Kim is BLANK,slow,quick,tall,positive,type1" for who in ("male", "female")]
    (tmp_path / "items.csv").write_text("\n".join([HEADER, *rows]) + "\n")
    arguments = ["llm=openai_compatible", "answer=generate", f"task.path={tmp_path}/items.csv"]
    arguments += ["task.bootstrap=10", f"store.answers={tmp_path}/kept"]
    arguments += [f"tracking.uri=sqlite:///{tmp_path}/m/mlflow.db"]

    def send(url, *more, **options):
        return run("src.generate", *arguments, f"llm.url='{url}'", *more, **options)

    return send


@pytest.mark.parametrize("sweep", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_a_job_of_vectors_writes_no_secret(tmp_path, run, sweep):
    vectors = precomputed(tmp_path / "vectors")
    sizes = {"k": 10, "extremes": 10, "set_size": 10, "placebo": 19, "bootstrap": 0}
    arguments = ["model=precomputed", f"model.path={vectors}"]
    # The report is written, too, so that it is searched.
    arguments += [item for item in store_overrides(tmp_path) if item != "report=false"]
    arguments += [f"protocol.{name}={size}" for name, size in sizes.items()]
    run("src.run", "exp=faces_to_words" + ",scenes_to_words" * sweep, *arguments, sweep=sweep)
    assert (tmp_path / "mlruns" / "mlflow.db").exists()


@pytest.mark.thorough
def test_a_password_of_the_tracking_store_is_written_nowhere(tmp_path, run):
    vectors = precomputed(tmp_path / "vectors")
    folders = [argument for argument in store_overrides(tmp_path) if not argument.startswith("tracking")]
    arguments = ["model=precomputed", f"model.path={vectors}", "exp=faces_to_words", *folders]
    password = SECRET.replace(",", "\\,")
    printed = run("src.run", *arguments, f"tracking.uri=http://me:{password}@127.0.0.1:9", status=1)
    assert "no server listens there" in printed
    assert "127.0.0.1:9" in printed
    assert "oc.env:CARRYOVER_SECRET" in (tmp_path / "out" / ".hydra" / "config.yaml").read_text()


@pytest.mark.thorough
def test_a_job_that_asks_a_server_with_a_password_reaches_it_and_writes_no_secret(generate):
    with serve_json(lambda *_: completion("quick")) as (chat, url):
        generate(url.replace("://", f"://me:{SECRET}@"), "llm.id=m", "llm.key=OPENAI_API_KEY")
    assert len(chat.requests) == 2
    assert chat.authorizations[0]


@pytest.mark.thorough
@pytest.mark.parametrize("launcher", [pytest.param("here", marks=pytest.mark.exhaustive), "joblib"])
def test_overrides_of_a_sweep_are_stored_without_the_password(tmp_path, generate, launcher):
    with serve_json(lambda *_: completion("quick")) as (_, url):
        secret = url.replace("://", f"://me:{SECRET}@")
        generate(secret, f"hydra/launcher={launcher}", "llm.id=m,n", sweep=True)
    (overrides_path,) = (tmp_path / "m").rglob("asked.json")
    assert overrides_path.read_text().count("${oc.env:CARRYOVER_SECRET_") == 2
    assert len(list((tmp_path / "out").glob("*/results/analyses.csv"))) == 2


@pytest.mark.thorough
@pytest.mark.parametrize("status", [0, pytest.param(1, marks=pytest.mark.exhaustive)])
def test_a_job_of_a_served_encoder_reaches_its_server_and_writes_no_secret(tmp_path, run, status):
    sizes = ["faces.per_group=4", "scenes.count=24", "words.count=24", "protocol.k=8", "protocol.extremes=5"]
    sizes += ["protocol.set_size=6", "model.max_edge=64", "model.retries=0", *FEW_DRAWS]
    behave = embedding_server.answer if status == 0 else lambda *_: (401, f"refused {SECRET}")
    with embedding_server.serve_vectors(behave) as (server, url):
        url = url.replace("://", f"://me:{SECRET}@")
        arguments = ["model=served", f"model.url='{url}'", f"model.id={embedding_server.MODEL}"]
        arguments += ["exp=scenes_to_words", *sizes, *store_overrides(tmp_path)]
        printed = run("src.run", *arguments, status=status)
    assert ("refuses the key" in printed) == (status == 1)
    assert all(server.authorizations)
    assert list((tmp_path / "embeddings" / "answers").glob("*.jsonl"))


@pytest.mark.parametrize("setting", ["llm.key", "model.key"])
def test_a_key_in_the_place_of_its_variable_is_refused_before_it_is_written(setting):
    with pytest.raises(InputError, match=f"{setting}: expected the name of an environment var") as refused:
        overrides.hide_secrets([f"+{setting}='sk-abc-123'"])
    assert "abc" not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "secret"),
    [
        ("model.url=https://me:p@ss@host/v1", "p@ss"),
        ("tracking.uri=postgresql://me:p@ss@host/db", "p@ss"),
        ("tracking.uri=http://token@host", "token"),
        (r"tracking.uri=http://me:p\,w@host", "p,w"),
        ("+llm.url=https://:pass@host/v1", "pass"),
    ],
)
def test_a_password_goes_into_the_environment(monkeypatch, given, secret):
    monkeypatch.setenv("CARRYOVER_SECRET_1", "")
    (override,) = overrides.hide_secrets([given])
    assert os.environ["CARRYOVER_SECRET_1"] == secret
    assert "${oc.env:CARRYOVER_SECRET_1}@host" in override
    assert secret not in override.replace("CARRYOVER_SECRET_1", "")


@pytest.mark.parametrize("mark", ["", "'"])
def test_each_address_of_a_sweep_has_a_separate_password(monkeypatch, mark):
    for number in "123":
        monkeypatch.setenv(f"CARRYOVER_SECRET_{number}", "")
    listed = ",".join(f"{mark}http://me:{word}@{host}/v1{mark}" for word, host in (("a@b", "h"), ("c", "i")))
    masked_overrides = overrides.hide_secrets([f"llm.url={listed}", "tracking.uri=http://token@host"])
    first, second, third = (f"${{oc.env:CARRYOVER_SECRET_{number}}}" for number in (1, 2, 3))
    assert masked_overrides == [
        f"llm.url={mark}http://me:{first}@h/v1{mark},{mark}http://me:{second}@i/v1{mark}",
        f"tracking.uri=http://{third}@host",
    ]
    assert [os.environ[f"CARRYOVER_SECRET_{number}"] for number in "123"] == ["a@b", "c", "token"]


@pytest.mark.parametrize(
    "given",
    ["tracking.uri=sqlite:///a@b/c.db", "llm.key=OPENAI_API_KEY", "tracking.uri=http://${oc.env:PW}@host"]
    + ["tracking.uri=postgresql://me:${oc.env:PW}@host/db"],
)
def test_what_holds_no_secret_stays_as_it_was(given):
    assert overrides.hide_secrets([given]) == [given]


def test_errors_of_a_store_do_not_contain_the_password():
    with pytest.raises(InputError, match=r"tracking.uri=nosuch://me:…@host") as refused:
        Tracker("nosuch://me:hush@host/db")
    assert "hush" not in str(refused.value)
