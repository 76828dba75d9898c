"""Check words and labels in other languages: files of translations and norms, agreement, stems and notes."""

import unicodedata
from dataclasses import replace

import pandas as pd
import pytest
import yaml

from src import configs, stimuli
from src.configs import NormsConfig, NrcVadConfig, TranslatedLabelsConfig
from src.errors import InputError
from src.stimuli import clusters, languages, lexicons, norms, translated_labels
from tests.paths import CHECKOUT

HEADER = "English Word\tValence\tArousal\tDominance\tSpanish Word"
SPANISH = [
    "abandon\t0.052\t0.5\t0.2\tabandonar",
    "leave\t0.250\t0.5\t0.2\tabandonar",
    "joy\t0.98\t0.8\t0.7\talegri\u0301a",  # i with a combining accent: not in NFC
    "lad\t0.6\t0.4\t0.5\tchico, muchacho; chico",
    "yea\t0.7\t0.4\t0.5\tNO TRANSLATION",
    "nay\t0.3\t0.4\t0.5\t",
]


@pytest.fixture
def nrc_vad(tmp_path):
    """Write the English lexicon, and a file of translations in the folder of the publisher's zip."""
    folder = tmp_path / "nrc_vad" / "OneFilePerLanguage"
    folder.mkdir(parents=True)
    (folder.parent / "NRC-VAD-Lexicon.txt").write_text("abandon\t0.052\t0.5\t0.2\n")
    (folder / "Spanish-NRC-VAD-Lexicon.txt").write_text("\n".join([HEADER, *SPANISH]) + "\n", "utf-8")
    return folder.parent


def load_spanish(path, word=None):
    return lexicons.load_nrc_vad(NrcVadConfig(str(path), word, 0, 1, "Spanish"))


def test_translations_are_words_of_their_language(nrc_vad):
    frame, expected, notes = load_spanish(nrc_vad)
    assert frame["word"].tolist() == ["abandonar", "alegría", "chico", "muchacho"]
    assert frame["valence"].tolist() == pytest.approx([(0.052 + 0.25) / 2, 0.98, 0.6, 0.6])
    assert expected == 6
    assert notes == [
        "machine translations of English words, with the valences of the English words",
        "2 have no Spanish Word",
        "cells with several translations, each of which is a word: 1",
        "words brought into Unicode form NFC, with single blanks: 1",
        "1 repeat a word of Spanish Word, whose valence is the mean of its rows",
    ]
    english, _, notes = lexicons.load_nrc_vad(NrcVadConfig(str(nrc_vad), None, 0, 1))
    assert (english["word"].tolist(), notes) == (["abandon"], [])


def test_the_rated_words_are_in_english():
    rated = NrcVadConfig("x", None, -1, 1)
    assert languages.state_language(rated) == "en"
    for other in ({"word": "German Word"}, {"translation": "Spanish"}):
        assert languages.state_language(replace(rated, **other)) == ""


def test_the_release_of_2018_has_codes_in_its_names(nrc_vad):
    path = nrc_vad / "OneFilePerLanguage" / "Spanish-NRC-VAD-Lexicon.txt"
    older = path.with_name("Spanish-es-NRC-VAD-Lexicon.txt")
    path.rename(older)
    rows = [line.split("\t") for line in ("English\tValence\tArousal\tDominance\tSpanish-es", *SPANISH)]
    older.write_text("\n".join("\t".join([row[0], row[4], *row[1:4]]) for row in rows) + "\n", "utf-8")
    assert load_spanish(nrc_vad)[0]["word"].tolist() == ["abandonar", "alegría", "chico", "muchacho"]


def test_a_file_without_a_translated_word_is_refused(nrc_vad):
    path = nrc_vad / "OneFilePerLanguage" / "Spanish-NRC-VAD-Lexicon.txt"
    path.write_text(f"{HEADER}\nabandon\t0.052\t0.5\t0.2\tNO TRANSLATION\n", "utf-8")
    with pytest.raises(InputError, match=r"Lexicon.txt: no lines with a word in the column 'Spanish"):
        load_spanish(nrc_vad)


