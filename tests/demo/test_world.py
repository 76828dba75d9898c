"""Check the built-in world: planted bias in its captions, the same bytes for a seed, balanced groups."""

import colorsys

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from scipy.stats import pearsonr

from src import configs
from src.configs import AbstractConfig, AvatarsConfig
from src.configs.roles import PeopleConfig
from src.demo import world
from src.demo.captions import draw
from src.jobs.identity import Job
from src.stimuli import taxonomy
from src.stimuli.loaders import in_templates

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


def test_a_label_always_names_the_group_of_its_face(tables):
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


@pytest.mark.parametrize("bias", [0.0, 1.0])
def test_a_face_s_words_shift_by_the_bias_times_what_is_planted(tables, bias):
    frame = drawn(tables, bias=bias, planted=PLANTED)
    words = frame[frame["face"] & frame["valence"].notna()]
    means = words.groupby("group")["valence"].mean()
    gap = means["A Men"] - means["A Women"]
    # Ratings here are uniform, so a rank is a rating; 0.05 is above 4 SE.
    assert gap == pytest.approx(0.6 * bias, abs=0.06)


TRAITS = {"warmth": ["warm", "friendly"], "competence": ["skillful"]}
LOOKS = {"A Men": 0.25, "A Women": -0.25}


@pytest.mark.parametrize("bias", [0.0, 0.5, 1.0])
def test_the_appearance_of_a_group_shifts_by_bias_times_planted_value(tables, bias):
    frame = drawn(tables, bias=bias, traits=TRAITS, looks=LOOKS)
    observed = frame["sentence"].str.extract("^A photo of a (.*) looking face$")[0].dropna()
    result = observed.isin(TRAITS["warmth"]).groupby(frame["group"]).mean()
    expression = tables["faces"]["valence"][:30]
    for group in GROUPS:
        share = np.clip(expression + bias * LOOKS.get(group, 0.0), 0, 1).mean()
        # 800 looks of each group: 4 SE.
        assert result[group] == pytest.approx(share, abs=0.07)


PROBES = {"lake": ["a photo of a baker"], "sky": ["a photo of a potter"], "A": ["a photo of a miller"]}
PROBES |= {"Men": ["a photo of a rural person"], "A Women": ["a photo of a person who is rowing"]}
OF_PLACES = [*PROBES["lake"], *PROBES["sky"]]
# Which place a planted probe is said of where nothing is planted: in turn.
REPORTED = {"a photo of a miller": "lake", "a photo of a rural person": "sky"}
REPORTED |= {"a photo of a person who is rowing": "lake"}


@pytest.fixture
def placed(tables):
    return {**tables, "faces": tables["faces"].assign(place=["lake", "sky"] * 45)}


def flat(probes):
    return [caption for captions in probes.values() for caption in captions]


def rates(tables, by, **recipe):
    """Compute the share of each probe among the probes of each group or place."""
    frame = drawn(tables, count=60_000, planted=PLANTED, probes=PROBES, **recipe)
    probes = frame[frame["sentence"].isin(flat(PROBES))]
    assert probes["face"].all()
    # 5 SE of a share of 60,000.
    assert len(probes) / len(frame) == pytest.approx(0.2, abs=0.009)
    whose = tables["faces"][by].to_numpy()[probes["picture"]]
    return pd.crosstab(whose, probes["sentence"].to_numpy(), normalize="index")


def test_without_bias_probes_name_places_and_all_groups_equally(placed):
    by_group = rates(placed, "group", bias=0.0)
    # 4,000 probes of each group: 5 SE. Of three planted probes one has the sky for itself.
    alone, shared = 0.6 * (40 / 42 + 1 / 81) / 2, 0.6 * (1 / 42 + 40 / 81) / 2
    expected = dict.fromkeys(OF_PLACES, 0.2)
    expected |= {caption: alone if place == "sky" else shared for caption, place in REPORTED.items()}
    for caption, share in expected.items():
        assert by_group[caption].to_numpy() == pytest.approx(share, abs=0.04), caption
    by_place = rates(placed, "place", bias=0.0)
    for caption, place in {**REPORTED, OF_PLACES[0]: "lake", OF_PLACES[1]: "sky"}.items():
        elsewhere = {"lake": "sky", "sky": "lake"}[place]
        assert by_place.loc[place, caption] > 8 * by_place.loc[elsewhere, caption]


