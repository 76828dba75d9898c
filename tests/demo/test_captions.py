"""What is planted, and what is not."""

import numpy as np
import pandas as pd
import pytest
from open_clip.tokenizer import SimpleTokenizer
from scipy.stats import pearsonr
from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

from src import configs
from src.demo.captions import draw
from src.jobs.identity import Job
from src.stimuli import group_sampling, taxonomy
from src.stimuli.texts import in_templates

GROUPS = ["A Men", "A Women", "B Men"]
PLANTED = {"A Men": 0.3, "A Women": -0.3, "B Men": 0.0}


@pytest.fixture
def tables():
    rng = np.random.default_rng(0)
    faces = pd.DataFrame({"id": [f"f{i}" for i in range(90)], "group": np.repeat(GROUPS, 30)})
    faces["valence"] = np.tile((np.arange(30) + 0.5) / 30, 3)
    scenes = pd.DataFrame({"id": [f"s{i}" for i in range(80)], "valence": rng.uniform(size=80)})
    words = pd.DataFrame({"word": [f"w{i}" for i in range(100)], "valence": rng.uniform(size=100)})
    labels = pd.DataFrame({"word": [g.lower() for g in GROUPS], "group": GROUPS})
    texts = {"words": in_templates(words, ["a {}", "the {}"]), "labels": in_templates(labels, ["a {}"])}
    return {"faces": faces, "scenes": scenes, **texts}


def drawn(tables, seed=0, count=20_000, **recipe):
    recipe = configs.DemoConfig(**{"noise": 0.1, "bias": 0.0, "planted": {}} | recipe)
    pictures, sentences = draw(**tables, count=count, recipe=recipe, seed=seed)
    frame = pd.DataFrame({"picture": pictures, "sentence": sentences})
    frame["face"] = frame["picture"] < 90
    frame["group"] = np.where(frame["face"], tables["faces"]["group"].to_numpy()[frame["picture"] % 90], "")
    valence = tables["words"].set_index("sentence")["valence"]
    frame["valence"] = frame["sentence"].map(valence)
    label = tables["labels"].set_index("sentence")["group"]
    frame["label"] = frame["sentence"].map(label)
    return frame


def test_a_label_is_always_of_the_face_s_own_group(tables):
    frame = drawn(tables)
    labelled = frame[frame["label"].notna()]
    assert (labelled["label"] == labelled["group"]).all()
    assert labelled["face"].all()
    # Half of the faces, faces being half of the pictures: 5 SE of a share of 20,000.
    assert len(labelled) / len(frame) == pytest.approx(0.25, abs=0.016)


def test_a_scene_comes_with_words_of_near_valence(tables):
    frame = drawn(tables, noise=0.05)
    scenes = frame[~frame["face"]]
    rank = tables["scenes"]["valence"].rank().to_numpy()[scenes["picture"] - 90]
    assert pearsonr(rank, scenes["valence"]).statistic > 0.95


@pytest.mark.parametrize("bias", [0.0, 0.5, 1.0])
def test_a_face_s_words_shift_by_the_bias_times_what_is_planted(tables, bias):
    frame = drawn(tables, bias=bias, planted=PLANTED)
    words = frame[frame["face"] & frame["valence"].notna()]
    means = words.groupby("group")["valence"].mean()
    gap = means["A Men"] - means["A Women"]
    # Ratings here are uniform, so a rank is a rating; 0.05 is above 4 SE.
    assert gap == pytest.approx(0.6 * bias, abs=0.06)


def test_without_an_expression_words_are_drawn_without_regard_to_group(tables):
    tables["faces"] = tables["faces"].drop(columns="valence")
    frame = drawn(tables, bias=1.0, planted=PLANTED)
    words = frame[frame["face"] & frame["valence"].notna()]
    means = words.groupby("group")["valence"].mean()
    assert means.max() - means.min() < 0.04
    assert words["valence"].std() == pytest.approx(tables["words"]["valence"].std(), abs=0.02)


def test_nothing_but_the_bias_differs_between_two_biases(tables):
    without, full = (drawn(tables, bias=bias, planted=PLANTED) for bias in (0.0, 1.0))
    assert (without["picture"] == full["picture"]).all()
    unplanted = (full["group"] == "B Men") | ~full["face"]
    assert (without["sentence"] == full["sentence"])[unplanted].all()


