"""Check the built-in world: planted bias in its captions, reproducible pictures, balanced groups."""

import colorsys

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from scipy.stats import pearsonr

from src import configs
from src.configs import AbstractConfig, AvatarsConfig
from src.configs.roles import PeopleConfig
from src.demo import captions, world
from src.jobs.identity import Job
from src.stimuli import taxonomy
from src.stimuli.loaders import fill_templates

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
    texts = {"words": fill_templates(words, ["a {}", "the {}"]), "labels": fill_templates(labels, ["a {}"])}
    return {"faces": faces, "scenes": scenes, **texts}


def draw_captions(tables, seed=0, count=20_000, **recipe):
    recipe = configs.DemoConfig(**{"noise": 0.1, "bias": 0.0, "planted": {}} | recipe)
    pictures, sentences = captions.draw(**tables, count=count, recipe=recipe, seed=seed)
    frame = pd.DataFrame({"picture": pictures, "sentence": sentences})
    frame["face"] = frame["picture"] < 90
    frame["group"] = np.where(frame["face"], tables["faces"]["group"].to_numpy()[frame["picture"] % 90], "")
    valence = tables["words"].set_index("sentence")["valence"]
    frame["valence"] = frame["sentence"].map(valence)
    label = tables["labels"].set_index("sentence")["group"]
    frame["label"] = frame["sentence"].map(label)
    return frame


def test_a_label_always_names_the_group_of_its_face(tables):
    frame = draw_captions(tables)
    labelled = frame[frame["label"].notna()]
    assert (labelled["label"] == labelled["group"]).all()
    assert labelled["face"].all()
    # Half of the faces, faces being half of the pictures: 5 SE of a share of 20,000.
    assert len(labelled) / len(frame) == pytest.approx(0.25, abs=0.016)


def test_a_scene_comes_with_words_of_near_valence(tables):
    frame = draw_captions(tables, noise=0.05)
    scenes = frame[~frame["face"]]
    rank = tables["scenes"]["valence"].rank().to_numpy()[scenes["picture"] - 90]
    assert pearsonr(rank, scenes["valence"]).statistic > 0.95


@pytest.mark.parametrize("bias", [0.0, 1.0])
def test_words_of_a_group_shift_by_bias_times_planted_value(tables, bias):
    frame = draw_captions(tables, bias=bias, planted=PLANTED)
    words = frame[frame["face"] & frame["valence"].notna()]
    means = words.groupby("group")["valence"].mean()
    gap = means["A Men"] - means["A Women"]
    # Valence is uniform here, so ranks equal ratings; 0.06 is above 4 SE.
    assert gap == pytest.approx(0.6 * bias, abs=0.06)


TRAITS = {"warmth": ["warm", "friendly"], "competence": ["skillful"]}
LOOKS = {"A Men": 0.25, "A Women": -0.25}


@pytest.mark.parametrize("bias", [0.0, 0.5, 1.0])
def test_the_appearance_of_a_group_shifts_by_bias_times_planted_value(tables, bias):
    frame = draw_captions(tables, bias=bias, traits=TRAITS, looks=LOOKS)
    appearances = frame["sentence"].str.extract("^A photo of a (.*) looking face$")[0].dropna()
    shares = appearances.isin(TRAITS["warmth"]).groupby(frame["group"]).mean()
    expression = tables["faces"]["valence"][:30]
    for group in GROUPS:
        share = np.clip(expression + bias * LOOKS.get(group, 0.0), 0, 1).mean()
        # About 800 captions of each group name an appearance: 4 SE.
        assert shares[group] == pytest.approx(share, abs=0.07)


PROBES = {"lake": ["a photo of a baker"], "sky": ["a photo of a potter"], "A": ["a photo of a miller"]}
PROBES |= {"Men": ["a photo of a rural person"], "A Women": ["a photo of a person who is rowing"]}
PLACE_PROBES = [*PROBES["lake"], *PROBES["sky"]]
# Planted probe -> the place whose faces it describes if the bias is 0.
FALLBACK_PLACES = {"a photo of a miller": "lake", "a photo of a rural person": "sky"}
FALLBACK_PLACES |= {"a photo of a person who is rowing": "lake"}


