"""Check names and keys of jobs in other languages, and the models and experiments that support them."""

import json

import pytest

from src import stimuli
from src.errors import InputError, NotApplicable
from src.jobs import plan
from src.jobs.identity import without_unhashed_fields
from src.jobs.language_check import check_language, describe_claim
from src.jobs.run_metadata import name_run, name_sweep, select_settings
from src.studies.eat.published_tests import SETS
from src.studies.protocol import load_study
from tests.commands import SMALL, command
from tests.conftest import precomputed, store_overrides

PHOTOS = ("dataset=photos", "dataset.root=x")
LABELS = "exp=labels_to_scenes"


def test_english_is_in_no_name_and_key_and_another_language_is_in_both(job):
    english, spanish, german = (job(*PHOTOS, LABELS, f"language={code}") for code in ("en", "es", "de"))
    assert job(*PHOTOS, LABELS).config_hash == english.config_hash
    # As jobs are that were run before languages became configurable.
    assert not {"language"} & {*english.resolved, *english.columns}
    assert "translation" not in english.resolved["labels"] | english.resolved["words"]
    assert (english.protocol, english.label.split()[-3:]) == ("paper", ["paper", "seed", "0"])
    assert spanish.columns["language"] == "es"
    assert spanish.protocol == "paper+language=es"
    assert name_run(spanish) == "toy_m · labels_to_scenes · language=es"
    assert "paper, language=es" in name_sweep([english, spanish])
    assert len({each.config_hash for each in (english, spanish, german)}) == 3
    assert select_settings(spanish)["language"]["stemmer"] == "spanish"
    assert "language" not in select_settings(english)


def test_a_language_changes_templates_labels_and_translations(job):
    spanish = job(*PHOTOS, LABELS, "language=es").cfg
    assert spanish.templates[0] == "Esta es la palabra {}"
    labels = stimuli.load(spanish, "labels")
    words = set(labels.frame["word"])
    assert {"mujer negra", "hombre negro"} <= words
    assert not {"negra mujer", "mujer negro", "black woman"} & words
    assert "Esta es la palabra mujer negra" in set(labels.frame["sentence"])
    assert any("phrases are a draft" in note for note in labels.notes)
    assert any("templates in Spanish are a draft" in note for note in labels.notes)
    assert spanish.words.translation == "Spanish"
    # Templates that are typed win, and are no draft of the language.
    typed = job(*PHOTOS, LABELS, "language=es", "templates=['la {}']").cfg
    assert typed.templates == ["la {}"]
    assert not any("templates" in note for note in stimuli.load(typed, "labels").notes)


@pytest.mark.thorough
def test_a_review_changes_no_key_and_a_stemmer_does(job):
    spanish = job(*PHOTOS, LABELS, "language=es")
    reviewed = ("language.review='reviewed: a speaker'", "language.labels.review='reviewed: another'")
    assert job(*PHOTOS, LABELS, "language=es", *reviewed).config_hash == spanish.config_hash
    assert job(*PHOTOS, LABELS, "language=es", "language.unclaimed=true").protocol == spanish.protocol
    changed = job(*PHOTOS, LABELS, "language=es", "language.stemmer=null")
    assert changed.protocol == "paper+language=es+stemmer=None"
    assert job("language.stemmer=null").protocol == "paper+language=en+stemmer=None"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("overrides", "role", "message"),
    [
        (("dataset=demo",), "words", r"words: in the language en, expected es. Choose words=norms"),
        (("dataset=demo",), "labels", r"labels: in the language en, expected es. Add labels of the same"),
        ((*PHOTOS, "words=imbir2016"), "words", r"words: in the language pl, expected es"),
        ((*PHOTOS, "words=nrc_vad_v2"), "words", r"words: in the language en, expected es"),
        ((*PHOTOS, "labels=race_gender_fr"), "labels", r"labels: in the language fr, expected es"),
        ((*PHOTOS, "language.review=mine"), "labels", r"language.review: expected draft or 'reviewed: NAME'"),
    ],
)
def test_stimuli_of_another_language_are_refused(job, overrides, role, message):
    with pytest.raises(InputError, match=message):
        stimuli.load(job(*overrides, "language=es").cfg, role)


@pytest.mark.thorough
def test_translated_labels_of_other_groups_are_refused(job):
    other = job(*PHOTOS, "language=es", "+labels.race_words.Other=[x]")
    with pytest.raises(InputError, match="labels: in the language en, expected es"):
        stimuli.load(other.cfg, "labels")


UNDECLARED = "model.id=ViT-B-32/laion2b_s34b_b79k"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ((LABELS, "model=clip_b32"), r"model=clip_b32 does not claim Spanish \(declared: en\). To run"),
        ((LABELS, "model=chinese_clip_b16"), r"does not claim Spanish \(declared: zh\)"),
        ((LABELS, "model=open_clip", UNDECLARED), r"does not claim Spanish \(no language is declared\)"),
        ((LABELS, "model=toy_s"), r"does not claim Spanish \(declared: en\)"),
        (
            ("exp=cles_warmth", "model=siglip2_b16"),
            r"the texts of exp=cles_warmth are in the language en. Write them in Spanish in "
            r"exp/cles_warmth_es.yaml \(all texts, and language: es\)",
        ),
        (
            ("exp=sobit_association", "model=siglip2_b16"),
            r"taxonomy/sobit_es.yaml \(captions and categories, and language: es\).* taxonomy=sobit_es;",
        ),
        (
            ("exp=harms", "model=siglip2_b16"),
            r"Spanish in classes/clip_es.yaml \(templates, groups and kinds",
        ),
        ((LABELS, "model=siglip2_b16", "debias=orth_proj"), r"the prompts of debias=orth_proj are in Engl"),
    ],
)
def test_what_does_not_support_a_language_is_not_applicable(job, overrides, message):
    with pytest.raises(NotApplicable, match=message):
        check_language(job(*PHOTOS, *overrides, "language=es"))
    check_language(job(*PHOTOS, *overrides))


