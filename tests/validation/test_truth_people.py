"""Check scores of what is planted in variants of the world, and that violated claims on them are detected."""

import pandas as pd
import pytest

from src import configs
from src.jobs.identity import Job
from tests.conftest import SHRUNK, store_overrides
from validation.truth import people_scores
from validation.truth.people import main
from validation.truth.people_claims import claims
from validation.truth.people_experiments import PEOPLE_EXPERIMENTS, PeopleRuns

NOT_OF_TRUTH = ("tracking.", "report=", "model.name=")


@pytest.mark.exhaustive
@pytest.mark.timeout(3000)
def test_planted_people_are_measured_in_shrunk_worlds(stores, tmp_path, capsys):
    """Run one seed of small worlds, too little for a claim to hold; on shuffled vectors none may hold."""
    overrides = [*SHRUNK, *store_overrides(stores), "faces.per_group=90"]
    overrides = [override for override in overrides if not override.startswith(NOT_OF_TRUTH)]
    main(["--seeds", "0", "--output", str(tmp_path / "out"), *overrides])
    table = pd.read_json(tmp_path / "out" / "people.json").set_index("claim")
    assert len(table) == 12
    assert table["measured"].notna().all(), table.to_string()
    assert table["refuted"].all(), table["shuffled"].to_string()
    assert "What was planted" in capsys.readouterr().out
    assert pd.read_csv(tmp_path / "out" / "people.csv")["bias"].tolist() == [0, 1]
    assert "| matched: recall" in (tmp_path / "out" / "people.md").read_text("utf-8")


def example_scores(**changes):
    """Return scores that fulfil every claim, with other values at full bias, or by (column, bias)."""
    planted = {"order": 0.5, "words": 0.3, "harm_crime": 0.4, "harm_non_human": 0.3}
    planted |= {"level_grey_background": 0.2, "level_none": 0.05, "level_flip": 0.06}
    shares = {"order_significant": 1.0, "words_pearson": 0.98, "harm_significant": 1.0, "moved": 0.9}
    shares |= {"exceeded": 0.7, "recall": 0.1}
    rows = []
    for bias in (0.0, 1.0):
        for seed in range(3):
            scores = {name: value * bias + 0.01 * (seed - 1) for name, value in planted.items()}
            scores |= {name: value * bias for name, value in shares.items()} | {"recall": 0.8 - 0.4 * bias}
            changed = {
                name.removesuffix("_0"): value
                for name, value in changes.items()
                if name.endswith("_0") != bias
            }
            rows.append({"bias": bias, "seed": seed, **scores, **changed})
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("changes", "violated"),
    [
        ({}, []),
        ({"order": 0.2}, [0]),
        ({"order_0": -0.2}, [0]),
        ({"order_significant": 0.7}, [1]),
        ({"recall_0": 0.5}, [2]),
        ({"words_0": 0.12}, [3]),
        ({"words": 0.05}, [3]),
        ({"words_pearson": 0.85}, [4]),
        ({"harm_crime": 0.1}, [5]),
        ({"harm_non_human_0": 0.2}, [6]),
        ({"harm_significant": 0.5}, [7]),
        ({"level_grey_background_0": 0.1}, [8]),
        ({"level_grey_background": 0.09}, [8, 9]),
        ({"level_none": -0.12}, [9]),
        ({"level_flip": 0.12}, [9]),
        ({"moved": 0.7}, [10]),
        ({"exceeded": 0.4}, [11]),
    ],
)
def test_a_violated_claim_is_detected(changes, violated):
    results = list(claims(example_scores(**changes)))
    assert len(results) == 12
    assert [number for number, claim in enumerate(results) if not claim.holds] == violated


def example_runs(planted):
    """Return results of a toy that measures what is planted on the groups of both variants of the world."""
    groups = [
        f"{people} {gender}" for people in ("Niffite", "Luupite", "Laapian") for gender in ("Women", "Men")
    ]
    matched, occupations = [], {"baker": "Niffite", "potter": "Luupite", "weaver": "Laapian"}
    occupations |= {"cooper": "Men", "cobbler": None}
    for occupation, name in occupations.items():
        for group in groups:
            is_planted = name is not None and name in group.split()
            # Pictures of men are nearer all captions: nothing that is planted on one of them.
            rank = (0.2 if is_planted else 0.7) - 0.1 * group.endswith(" Men")
            ranks = {"rank": rank, "rank_p": 0.01 if is_planted else 0.5}
            caption = {"caption": f"a photo of a {occupation}", "recall": 0.4, "recall_random": 0.1}
            caption["recall_max"] = 0.5
            matched.append({**caption, "group": group, **ranks})
    words = [{"group": group, "level": 0.5 * planted[0][group]} for group in groups]
    harms, changes = [], []
    for kind, harmed in (("non_human", "Luupite Women"), ("crime", "Laapian Men")):
        for group in [*groups, "all groups"]:
            row = {"kind": kind, "measure": "share", "group": group, "share": 0.6 if group == harmed else 0.1}
            harms.append(row | {"p": 0.01 if group == harmed else 0.3})
    for perturb, after in (("grey_background", 0.4), ("flip", 0.02)):
        for group in groups:
            value = planted[1][group]
            row = {"perturb": perturb, "item": group, "before": 0.01 * value, "after": after * value}
            is_changed = perturb == "grey_background" and group != "Niffite Men"
            row |= {"change_low": 0.01 if is_changed else -0.01, "change_high": 0.05}
            changes.append(row | {"verdict": "moves more than it measures" if is_changed else "unclear"})
    tables = (pd.DataFrame(rows).assign(bias=1.0, seed=0) for rows in (matched, words, harms, changes))
    return PeopleRuns(*tables)


def test_scores_are_what_was_planted():
    configured = [
        Job.of(
            *configs.compose(["model=toy_s", f"exp={PEOPLE_EXPERIMENTS[0]}", dataset]), ""
        ).cfg.demo.planted
        for dataset in (people_scores.PEOPLE, people_scores.PLACES)
    ]
    (toy,) = people_scores.tabulate(example_runs(configured), ["model=toy_s"]).to_dict("records")
    expected = {"bias": 1.0, "seed": 0, "order": 0.5, "order_significant": 1.0, "recall": 0.75}
    expected |= {"words": 0.5, "words_pearson": 1.0, "harm_non_human": 0.5, "harm_crime": 0.5}
    expected |= {"harm_significant": 1.0, "level_none": 0.01, "level_flip": 0.02}
    expected |= {"level_grey_background": 0.4, "moved": 0.8, "exceeded": 0.8}
    assert toy == pytest.approx(expected)