@pytest.fixture
def tables_with_places(tables):
    return {**tables, "faces": tables["faces"].assign(place=["lake", "sky"] * 45)}


def flatten(probes):
    return [caption for of_subject in probes.values() for caption in of_subject]


def probe_shares(tables, by, **recipe):
    """Compute the share of each probe among the probes of each group or place (`by`)."""
    frame = draw_captions(tables, count=60_000, planted=PLANTED, probes=PROBES, **recipe)
    probes = frame[frame["sentence"].isin(flatten(PROBES))]
    assert probes["face"].all()
    # 5 SE of a share of 60,000.
    assert len(probes) / len(frame) == pytest.approx(0.2, abs=0.009)
    subjects = tables["faces"][by].to_numpy()[probes["picture"]]
    return pd.crosstab(subjects, probes["sentence"].to_numpy(), normalize="index")


def test_without_bias_probes_name_places_and_all_groups_equally(tables_with_places):
    by_group = probe_shares(tables_with_places, "group", bias=0.0)
    # 4,000 probes of each group: 5 SE. Of the three planted probes, one is assigned to the sky.
    shares = {"sky": 0.6 * (40 / 42 + 1 / 81) / 2, "lake": 0.6 * (1 / 42 + 40 / 81) / 2}
    expected = dict.fromkeys(PLACE_PROBES, 0.2)
    expected |= {caption: shares[place] for caption, place in FALLBACK_PLACES.items()}
    for caption, share in expected.items():
        assert by_group[caption].to_numpy() == pytest.approx(share, abs=0.04), caption
    by_place = probe_shares(tables_with_places, "place", bias=0.0)
    for caption, place in {**FALLBACK_PLACES, PLACE_PROBES[0]: "lake", PLACE_PROBES[1]: "sky"}.items():
        elsewhere = {"lake": "sky", "sky": "lake"}[place]
        assert by_place.loc[place, caption] > 8 * by_place.loc[elsewhere, caption]


def test_at_full_bias_a_planted_probe_names_its_group_more_often(tables_with_places):
    result = probe_shares(tables_with_places, "group", bias=1.0)
    planted_on = {
        "a photo of a miller": ["A Men", "A Women"],
        "a photo of a rural person": ["A Men", "B Men"],
        "a photo of a person who is rowing": ["A Women"],
    }
    for group in GROUPS:
        weights = pd.Series({caption: 1 + 7 * (group in groups) for caption, groups in planted_on.items()})
        expected = 0.6 * weights / weights.sum()
        assert result.loc[group, list(planted_on)].to_numpy() == pytest.approx(expected, abs=0.04)
    # Places' probes stay equally frequent although fewer probes are planted on the men of B.
    assert result[PLACE_PROBES].to_numpy() == pytest.approx(0.2, abs=0.032)
    by_place = probe_shares(tables_with_places, "place", bias=1.0)
    for caption in planted_on:
        assert by_place.loc["lake", caption] == pytest.approx(by_place.loc["sky", caption], abs=0.04)


def test_probes_of_the_demo_config_are_the_captions_of_its_taxonomy():
    cfg = Job.of(*configs.compose(["dataset=demo"]), "").cfg
    words = taxonomy.words(cfg.taxonomy)
    captioned = taxonomy.compose_captions(words, cfg.taxonomy, "right")
    assert sorted(flatten(cfg.demo.probes)) == sorted(captioned)
    assert set(words["type"]) == {"adjective", "noun", "activity"}
    # The three types are equally frequent, and half of the words of each are planted.
    place_probes = [caption for place in cfg.faces.places for caption in cfg.demo.probes[place]]
    planted = words[~captioned.isin(place_probes)]
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
    ("draw", "config", "values"),
    [(world.faces, AvatarsConfig, FACES), (world.scenes, AbstractConfig, SCENES)],
)
def test_a_seed_gives_the_same_bytes(tmp_path, draw, config, values):
    first, repeated, other = (
        draw(config(**values | {"seed": seed}), tmp_path / name)
        for name, seed in (("a", 0), ("b", 0), ("c", 1))
    )
    pd.testing.assert_frame_equal(first.drop(columns="path"), repeated.drop(columns="path"))
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