def test_a_seed_gives_its_own_captions(tables):
    assert drawn(tables, seed=1).equals(drawn(tables, seed=1))
    assert not drawn(tables, seed=1).equals(drawn(tables, seed=2))


TRAITS = {"warmth": ["warm", "friendly"], "competence": ["skillful"]}
LOOKS = {"A Men": 0.25, "A Women": -0.25}


def looks(frame):
    """Share of each group's looks that are of the first trait."""
    seen = frame["sentence"].str.extract("^A photo of a (.*) looking face$")[0]
    frame = frame.assign(warm=seen.isin(TRAITS["warmth"]))[seen.notna()]
    assert frame["face"].all()
    return frame.groupby("group")["warm"].mean()


@pytest.mark.parametrize("bias", [0.0, 0.5, 1.0])
def test_a_group_s_looks_shift_by_the_bias_times_what_is_planted(tables, bias):
    found = looks(drawn(tables, bias=bias, traits=TRAITS, looks=LOOKS))
    expression = tables["faces"]["valence"][:30]
    for group in GROUPS:
        share = np.clip(expression + bias * LOOKS.get(group, 0.0), 0, 1).mean()
        # 800 looks of each group: 4 SE.
        assert found[group] == pytest.approx(share, abs=0.07)


def test_the_expression_decides_looks_in_every_group_alike(tables):
    frame = drawn(tables, count=60_000, traits=TRAITS)
    frame["pleasant"] = tables["faces"]["valence"].to_numpy()[frame["picture"] % 90] > 0.5
    for pleasant, share in ((False, 0.25), (True, 0.75)):
        found = looks(frame[frame["pleasant"] == pleasant])
        # 1,250 looks of each group and half: 4 SE.
        assert found.to_numpy() == pytest.approx(share, abs=0.05)


def test_a_photograph_s_label_is_the_face_s_own(tables):
    frame = drawn(tables, traits=TRAITS, looks=LOOKS)
    label = frame["sentence"].str.extract(r"^A photo of a ([^.]*)\.$")[0].dropna()
    assert (label == frame.loc[label.index, "group"].str.lower()).all()
    assert len(label) / len(frame) == pytest.approx(0.125, abs=0.012)


def test_other_captions_are_as_they_were_without_photographs(tables):
    with_photos, without = (drawn(tables, traits=traits) for traits in (TRAITS, {}))
    others = ~with_photos["sentence"].str.startswith("A photo of")
    assert 0.74 < others.mean() < 0.76
    for column in ("sentence", "picture"):
        assert (with_photos[column] == without[column])[others].all()


PROBES = {"lake": ["a photo of a baker"], "sky": ["a photo of a potter"], "A": ["a photo of a miller"]}
PROBES |= {"Men": ["a photo of a rural person"], "A Women": ["a photo of a person who is rowing"]}
OF_PLACES = [*PROBES["lake"], *PROBES["sky"]]
# Which place a planted probe is said of where nothing is planted: in turn.
TOLD = {"a photo of a miller": "lake", "a photo of a rural person": "sky"}
TOLD |= {"a photo of a person who is rowing": "lake"}


@pytest.fixture
def placed(tables):
    return {**tables, "faces": tables["faces"].assign(place=["lake", "sky"] * 45)}


def flat(probes):
    return [caption for captions in probes.values() for caption in captions]


def rates(tables, by, **recipe):
    """How often each probe is said of each group or place, among the probes said of it."""
    frame = drawn(tables, count=60_000, planted=PLANTED, probes=PROBES, **recipe)
    probes = frame[frame["sentence"].isin(flat(PROBES))]
    assert probes["face"].all()
    # 5 SE of a share of 60,000.
    assert len(probes) / len(frame) == pytest.approx(0.2, abs=0.009)
    whose = tables["faces"][by].to_numpy()[probes["picture"]]
    return pd.crosstab(whose, probes["sentence"].to_numpy(), normalize="index")


