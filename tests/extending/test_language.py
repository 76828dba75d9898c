"""Define a language outside of src: one YAML, and a file of rated words."""

from itertools import product

import pandas as pd
import pytest

from tests.extending.conftest import TOY, WORLD

NORMS = ["words=norms", "words.word=Vorto", "words.valence=Valoro", "words.low=1", "words.high=9"]
WORLD = [override for override in WORLD if not override.startswith("words.")]


@pytest.mark.thorough
def test_a_language_is_a_yaml_and_its_words(run, jobs, tmp_path, capsys):
    path = tmp_path / "vortoj.csv"
    stems = map("".join, product("abcdefgh", repeat=2))
    rows = [f"vort{stem}o,{1 + number % 9}" for number, stem in enumerate(stems)]
    path.write_text("\n".join(["Vorto,Valoro", *rows]) + "\n", "utf-8")
    choices = ["language=eo", "language.unclaimed=true", *NORMS, f"words.path={path}"]
    swept = run("out", *choices, *TOY, *WORLD, "exp=labels_to_scenes,scenes_to_words,warmth_eo")
    assert swept.code == 0, capsys.readouterr().out
    analyses = swept.analyses()
    assert set(analyses["language"]) == {"eo"}
    assert set(analyses["protocol"].str.rpartition("+")[2]) == {"language=eo"}
    targets = pd.read_parquet(swept.results("labels_to_scenes") / "targets.parquet")
    assert {"nifita virino", "lapidevena reĝo"} <= set(targets["id"])
    assert len(targets) == 3 * 2 * 2 * 3
    cosines = pd.read_parquet(swept.results("warmth_eo") / "similarities.parquet")
    assert {"varma", "amika"} <= {*cosines.astype(str).to_numpy().ravel()}
    for job in jobs():
        assert job.tags["language"] == "eo"
        assert "the model does not claim Esperanto (declared: en)" in job.tags["notes"]
        is_draft = "templates in Esperanto are a draft" in job.tags["notes"]
        assert is_draft == (job.tags["exp"] != "warmth_eo")
    assert "language=eo" in (swept.output / "report" / "index.html").read_text("utf-8")
