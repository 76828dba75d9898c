"""Lists of words with ratings."""

import pytest

from src.configs import VaderConfig
from src.errors import InputError
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
        frame, expected, notes = lexicons.vader(VaderConfig(None, 0))
        assert frame["word"].str.fullmatch("[a-z]+").all()
        assert frame["word"].is_unique
        assert frame["valence"].between(0, 1).all()
        assert expected - len(frame) == sum(int(note.split()[0]) for note in notes)
        assert len(notes) == 2
        # From the lexicon itself: abandon has a mean of -1.9.
        assert frame.set_index("word")["valence"]["abandon"] == pytest.approx((4 - 1.9) / 8)

    def test_a_draw_is_seeded(self):
        first, again, other = (lexicons.vader(VaderConfig(100, seed))[0] for seed in (0, 0, 1))
        assert first.equals(again)
        assert not first.equals(other)


GERMAN = [
    "English Word\tValence\tArousal\tDominance\tGerman Word",
    "abandon\t0.052\t0.5\t0.2\tverlassen",
    "leave\t0.250\t0.5\t0.2\tverlassen",
    "joy\t0.98\t0.8\t0.7\tFreude",
    "yea\t0.7\t0.4\t0.5\tNO TRANSLATION",
    "nay\t0.3\t0.4\t0.5\t",
]


class TestOtherLanguages:
    @pytest.fixture
    def german(self, tmp_path):
        path = tmp_path / "German-NRC-VAD-Lexicon.txt"
        path.write_text("\n".join(GERMAN) + "\n", "utf-8")
        return path

    @pytest.mark.parametrize("layout", ["nrc_vad", "nrc_vad_v2"])
    def test_a_translated_file_is_not_read_as_english_without_a_word(self, german, layout):
        for place in (german, german.parent):
            with pytest.raises(
                InputError,
                match=r"German-NRC-VAD-Lexicon.txt, row 1: words stand in the columns English Word, "
                r"German Word. Set words.word to one of them.",
            ):
                load(layout, place)

    def test_either_column_is_read_on_request(self, german):
        frame, expected, notes = load("nrc_vad", german, word="English Word")
        assert frame["word"].tolist() == ["abandon", "leave", "joy", "yea", "nay"]
        assert (expected, notes) == (5, [])
        frame, expected, notes = load("nrc_vad", german, word="German Word")
        assert frame["word"].tolist() == ["verlassen", "Freude"]
        assert frame["valence"].tolist() == pytest.approx([0.151, 0.98])
        assert expected == 5
        assert notes == [
            "2 have no German Word",
            "1 repeat a word of German Word, whose valence is the mean of its rows",
        ]

    def test_of_a_hundred_languages_those_are_named_that_fit(self, tmp_path):
        languages = [f"Language {number}" for number in range(100)]
        header = ["English Word", "Valence", "Arousal", "Dominance", *languages]
        path = tmp_path / "all.txt"
        path.write_text("\t".join(header) + "\n" + "\t".join(["joy", "1", "0", "0", *languages]) + "\n")
        with pytest.raises(InputError, match=r"columns English Word, Language 0, .*\. Set words.word"):
            load("nrc_vad", path)
        assert load("nrc_vad", path, word="Language 42")[0]["word"].tolist() == ["Language 42"]

    def test_an_unknown_column_names_those_there_are(self, german):
        with pytest.raises(
            InputError, match=r"row 1: no column German; found English Word, Valence, .*Set words"
        ):
            load("nrc_vad", german, word="German")
        drawn.nrc_vad(german.parent / "bare")
        with pytest.raises(InputError, match=r"row 1: no header with a column German.* Set words.word=null"):
            load("nrc_vad", german.parent / "bare", word="German")

    def test_a_translated_file_without_its_header_is_refused(self, german):
        german.write_text("\n".join(GERMAN[1:]) + "\n", "utf-8")
        with pytest.raises(InputError, match=r"row 1: 'verlassen' after word, .* no header.*set words.word"):
            load("nrc_vad", german)

    def test_columns_of_numbers_are_no_languages(self, tmp_path):
        path = tmp_path / "a.txt"
        path.write_text("term\tvalence\tarousal\tdominance\traters\njoy\t0.9\t0\t0\t9\n")
        assert load("nrc_vad", path)[0]["word"].tolist() == ["joy"]

    def test_valence_is_the_column_of_its_name(self, tmp_path):
        path = tmp_path / "a.txt"
        path.write_text("Word\tArousal\tValence\njoy\t0.1\t0.9\n")
        assert load("nrc_vad", path)[0]["valence"].tolist() == [0.9]

    @pytest.mark.parametrize("name", ["arousal-NRC-VAD-Lexicon.txt", "d-scores.txt"])
    def test_the_file_of_another_dimension_is_not_read_as_valence(self, tmp_path, name):
        (tmp_path / name).write_text("joy\t0.1\n")
        with pytest.raises(InputError, match=rf"{name}: .*not valence. .*words.path"):
            load("nrc_vad", tmp_path / name)

    def test_a_csv_of_ratings_in_another_language(self, tmp_path):
        path = tmp_path / "spanish.csv"
        path.write_text("\ufeffPalabra,Inglés,ValenceMean\nalegría,joy,8.2\nnulo,null,4\n", "utf-8")
        with pytest.raises(InputError, match=r"no column Word, V.Mean.Sum; found Palabra.* Set words.word"):
            load("warriner", path)
        frame, _, _ = load("warriner", path, word="Palabra", valence="ValenceMean")
        assert frame["word"].tolist() == ["alegría", "nulo"]
        assert frame["valence"].tolist() == pytest.approx([7.2 / 8, 3 / 8])

    @pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "latin-1"])
    def test_other_encodings_are_refused(self, german, encoding):
        german.write_bytes("\n".join([*GERMAN, "nice\t0.9\t0.4\t0.5\tschön"]).encode(encoding))
        with pytest.raises(InputError, match="Save it as text in UTF-8"):
            load("nrc_vad", german, word="German Word")

    def test_a_byte_order_mark_is_no_part_of_a_name(self, german):
        german.write_text("\n".join(GERMAN), "utf-8-sig")
        assert len(load("nrc_vad", german, word="English Word")[0]) == 5

    def test_commas_in_place_of_tabs(self, tmp_path):
        (tmp_path / "a.txt").write_text("word,valence\njoy,0.9\n")
        with pytest.raises(
            InputError, match=r"row 1: no tab in 'word,valence'. Write a tab between word and valence"
        ):
            load("nrc_vad", tmp_path / "a.txt")
