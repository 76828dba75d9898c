"""Test pairs of parents, that morphs lie between their parents, and that interrupted work resumes."""

import itertools
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlflow import MlflowClient
from PIL import Image

from src import configs, stimuli
from src.configs.roles import PeopleConfig
from src.demo import world
from src.errors import InputError
from src.jobs.identity import Job
from src.stimuli import clusters, morphs, pictures
from src.stimuli.morphs import count_families, draw_families, draw_pairs, midpoints, parallel_files
from src.storage import cache
from src.studies.shared.exchange_units import build_exchange
from tests.commands import FEW_DRAWS, command
from tests.conftest import store_overrides
from tests.launched import runs_below
from tests.paths import CHECKOUT
from tests.stimuli import drawn

CHOICE = {"method": "flow", "per_group": 5, "size": 64, "seed": 0, "workers": 1}
PARENTS = ["faces=morphs", "faces@faces.parents=avatars", "faces.parents.per_group=6", "faces.size=64"]


@pytest.fixture(scope="module")
def faces(tmp_path_factory) -> pd.DataFrame:
    """Draw 24 avatars of four groups."""
    peoples = {"Niffite": PeopleConfig(0.33, "horns"), "Luupite": PeopleConfig(0.55, "ears")}
    spread = {"hue_sd": 0.06, "hair_sd": 0.2}
    avatars = drawn.avatars(6, 96, peoples, seed=3, genders={"Women": 0.8, "Men": 0.2}, **spread)
    return world.draw_faces(avatars, tmp_path_factory.mktemp("avatars"))


@pytest.fixture(scope="module")
def made(faces, tmp_path_factory) -> pd.DataFrame:
    """Make morphs of these avatars without an interruption."""
    return morphs.load(configs.MorphsConfig(**CHOICE), faces, tmp_path_factory.mktemp("made"))[0]


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
    def test_pairs_are_distinct_and_within_groups(self, groups, data):
        # Two groups may hold the same id: it names a face within its group.
        count = data.draw(st.integers(1, min(math.comb(len(ids), 2) for ids in groups.values())))
        chosen = draw_pairs(groups, count, seed=1)
        assert list(chosen) == sorted(groups)
        for group, couples in chosen.items():
            possible = {tuple(sorted(pair)) for pair in itertools.combinations(groups[group], 2)}
            assert len(couples) == len(set(couples)) == count
            assert set(couples) <= possible

    def test_too_many_pairs_are_refused(self):
        groups = {"many": list("abcdefgh"), "few": list("abcd"), "fewer": list("abc")}
        message = r"per_group=7: .*few: 4 faces, 6 pairs; fewer: 3 faces, 3 pairs\)\. .*per_group=3 or less"
        with pytest.raises(InputError, match=message):
            draw_pairs(groups, 7, 0)
        with pytest.raises(InputError, match=r"alone: 1 faces, 0 pairs\)\. A morph needs two faces"):
            draw_pairs({"alone": ["a"]}, 1, 0)


class TestFamilies:
    @given(
        sizes=st.dictionaries(st.text("abc", min_size=1, max_size=3), st.integers(5, 40), min_size=1),
        per_group=st.integers(15, 100),
    )
    def test_families_are_complete_disjoint_and_within_groups(self, sizes, per_group):
        groups = {group: [f"{group}{n}" for n in range(size)] for group, size in sizes.items()}
        drawn = draw_families(groups, per_group, seed=1)
        assert list(drawn) == sorted(groups)
        for group, of_group in drawn.items():
            members = list(itertools.chain(*of_group))
            assert all(len(family) == 5 and family == sorted(family) for family in of_group)
            assert len(members) == len({*members})
            assert {*members} <= {*groups[group]}
            # A further family would lack parents, or exceed the maximum.
            assert 15 * len(of_group) <= per_group
            assert sizes[group] - len(members) < 5 or 15 * (len(of_group) + 1) > per_group

    @pytest.mark.parametrize(("draw", "per_group"), [(draw_pairs, 20), (draw_families, 1000)])
    def test_the_draw_depends_on_seed_and_group_not_on_order(self, draw, per_group):
        groups = {"x": [str(n) for n in range(30)], "y": [str(n) for n in range(30)]}
        reordered = {group: groups[group][::-1] for group in ("y", "x")}
        drawn = draw(groups, per_group, 0)
        assert drawn == draw(reordered, per_group, 0)
        assert drawn != draw(groups, per_group, 1)
        assert drawn["x"] != drawn["y"]
        if draw is draw_families:
            assert draw(groups, 50, 0) == {group: families[:3] for group, families in drawn.items()}

    def test_too_few_parents_or_faces_are_refused(self):
        message = r"expected at least 5 parents .*; got few: 4; none: 1\. Choose more parents"
        with pytest.raises(InputError, match=message):
            count_families({"none": 1, "many": 50, "few": 4}, 1000)
        with pytest.raises(InputError, match=r"faces\.per_group=14: .* Set faces\.per_group=15 or more"):
            count_families({"many": 50}, 14)