@pytest.mark.parametrize(
    ("name", "header", "message"),
    [
        (
            "French-NRC-VAD-Lexicon.txt",
            HEADER,
            r"0 files of Spanish, expected .*contains NRC-VAD.*French",
        ),
        ("Spanish-NRC-VAD-Lexicon.txt", HEADER.replace("Spanish", "French"), r"0 columns of Spanish"),
        ("Spanish-NRC-VAD-Lexicon.txt", f"{HEADER}\tSpanish", r"row 1: 2 columns of Spanish.*set words.word"),
    ],
)
def test_another_file_or_column_is_refused(nrc_vad, name, header, message):
    path = nrc_vad / "OneFilePerLanguage" / "Spanish-NRC-VAD-Lexicon.txt"
    path.write_text("\n".join([header, *SPANISH]) + "\n", "utf-8")
    path.rename(path.with_name(name))
    with pytest.raises(InputError, match=message):
        load_spanish(nrc_vad)


def read_stanza(name, file, **settings):
    fields = yaml.safe_load((CHECKOUT / "conf" / "words" / f"{name}.yaml").read_text("utf-8"))
    del fields["defaults"]
    return NormsConfig(**fields | {"path": str(file)} | settings)


# Stanza -> text of its file with its oddities, encoding, expected words and valences.
FILES = {
    "stadthagen2017": (
        "Word,ValenceMean,ValenceSD,ArousalMean\nniño,8.2,1,3\n,5,1,1\nmaldad,1,1,1\nniño,6.2,1,3\nayer,,1,2\n",
        "cp1252",
        {"niño": 6.2 / 8, "maldad": 0},
    ),
    "imbir2016": (
        "number,polish word,Valence_M,Valence_SD,arousal_M\n1,miłość,9,1,5\n2,zło,2,1,5\n3,nic,NA,,\n",
        "utf-8-sig",
        {"miłość": 1, "zło": 1 / 8},
    ),
    "moors2013": (
        "Norms,,,\nWords,M V,SD V,M A\nliefde,6.4,1,4\nnul,4,1,2\n,,,\n",
        "utf-8",
        {"liefde": 5.4 / 6, "nul": 0.5},
    ),
    "xu2022": (
        "Word,Valence_Mean,Arousal_Mean\n快乐,2.4,2\n灾难,-3,3\n",
        "utf-8",
        {"快乐": 5.4 / 6, "灾难": 0},
    ),
    "memolon": (
        'word\tvalence\tarousal\nfreude\t8.5\t6\n<UNK>\t5.1\t4\n"\t5\t4\nnull\t4\t3\n',
        "utf-8",
        {"freude": 7.5 / 8, '"': 0.5, "null": 3 / 8},
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_published_norms_are_read(tmp_path, name):
    text, encoding, expected = FILES[name]
    path = tmp_path / "norms.csv"
    path.write_bytes(text.encode(encoding))
    settings = {"language": "de"} if name == "memolon" else {}
    frame, _, notes = norms.load(read_stanza(name, path, **settings))
    assert dict(zip(frame["word"], frame["valence"], strict=True)) == pytest.approx(expected)
    counts = {
        "stadthagen2017": [
            "1 without a word",
            "1 without a rating",
            "1 repeat a word, whose valence is the mean of its rows",
        ],
        "imbir2016": ["1 without a rating"],
        "moors2013": [],
        "xu2022": [],
        "memolon": ["ratings predicted by a model, not given by people", "1 left out by words.drop"],
    }
    assert sorted(notes) == sorted(counts[name])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"encoding": "utf-8"},
            r"not in words.encoding=utf-8 \(.*Set words.encoding to the file's",
        ),
        ({"encoding": "utf-99"}, r"words.encoding=utf-99: unknown"),
        (
            {"valence": "Valence"},
            r"no column Valence; found Word, Val.*Set words.word, words.valence",
        ),
        ({"high": 7}, r"row 2: valence '8.2' of 'niño' is outside \[1, 7\]. .*set words.low and words.high"),
        ({"high": 0}, r"words.low=1, words.high=0: expected finite numbers"),
        ({"path": "nowhere.csv"}, r"nowhere.csv: no such file. Set words.path"),
    ],
)
def test_norms_that_do_not_fit_are_refused(tmp_path, settings, message):
    path = tmp_path / "norms.csv"
    path.write_bytes(FILES["stadthagen2017"][0].encode("cp1252"))
    with pytest.raises(InputError, match=message):
        norms.load(read_stanza("stadthagen2017", path, **settings))


