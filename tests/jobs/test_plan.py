"""Check that a plan lists stored, finished and missing work, and does none of it."""

import pandas as pd
import pytest
from scipy import stats

from src import stimuli
from src.jobs import plan
from tests.commands import command
from tests.conftest import SHRUNK, store_overrides


def test_a_plan_of_nothing_makes_nothing(tmp_path, capsys):
    swept = command(
        tmp_path / "o", "-m", "exp=glob(*_to_*)", *SHRUNK, *store_overrides(tmp_path / "p"), "plan=true"
    )
    assert (swept.code, swept.trained) == (0, 0)
    assert not (tmp_path / "p").exists()
    output = " ".join(capsys.readouterr().out.split())
    assert "Plan of 8 jobs: nothing is run" in output
    assert "train shrunk+steps=500 on demo" in output
    assert "stored" not in output.split("Steps of these jobs")[1].split("Total")[0].replace("│ │", "")


def test_a_plan_knows_what_is_finished_and_what_is_stored(stores, sweeps, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    arguments = ["-m", "exp=glob(*_to_*)", *SHRUNK, *store_overrides(stores), "plan=true"]
    before = sorted(path for path in stores.rglob("*"))
    capsys.readouterr()
    assert command(tmp_path / "o", *arguments).code == 0
    output = capsys.readouterr().out
    assert output.count("finished, in run") == 8
    assert command(tmp_path / "o", *arguments, "resume=false").code == 0
    output = " ".join(capsys.readouterr().out.split())
    assert "finished, in run" not in output
    assert "model families needed to detect it (80% power, p ≤ .05); this plan has 1" in output.lower()
    analyses = pd.read_csv(sweeps[0].results("faces_to_words") / "analyses.csv")
    half = (analyses["level_high"] - analyses["level_low"]) / 2
    levels = half * (1 + stats.t.ppf(0.8, analyses["df"]) / stats.t.ppf(0.975, analyses["df"]))
    row = output.split("Minimum detectable level and difference of levels")[1].split("│ faces_to_words │")[1]
    cells = [cell.strip() for cell in row.split("│")[:4]]
    assert cells[0] == f"{levels.min():.3f} to {levels.max():.3f}"
    # One model alone has no difference.
    assert cells[2:] == ["–", "shrunk+steps=500"]
    for what in ("draw demo faces", "train shrunk+steps=500", "embed demo words with shrunk+steps=500"):
        assert "stored" in output.split(what)[1].split("├")[0], what
    assert sorted(path for path in stores.rglob("*")) == before


def test_planned_disk_space_is_about_that_of_the_files(stores, sweeps, job):
    """Compare within a factor of two."""
    fresh = [*SHRUNK, *store_overrides(stores / "nowhere"), "exp=faces_to_words"]
    steps = {step.description: step for step in plan.plan(job(*fresh)).steps}
    assert all(step.items > 0 and step.memory > 0 and not step.stored for step in steps.values())
    files = {
        "draw demo faces": "stimuli/*/*-*.png",
        "embed demo words with ": "embeddings/words/*/*.safetensors",
        "train shrunk+steps=500 on demo": "checkpoints/*/model.safetensors",
        "resize demo faces, geometry ": "pictures/*/pixels.npy",
    }
    for description, pattern in files.items():
        (step,) = (step for name, step in steps.items() if name.startswith(description))
        sizes = [path.stat().st_size for path in stores.glob(pattern) if "scene" not in path.name]
        # The pattern also matches pixels.npy of scenes, which is smaller than that of faces.
        size = max(sizes) if pattern.endswith(".npy") else sum(sizes)
        assert size / 2 < step.disk < size * 2, description


def test_sizes_of_a_model_that_must_be_fetched_first_are_unknown(tmp_path, job, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    planned = plan.plan(job(*store_overrides(tmp_path), "model=e5_v", "exp=faces_to_words"))
    (_, _), (steps, title), *_ = plan.build_tables([planned])
    rows = steps.set_index("step")["disk"]
    assert rows["fetch e5_v from the hub; then plan again"] == "unknown"
    assert rows["total"] == f"more than {rows['draw demo faces']}"
    assert title == "Steps of these jobs; expected peak memory unknown"


@pytest.mark.parametrize("exp", ["harms", "matched"])
def test_a_plan_lists_prompts_that_depend_on_faces_and_draws_none(tmp_path, job, exp):
    stimuli._tables.clear()
    stores = store_overrides(tmp_path / "p")
    planned = plan.plan(job("dataset=demo_people", f"exp={exp}", "model=toy_s", *stores))
    descriptions = [step.description for step in planned.steps]
    assert f"embed {exp} prompts with toy_s; plan again once the faces are stored" in descriptions
    assert not (tmp_path / "p").exists()
