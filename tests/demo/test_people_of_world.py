"""Check sets, persons, ages and places of groups in the built-in world, and the bias planted on them."""

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from src import configs
from src.configs import AvatarsConfig
from src.configs.roles import PeopleConfig
from src.demo import contents, text_weights, world
from src.errors import InputError
from src.jobs.identity import without_unhashed_fields
from src.stimuli import load

PEOPLES = {"Horned": PeopleConfig(0.1, "horns"), "Eared": PeopleConfig(0.6, "ears")}
FACES = {"peoples": PEOPLES, "genders": {"Men": 0.2, "Women": 0.8}, "hue_sd": 0.05, "hair_sd": 0.1}
FACES |= {"per_group": 12, "size": 24, "seed": 0}
SETS = {place: f"keeper of the {place}" for place in contents.PLACES}
AGES = {"young": 0.0, "old": 1.0}


def draw(folder, **values):
    return world.draw_faces(AvatarsConfig(**FACES | values), folder)


def read(frame):
    return np.stack([np.asarray(Image.open(path), dtype=int) for path in frame["path"]])


def test_a_set_shows_the_same_scene_with_each_group(tmp_path):
    frame = draw(tmp_path, sets=SETS, size=48)
    assert (frame.groupby("set")["group"].agg(["size", "nunique"]) == 4).all(axis=None)
    shared = frame.groupby("set")[["occupation", "valence", *contents.CONTENTS]].nunique()
    assert (shared == 1).all(axis=None)
    assert (frame["occupation"] == frame["place"].map(SETS)).all()
    assert frame["place"].nunique() == 6
    # Sky, ground, frame and the background beside the face are equal to the bit; the faces are not.
    for _, rows in frame.groupby("set"):
        pictures = read(rows)
        surroundings = [pictures[:, :3], pictures[:, -3:], pictures[:, 9, [4, -5]]]
        assert all((pixels == pixels[0]).all() for pixels in surroundings)
        assert all((picture != pictures[0]).any() for picture in pictures[1:])


def test_a_person_has_several_expressions_and_scenes_but_the_same_face(tmp_path):
    frame = draw(tmp_path, per_person=3, size=48)
    assert (frame.groupby("person").size() == 3).all()
    assert (frame.groupby("person")["group"].nunique() == 1).all()
    assert (frame.groupby("person")["valence"].nunique() == 3).all()
    assert frame["place"].groupby(frame["person"]).nunique().mean() > 2
    # The most frequent colour about the middle is that of the skin.
    middle = read(frame)[:, 19:33, 19:29].reshape(len(frame), -1, 3) @ [1 << 16, 1 << 8, 1]
    skin = pd.Series([np.bincount(colours).argmax() for colours in middle]).groupby(frame["person"])
    assert (skin.nunique() == 1).all()
    assert skin.first().is_unique


def test_ages_are_visible_as_frequent_as_each_other_and_constant_in_a_person(tmp_path):
    frame = draw(tmp_path, ages=AGES, per_person=2, sets=SETS)
    assert (frame.groupby("person")["age"].nunique() == 1).all()
    assert (pd.crosstab(frame["group"], frame["age"]) == 6).all(axis=None)
    young = draw(tmp_path, ages={"young": 0.0, "old": 0.0}, per_person=2, sets=SETS)
    is_old = (frame["age"] == "old").to_numpy()
    assert (frame["sha256"] == young["sha256"]).tolist() == (~is_old).tolist()
    # White hair: an old picture is nowhere darker, but for the lines of the skin.
    brighter = read(frame)[is_old].mean(axis=3) - read(young)[is_old].mean(axis=3)
    assert (brighter.max(axis=(1, 2)) > 100).all()


def test_a_group_is_mostly_in_its_place_and_the_others_as_before(tmp_path):
    frame = draw(tmp_path, places={"Eared Men": "lake"}, per_group=24, size=8)
    counts = pd.crosstab(frame["group"], frame["place"])
    assert counts.loc["Eared Men", "lake"] == pytest.approx(24 * 7 / 12, abs=2)
    assert (counts.drop("Eared Men") - 4).abs().max(axis=None) <= 1
    before = draw(tmp_path, per_group=24, size=8)
    is_same = frame["sha256"] == before["sha256"]
    assert is_same.groupby(frame["group"]).all().to_dict() == {
        "Eared Men": False, "Eared Women": True, "Horned Men": True, "Horned Women": True,
    }  # fmt: skip


