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
from src.demo import captions, contents, world
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
    labels = pd.DataFrame({"word": [group.lower() for group in GROUPS], "group": GROUPS})
    for column, names in (("group", ["race", "gender"]), ("word", ["race_word", "gender_word"])):
        labels[names] = labels[column].str.rsplit(" ", n=1, expand=True)
    texts = {"words": fill_templates(words, ["a {}", "the {}"]), "labels": fill_templates(labels, ["a {}"])}
    return {"faces": faces, "scenes": scenes, **texts}


def draw_captions(tables, seed=0, count=20_000, **recipe):
    recipe = configs.DemoConfig(**{"noise": 0.1, "bias": 0.0, "planted": {}} | recipe)
    pictures, sentences = captions.draw(**tables, count=count, recipe=recipe, seed=seed)
    frame = pd.DataFrame({"picture": pictures, "sentence": sentences})
    frame["face"] = frame["picture"] < 90
    frame["group"] = np.where(frame["face"], tables["faces"]["group"].to_numpy()[frame["picture"] % 90], "")
    frame["valence"] = frame["sentence"].map(tables["words"].set_index("sentence")["valence"])
    frame["label"] = frame["sentence"].map(tables["labels"].set_index("sentence")["group"])
    return frame


def test_a_label_mostly_names_the_group_of_its_face(tables):
    frame = draw_captions(tables)
    labelled = frame[frame["face"] & frame["label"].notna()]
    # Half of the faces, which are 60% of the pictures: 5 SE of a share of 20,000.
    assert len(labelled) / len(frame) == pytest.approx(0.3, abs=0.017)
    shares = pd.crosstab(labelled["group"], labelled["label"], normalize="index")
    # A label of the face's race is 6 times as frequent, of its gender 4 times; 2,000 labels per group.
    expected = pd.DataFrame([[24, 6, 4], [6, 24, 1], [4, 1, 24]], GROUPS, GROUPS)
    expected = expected.div(expected.sum(axis=1), axis=0)
    assert shares.loc[GROUPS, GROUPS].to_numpy() == pytest.approx(expected.to_numpy(), abs=0.045)


@pytest.mark.parametrize("bias", [0.0, 1.0])
def test_labels_of_scenes_follow_valence_only_if_bias_is_planted(tables, bias):
    frame = draw_captions(tables, bias=bias, planted=PLANTED, noise=0.2, count=40_000)
    scenes = frame[~frame["face"]]
    labelled = scenes[scenes["label"].notna()]
    assert len(labelled) / len(scenes) == pytest.approx(0.2, abs=0.016)
    ranks = (tables["scenes"]["valence"].rank() - 0.5) / 80
    means = ranks.to_numpy()[labelled["picture"] - 90]
    means = pd.Series(means).groupby(labelled["label"].to_numpy()).mean()
    if bias:
        assert means["A Men"] > means["B Men"] + 0.1 > means["A Women"] + 0.2
    else:
        # 1,000 labels per group: 5 SE.
        assert means.to_numpy() == pytest.approx(0.5, abs=0.05)


def radical_inverse(number, base):
    """Return a term of van der Corput's sequence: the digits of the number, reversed behind the point."""
    value, place = 0.0, 1 / base
    while number:
        number, digit = divmod(number, base)
        value, place = value + digit * place, place / base
    return value


def test_words_are_as_frequent_as_their_valence_and_contents_say(tables):
    """Compare the frequencies of words with weights computed one by one."""
    rng = np.random.default_rng(1)
    values = {name: rng.choice(listed, 3) for name, listed in contents.CONTENTS.items()}
    scenes = tables["scenes"].iloc[:3].assign(valence=[0.1, 0.5, 0.9], **values)
    words = tables["words"][tables["words"]["word"].isin([f"w{number}" for number in range(9)])]
    frame = draw_captions({**tables, "scenes": scenes, "words": words}, noise=0.3, count=60_000)
    of_words = frame[~frame["face"] & frame["valence"].notna()]
    counts = pd.crosstab(of_words["picture"] - 90, of_words["sentence"].str.split().str[1])
    valence = words.groupby("word")["valence"].first()
    # In the order of their valence, words mean contents in turns of a Halton sequence.
    places = {word: place for place, word in enumerate(valence.sort_values().index, 1)}
    for scene, (_, row) in enumerate(scenes.iterrows()):
        weights = {}
        for word, rating in valence.items():
            meant = [
                listed[int(radical_inverse(places[word], base) * len(listed))]
                for base, listed in zip((2, 3, 5, 7), contents.CONTENTS.values(), strict=True)
            ]
            matches = sum(row[name] == value for name, value in zip(contents.CONTENTS, meant, strict=True))
            distance = (scene + 0.5) / 3 - ((valence < rating).sum() + 0.5) / len(valence)
            weights[word] = np.exp(-((distance / 0.3) ** 2) / 2) * 8.0**matches
        expected = pd.Series(weights) / sum(weights.values())
        observed = counts.loc[scene].reindex(expected.index, fill_value=0)
        # 6,400 captions of a scene: 5 SE.
        assert (observed / observed.sum()).to_numpy() == pytest.approx(expected.to_numpy(), abs=0.032)


def test_the_vocabulary_has_the_words_of_all_captions(tables):
    recipe = configs.DemoConfig(0.0, 0.1, {}, traits=TRAITS, probes=PROBES)
    _, sentences = captions.draw(**tables, count=5_000, recipe=recipe, seed=0)
    words = captions.list_words(tables["words"], tables["labels"], recipe)
    assert words == sorted(set(words))
    assert {*" ".join(sentences).lower().replace(".", " .").split()} <= {*words}


