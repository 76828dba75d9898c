"""Check scores of differences between languages, and that violated claims on them are detected."""

import pandas as pd
import pytest

from tests.conftest import SHRUNK, store_overrides
from validation.truth.languages import main
from validation.truth.languages_claims import claims, describe_intervals
from validation.truth.languages_experiments import ALIKE, DIFFERENT, ENGLISH_ALONE, GROUP_EXPERIMENTS, WORLDS
from validation.truth.languages_scores import score_differences, score_placement

NOT_OF_TRUTH = ("tracking.", "report=", "model.name=")
GROUPS = ["Niffite Women", "Niffite Men", "Luupite Women", "Luupite Men", "Laapian Women", "Laapian Men"]
PLANTED = [0.25, 0.25, 0.0, 0.0, -0.25, -0.25]


@pytest.mark.exhaustive
@pytest.mark.timeout(3000)
def test_planted_languages_are_measured_in_shrunk_worlds(stores, tmp_path, capsys):
    """Run one seed of small worlds, without intervals over seeds; on shuffled vectors no claim may hold."""
    overrides = [*SHRUNK, *store_overrides(stores)]
    overrides = [override for override in overrides if not override.startswith(NOT_OF_TRUTH)]
    main(["--seeds", "0", "--output", str(tmp_path / "out"), *overrides])
    table = pd.read_json(tmp_path / "out" / "languages.json").set_index("claim")
    assert len(table) == 7
    of_words = table[table.index.str.startswith("words by valence")]
    assert of_words["holds"].all(), of_words.to_string()
    assert table["refuted"].all(), table["shuffled"].to_string()
    assert "What was planted" in capsys.readouterr().out
    assert "| labels of a group" in (tmp_path / "out" / "languages.md").read_text("utf-8")
    scores = pd.read_csv(tmp_path / "out" / "languages.csv").dropna(subset="exp")
    slopes = scores.set_index(["world", "exp"])["slope"]
    for exp in GROUP_EXPERIMENTS:
        assert slopes[DIFFERENT, exp] < -abs(slopes[ALIKE, exp])


def example_scores(**changes):
    """Return scores that fulfil every claim, with other values by column, or by column and world."""
    rows = []
    for exp in GROUP_EXPERIMENTS:
        for world, slope in ((DIFFERENT, -0.4), (ALIKE, 0.0)):
            for seed in range(3):
                row = {"world": world, "toy_seed": seed, "exp": exp, "slope": slope, "rho": slope / 2}
                row |= {"slope_english": 0.4, "on_side": 1.0, "clear": 0.8, "rho_clear": 0.1}
                row |= {
                    column.removesuffix("_alike"): change
                    for column, change in changes.items()
                    if column.endswith("_alike") == (world == ALIKE)
                }
                noise = 0.02 * (seed - 1)
                rows.append(row | {name: row[name] + noise for name in ("slope", "rho")})
    return pd.DataFrame(rows)


def example_placement(**changes):
    """Return placements that fulfil every claim, with other shares by TEXT or `other_TEXT`."""
    rows = []
    for world in WORLDS:
        for seed in range(3):
            for language in ("en", "qaa"):
                is_other = world == ENGLISH_ALONE and language == "qaa"
                for text, count in (("words", 1), ("labels", 6)):
                    placed = changes.get(f"other_{text}" if is_other else text, float(not is_other))
                    row = {"world": world, "toy_seed": seed, "language": language, "text": text}
                    rows.append(row | {"texts": count, "placed": placed})
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("changes", "placement", "violated"),
    [
        ({}, {}, []),
        ({"slope": -0.045}, {}, [0, 2]),  # its interval includes 0
        ({"slope": 0.4}, {}, [0, 2]),
        ({"slope_alike": 0.06}, {}, [0, 2]),  # its interval excludes 0
        ({"slope_alike": -0.04, "slope": -0.15}, {}, [0, 2]),  # a quarter of the planted difference
        ({"on_side": 0.75}, {}, [1, 3]),
        ({"on_side_alike": 0.0, "clear": 0.0, "slope_english": 0.0}, {}, []),
        ({"rho": -0.045}, {}, [4]),
        ({"rho_alike": 0.06}, {}, [4]),
        ({}, {"words": 0.9}, [5]),
        ({}, {"other_words": 0.1}, [5]),
        ({}, {"labels": 0.85}, [6]),
        ({}, {"other_labels": 0.16}, [6]),
        ({}, {"labels": 0.91, "other_labels": 0.14}, []),
    ],
)
def test_a_violated_claim_is_detected(changes, placement, violated):
    results = list(claims(example_scores(**changes), example_placement(**placement)))
    assert len(results) == 7
    assert [number for number, claim in enumerate(results) if not claim.holds] == violated


