"""python -m src.captions from end to end: planted ratios, mistakes, and what it never leaves behind."""

import json
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from src.stimuli import taxonomy
from src.studies.sobit.captions import cli as entry
from src.studies.sobit.captions import figures, mentions
from tests.paths import CHECKOUT
from tests.studies.sobit.captions.made import WORDS, written

PLANTED = {("criminal", "Black"): 3.0, ("savage", "White"): 0.3, ("homemaker", "Women"): 2.0}


@pytest.fixture(autouse=True)
def listed(monkeypatch):
    monkeypatch.setattr(taxonomy, "words", lambda cfg: WORDS)


def planted(count=20_000, seed=0):
    """Captions in which a word stands with a group as often as is planted, and any other as chance has it."""
    rng = np.random.default_rng(seed)
    race = rng.choice(["black", "White", ""], count, p=[0.1, 0.15, 0.75])
    gender = rng.choice(["woman", "men", "dog"], count, p=[0.2, 0.2, 0.6])
    words = ["criminals", "savage", "homemaker", "calm"]
    chance = np.full((count, len(words)), 0.05)
    for (word, group), ratio in PLANTED.items():
        own = {"Black": race == "black", "White": race == "White", "Women": gender == "woman"}[group]
        base = own.mean()
        column = ["criminal", "savage", "homemaker"].index(word)
        chance[:, column] *= np.where(own, ratio, (1 - base * ratio) / (1 - base))
    said = rng.random(chance.shape) < chance
    return [
        " ".join([*(word for word, says in zip(words, row, strict=True) if says), one, other, "secret scene"])
        for row, one, other in zip(said, race, gender, strict=True)
    ]


@pytest.fixture(scope="module")
def captions(tmp_path_factory):
    folder = tmp_path_factory.mktemp("captions")
    every = planted()
    for number in range(4):
        written(folder / f"part-{number}.parquet", [*every[number::4], None, ""], row_group_size=1000)
    (folder / "part-4.parquet").write_bytes(b"PAR1 broken off")
    return folder


def run(*arguments):
    return entry.main(list(arguments))


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def test_planted_ratios_come_back(captions, tmp_path, capsys):
    out = tmp_path / "out"
    assert run(f"path={captions}", f"output={out}") == 0
    said = capsys.readouterr().out
    assert files(out) == sorted(
        ["counts.json", "ratios.csv", "report.json"]
        + [f"ratios-{axis}.{kind}" for axis in ("race", "gender", "both") for kind in ("png", "svg")]
    )
    ratios = pd.read_csv(out / "ratios.csv").drop_duplicates(["word", "axis", "group"])
    found = ratios.set_index(["word", "group"])
    for key, ratio in PLANTED.items():
        one = found.loc[key]
        assert one["ratio_low"] < ratio < one["ratio_high"]
        assert one["q"] < 0.001
        assert not one["placebo_low"] <= one["ratio"] <= one["placebo_high"]
    calm = ratios[ratios["word"] == "calm"]
    assert (calm["q"].dropna() > 0.01).all()
    assert calm["ratio"].count() == 8
    about = json.loads((out / "counts.json").read_text())
    assert about["captions"] == 20_000
    assert about["rows"] == 20_008
    assert about["broken"] == {"null": 4, "not_text": 0, "empty": 4, "invalid_utf8": 0, "unreadable": 0}
    assert len(about["files"]) == 5
    assert list(about["problems"]) == [str(captions / "part-4.parquet")]
    assert set(about["never_mentioned"]) == set(WORDS["word"]) - {"criminal", "savage", "homemaker", "calm"}
    assert about["looked_for"]["words"]["criminal (noun)"] == ["criminal", "criminals"]
    assert (
        about["naming_any_group"]["race"]
        == about["naming"]["race"]["Black"] + about["naming"]["race"]["White"]
    )
    assert "Rows: 20,008; no captions: 4 null, 4 empty." in said
    assert "a white shirt counts as White" in " ".join(said.split())
    assert f"Captions: {out}/counts.json" in said

    # Figures say in words what they show, and no caption is shown.
    alternative = Image.open(out / "ratios-race.png").info["Description"]
    assert "Black: more often criminal" in alternative
    assert re.search("White: less often .*savage 0", alternative)
    assert "secret" not in said + "".join(path.read_text() for path in out.iterdir() if path.suffix != ".png")


