"""Morphs: which pairs, what lies between two faces, and work that goes on where it broke off."""

import dataclasses
import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from src import configs, stimuli
from src.configs.models import ToyConfig
from src.configs.roles import PeopleConfig
from src.demo import toys, world
from src.errors import InputError
from src.stimuli import morphs
from src.stimuli.morphs import flow, standard, work
from src.stimuli.morphs.pairing import pairs
from src.storage import cache
from tests.paths import CHECKOUT

CHOICE = {"method": "flow", "per_group": 5, "size": 64, "seed": 0, "workers": 1}
PARENTS = ["faces=morphs", "faces@faces.parents=avatars", "faces.parents.per_group=6", "faces.size=64"]


@pytest.fixture(scope="module")
def faces(tmp_path_factory) -> pd.DataFrame:
    """24 avatars of four groups."""
    avatars = configs.AvatarsConfig(
        per_group=6,
        size=96,
        seed=3,
        peoples={"Niffite": PeopleConfig(0.33, "horns"), "Luupite": PeopleConfig(0.55, "ears")},
        genders={"Women": 0.8, "Men": 0.2},
        hue_sd=0.06,
        hair_sd=0.2,
        places={"meadow": 0.28},  # one: what lies behind the faces would say how far they are apart
    )
    return world.faces(avatars, tmp_path_factory.mktemp("avatars"))


@pytest.fixture(scope="module")
def made(faces, tmp_path_factory) -> pd.DataFrame:
    """Their morphs, made in one go."""
    return morphs.load(configs.MorphsConfig(**CHOICE), faces, tmp_path_factory.mktemp("made"))[0]


def pixels(paths) -> np.ndarray:
    return np.stack([standard.standard(path, 64) for path in paths]).astype(np.float32) / 255