def test_intervals_over_seeds_are_those_of_t():
    measured = next(claims(example_scores(), example_placement())).measured
    # Standard error 0.02 / √3, 4.303 of them on each side.
    assert measured == "-0.400 (-0.450 to -0.350), of 0.400 in English; 0.000 (-0.050 to 0.050)"
    assert "faces_to_words, alike: 80% of levels, 10% of ρ" in describe_intervals(example_scores())


def example_rows():
    """Return rows of `compute_differences` of a toy with bias in English alone, and of a toy of English."""
    rows = []
    for world in (DIFFERENT, ENGLISH_ALONE):
        for exp in GROUP_EXPERIMENTS:
            for group, planted in zip(GROUPS, PLANTED, strict=True):
                common = {"world": world, "toy_seed": 1, "exp": exp, "language": "qaa", "item": group}
                common |= {"text": "words", "checks": False, "placed": "yes"}
                difference = 0.1 - 0.6 * planted
                row = common | {"measure": "level", "difference": difference, "value_english": 0.7 * planted}
                half = 0.2 if group == "Niffite Men" else 0.02
                rows.append(row | {"difference_low": difference - half, "difference_high": difference + half})
                row = common | {"measure": "rho", "difference": 0.05, "value_english": 0.9}
                rows.append(row | {"difference_low": -0.1 * planted, "difference_high": 0.1})
        for language in ("en", "qaa"):
            placed = "no" if (world, language) == (ENGLISH_ALONE, "qaa") else "yes"
            common = {
                "world": world,
                "toy_seed": 1,
                "language": language,
                "checks": True,
                "measure": "measured",
            }
            rows.append(common | {"exp": "words_to_scenes", "text": "words", "item": "all", "placed": placed})
            for group in GROUPS:
                is_lucky = "yes" if group == GROUPS[0] else placed
                row = {"exp": "labels_to_faces", "text": "labels", "item": group, "placed": is_lucky}
                rows.append(common | row)
    return pd.DataFrame(rows)


def test_scores_are_what_was_planted():
    scores = score_differences(example_rows(), ["model=toy_s"])
    assert scores["exp"].tolist() == [*GROUP_EXPERIMENTS]
    assert set(scores["world"]) == {DIFFERENT}
    expected = {"slope": -0.6, "slope_english": 0.7, "on_side": 0.75, "clear": 5 / 6, "rho": 0.05}
    for row in scores.to_dict("records"):
        assert {name: row[name] for name in expected} == pytest.approx(expected)
        assert row["rho_clear"] == pytest.approx(2 / 6)


def test_placement_counts_words_once_and_each_group_of_labels():
    placement = score_placement(example_rows()).set_index(["world", "language", "text"]).sort_index()
    assert placement["texts"].groupby("text").unique().map(list).to_dict() == {"labels": [6], "words": [1]}
    assert placement.loc[(ENGLISH_ALONE, "qaa"), "placed"].to_dict() == {
        "words": 0.0,
        "labels": pytest.approx(1 / 6),
    }
    assert (placement.drop((ENGLISH_ALONE, "qaa"))["placed"] == 1).all()
