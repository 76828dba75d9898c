"""Check python -m src.captions: planted ratios, mistakes, interruptions and its files."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from src.stimuli import taxonomy
from src.studies.sobit.captions import cli, counting, output
from tests.studies.sobit.captions.examples import WORDS, write_captions

PLANTED = {("criminal", "Black"): 3.0, ("savage", "White"): 0.3, ("homemaker", "Women"): 2.0}


@pytest.fixture(autouse=True)
def small_taxonomy(monkeypatch):
    monkeypatch.setattr(taxonomy, "load_words", lambda cfg: WORDS)


def draw_captions(count=20_000, seed=0):
    """Draw captions with planted ratios of words to groups; other words are independent of the groups."""
    rng = np.random.default_rng(seed)
    race = rng.choice(["black", "White", ""], count, p=[0.1, 0.15, 0.75])
    gender = rng.choice(["woman", "men", "dog"], count, p=[0.2, 0.2, 0.6])
    words = ["criminals", "savage", "homemaker", "calm"]
    probabilities = np.full((count, len(words)), 0.05)
    for (word, group), ratio in PLANTED.items():
        members = {"Black": race == "black", "White": race == "White", "Women": gender == "woman"}[group]
        base = members.mean()
        column = ["criminal", "savage", "homemaker"].index(word)
        probabilities[:, column] *= np.where(members, ratio, (1 - base * ratio) / (1 - base))
    is_mentioned = rng.random(probabilities.shape) < probabilities
    return [
        " ".join([*np.array(words)[row], race_word, gender_word, "secret scene"])
        for row, race_word, gender_word in zip(is_mentioned, race, gender, strict=True)
    ]


@pytest.fixture(scope="module")
def captions(tmp_path_factory):
    folder = tmp_path_factory.mktemp("captions")
    texts = draw_captions()
    for number in range(4):
        write_captions(folder / f"part-{number}.parquet", [*texts[number::4], None, ""], row_group_size=1000)
    (folder / "part-4.parquet").write_bytes(b"PAR1 broken off")
    return folder


def run(*arguments):
    return cli.main(list(arguments))


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def test_planted_ratios_come_back(captions, tmp_path, capsys):
    out = tmp_path / "out"
    assert run(f"path={captions}", f"output={out}") == 0
    printed = capsys.readouterr().out
    assert files(out) == sorted(
        ["acl", "counts.json", "ratios.csv", "report.json"]
        + [f"ratios-{axis}.{kind}" for axis in ("race", "gender", "both") for kind in ("pdf", "png", "svg")]
    )
    ratios = pd.read_csv(out / "ratios.csv").drop_duplicates(["word", "axis", "group"])
    rows = ratios.set_index(["word", "group"])
    for key, ratio in PLANTED.items():
        row = rows.loc[key]
        assert row["ratio_low"] < ratio < row["ratio_high"]
        assert row["q"] < 0.001
        assert not row["placebo_low"] <= row["ratio"] <= row["placebo_high"]
    calm = ratios[ratios["word"] == "calm"]
    assert (calm["q"].dropna() > 0.01).all()
    assert calm["ratio"].count() == 8
    counts = json.loads((out / "counts.json").read_text())
    assert counts["captions"] == 20_000
    assert counts["rows"] == 20_008
    assert counts["broken"] == {"null": 4, "not_text": 0, "empty": 4, "invalid_utf8": 0, "unreadable": 0}
    assert len(counts["files"]) == 5
    assert list(counts["problems"]) == [str(captions / "part-4.parquet")]
    assert set(counts["never_mentioned"]) == set(WORDS["word"]) - {"criminal", "savage", "homemaker", "calm"}
    assert counts["looked_for"]["words"]["criminal (noun)"] == ["criminal", "criminals"]
    assert (
        counts["naming_any_group"]["race"]
        == counts["naming"]["race"]["Black"] + counts["naming"]["race"]["White"]
    )
    assert "Rows: 20,008; not captions: 4 null, 4 empty." in printed
    assert "a white shirt counts as White" in " ".join(printed.split())
    assert f"Captions: {out}/counts.json" in printed

    # Figures have alt texts; no caption is shown.
    alt_text = Image.open(out / "ratios-race.png").info["Description"]
    assert "Black: more often criminal" in alt_text
    assert re.search("White: less often .*savage 0", alt_text)
    assert "secret" not in printed + "".join(
        path.read_text() for path in out.glob("*.*") if path.suffix not in (".png", ".pdf")
    )


@pytest.mark.parametrize("when", ["counting", "drawing"])
def test_an_interruption_leaves_the_earlier_output(captions, tmp_path, monkeypatch, capsys, when):
    monkeypatch.setattr(output, "draw_ratios", lambda ratios: [])
    out = tmp_path / "out"
    for number in (1, 0):  # the second replaces the first
        assert run(f"path={captions}/part-{number}.parquet", f"output={out}") == 0
    assert json.loads((out / "counts.json").read_text())["files"][0]["path"].endswith("part-0.parquet")
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    module, name = (counting, "count_captions") if when == "counting" else (output, "draw_ratios")

    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, name, interrupt)
    capsys.readouterr()
    for folder in (out, tmp_path / "other"):
        assert run(f"path={captions}", f"output={folder}") == 130
        assert capsys.readouterr().err.startswith("Interrupted: nothing was written")
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert files(tmp_path) == ["out"]
    (out / "mine.txt").write_text("mine")
    assert run(f"path={captions}", f"output={out}") == 1
    assert "contains files that are not part of a report: mine.txt" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "path= is missing"),
        (["pathh=x"], "Did you mean path=?"),
        (["path=x", "path=y"], "path=y: given twice"),
        (["path=nowhere.parquet"], "path=nowhere.parquet: no file or folder has this name"),
        (["path={captions}", "text_column=txt"], "no column txt. It has id (int64), caption (string)."),
        (["path={captions}", "seed=-1"], "seed=-1: expected a whole number"),
        (["path={captions}", "labels=nobody"], "nobody"),
        (["path={captions}", "run=abc", "tracking.uri=sqlite:///{out}/no.db"], "the database does not exist"),
    ],
)
def test_mistakes_are_refused_before_any_work(captions, tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.setattr(counting, "count_captions", None)
    filled = [argument.format(captions=captions, out=tmp_path) for argument in arguments]
    assert run(*filled, f"output={tmp_path}/out") == 1
    assert message in capsys.readouterr().err
    assert files(tmp_path) == []