@pytest.mark.parametrize(("shape", "suffix"), [((300, 200), ".png"), ((200, 300), ".jpg")])
def test_points_follow_the_picture(tmp_path, shape, suffix):
    photo = np.zeros((*shape, 3), np.uint8)
    x, y = 130, 110
    photo[y - 4 : y + 5, x - 4 : x + 5] = 255
    path = tmp_path / f"photo{suffix}"
    Image.fromarray(photo).save(path)
    small = pictures.standardise(path, 40)[..., 0].astype(float)
    assert small.shape == (40, 40)
    centre = [(small.sum(axis=axis) * np.arange(40)).sum() / small.sum() for axis in (0, 1)]
    expected = pictures.standardise_points(np.array([[x, y]]), shape[1], shape[0], 40)
    assert centre == pytest.approx(expected[0].tolist(), abs=0.1)


def test_a_morph_lies_between_its_parents(faces, made):
    def pixels(paths):
        return [pictures.standardise(path, 64).astype(float).ravel() / 255 for path in paths]

    vectors = dict(zip(faces["id"], pixels(faces["path"]), strict=True))
    to_parents, to_others = [], []
    for morph, row in zip(pixels(made["path"]), made.itertuples(), strict=True):
        a, b = vectors[row.parent_a], vectors[row.parent_b]
        to_parents += [np.linalg.norm(morph - a), np.linalg.norm(morph - b)]
        assert max(to_parents[-2:]) < np.linalg.norm(a - b)
        others = set(vectors) - {row.parent_a, row.parent_b}
        to_others += [np.linalg.norm(morph - vectors[name]) for name in others]
    assert np.mean(to_parents) < 0.7 * np.mean(to_others)


class TestTable:
    def test_each_row_names_both_parents(self, faces, made):
        attributes = faces.set_index("id")
        assert len(made) == 20
        assert made["id"].is_unique
        assert (made["id"] == made["parent_a"] + "~" + made["parent_b"]).all()
        assert (made["parent_a"] < made["parent_b"]).all()
        for column in ("group", "race", "gender"):
            for parent in ("parent_a", "parent_b"):
                assert (made[parent].map(attributes[column]) == made[column]).all()
        assert [cache.file_hash(Path(path)) for path in made["path"]] == made["sha256"].tolist()
        with Image.open(made["path"][0]) as picture:
            assert (picture.size, picture.mode) == ((64, 64), "RGB")
        with Image.open(Path(made["path"][0]).with_name("contact_sheet.jpg")) as sheet:
            assert sheet.height == 4 * (16 + 112 + 8)  # a row per group

    def test_families_hold_their_parents_and_all_pairs(self, faces, tmp_path):
        cfg = configs.MorphsConfig(**CHOICE | {"per_group": 20, "morphs": "families"})
        frame, expected, notes = morphs.load(cfg, faces, tmp_path / "store")
        sizes = dict.fromkeys(sorted(faces["group"].unique()), 15)
        assert (frame["group"].value_counts().to_dict(), expected) == (sizes, 60)
        counts = ", ".join(f"{group} 1 (15 faces)" for group in sizes)
        assert notes == [
            "flow morphs of 20 of 24 parents",
            f"families of 5 parents and the 10 morphs of their pairs: {counts}, at most 20 faces per group",
            "4 parents left over, not used",
        ]
        by_id = faces.set_index("id")
        standardised = {name: pictures.standardise(path, 64) for name, path in by_id["path"].items()}
        for group, rows in frame.groupby("group"):
            is_parent = rows["parent_a"] == rows["parent_b"]
            members = rows["id"][is_parent]
            assert len(members) == 5
            assert {*by_id["group"][members]} == {group}
            pairs = {*zip(rows["parent_a"], rows["parent_b"], strict=True)}
            assert pairs == {*itertools.combinations_with_replacement(sorted(members), 2)}
        assert frame["race"].notna().all()
        for row in frame.itertuples():
            a, b = standardised[row.parent_a], standardised[row.parent_b]
            with Image.open(row.path) as picture:
                expected_picture = a if row.parent_a == row.parent_b else midpoints.morph_by_flow(a, b)
                assert (np.asarray(picture) == expected_picture).all()
        assert [cache.file_hash(Path(path)) for path in frame["path"]] == frame["sha256"].tolist()
        with Image.open(Path(frame["path"][0]).with_name("contact_sheet.jpg")) as sheet:
            assert sheet.height == 4 * (16 + 112 + 8)
        pairs = morphs.load(replace(cfg, morphs="pairs", per_group=5), faces, tmp_path / "store")[0]
        assert not {*frame["path"]} & {*pairs["path"]}