def test_decimal_commas_are_read_where_they_are_declared(tmp_path):
    path = tmp_path / "norms.csv"
    path.write_text("Ord;Valens\nglad;8,2\n", "utf-8")
    cfg = NormsConfig(str(path), "sv", "Ord", "Valens", 1, 9, "semicolon", decimal_comma=True)
    assert norms.load(cfg)[0]["valence"].tolist() == pytest.approx([7.2 / 8])


LABELS = {
    "language": "es",
    "phrase": "{gender} {race}",
    "race_words": {"Black": ["negro"], "Asian": ["japonés"]},
    "gender_words": {"Women": ["mujer", "agua"], "Men": ["hombre"]},
    "classes": {"agua": "neuter"},
    "forms": {
        "Women": {"negro": "negra", "japonés": "japonesa"},
        "neuter": {"negro": "lo negro", "japonés": "lo japonés"},
    },
    "source": "drawn",
}


def test_race_words_agree_with_gender_words():
    frame, expected, notes = translated_labels.compose_phrases(TranslatedLabelsConfig(**LABELS))
    assert frame["word"].tolist() == [
        *("mujer negra", "agua lo negro", "hombre negro"),
        *("mujer japonesa", "agua lo japonés", "hombre japonés"),
    ]
    assert expected == 6
    assert frame.iloc[0].to_dict() == {
        **{"word": "mujer negra", "group": "Black Women", "race": "Black", "gender": "Women"},
        **{"race_word": "negro", "gender_word": "mujer"},
    }
    assert notes == ["phrases are a draft that no speaker has reviewed (drawn)"]
    reviewed = TranslatedLabelsConfig(**LABELS | {"review": "reviewed: a speaker"})
    assert translated_labels.compose_phrases(reviewed)[2] == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"phrase": "{race} woman"},
            r"labels.phrase='{race} woman': expected {race} and {gender}, each once",
        ),
        ({"phrase": "{race} {gender} {race}"}, r"each once"),
        ({"phrase": "{race} {gender"}, r"each once"),
        ({"classes": {"dama": "neuter"}}, r"labels.classes: dama: not in the lists"),
        ({"forms": {"fem": {}}}, r"labels.forms: fem: not in the lists"),
        ({"forms": {"Women": {"azul": "azul"}}}, r"labels.forms.Women: azul: not in the lists"),
        ({"forms": {"Women": {"negro": "negra"}}}, r"labels.forms.Women: no form of japonés. Add it"),
        ({"review": "by me"}, r"labels.review, language es: expected draft or 'reviewed: NAME', got 'by me'"),
        ({"review": "reviewed: "}, r"expected draft or 'reviewed: NAME'"),
        ({"gender_words": {"Women": ["mujer", "mujer", "agua"]}}, r"the phrase 'mujer negra' occurs twice"),
    ],
)
def test_wrong_forms_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        translated_labels.compose_phrases(TranslatedLabelsConfig(**LABELS | settings))


LANGUAGES = sorted(path.stem for path in (CHECKOUT / "conf" / "language").glob("*.yaml"))


@pytest.mark.parametrize("code", LANGUAGES)
def test_every_language_is_complete(code):
    """Check groups, templates, forms, Unicode form and marks of review of each YAML."""
    folder = CHECKOUT / "conf"
    text = (folder / "language" / f"{code}.yaml").read_text("utf-8")
    fields, english = (
        yaml.safe_load(text),
        yaml.safe_load((folder / "language" / "en.yaml").read_text("utf-8")),
    )
    assert fields["code"] == code
    assert len({*fields["templates"]}) == len(english["templates"]) == 6
    assert all(template.count("{}") == 1 for template in fields["templates"])
    languages.check_review(fields["review"], code)
    if fields["stemmer"] is not None:
        languages.check_stemmer(fields["stemmer"])
    path = folder / "labels" / f"race_gender_{code}.yaml"
    assert text == unicodedata.normalize("NFC", text)
    assert (f"race_gender_{code}" in text) == path.is_file()
    if not path.is_file():
        return
    content = path.read_text("utf-8")
    labels = yaml.safe_load(content)
    assert content == unicodedata.normalize("NFC", content)
    del labels["defaults"]
    assert labels["language"] == code
    assert labels["source"]
    frame, _, _ = translated_labels.compose_phrases(TranslatedLabelsConfig(**labels))
    groups = {f"{race} {gender}" for race in ("Asian", "Black", "White") for gender in ("Women", "Men")}
    assert frame["group"].value_counts().nunique() == 1
    assert {*frame["group"]} == groups
    assert len(frame) >= 400