AUDIT = ("exp=cles_warmth", "exp.language=es", "exp.template='Una foto de una cara {}'")
TAXONOMY = ("exp=sobit_association", "taxonomy.language=es", "taxonomy.captions.noun='una foto de {word}'")
TAXONOMY += ("taxonomy.captions.adjective='una cara {word}'", "taxonomy.captions.activity='alguien {word}'")
CLASSES = ("exp=harms", "classes.language=es", "classes.templates=['una foto de {word}']")
TESTS = ("exp=eat", "exp.file=tests.json", "exp.languages=['${language.code}']")


def test_experiments_take_the_language_of_their_lists(job, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sets = {key: {"category": key, "examples": [f"{key} a", f"{key} b"]} for key in SETS}
    rows = [{"weat": "WEAT1", "language": code, **sets} for code in ("en", "es")]
    (tmp_path / "tests.json").write_text(json.dumps(rows))
    for overrides in (AUDIT, TAXONOMY, TESTS):
        spanish = job(*PHOTOS, *overrides, "model=siglip2_b16", "language=es")
        check_language(spanish)
    assert {*load_study(spanish.cfg.exp).prompts(spanish.cfg).frame["group"]} == {
        f"WEAT1 es: {key} ({letter})" for key, letter in zip(SETS, "XYAB", strict=True)
    }


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            (*TAXONOMY, "taxonomy.captions.noun='{article} {word}'"),
            "{article} is for English. Write the article into the texts",
        ),
        (CLASSES, "classes=clip: without classes.groups, classes are made from the English names"),
    ],
)
def test_rules_of_english_are_refused_in_another_language(job, overrides, message):
    with pytest.raises(InputError, match=message):
        check_language(job(*overrides, "model=siglip2_b16", "language=es"))


def test_the_language_of_english_lists_is_in_no_key(job):
    for overrides in (("exp=cles_warmth",), ("exp=harms",)):
        english = job(*overrides)
        assert english.config_hash == job(*overrides, "exp.language=en", "classes.language=en").config_hash
        for group in ("exp", "classes"):
            assert "language" not in without_unhashed_fields(group, english.resolved.get(group, {}))
    assert job("exp=cles_warmth", "exp.language=es").config_hash != job("exp=cles_warmth").config_hash


@pytest.mark.thorough
def test_an_unclaimed_language_is_run_when_the_user_says_so_and_is_noted(job):
    unclaimed = job(*PHOTOS, LABELS, "model=clip_b32_hf", "language=es", "language.unclaimed=true")
    check_language(unclaimed)
    assert describe_claim(unclaimed) == ["the model does not claim Spanish (declared: en)"]
    for claimed in ("model=siglip2_b16", "model=nllb_clip_base", "model.languages=[es,fr]"):
        model = () if claimed.startswith("model=") else ("model=clip_b32",)
        multilingual = job(*PHOTOS, LABELS, *model, claimed, "language=es")
        check_language(multilingual)
        assert describe_claim(multilingual) == []
    plain = job(*PHOTOS, LABELS, "model=clip_b32")
    assert job(*PHOTOS, LABELS, "model=clip_b32", "model.languages=[es]").config_hash == plain.config_hash
    assert job(*PHOTOS, LABELS, "model=clip_b32", "model.languages=[es]").model == "clip_b32"


@pytest.mark.thorough
def test_a_plan_refuses_a_model_that_does_not_claim_the_language(job):
    with pytest.raises(NotApplicable, match="does not claim Spanish"):
        plan.plan(job(*PHOTOS, LABELS, "model=clip_b32", "language=es"))


def test_a_plan_refuses_english_captions_of_pictures_without_drawing_any(job, tmp_path):
    stimuli._tables.clear()
    choices = ("dataset=demo_people", "exp=matched", "language=es")
    with pytest.raises(NotApplicable, match="the texts of exp=matched are in the language en"):
        plan.plan(job(*choices, *store_overrides(tmp_path / "p")))
    assert not (tmp_path / "p").exists()


@pytest.mark.thorough
def test_a_sweep_over_languages_has_a_column_a_tag_and_a_specification_of_each(tmp_path, capsys):
    lab = precomputed(tmp_path / "lab")
    overrides = ["model=precomputed", f"model.path={lab}", "language=en,zh", "exp=faces_to_words", *SMALL]
    swept = command(tmp_path / "out", "-m", *store_overrides(tmp_path)[:-1], *overrides)
    assert swept.code == 0, capsys.readouterr().out
    analyses = swept.analyses()
    assert set(analyses["protocol"].str.contains(r"\+language=zh")) == {True, False}
    assert set(analyses["language"].dropna()) == {"zh"}
    page = (swept.output / "report" / "index.html").read_text("utf-8")
    assert "language=zh" in page