def listed(kind: str, groups: int, parents: int, per_group: int, seed: int = 0) -> stimuli.Table:
    """List families, or pairs, of parents named after their group, without their pictures."""
    rows = [(f"g{group}-{n:02}", f"g{group}") for group in range(groups) for n in range(parents)]
    cfg = configs.MorphsConfig(**CHOICE | {"per_group": per_group, "seed": seed, "morphs": kind})
    table = morphs.list_faces(pd.DataFrame(rows, columns=["id", "group"]), cfg)
    return stimuli.build_table("faces", table, kind)


class TestExchange:
    def test_each_family_is_a_cluster_that_can_change_place(self):
        table = listed("families", groups=6, parents=93, per_group=1000)
        drawn_families = draw_families({g: [f"{g}-{n:02}" for n in range(93)] for g in table.groups}, 1000, 0)
        first_of = {
            name: family[0] for families in drawn_families.values() for family in families for name in family
        }
        cluster = clusters.merge_linked(clusters.assign_clusters(table))
        for side in ("parent_a", "parent_b"):
            assert (cluster == table.frame[side].map(first_of)).all()

        exchange = build_exchange(table, seed=0)
        assert exchange.n_clusters == 6 * 18
        for group in table.groups:
            assert exchange.explain_refusal(group) == ""
            log_placements, movable = exchange.count_placements(group)
            assert (10**log_placements, movable) == (pytest.approx(math.comb(108, 18)), 1)

    def test_pairs_link_all_parents_of_a_group_so_that_there_are_too_few_placements(self):
        table = listed("pairs", groups=6, parents=93, per_group=1000)
        exchange = build_exchange(table, seed=0)
        assert exchange.n_clusters == 6
        assert {exchange.explain_refusal(group) for group in table.groups} == {"fewer than 1,000 placements"}

    def test_permuted_families_hold_the_level_when_groups_are_alike(self):
        # Faces resemble their parents, and parents of both groups are alike; only parents are independent.
        table = listed("families", groups=2, parents=40, per_group=1000)
        names, places = np.unique(table.frame[["parent_a", "parent_b"]], return_inverse=True)
        is_first = (table.frame["group"] == "g0").to_numpy()
        draws_by_world = np.split(build_exchange(table, seed=0).draw_permutations(200 * 19), 200)
        p_values = {"by family": [], "by face": []}
        for seed, by_family in enumerate(draws_by_world):
            rng = np.random.default_rng([7, seed])
            vectors = rng.normal(size=(len(names), 4))[places.reshape(-1, 2)].mean(axis=1)
            vectors += 0.1 * rng.normal(size=vectors.shape)
            by_face = np.stack([rng.permutation(len(vectors)) for _ in range(19)])
            for unit, permutations in (("by family", by_family), ("by face", by_face)):
                labels = np.concatenate([is_first[None], is_first[permutations]])
                means = labels @ vectors / labels.sum(axis=1, keepdims=True)
                distances = np.linalg.norm(means - vectors.mean(axis=0), axis=1)
                p_values[unit].append((distances >= distances[0] - 1e-12).mean())
        levels = {unit: float(np.mean(np.array(p) <= 0.05)) for unit, p in p_values.items()}
        # Within 2.6 standard errors of 200 worlds.
        assert levels["by family"] == pytest.approx(0.05, abs=0.04), levels
        assert levels["by face"] > 0.3, levels


