"""Sweep languages from drawn files of the published layouts, with a small multilingual checkpoint."""

import pandas as pd
import pytest

from src.studies.eat.published_tests import SETS
from tests.commands import FEW_DRAWS, command
from tests.conftest import store_overrides
from tests.encoders.dual_checkpoints import dual_files
from tests.encoders.small_checkpoints import write_folder
from tests.stimuli import drawn

# Language -> its name in NRC-VAD, and letters of which words are drawn.
LANGUAGES = {
    "es": ("Spanish", "abcdeñ"),
    "zh": ("Chinese-Simplified", "快乐灾难好坏"),
    "ar": ("Arabic", "ابتثجح"),
}
SMALL = ["faces.per_group=6", "protocol.k=30", "protocol.extremes=12", "protocol.set_size=12", *FEW_DRAWS]
SWEEPS = {"scenes_to_words": "en,es,zh,ar", "labels_to_scenes": "en,es,zh,ar"}


@pytest.fixture
def root(tmp_path):
    """Draw OASIS, and NRC-VAD with translations: two rows have none, and two have the same."""
    raw = tmp_path / "raw"
    drawn.oasis(raw / "oasis", 60)
    drawn.nrc_vad(raw / "nrc_vad", 60)
    folder = raw / "nrc_vad" / "OneFilePerLanguage"
    folder.mkdir()
    for name, letters in LANGUAGES.values():
        words = [first + second + third for first in letters for second in letters for third in letters][:60]
        cells = [*words, words[0], "NO TRANSLATION", ""]
        rows = [f"word {i}\t{i / len(cells):.3f}\t.5\t.5\t{cell}" for i, cell in enumerate(cells)]
        header = f"English Word\tValence\tArousal\tDominance\t{name} Word"
        (folder / f"{name}-NRC-VAD-Lexicon.txt").write_text("\n".join([header, *rows]) + "\n", "utf-8")
    return raw


def draw_weathub(path):
    """Write WEATHub's columns, a test per row, with words that a set repeats."""
    rows = []
    for code, letters in {
        "en": "abcdefgh",
        **{code: letters for code, (_, letters) in LANGUAGES.items()},
    }.items():
        words = [letter + other for letter in letters for other in letters]
        for test in ("WEAT6", "WEAT7"):
            row = {"language": code, "weat": test}
            for number, key in enumerate(SETS):
                chosen = words[5 * number : 5 * number + 5]
                row |= {f"{key}.category": key, f"{key}.examples": [*chosen, chosen[0]]}
            rows.append(row)
    pd.DataFrame(rows).to_parquet(path)
    return path


@pytest.mark.thorough
def test_association_tests_of_weathub_are_those_of_the_language(root, tmp_path, capsys):
    checkpoint = write_folder(dual_files("siglip2", tmp_path / "made"), tmp_path / "multilingual")
    tests = [
        f"exp.file={draw_weathub(tmp_path / 'original_weat.parquet')}",
        "exp.languages=['${language.code}']",
    ]
    model = ["model=hf", f"model.id={checkpoint}", "model.languages=[multilingual]", "trainer=cpu"]
    swept = command(
        *(tmp_path / "out", "-m", "language=en,es,zh,ar", "exp=eat", *tests, f"dataset.root={root}"),
        *("dataset=photos", *model, "trainer.workers=0", "report=false", *store_overrides(tmp_path)[:-1]),
    )
    assert swept.code == 0, capsys.readouterr().out
    analyses = swept.analyses()
    codes = analyses["language"].fillna("en")
    assert {*zip(analyses["test"], codes, strict=True)} == {
        (f"{test} {code}", code) for test in ("WEAT6", "WEAT7") for code in ("en", *LANGUAGES)
    }
    assert {*analyses["n_x"]} == {5}


@pytest.mark.thorough
def test_languages_of_a_sweep_are_measured_and_reused(root, tmp_path, capsys):
    checkpoint = write_folder(dual_files("siglip2", tmp_path / "made"), tmp_path / "multilingual")
    model = ["model=hf", f"model.id={checkpoint}", "model.languages=[multilingual]", "trainer=cpu"]
    given = [f"dataset.root={root}", *model, *SMALL, "trainer.workers=0", *store_overrides(tmp_path)[:-1]]
    for exp, codes in SWEEPS.items():
        sweep = ["-m", f"language={codes}", f"exp={exp}", "dataset=photos", *given]
        swept = command(tmp_path / exp, *sweep)
        assert swept.code == 0, capsys.readouterr().out
        analyses = swept.analyses()
        assert set(analyses["language"].fillna("en")) == {*codes.split(",")}
        assert analyses.groupby("protocol").ngroups == len(codes.split(","))
        # Some Arabic phrases have more bytes than the context of the small checkpoint holds.
        unread = analyses.groupby("language")["n_unread"].max().to_dict()
        has_phrases = exp == "labels_to_scenes"
        assert {code for code, count in unread.items() if count} == ({"ar"} if has_phrases else set())
        assert analyses[analyses["language"].isna()]["n_texts"].isna().all()
        page = (swept.output / "report" / "index.html").read_text("utf-8")
        assert all(f"language={code}" in page for code in codes.split(",")[1:])
        again = command(tmp_path / f"{exp}-again", *sweep, "report=false")
        assert (again.code, again.passes) == (0, 0)
