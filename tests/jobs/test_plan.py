"""A plan says what is stored, finished and missing, and makes nothing."""

import pandas as pd
import pytest

from src.jobs import plan
from tests.commands import command
from tests.conftest import SHRUNK, places, precomputed

SMALL = ["protocol.k=11", "protocol.extremes=6", "protocol.set_size=15"]


def test_a_plan_of_nothing_makes_nothing(tmp_path, capsys):
    swept = command(tmp_path / "o", "-m", "exp=glob(*_to_*)", *SHRUNK, *places(tmp_path / "p"), "plan=true")
    assert (swept.code, swept.trained) == (0, 0)
    assert not (tmp_path / "p").exists()
    said = " ".join(capsys.readouterr().out.split())
    assert "Plan of 8 jobs: nothing is run" in said
    assert "train shrunk+steps=600 on demo" in said
    assert "stored" not in said.split("What they need")[1].split("In all")[0].replace("│ │", "")


def test_a_plan_knows_what_is_finished_and_what_is_stored(kept, sweeps, tmp_path, capsys):
    arguments = ["-m", "exp=glob(*_to_*)", *SHRUNK, *places(kept), "plan=true"]
    before = sorted(path for path in kept.rglob("*"))
    capsys.readouterr()
    assert command(tmp_path / "o", *arguments).code == 0
    said = capsys.readouterr().out
    assert said.count("finished, in run") == 8
    assert command(tmp_path / "o", *arguments, "resume=false").code == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "finished, in run" not in said
    for what in (
        "draw demo faces",
        "train shrunk+steps=600 on demo",
        "embed demo words with shrunk+steps=600",
    ):
        row = said.split(what)[1].split("├")[0]
        assert "stored" in row, what
    assert sorted(path for path in kept.rglob("*")) == before


def test_what_is_planned_is_about_what_comes(kept, sweeps, job):
    """Disk within a factor of two of what lies there."""
    fresh = [*SHRUNK, *places(kept / "nowhere"), "exp=faces_to_words"]
    pieces = {piece.what: piece for piece in plan.plan(job(*fresh)).pieces}
    assert all(piece.items > 0 and piece.memory > 0 and not piece.stored for piece in pieces.values())
    here = {
        "draw demo faces": sum(
            path.stat().st_size for path in kept.glob("stimuli/*/*-*.png") if "scene" not in path.name
        ),
        "embed demo words with shrunk+steps=600": next(
            (kept / "embeddings" / "words").glob("*/*.safetensors")
        ).stat().st_size,
        "train shrunk+steps=600 on demo": next(
            path.stat().st_size
            for path in kept.glob("checkpoints/*/model.safetensors")
        ),
    }  # fmt: skip
    (resizing,) = (what for what in pieces if what.startswith("resize demo faces, geometry "))
    # Of faces and of scenes: there are more faces.
    both = [path.stat().st_size for path in kept.glob("pictures/*/pixels.npy")]
    assert len(both) == 2
    here[resizing] = max(both)
    for what, size in here.items():
        assert size / 2 < pieces[what].disk < size * 2, what


@pytest.mark.thorough
def test_a_plan_lists_what_is_not_applicable(tmp_path, capsys):
    folder = precomputed(tmp_path / "lab")
    (folder / "scenes.parquet").unlink()
    arguments = ["model=precomputed", f"model.path={folder}", *SMALL, *places(tmp_path / "p"), "plan=true"]
    assert command(tmp_path / "o", "-m", *arguments, "exp=glob(*_to_*)").code == 0
    said = " ".join(capsys.readouterr().out.split())
    assert said.count("not applicable") == 4
    assert not (tmp_path / "p").exists()


def test_a_plan_of_what_cannot_be_is_an_error(tmp_path, capsys):
    folder = precomputed(tmp_path / "lab")
    arguments = ["model=precomputed", f"model.path={folder}", *places(tmp_path / "p"), "plan=true"]
    assert command(tmp_path / "o", *arguments, "exp.corpus=scenes").code == 1
    assert "are of one modality" in capsys.readouterr().out


def test_each_thing_is_counted_once():
    piece = plan.Piece("embed", 30, False, 2e6, 1e9)
    planned = [plan.Planned(name, "to do", (piece,)) for name in ("a", "b")]
    (_, _), (needs, title) = plan.frames(planned)
    assert needs.iloc[-1].tolist() == ["in all", "", "1 to do", "2.0 MB"]
    assert "1.0 GB" in title
    assert len(needs) == 2


def test_finished_jobs_need_nothing():
    ((jobs, _),) = plan.frames([plan.Planned("a", "finished, in run x")])
    assert isinstance(jobs, pd.DataFrame)
    assert jobs.iloc[0].tolist() == ["a", "finished, in run x"]


@pytest.mark.parametrize("count", [10_000, 2_500_000_000])
def test_sizes_are_told_in_units(count):
    assert plan._bytes(count) == ("0.0 MB" if count == 10_000 else "2.5 GB")