class TestWork:
    def test_finished_files_are_reused_and_damaged_ones_made_again(self, faces, made, tmp_path, monkeypatch):
        write, written = parallel_files.write_file, []

        def interrupting(path, content):
            written.append(path)
            if len(written) == 32:  # after the parents and a few morphs
                raise KeyboardInterrupt
            write(path, content)

        monkeypatch.setattr(parallel_files, "write_file", interrupting)
        with pytest.raises(KeyboardInterrupt):
            morphs.load(configs.MorphsConfig(**CHOICE), faces, tmp_path / "store")
        assert not list((tmp_path / "store").iterdir())
        assert sorted(path.name[-8:] for path in tmp_path.iterdir()) == [".partial", "store"]
        finished = written[:-1]
        truncated, flipped = finished[-2], finished[3]
        truncated.write_bytes(truncated.read_bytes()[:-200])
        content = bytearray(flipped.read_bytes())
        content[-13] ^= 1  # the picture still decodes: only its checksum reveals the damage
        flipped.write_bytes(content)

        written.clear()
        monkeypatch.setattr(
            parallel_files, "write_file", lambda path, content: (written.append(path), write(path, content))
        )
        resumed, _, _ = morphs.load(configs.MorphsConfig(**CHOICE), faces, tmp_path / "store")
        assert not set(written) & set(finished) - {truncated, flipped}
        assert {truncated, flipped} < set(written)
        assert resumed["sha256"].tolist() == made["sha256"].tolist()
        assert [path.name for path in tmp_path.iterdir()] == ["store"]
        assert len(list((tmp_path / "store").iterdir())) == 1

    @pytest.mark.thorough
    def test_ctrl_c_leaves_no_process_and_the_same_command_resumes(self, tmp_path):
        # Two workers are interrupted and one resumes: both runs must make the same pictures.
        overrides = [*PARENTS, "faces.parents.size=96", "faces.size=224", "faces.per_group=12"]
        command = [sys.executable, "-m", "src.stage", "morph", *overrides, "faces.workers=2"]
        command += [f"store.stimuli={tmp_path}/stimuli", f"store.morphs={tmp_path}/morphs"]
        process = subprocess.Popen(
            command, cwd=CHECKOUT, stderr=subprocess.PIPE, start_new_session=True,
            # A suite that runs in the background ignores Ctrl-C, and its children inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip
        finished: list[Path] = []
        while len(finished) < 5 and process.poll() is None:
            time.sleep(0.02)
            finished = list(tmp_path.glob(".*.partial/morphs/0*.png"))
        children = psutil.Process(process.pid).children(recursive=True)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        printed = process.communicate(timeout=300)[1].decode()
        assert process.returncode == 130
        assert "Interrupted" in printed
        assert "Traceback" not in printed
        assert len(children) >= 2
        assert not psutil.wait_procs(children, timeout=60)[1]
        reused = {path.name: path.stat().st_ino for path in finished if path.exists()}
        assert len(reused) >= 5

        cfg = composed(*overrides, "faces.workers=1", *command[-2:])
        frame = stimuli.load(cfg, "faces").frame
        assert len(frame) == 72
        inodes = {Path(path).name: Path(path).stat().st_ino for path in frame["path"]}
        assert reused.items() <= inodes.items()
        parent_paths = stimuli.load_parents(cfg).frame.set_index("id")["path"]
        for row in frame[[Path(path).name in reused for path in frame["path"]]].itertuples():
            a, b = (pictures.standardise(parent_paths[name], 224) for name in (row.parent_a, row.parent_b))
            with Image.open(row.path) as morph:
                assert (np.asarray(morph) == midpoints.morph_by_flow(a, b)).all()


def composed(*overrides: str) -> configs.RunConfig:
    return Job.of(*configs.compose(list(overrides)), "").cfg


class TestConfig:
    def test_any_faces_but_morphs_can_be_the_parents(self, tmp_path):
        stores = [f"store.stimuli={tmp_path}", f"store.morphs={tmp_path}/morphs"]
        cfg = composed(*PARENTS, "faces.per_group=2", "faces.workers=1", *stores)
        assert isinstance(cfg.faces.parents, configs.AvatarsConfig)
        with cache.forbid_building():
            assert stimuli.count_generated(cfg.faces, cfg.store) == 12
        table = stimuli.load(cfg, "faces")
        assert table.describe().startswith("faces: 12 used of 12 (flow morphs of ")
        assert len(table.groups) == 6

        other = composed("dataset=photos", "words=vader", "faces=morphs", "faces@faces.parents=fairface",
            f"dataset.root={tmp_path}/data/raw")  # fmt: skip
        assert isinstance(other.faces.parents, configs.FairFaceConfig)
        assert other.faces.parents.root.endswith("data/raw/fairface")
        with pytest.raises(InputError, match=r"no such file.*or faces\.parents\.root"):
            stimuli.load(other, "faces")
        with pytest.raises(InputError, match="cannot be parents of morphs"):
            stimuli.load(composed("faces=morphs", "faces@faces.parents=morphs"), "faces")

    def test_families_are_planned_before_their_parents_are_drawn(self, tmp_path):
        stores = [f"store.stimuli={tmp_path}", f"store.morphs={tmp_path}/morphs"]
        chosen = [*PARENTS, "faces.morphs=families", "faces.parents.per_group=11", *stores]
        with cache.forbid_building():
            for per_group, families in ((100, 2), (15, 1)):
                cfg = composed(*chosen, f"faces.per_group={per_group}")
                assert stimuli.count_generated(cfg.faces, cfg.store) == 6 * families * 15
        assert not list(tmp_path.iterdir())
        with pytest.raises(InputError, match=r"faces\.morphs=family: must be one of pairs, families"):
            composed(*PARENTS, "faces.morphs=family")


def test_a_job_on_families_of_drawn_cfd_has_a_placebo(small, tmp_path, capsys):
    drawn.cfd(tmp_path / "raw" / "cfd", 22)
    drawn.oasis(tmp_path / "raw" / "oasis", 60)
    drawn.nrc_vad(tmp_path / "raw" / "nrc_vad", 60)
    overrides = [
        "dataset=paper", f"dataset.root={tmp_path}/raw", "model=clip_b32", "model.weights=random",
        "exp=words_to_faces", "faces.morphs=families", "faces.per_group=61", "faces.size=32",
        "faces.workers=1", "protocol.k=30", "protocol.set_size=12", "trainer=cpu", "trainer.workers=0",
        *FEW_DRAWS, *store_overrides(tmp_path),
    ]  # fmt: skip
    assert command(tmp_path / "o", *overrides).code == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "faces: 360 used of 360 (flow morphs of 120 of 132 parents; families of 5 parents" in printed
    assert "White Women 4 (60 faces), at most 61 faces per group; 12 parents left over, not used" in printed
    analyses = pd.read_csv(tmp_path / "o" / "results" / "analyses.csv")
    assert analyses["p_placebo"].between(1 / 21, 1).all()

    cfg = composed(*overrides)
    faces, parents = stimuli.load(cfg, "faces").frame, stimuli.load_parents(cfg).frame
    assert {*faces["parent_a"]} == {*faces["parent_b"]} < {*parents["id"]}
    _, (run,) = runs_below(tmp_path, "paper")
    client = MlflowClient(f"sqlite:///{tmp_path}/mlruns/mlflow.db")
    (sheet,) = client.list_artifacts(run.info.run_id, "morphs")
    assert sheet.path == "morphs/contact_sheet.jpg"