class TestPairs:
    @given(
        groups=st.dictionaries(
            st.text("abc", min_size=1, max_size=3),
            st.lists(st.integers(0, 99).map(str), min_size=2, max_size=12, unique=True),
            min_size=1,
            max_size=4,
        ),
        data=st.data(),
    )
    def test_each_is_of_one_group_and_drawn_once(self, groups, data):
        # Groups may share ids here: an id names a face of this group.
        least = min(len(own) * (len(own) - 1) // 2 for own in groups.values())
        count = data.draw(st.integers(1, least))
        drawn = pairs(groups, count, seed=1)
        assert list(drawn) == sorted(groups)
        for group, own in drawn.items():
            every = {tuple(sorted(pair)) for pair in itertools.combinations(groups[group], 2)}
            assert len(own) == len(set(own)) == count
            assert set(own) <= every
            if count == len(every):
                assert set(own) == every

    def test_every_pair_is_as_likely_as_any_other(self):
        parents = list("abcdef")
        counts = pd.Series(
            [pair for seed in range(3000) for pair in pairs({"g": parents}, 3, seed)["g"]]
        ).value_counts()
        assert len(counts) == 15
        # 3000 draws of 3 of 15 pairs: 600 each, SD 22.
        assert counts.between(600 - 90, 600 + 90).all()

    def test_the_order_of_the_parents_does_not_matter_and_the_seed_does(self):
        groups = {"x": [str(n) for n in range(30)], "y": [str(n) for n in range(30)]}
        turned = {group: groups[group][::-1] for group in ("y", "x")}
        assert pairs(groups, 20, 0) == pairs(turned, 20, 0)
        assert pairs(groups, 20, 0) != pairs(groups, 20, 1)
        assert pairs(groups, 20, 0)["x"] != pairs(groups, 20, 0)["y"]

    def test_more_than_there_are_is_refused_with_what_there_is(self):
        groups = {"many": list("abcdefgh"), "few": list("abcd"), "fewer": list("abc")}
        message = r"per_group=7: .*few: 4 faces, 6 pairs; fewer: 3 faces, 3 pairs\)\. .*per_group=3 or less"
        with pytest.raises(InputError, match=message):
            pairs(groups, 7, 0)
        with pytest.raises(InputError, match=r"alone: 1 faces, 0 pairs\)\. A morph needs two faces"):
            pairs({"alone": ["a"]}, 1, 0)


class TestStandard:
    @pytest.mark.parametrize("shape", [(300, 200), (200, 300), (240, 240)])
    @pytest.mark.parametrize("suffix", [".png", ".jpg"])
    def test_points_go_where_the_picture_goes(self, tmp_path, shape, suffix):
        photo = np.zeros((*shape, 3), np.uint8)
        x, y = 130, 110
        photo[y - 4 : y + 5, x - 4 : x + 5] = 255
        path = tmp_path / f"photo{suffix}"
        Image.fromarray(photo).save(path)
        small = standard.standard(path, 40)[..., 0].astype(float)
        assert small.shape == (40, 40)
        centre = [(small.sum(axis=axis) * np.arange(40)).sum() / small.sum() for axis in (0, 1)]
        at = standard.carried(np.array([[x, y]]), shape[1], shape[0], 40)
        assert centre == pytest.approx(at[0].tolist(), abs=0.1)


class TestBetween:
    """A morph lies between its parents, and nearer to them than to others."""

    def embedded(self, pictures: np.ndarray) -> np.ndarray:
        config = ToyConfig(
            image_size=64, patch_size=16, width=32, layers=2, heads=2, embed_dim=16, context_length=8
        )
        model = toys.build(config).eval()
        with torch.no_grad():
            found = model.encode_image(torch.from_numpy(pictures).permute(0, 3, 1, 2), normalize=True)
        return found.numpy()

    @pytest.mark.parametrize("space", ["pixels", "embedding"])
    def test_it_lies_between_its_parents(self, faces, made, space):
        place = (
            self.embedded if space == "embedding" else (lambda pictures: pictures.reshape(len(pictures), -1))
        )
        of = dict(zip(faces["id"], place(pixels(faces["path"])), strict=True))
        own, other = [], []
        for morph, row in zip(place(pixels(made["path"])), made.itertuples(), strict=True):
            a, b = of[row.parent_a], of[row.parent_b]
            own.append([np.linalg.norm(morph - a), np.linalg.norm(morph - b), np.linalg.norm(a - b)])
            other += [np.linalg.norm(morph - of[name]) for name in set(of) - {row.parent_a, row.parent_b}]
        own = np.array(own)
        between = (own[:, :2] < own[:, 2:]).all(axis=1)
        # Random weights order distances as pixels do, but for an exception or two.
        assert between.mean() == 1 if space == "pixels" else between.mean() > 0.85
        assert own[:, :2].mean() < 0.7 * np.mean(other)


class TestTable:
    def test_it_names_both_parents_of_one_group(self, faces, made):
        of = faces.set_index("id")
        assert len(made) == 20
        assert made["id"].is_unique
        assert (made["id"] == made["parent_a"] + "~" + made["parent_b"]).all()
        assert (made["parent_a"] < made["parent_b"]).all()
        for column in ("group", "race", "gender"):
            for parent in ("parent_a", "parent_b"):
                assert (made[parent].map(of[column]) == made[column]).all()
        assert [cache.file_hash(Path(path)) for path in made["path"]] == made["sha256"].tolist()
        with Image.open(made["path"][0]) as picture:
            assert (picture.size, picture.mode) == ((64, 64), "RGB")

    def test_the_contact_sheet_has_a_row_per_group(self, made):
        with Image.open(Path(made["path"][0]).with_name("contact_sheet.jpg")) as sheet:
            assert sheet.height == 4 * (16 + 112 + 8)

    def test_neither_order_nor_place_of_the_parents_matters(self, faces, made, tmp_path):
        again, _, _ = morphs.load(
            configs.MorphsConfig(**CHOICE), faces.sample(frac=1, random_state=0), tmp_path
        )
        pd.testing.assert_frame_equal(again.drop(columns="path"), made.drop(columns="path"))

    def test_another_seed_takes_other_pairs(self, faces, made, tmp_path):
        other, expected, notes = morphs.load(configs.MorphsConfig(**CHOICE | {"seed": 1}), faces, tmp_path)
        assert set(other["id"]) != set(made["id"])
        shared = other.merge(made, on="id")
        assert (shared["sha256_x"] == shared["sha256_y"]).all()
        assert expected == 20
        assert len(notes) == 1
        assert notes[0].startswith("flow morphs of ")

    def test_within_dry_nothing_is_made(self, faces, tmp_path):
        with cache.dry(), pytest.raises(cache.NotStored):
            morphs.load(configs.MorphsConfig(**CHOICE), faces, tmp_path / "store")
        assert not (tmp_path / "store").exists()


class TestWork:
    def test_what_is_finished_is_kept_and_what_is_damaged_is_remade(self, faces, made, tmp_path, monkeypatch):
        write, written = work.write, []

        def breaking(path, content):
            written.append(path)
            if len(written) == 32:  # the parents, and a few morphs
                raise KeyboardInterrupt
            write(path, content)

        monkeypatch.setattr(work, "write", breaking)
        with pytest.raises(KeyboardInterrupt):
            morphs.load(configs.MorphsConfig(**CHOICE), faces, tmp_path / "store")
        assert not list((tmp_path / "store").iterdir())
        assert sorted(path.name[-8:] for path in tmp_path.iterdir()) == [".partial", "store"]
        finished = written[:-1]
        half, flipped = finished[-2], finished[3]
        half.write_bytes(half.read_bytes()[:-200])
        content = bytearray(flipped.read_bytes())
        content[-13] ^= 1  # the picture still decodes: only its checksums tell
        flipped.write_bytes(content)

        written.clear()
        monkeypatch.setattr(work, "write", lambda path, content: (written.append(path), write(path, content)))
        again, _, _ = morphs.load(configs.MorphsConfig(**CHOICE), faces, tmp_path / "store")
        assert not set(written) & set(finished) - {half, flipped}
        assert {half, flipped} < set(written)
        assert again["sha256"].tolist() == made["sha256"].tolist()
        assert [path.name for path in tmp_path.iterdir()] == ["store"]
        assert len(list((tmp_path / "store").iterdir())) == 1

    def test_ctrl_c_leaves_no_process_and_the_same_command_goes_on(self, tmp_path):
        # Two workers are interrupted, one goes on: what they make must be the same.
        overrides = [*PARENTS, "faces.parents.size=96", "faces.size=224", "faces.per_group=12"]
        command = [sys.executable, "-m", "src.stage", "morph", *overrides, "faces.workers=2"]
        command += [f"store.stimuli={tmp_path}/stimuli", f"store.morphs={tmp_path}/morphs"]
        process = subprocess.Popen(
            command,
            cwd=CHECKOUT,
            stderr=subprocess.PIPE,
            start_new_session=True,
            # A suite that runs in the background hands on an ignored Ctrl-C.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        finished: list[Path] = []
        while len(finished) < 5 and process.poll() is None:
            time.sleep(0.02)
            finished = list(tmp_path.glob(".*.partial/morphs/0*.png"))
        children = psutil.Process(process.pid).children(recursive=True)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        said = process.communicate(timeout=300)[1].decode()
        assert process.returncode == 130
        assert "Interrupted" in said
        assert "Traceback" not in said
        assert len(children) >= 2
        assert not psutil.wait_procs(children, timeout=60)[1]
        kept = {path.name: path.stat().st_ino for path in finished if path.exists()}
        assert len(kept) >= 5

        cfg = composed(*overrides, "faces.workers=1", *command[-2:])
        frame = stimuli.load(cfg, "faces").frame
        assert len(frame) == 72
        inodes = {Path(path).name: Path(path).stat().st_ino for path in frame["path"]}
        assert kept.items() <= inodes.items()
        picture = stimuli.load(parents(cfg), "faces").frame.set_index("id")["path"]
        for row in frame[[Path(path).name in kept for path in frame["path"]]].itertuples():
            a, b = (standard.standard(picture[name], 224) for name in (row.parent_a, row.parent_b))
            with Image.open(row.path) as morph:
                assert (np.asarray(morph) == flow.morph(a, b)).all()


def composed(*overrides: str) -> configs.RunConfig:
    from src.jobs.identity import Job

    return Job.of(*configs.compose(list(overrides)), "").cfg


def parents(cfg: configs.RunConfig) -> configs.RunConfig:
    return dataclasses.replace(cfg, faces=cfg.faces.parents)


class TestConfig:
    def test_any_faces_can_be_the_parents(self, tmp_path):
        cfg = composed(
            *PARENTS,
            "faces.per_group=2",
            "faces.workers=1",
            f"store.stimuli={tmp_path}",
            f"store.morphs={tmp_path}/morphs",
        )
        assert isinstance(cfg.faces.parents, configs.AvatarsConfig)
        with cache.dry():
            assert stimuli.drawn(cfg.faces, cfg.store) == 12
        table = stimuli.load(cfg, "faces")
        assert table.statement().startswith("faces: 12 used of 12 (flow morphs of ")
        assert len(table.groups) == 6

        other = composed("dataset=photos", "words=vader", "faces=morphs", "faces@faces.parents=fairface")
        assert isinstance(other.faces.parents, configs.FairFaceConfig)
        assert other.faces.parents.root.endswith("data/raw/fairface")

    def test_what_is_wrong_with_the_parents_is_said_of_the_parents(self, tmp_path):
        (tmp_path / "faces.csv").mkdir()
        chosen = ["dataset=photos", "words=vader", "faces=morphs", "faces@faces.parents=fairface"]
        cfg = composed(*chosen, f"dataset.root={tmp_path}/faces.csv")
        with pytest.raises(InputError, match=r"faces\.csv/fairface.*no such file.*or faces\.parents\.root"):
            stimuli.load(cfg, "faces")

    def test_morphs_are_not_morphed_again(self):
        with pytest.raises(InputError, match="not morphed again"):
            stimuli.load(composed("faces=morphs", "faces@faces.parents=morphs"), "faces")