def test_at_full_bias_a_planted_probe_names_its_group_more_often(placed):
    result = rates(placed, "group", bias=1.0)
    rows = {
        "a photo of a miller": ["A Men", "A Women"],
        "a photo of a rural person": ["A Men", "B Men"],
        "a photo of a person who is rowing": ["A Women"],
    }
    for group in GROUPS:
        times = pd.Series({caption: 1 + 7 * (group in groups) for caption, groups in rows.items()})
        assert result.loc[group, list(rows)].to_numpy() == pytest.approx(0.6 * times / times.sum(), abs=0.04)
    # Although less is planted on the men of B.
    assert result[OF_PLACES].to_numpy() == pytest.approx(0.2, abs=0.032)
    by_place = rates(placed, "place", bias=1.0)
    for caption in rows:
        assert by_place.loc["lake", caption] == pytest.approx(by_place.loc["sky", caption], abs=0.04)


def test_the_shipped_probes_are_the_taxonomy_s_captions():
    shipped = Job.of(*configs.compose(["dataset=demo"]), "").cfg
    words = taxonomy.words(shipped.taxonomy)
    captioned = taxonomy.captioned(words, shipped.taxonomy, "right")
    assert sorted(flat(shipped.demo.probes)) == sorted(captioned)
    assert set(words["type"]) == {"adjective", "noun", "activity"}
    # Of the three types alike, half of them planted.
    of_places = [caption for place in shipped.faces.places for caption in shipped.demo.probes[place]]
    planted = words[~captioned.isin(of_places)]
    assert len(planted) == len(words) / 2
    assert planted["type"].value_counts().nunique() == words["type"].value_counts().nunique() == 1


# Pictures.

FACES = {
    "per_group": 4,
    "size": 32,
    "seed": 0,
    "peoples": {"Niffite": PeopleConfig(0.3, "horns"), "Luupite": PeopleConfig(0.5, "ears")},
    "genders": {"Women": 0.7, "Men": 0.3},
    "hue_sd": 0.05,
    "hair_sd": 0.2,
    "places": {"meadow": 0.3, "lake": 0.55},
}
SCENES = {"count": 12, "size": 32, "noise": 0.05, "seed": 0}


def test_faces_of_every_group_show_the_same_expressions(tmp_path):
    frame = world.faces(AvatarsConfig(**FACES), tmp_path)
    assert sorted(frame["group"].unique()) == ["Luupite Men", "Luupite Women", "Niffite Men", "Niffite Women"]
    for _, rows in frame.groupby("group"):
        assert sorted(rows["valence"]) == pytest.approx([0.125, 0.375, 0.625, 0.875])
        assert sorted(rows["place"]) == ["lake", "lake", "meadow", "meadow"]
    assert frame["sha256"].is_unique
    with Image.open(frame["path"][0]) as picture:
        assert picture.size == (32, 32)


@pytest.mark.parametrize(
    ("draw", "kind", "chosen"), [(world.faces, AvatarsConfig, FACES), (world.scenes, AbstractConfig, SCENES)]
)
def test_a_seed_gives_the_same_bytes(tmp_path, draw, kind, chosen):
    first, again, other = (
        draw(kind(**chosen | {"seed": seed}), tmp_path / name)
        for name, seed in (("a", 0), ("b", 0), ("c", 1))
    )
    pd.testing.assert_frame_equal(first.drop(columns="path"), again.drop(columns="path"))
    assert not first["sha256"].equals(other["sha256"])


def test_a_scene_s_brightness_and_warmth_follow_its_valence(tmp_path):
    frame = world.scenes(AbstractConfig(**SCENES | {"count": 60}), tmp_path)
    pixels = [np.asarray(Image.open(path), dtype=float).mean(axis=(0, 1)) for path in frame["path"]]
    red, _, blue = np.array(pixels).T
    assert np.corrcoef(frame["valence"], red - blue)[0, 1] > 0.8
    assert np.corrcoef(frame["valence"], red + blue)[0, 1] > 0.8


def test_a_background_identifies_the_place_in_every_group(tmp_path):
    frame = world.faces(AvatarsConfig(**FACES | {"per_group": 12}), tmp_path)
    corners = [np.asarray(Image.open(path), dtype=float)[0, 0] for path in frame["path"]]
    hues = np.array([colorsys.rgb_to_hsv(*corner)[0] for corner in corners])
    for place, hue in FACES["places"].items():
        assert hues[frame["place"] == place] == pytest.approx(hue, abs=0.06)