@pytest.fixture
def undrawn(monkeypatch):
    monkeypatch.setattr(figures, "drawings", lambda ratios: [])


@pytest.mark.parametrize("when", ["counting", "drawing"])
def test_an_interruption_leaves_what_was_there(captions, undrawn, tmp_path, monkeypatch, capsys, when):
    out = tmp_path / "out"
    assert run(f"path={captions}/part-0.parquet", f"output={out}") == 0
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    module, name = (mentions, "count") if when == "counting" else (figures, "drawings")

    def pressed(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, name, pressed)
    capsys.readouterr()
    for place in (out, tmp_path / "other"):
        assert run(f"path={captions}", f"output={place}") == 130
        assert capsys.readouterr().err.startswith("Interrupted: nothing was written")
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert files(tmp_path) == ["out"]


def test_older_results_are_replaced_and_nothing_else_is(captions, undrawn, tmp_path, capsys):
    out = tmp_path / "out"
    for part in (0, 1):
        assert run(f"path={captions}/part-{part}.parquet", f"output={out}") == 0
    assert json.loads((out / "counts.json").read_text())["files"][0]["path"].endswith("part-1.parquet")
    (out / "mine.txt").write_text("mine")
    assert run(f"path={captions}", f"output={out}") == 1
    assert "holds what no report wrote: mine.txt" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "path= is missing"),
        (["pathh=x"], "Did you mean path=?"),
        (["path=x", "path=y"], "path=y: given twice"),
        (["path="], "path=: empty"),
        (["path=nowhere.parquet"], "path=nowhere.parquet: no such file or folder"),
        (["path={captions}", "text_column=txt"], "no column txt. It has id (int64), caption (string)."),
        (["path={captions}", "seed=-1"], "seed=-1: must be a whole number"),
        (["path={captions}", "labels=nobody"], "nobody"),
        (["path={captions}", "taxonomy=none"], "none"),
        (
            ["path={captions}", "run=abc", "tracking.uri=sqlite:///{out}/no.db"],
            "there is no tracking database",
        ),
    ],
)
def test_mistakes_are_said_before_any_work(captions, tmp_path, monkeypatch, capsys, arguments, said):
    monkeypatch.setattr(mentions, "count", None)
    asked = [argument.format(captions=captions, out=tmp_path) for argument in arguments]
    assert run(*asked, f"output={tmp_path}/out") == 1
    assert said in capsys.readouterr().err
    assert files(tmp_path) == []


def test_a_list_without_types_is_given_them_as_its_refusal_says(tmp_path):
    chosen = [f"taxonomy.path={tmp_path}/a.json", f"taxonomy.types={tmp_path}/b.csv", "taxonomy.untyped=noun"]
    listed, _ = entry.config(entry.read([f"path={tmp_path}", *chosen]))
    assert [f"taxonomy.{name}={getattr(listed, name)}" for name in ("path", "types", "untyped")] == chosen
    listed, _ = entry.config(entry.read([f"path={tmp_path}"]))
    assert (listed.path, listed.types, listed.untyped) == (None, None, None)


def test_results_have_a_place_of_their_own(monkeypatch):
    from src.studies.sobit.captions import output as writing

    assert writing.folder("data/laion.parquet").relative_to(CHECKOUT).as_posix() == "outputs/captions/laion"
    assert writing.folder("data/part-*.parquet").name == "part"


def test_help_takes_no_time_and_a_mistake_has_no_traceback():
    def typed(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "src.captions", *arguments], cwd=CHECKOUT, capture_output=True, text=True,
            check=False, timeout=500,
        )  # fmt: skip

    assert "text_column" in typed("--help").stdout
    wrong = typed("pathh=1")
    assert wrong.returncode == 1
    assert wrong.stderr.startswith("pathh=1: not understood. Did you mean path=?")
    assert len(wrong.stderr.splitlines()) == 1
