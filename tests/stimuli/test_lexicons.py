"""Lists of words with ratings."""

import pytest

from src.stimuli import lexicons
from tests.stimuli import drawn
from tests.stimuli.layouts import load, made


class TestNrcVad:
    def test_every_row_is_a_word(self, tmp_path):
        frame, expected, notes = made("nrc_vad", tmp_path)
        assert frame["word"].tolist() == ["abandon", "abdominal", "null", "nan", "a la carte"]
        assert frame["valence"].tolist() == [0.052, 0.49, 0.3, 0.31, 0.7]
        assert (expected, notes) == (5, [])

    def test_a_header_is_no_word_and_changes_nothing(self, tmp_path):
        bare, _, _ = made("nrc_vad", tmp_path)
        path = tmp_path / "NRC-VAD-Lexicon.txt"
        path.write_text("Word\tValence\tArousal\tDominance\n" + path.read_text())
        frame, expected, _ = load("nrc_vad", tmp_path)
        assert frame.equals(bare)
        assert expected == 5

    @pytest.mark.parametrize("word", ["word", "term", "valence"])
    def test_a_word_in_the_first_row_is_no_header(self, tmp_path, word):
        path = drawn.nrc_vad(tmp_path) / "NRC-VAD-Lexicon.txt"
        path.write_text(f"{word}\t0.6\t0.2\t0.1\n" + path.read_text())
        frame, _, _ = load("nrc_vad", tmp_path)
        assert frame["word"].iloc[0] == word

    def test_version_2_is_rescaled_from_its_own_scale(self, tmp_path):
        frame, expected, notes = made("nrc_vad_v2", tmp_path)
        assert frame["word"].tolist() == ["valence", "abandon", "power surge", "joy"]
        assert frame["valence"].tolist() == [0.75, 0, 0.5, 1]
        assert (expected, notes) == (4, [])


class TestWarriner:
    def test_means_from_1_to_9_become_valences(self, tmp_path):
        frame, expected, notes = made("warriner", tmp_path)
        assert frame["word"].tolist() == ["aardvark", "null", "worst", "best"]
        assert frame["valence"].tolist() == pytest.approx([5.26 / 8, 3 / 8, 0, 1])
        assert (expected, notes) == (4, [])

    def test_the_file_may_have_any_name(self, tmp_path):
        path = drawn.warriner(tmp_path) / "BRM-emot-submit.csv"
        moved = path.rename(tmp_path / "ratings.csv")
        assert load("warriner", tmp_path)[0].equals(load("warriner", moved)[0])


class TestVader:
    def test_alphabetic_words_with_ratings_in_range(self):
        frame, expected, notes = lexicons.vader(None, 0)
        assert frame["word"].str.fullmatch("[a-z]+").all()
        assert frame["word"].is_unique
        assert frame["valence"].between(0, 1).all()
        assert expected - len(frame) == sum(int(note.split()[0]) for note in notes)
        assert len(notes) == 2
        # From the lexicon itself: abandon has a mean of -1.9.
        assert frame.set_index("word")["valence"]["abandon"] == pytest.approx((4 - 1.9) / 8)

    def test_a_draw_is_seeded(self):
        first, again, other = (lexicons.vader(100, seed)[0] for seed in (0, 0, 1))
        assert first.equals(again)
        assert not first.equals(other)