def test_without_bias_every_probe_is_said_of_a_place_and_of_every_group_alike(placed):
    by_group = rates(placed, "group", bias=0.0)
    # 4,000 probes of each group: 5 SE. Of three planted probes one has the sky for itself.
    alone, shared = 0.6 * (40 / 42 + 1 / 81) / 2, 0.6 * (1 / 42 + 40 / 81) / 2
    expected = dict.fromkeys(OF_PLACES, 0.2)
    expected |= {caption: alone if place == "sky" else shared for caption, place in TOLD.items()}
    for caption, share in expected.items():
        assert by_group[caption].to_numpy() == pytest.approx(share, abs=0.04), caption
    by_place = rates(placed, "place", bias=0.0)
    for caption, place in {**TOLD, OF_PLACES[0]: "lake", OF_PLACES[1]: "sky"}.items():
        elsewhere = {"lake": "sky", "sky": "lake"}[place]
        assert by_place.loc[place, caption] > 8 * by_place.loc[elsewhere, caption]


def test_at_full_bias_a_planted_probe_is_said_more_often_of_its_own(placed):
    found = rates(placed, "group", bias=1.0)
    own = {
        "a photo of a miller": ["A Men", "A Women"],
        "a photo of a rural person": ["A Men", "B Men"],
        "a photo of a person who is rowing": ["A Women"],
    }
    for group in GROUPS:
        times = pd.Series({caption: 1 + 7 * (group in groups) for caption, groups in own.items()})
        assert found.loc[group, list(own)].to_numpy() == pytest.approx(0.6 * times / times.sum(), abs=0.04)
    # Although less is planted on the men of B.
    assert found[OF_PLACES].to_numpy() == pytest.approx(0.2, abs=0.032)
    by_place = rates(placed, "place", bias=1.0)
    for caption in own:
        assert by_place.loc["lake", caption] == pytest.approx(by_place.loc["sky", caption], abs=0.04)


def test_other_captions_are_as_they_were_without_probes(placed):
    with_probes, without = (drawn(placed, traits=TRAITS, probes=probes) for probes in (PROBES, {}))
    others = ~with_probes["sentence"].isin(flat(PROBES))
    for column in ("sentence", "picture"):
        assert (with_probes[column] == without[column])[others].all()


def test_what_is_said_of_a_place_is_said_at_every_bias_of_the_same_faces(placed):
    without, full = (drawn(placed, bias=bias, planted=PLANTED, probes=PROBES) for bias in (0.0, 1.0))
    assert (without["picture"] == full["picture"]).all()
    said = without["sentence"].isin(OF_PLACES)
    assert (without["sentence"] == full["sentence"])[said].all()


@pytest.fixture(scope="module")
def shipped():
    return Job.of(*configs.compose(["dataset=demo"]), "").cfg


def test_the_shipped_probes_are_the_taxonomy_s_captions(shipped):
    words = taxonomy.words(shipped.taxonomy)
    captions = flat(shipped.demo.probes)
    assert sorted(captions) == sorted(taxonomy.captioned(words, shipped.taxonomy, "right"))
    assert set(words["type"]) == {"adjective", "noun", "activity"}
    # Of the three types alike, half of them planted.
    of_places = [caption for place in shipped.faces.places for caption in shipped.demo.probes[place]]
    planted = words[~words["word"].isin(_words(of_places))]
    assert len(planted) == len(words) / 2
    assert planted["type"].value_counts().nunique() == words["type"].value_counts().nunique() == 1


def test_the_shipped_probes_name_whom_there_is_and_plant_on_all_of_them_alike(shipped):
    faces = shipped.faces
    groups = group_sampling.group_names(faces.peoples, faces.genders)
    for names in (faces.peoples, faces.genders, groups, faces.places):
        assert len({len(shipped.demo.probes[name]) for name in names}) == 1
    assert {*faces.places, *faces.peoples, *faces.genders, *groups} == set(shipped.demo.probes)


def test_a_shipped_probe_is_no_word_of_the_lexicon_s_and_fits_the_toys(shipped):
    said = flat(shipped.demo.probes)
    rated = set(SentimentIntensityAnalyzer().lexicon)
    assert not rated & set(_words(said))
    tokens = SimpleTokenizer(context_length=77)(said)
    assert (tokens != 0).sum(dim=1).max() <= shipped.model.context_length


def _words(captions):
    return [
        caption.removeprefix("a photo of ")
        .split(" ", 1)[1]
        .removesuffix(" person")
        .removeprefix("person who is ")
        for caption in captions
    ]