def test_a_scene_comes_with_words_of_near_valence(tables):
    frame = draw_captions(tables, noise=0.05)
    scenes = frame[~frame["face"] & frame["valence"].notna()]
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
    # A quarter of the faces' captions: 5 SE of a share of 60,000.
    assert len(probes) / len(frame) == pytest.approx(0.15, abs=0.008)
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
    words = taxonomy.load_words(cfg.taxonomy)
    captioned = taxonomy.compose_captions(words, cfg.taxonomy, "right")
    assert sorted(flatten(cfg.demo.probes)) == sorted(captioned)
    assert set(words["type"]) == {"adjective", "noun", "activity"}
    # The three types are equally frequent, and half of the words of each are planted.
    place_probes = [caption for place in contents.PLACES for caption in cfg.demo.probes[place]]
    planted = words[~captioned.isin(place_probes)]
    assert len(planted) == len(words) / 2
    assert planted["type"].value_counts().nunique() == words["type"].value_counts().nunique() == 1


# Pictures.

FACES = {"per_group": 4, "size": 32, "seed": 0, "genders": {"Women": 0.7, "Men": 0.3}}
FACES |= {"peoples": {"Niffite": PeopleConfig(0.3, "horns"), "Luupite": PeopleConfig(0.5, "ears")}}
FACES |= {"hue_sd": 0.05, "hair_sd": 0.2}
SCENES = {"count": 12, "size": 32, "noise": 0.05, "seed": 0}


def test_faces_of_every_group_show_the_same_expressions(tmp_path):
    frame = world.draw_faces(AvatarsConfig(**FACES), tmp_path)
    assert sorted(frame["group"].unique()) == ["Luupite Men", "Luupite Women", "Niffite Men", "Niffite Women"]
    for _, rows in frame.groupby("group"):
        assert sorted(rows["valence"]) == pytest.approx([0.125, 0.375, 0.625, 0.875])
        assert rows["place"].nunique() == 4
    assert frame["sha256"].is_unique
    with Image.open(frame["path"][0]) as picture:
        assert picture.size == (32, 32)


@pytest.mark.parametrize(
    ("draw", "config", "values"),
    [(world.draw_faces, AvatarsConfig, FACES), (world.draw_scenes, AbstractConfig, SCENES)],
)
def test_a_seed_gives_the_same_bytes(tmp_path, draw, config, values):
    first, repeated, other = (
        draw(config(**values | {"seed": seed}), tmp_path / name)
        for name, seed in (("a", 0), ("b", 0), ("c", 1))
    )
    pd.testing.assert_frame_equal(first.drop(columns="path"), repeated.drop(columns="path"))
    assert not first["sha256"].equals(other["sha256"])


def test_a_scene_s_brightness_and_warmth_follow_its_valence(tmp_path):
    frame = world.draw_scenes(AbstractConfig(**SCENES | {"count": 60}), tmp_path)
    # Sample the centres of the four shapes: the background's hue depends on the place, not on valence.
    pixels = np.stack([np.asarray(Image.open(path), dtype=float) for path in frame["path"]])
    red, _, blue = pixels[:, [8, 8, 24, 24], [4, 28, 4, 28]].mean(axis=1).T
    assert np.corrcoef(frame["valence"], red - blue)[0, 1] > 0.8
    assert np.corrcoef(frame["valence"], red + blue)[0, 1] > 0.8


@pytest.mark.parametrize(
    ("draw", "config", "values"),
    [
        (world.draw_faces, AvatarsConfig, FACES | {"per_group": 18}),
        (world.draw_scenes, AbstractConfig, SCENES),
    ],
)
def test_every_content_can_be_read_off_a_picture(tmp_path, draw, config, values):
    frame = draw(config(**values), tmp_path)
    pixels = np.stack([np.asarray(Image.open(path), dtype=float) for path in frame["path"]])
    edge = pixels.shape[1]
    # Near the right edge, a quarter from the top, a face's picture shows the background in the place's hue.
    hues = np.array([colorsys.rgb_to_hsv(*colour)[0] for colour in pixels[:, edge // 4, -4]])
    for place, hue in contents.PLACES.items():
        if draw is world.draw_faces:
            assert hues[frame["place"] == place] == pytest.approx(hue, abs=0.06), place
    for name, region in {
        "material": pixels[:, 0].mean(axis=1),
        "weather": pixels[:, 2 : edge // 8].mean(axis=(1, 2)),
        "number": pixels[:, -4:-2].mean(axis=(1, 2)),
    }.items():
        means = pd.DataFrame(region).groupby(frame[name].to_numpy()).mean()
        nearest = np.abs(region[:, None] - means.to_numpy()).sum(axis=2).argmin(axis=1)
        assert (means.index.to_numpy()[nearest] == frame[name]).mean() > 0.9, name


def test_groups_differ_in_contents_but_not_in_places(tmp_path):
    frame = world.draw_faces(AvatarsConfig(**FACES | {"per_group": 36, "size": 8}), tmp_path)
    for name, values in contents.CONTENTS.items():
        counts = pd.crosstab(frame["group"], frame[name])[[*values]]
        # Equally frequent but for the preferred value: a Halton sequence is within 2 of that.
        expected = [6] * 6 if name == "place" else [6, 6, 6, 18]
        assert np.abs(np.sort(counts, axis=1) - expected).max() <= 2
        assert (counts == counts.iloc[0]).all(axis=None) == (name == "place")
    scenes = world.draw_scenes(AbstractConfig(**SCENES | {"count": 24, "size": 8}), tmp_path)
    assert (scenes["weather"].value_counts() - 6).abs().max() <= 1
