"""Sweep over perturbations of pictures on the shrunk built-in world, whose toy saw pictures as they are."""

import pandas as pd
import pytest

from tests.commands import command
from tests.conftest import SHRUNK, store_overrides

pytestmark = pytest.mark.thorough

PERTURBATIONS = ["none", "grey", "grey_background", "flip"]
EXPERIMENTS = ["faces_to_words", "scenes_zero_shot", "cles_warmth", "sobit_association", "eat"]
ARGUMENTS = ["-m", f"perturb={','.join(PERTURBATIONS)}", f"exp=glob([{','.join(EXPERIMENTS)}])", *SHRUNK]
ARGUMENTS += ["protocol.partitions=20", "protocol.vocabulary=0", "protocol.permutations=0"]
MEASURES = {
    "faces_to_words": "level",
    "scenes_zero_shot": "accuracy",
    "cles_warmth": "cles",
    "sobit_association": "association",
    "eat": "d",
}


@pytest.fixture(scope="module")
def swept(stores, sweeps, tmp_path_factory):
    output = tmp_path_factory.mktemp("perturb")
    separate = [f"store.dir={output}/vectors", f"tracking.uri=sqlite:///{output}/mlflow.db"]
    return command(output, *ARGUMENTS, *store_overrides(stores), *separate, "report=true")


def read(swept, name):
    return pd.read_csv(swept.output / "report" / "tables" / f"{name}.csv")


def test_the_toy_is_trained_on_pictures_as_they_are_and_only_pictures_are_embedded_again(swept):
    assert swept.code == 0
    assert swept.trained == 0
    entries = pd.Series([path.parent.parent.name for path in swept.output.glob("vectors/*/*/manifest.json")])
    counts = entries.value_counts()
    assert (counts["faces"], counts["words"], counts["labels"]) == (4, 1, 1)
    assert counts["scenes"] == 3  # grey_background does not change scenes


def test_vectors_of_pictures_as_they_are_are_those_of_the_main_job(swept, sweeps):
    plain = swept.analyses().query("perturb == 'none' and exp == 'faces_to_words'").set_index("stratum")
    main_job = sweeps[0].analyses().query("exp == 'faces_to_words'").set_index("stratum")
    pd.testing.assert_series_equal(plain["level"], main_job["level"], check_exact=True)


def test_every_measure_is_compared_and_what_does_not_apply_is_listed(swept):
    table = read(swept, "perturbations")
    compared = table.dropna(subset=["change"])
    for exp, measure in MEASURES.items():
        rows = compared[(compared["exp"] == exp) & (compared["measure"] == measure)]
        expected = {"grey", "flip"} if exp == "scenes_zero_shot" else {"grey", "grey_background", "flip"}
        assert {*rows["perturb"]} == expected, exp
        assert rows["change_low"].notna().all(), exp
    (lost,) = table[table["change"].isna()].to_dict("records")
    assert (lost["exp"], lost["perturb"]) == ("scenes_zero_shot", "grey_background")
    assert "not_applicable: perturb=grey_background: changes faces" in lost["reason"]


def test_without_colours_the_toy_does_not_tell_the_peoples_and_a_flip_changes_little(swept):
    """Peoples differ in the hue of their skin: the level falls with grey, more than with the background."""
    summary = read(swept, "perturbations-summary").query("exp == 'faces_to_words' and measure == 'level'")
    relative = summary.set_index("perturb")[["relative", "relative_low", "relative_high"]]
    assert relative.loc["grey", "relative_high"] < -0.5
    assert relative.loc["flip", "relative_low"] > relative.loc["grey", "relative_high"]
    assert relative.loc["grey_background", "relative_low"] > relative.loc["grey", "relative_high"]


def test_page_and_conclusions_name_the_perturbations(swept):
    page = (swept.output / "report" / "index.html").read_text()
    assert 'id="perturbations"' in page
    assert "With perturb=grey, what is measured changes by " in page
    assert all(name in page for name in PERTURBATIONS[1:])
    assert "built-in method" not in page
    assert (swept.output / "report" / "figures" / "perturbations.svg").is_file()