def test_eight_languages_or_more_have_labels():
    assert len([*(CHECKOUT / "conf" / "labels").glob("race_gender_*.yaml")]) >= 8
    assert {"en", "es", "de", "fr", "pt", "zh", "ja", "ko", "ar", "hi", "tr", "ru"} <= {*LANGUAGES}


def test_the_fallback_of_tables_without_language_is_english():
    fields = yaml.safe_load((CHECKOUT / "conf" / "language" / "en.yaml").read_text("utf-8"))
    assert (fields["stemmer"], fields["plurals"]) == (clusters.STEMMER, clusters.PLURALS)


def table_of(role, words):
    column = {"words": {"valence": 0.5}, "labels": {"group": "g"}}[role]
    rows = pd.DataFrame({**words, **column, "template": "{}"})
    return stimuli.build_table(role, rows.assign(id=rows["word"], sentence=rows["word"]), "t")


def language_of(code, **settings):
    fields = yaml.safe_load((CHECKOUT / "conf" / "language" / f"{code}.yaml").read_text("utf-8"))
    return configs.LanguageConfig(**{k: v for k, v in fields.items() if k != "defaults"} | settings)


def clusters_of(words, language):
    table = languages.add_clusters(table_of("words", {"word": words}), language)
    by_word = dict(zip(table.frame["word"], clusters.assign_clusters(table)["cluster"], strict=True))
    return by_word, table.notes


def test_words_are_clustered_by_the_stems_of_their_language():
    by_word, notes = clusters_of(["Gatos", "gato", "perro"], language_of("es"))
    assert by_word["Gatos"] == by_word["gato"] != by_word["perro"]
    assert notes == ()
    by_word, notes = clusters_of(["快乐", "快乐的"], language_of("zh"))
    assert by_word == {"快乐": "快乐", "快乐的": "快乐的"}
    assert notes == ("words are their own stems: no stemmer for Chinese",)
    # In Turkish, the lower case of I is ı: ISI is ısı, heat.
    by_word, _ = clusters_of(["ISI", "ısı"], language_of("tr"))
    assert by_word["ISI"] == by_word["ısı"]
    with pytest.raises(InputError, match=r"language.stemmer=spansh: .*Did you mean 'spanish'\?"):
        clusters_of(["gato"], language_of("es", stemmer="spansh"))


def test_english_tables_and_clusters_of_the_table_remain_as_they_are():
    words = table_of("words", {"word": ["run", "runs"]})
    assert languages.add_clusters(words, language_of("en")) is words
    clustered = table_of("words", {"word": ["run", "runs"], "cluster": ["a", "b"]})
    assert languages.add_clusters(clustered, language_of("es")).frame["cluster"].tolist() == ["a", "b"]


def test_labels_share_a_lemma_by_the_plurals_of_their_language():
    rows = {"word": ["mujer ab", "mujer abs", "mujer gatoe"], "race_word": ["ab", "abs", "abe"]}
    labels = table_of("labels", rows | {"gender_word": ["mujer"] * 3, "race": "r", "gender": "w"})
    spanish = languages.add_clusters(labels, language_of("es"))
    assert clusters.assign_clusters(spanish)["race_lemma"].tolist() == ["ab", "ab", "abe"]
    without = languages.add_clusters(labels, language_of("de"))
    assert clusters.assign_clusters(without)["race_lemma"].tolist() == ["ab", "abs", "abe"]
    other = languages.add_clusters(labels, language_of("de", plurals={"*": "*e"}))
    assert clusters.assign_clusters(other)["race_lemma"].tolist() == ["ab", "abs", "ab"]