def test_a_share_of_each_group_is_on_plain_grey_and_the_others_as_before(tmp_path):
    frame = draw(tmp_path, plain=0.25, per_group=24, size=32)
    is_plain = (frame["place"] == "").to_numpy()
    assert (frame[[*contents.CONTENTS]] == "").all(axis=1).tolist() == is_plain.tolist()
    assert pd.Series(is_plain).groupby(frame["group"]).sum().tolist() == [6, 6, 6, 6]
    edge = read(frame)[:, [0, 0, -1, -1], [0, -1, 0, -1]]
    assert (np.ptp(edge.reshape(len(frame), -1), axis=1) == 0).tolist() == is_plain.tolist()
    words = pd.DataFrame({name: values[:1] for name, values in contents.CONTENTS.items()})
    assert not contents.count_shared_contents(frame[is_plain], words).any()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"sets": {"lake": "angler"}}, "faces.sets: expected an occupation for each of dunes, meadow"),
        ({"sets": SETS, "places": {"Eared Men": "lake"}}, "faces.places: a set shows the same place"),
        ({"sets": SETS, "plain": 0.5}, "faces.plain: a set shows the same place"),
        ({"places": {"Eared Man": "lake"}}, "faces.places.Eared Man=lake: expected a group"),
        ({"places": {"Eared Men": "pond"}}, "faces.places.Eared Men=pond: expected a group"),
        ({"ages": {"old": 2.0}}, "faces.ages.old=2: must be from 0 to 1"),
    ],
)
def test_impossible_people_are_refused(tmp_path, values, message):
    with pytest.raises(InputError, match=f"^{message}"):
        draw(tmp_path, **values)


def test_options_at_their_defaults_leave_key_and_config_hash(job, tmp_path):
    entries = [
        draw(tmp_path / "store", **values)["path"][0] for values in ({}, {"per_person": 1, "sets": {}})
    ]
    assert entries[0] == entries[1]
    faces = job("model=toy_s", "exp=faces_to_words").resolved["faces"]
    late = {"per_person", "sets", "ages", "places", "plain"}
    assert late <= {*faces}
    assert not late & {*without_unhashed_fields("faces", faces)}
    changed = {**faces, "per_person": 2, "ages": AGES}
    assert late & {*without_unhashed_fields("faces", changed)} == {"per_person", "ages"}


def test_valence_is_planted_on_groups_places_and_ages():
    faces = pd.DataFrame({"group": ["A", "B", "B", "A"], "rank": [0.5, 0.5, 0.25, 0.75]})
    faces = faces.assign(place=["lake", "sky", "lake", "sky"], age=["young", "old", "old", "young"])
    words = pd.DataFrame({"rank": np.linspace(0, 1, 201)}).assign(**dict.fromkeys(contents.CONTENTS, ""))
    planted = {"A": 0.1, "lake": -0.2, "old": 0.05}
    recipe = configs.DemoConfig(bias=0.5, noise=0.1, planted=planted)
    nearest = words["rank"].to_numpy()[text_weights.weigh_words_of_faces(faces, words, recipe).argmax(axis=1)]
    spread = text_weights.EXPRESSION_WIDTH
    shifts = np.array([0.1 - 0.2, 0.05, 0.05 - 0.2, 0.1])
    assert nearest == pytest.approx(0.5 + spread * (faces["rank"] - 0.5) + 0.5 * shifts, abs=0.003)


def test_the_shipped_variants_have_what_they_say(job, tmp_path):
    small = ("model=toy_s", "exp=faces_to_words", "faces.per_group=18", f"store.stimuli={tmp_path}")
    cfg = job("dataset=demo_people", *small).cfg
    frame = load(cfg, "faces").frame
    assert {"set", "occupation", "person", "age"} <= {*frame}
    probes = {caption for listed in cfg.demo.probes.values() for caption in listed}
    assert {f"a photo of a {name}" for name in frame["occupation"]} <= probes
    assert {"young", "old", *frame["group"]} == {*cfg.demo.planted}
    words = [word for kind in cfg.classes.harmful for word in cfg.classes.kinds[kind]]
    assert all(any(caption.endswith(f" {word}") for caption in probes) for word in words)
    cfg = job("dataset=demo_places", *small, "faces.per_group=72", "faces.size=8").cfg
    frame = load(cfg, "faces").frame
    assert {*cfg.faces.places} == {*frame["group"]}
    assert {*cfg.demo.planted, ""} == {*frame["place"], *frame["group"]}
    frame = frame[frame["place"] != ""]
    shifts = frame["group"].map(cfg.demo.planted) + frame["place"].map(cfg.demo.planted)
    assert shifts.groupby(frame["group"]).mean().abs().max() < 0.08
