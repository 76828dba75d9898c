"""python -m src.report: which sweep, where to, and what it never touches."""

import shutil
import subprocess
import sys

import pandas as pd
import pytest

from src.report import __main__ as entry
from src.report import publish
from src.report.findings import Findings
from src.tracking import Tracker
from tests.paths import CHECKOUT
from tests.report.drawn import stand_in

JOBS = "exp,paper,model,dataset,debias,protocol,seed,config,status,run,reason,overrides"


@pytest.fixture
def page(monkeypatch):
    return stand_in(monkeypatch)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Twelve sweeps of two datasets without a job, and one of `demo` with one; ids, oldest first."""
    folder = tmp_path_factory.mktemp("store")
    tracker = Tracker(f"sqlite:///{folder}/mlflow.db")
    ids = []
    for number in range(13):
        parent = tracker.open("photos" if number % 2 else "demo", "sweep")
        parent.log(tags={"kind": "sweep"}, metrics={"jobs": number})
        if number == 12:
            _job(tracker, parent, folder)
        tracker.close(parent)
        ids.append(parent.id)
    return folder, ids


def _job(tracker, parent, folder):
    from src.storage import results

    row = (
        dict.fromkeys(results.TEXTS, "x")
        | {"study": "propagation"}
        | {"rho": 0.5, "n_all": None, "placebo_n": None, "reason": ""}
    )
    results.write(folder / "job", pd.DataFrame([row]), {})
    run = tracker.open("demo", "a job", parent)
    run.log(tags={"kind": "job", "config": "x", "results": results.digest(folder / "job")})
    run.artifacts(folder / "job" / "results", "results")
    tracker.close(run)


def report(store, *arguments):
    return entry.main([f"tracking.uri=sqlite:///{store[0]}/mlflow.db", *arguments])


def test_latest_and_the_beginning_of_an_id_are_enough(store, page, tmp_path, capsys):
    newest = store[1][-1]
    for wanted in ([], ["sweep=latest"], ["dataset=demo"], [f"sweep={newest[:12]}"], [f"sweep={newest}"]):
        assert report(store, *wanted, f"output={tmp_path}/out") == 0
        assert capsys.readouterr().out == f"Report: {tmp_path}/out/index.html\n"
    assert {found.sweep for found in page.seen} == {newest}
    assert len(page.seen) == 5


def test_an_id_that_does_not_exist_is_answered_with_those_that_do(store, page, tmp_path, capsys):
    assert report(store, "sweep=nonsense", f"output={tmp_path}/out") == 1
    said = capsys.readouterr().err
    assert "sweep=nonsense: no sweep has this id" in said
    lines = [line.split() for line in said.splitlines() if line.startswith("  ")]
    assert [line[0] for line in lines[:10]] == store[1][:2:-1]
    assert lines[0][1] == "demo"
    assert lines[0][3:] == ["12", "jobs", "FINISHED"]
    assert lines[10] == ["and", "3", "older", "ones"]
    assert report(store, "sweep=nonsense", "dataset=photos", f"output={tmp_path}/out") == 1
    said = capsys.readouterr().err
    assert all(number in said for number in store[1][1::2])
    assert not any(number in said for number in store[1][::2])
    assert not (tmp_path / "out").exists()


def test_a_beginning_of_several_ids_is_refused(store, page, tmp_path, capsys):
    first = {number[0] for number in store[1]}
    shared = next(letter for letter in first if sum(number[0] == letter for number in store[1]) > 1)
    assert report(store, f"sweep={shared}", f"output={tmp_path}/out") == 1
    assert "begins the ids of" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["sweeep=latest"], "Did you mean sweep=?"),
        (["latest"], "There is sweep=, dataset=, tracking.uri=, output=; --help explains them."),
        (["sweep"], "sweep: not understood."),
        (["sweep="], "sweep=: empty"),
        (["sweep=a", "sweep=b"], "sweep=b: given twice"),
        (["dataset=paper"], "no sweep of dataset=paper is stored there; there are sweeps of demo, photos."),
    ],
)
def test_mistakes_are_said(store, page, tmp_path, capsys, arguments, said):
    assert report(store, f"output={tmp_path}/out", *arguments) == 1
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_sweep_without_results_has_no_report(store, page, tmp_path, capsys):
    assert report(store, f"sweep={store[1][3]}", f"output={tmp_path}/out") == 1
    assert "no job of it has results" in capsys.readouterr().err


@pytest.mark.parametrize("there", ["nothing", "empty", "other"])
def test_asking_makes_no_store(page, tmp_path, capsys, there):
    database = tmp_path / "mine.db"
    if there == "empty":
        database.touch()
    elif there == "other":
        import sqlite3

        with sqlite3.connect(database) as connection:
            connection.execute("CREATE TABLE recipes (name TEXT)")
        connection.close()
    before = database.read_bytes() if database.exists() else None
    assert entry.main([f"tracking.uri=sqlite:///{database}", f"output={tmp_path}/out"]) == 1
    assert f"tracking.uri=sqlite:///{database}: there is no tracking database" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ([] if before is None else ["mine.db"])
    assert before is None or database.read_bytes() == before


def test_paths_are_the_user_s(store, page, tmp_path, monkeypatch, capsys):
    shutil.copytree(store[0], tmp_path / "mlruns")
    monkeypatch.chdir(tmp_path)
    assert entry.main(["tracking.uri=sqlite:///mlruns/mlflow.db", "output=here/out"]) == 0
    assert (tmp_path / "here" / "out" / "index.html").is_file()


def test_help_takes_no_time_and_a_mistake_has_no_traceback(tmp_path):
    def typed(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "src.report", *arguments], cwd=CHECKOUT, capture_output=True, text=True,
            check=False, timeout=500,
        )  # fmt: skip

    assert "tracking.uri" in typed("--help").stdout
    wrong = typed("seep=1")
    assert wrong.returncode == 1
    assert wrong.stderr.startswith("seep=1: not understood. Did you mean sweep=?")
    assert len(wrong.stderr.splitlines()) == 1


def findings(sweep="s"):
    nothing = pd.DataFrame()
    return Findings("demo", sweep, "FINISHED", "", {}, {}, nothing, [], nothing, {})


def test_a_report_is_replaced_whole(page, tmp_path):
    for sweep in ("first", "second"):
        index = publish.publish(findings(sweep), tmp_path / "out")
        assert index.read_text() == f"<h1>{sweep}</h1>"
        assert [path.name for path in tmp_path.iterdir()] == ["out"]
    page.fails = ZeroDivisionError("a fault")
    with pytest.raises(ZeroDivisionError):
        publish.publish(findings("third"), tmp_path / "out")
    assert (tmp_path / "out" / "index.html").read_text() == "<h1>second</h1>"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("foreign", ["a folder", "a file", "a page", "a file added"])
def test_what_is_no_report_is_never_replaced(store, page, tmp_path, capsys, foreign):
    out = tmp_path / "out"
    mine = out / "mine.txt"
    if foreign == "a file added":
        publish.publish(findings(), out)
    elif foreign == "a file":
        mine = out
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("mine")
    if foreign == "a page":
        (out / "index.html").write_text("mine too")
    assert report(store, f"output={out}") == 1
    said = capsys.readouterr().err
    assert "Name another folder: output=DIR." in said
    assert ("mine.txt" in said) == (foreign == "a file added")
    assert mine.read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_several_sweeps_of_one_dataset_have_one_report(store, page, tmp_path, capsys):
    newest, other, photos = store[1][-1], store[1][0], store[1][1]
    assert report(store, f"sweep={newest[:12]},{newest}", f"output={tmp_path}/out") == 0
    assert page.seen[-1].sweep == newest
    capsys.readouterr()
    assert report(store, f"sweep={newest},{photos}", f"output={tmp_path}/two") == 1
    assert "of demo and photos. A report is of one dataset" in capsys.readouterr().err
    assert report(store, f"sweep={newest},{other}", f"output={tmp_path}/two") == 1
    assert f"sweep {other}" in capsys.readouterr().err
    assert report(store, f"sweep={newest},nonsense", f"output={tmp_path}/two") == 1
    assert "sweep=nonsense: no sweep has this id" in capsys.readouterr().err
