"""The published files themselves, read in place."""

import pytest

from tests.paths import SHARED
from tests.stimuli.layouts import load

pytestmark = pytest.mark.skipif(not SHARED.is_dir(), reason="the published files are not at hand")


def test_oasis_has_806_of_900_pictures_here():
    frame, expected, notes = load("oasis", SHARED / "oasis")
    assert (len(frame), expected) == (806, 900)
    assert notes == ["94 rows of OASIS.csv have no picture"]
    # Acorns 1 is rated 4.68627451 of 7.
    assert frame.set_index("id")["valence"]["Acorns 1"] == pytest.approx(3.68627451 / 6)
    assert {"War 2", "Monkey 3"} <= set(frame["id"])


def test_nrc_vad_has_19971_words():
    frame, expected, notes = load("nrc_vad", SHARED / "nrc_vad")
    assert (len(frame), expected, notes) == (19_971, 19_971, [])
    words = set(frame["word"])
    assert {"null", "abdominal"} <= words
    assert sum(" " in word for word in words) == 132


def test_fairface_has_a_thousand_faces_of_each_group():
    frame, expected, _ = load("fairface", SHARED / "fairface", ages=["20-29"], per_group=30)
    assert expected == 6_000
    assert frame.groupby("group").size().tolist() == [30] * 4
    assert frame["age"].unique() == ["20-29"]
