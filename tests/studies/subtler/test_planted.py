"""Is a leaning that was planted found?"""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from src import configs
from src.studies.subtler import domains, item_composition, items, planted, scoring

AGEISM = configs.CONF / "domain" / "en" / "ageism.yaml"


@cache
def found():
    return items.of(item_composition.compose(domains.read(AGEISM), count=240, seed=0), Path("composed"))


@pytest.mark.parametrize("lean", [0, 0.3, 1])
def test_what_is_planted_is_measured(lean):
    scored = []
    for seed in range(40):
        rows = scoring.score(planted.answers(found(), lean=lean, seed=seed), "published", bootstrap=2, seed=0)
        scored.append(rows[(rows["domain"] == "all") & (rows["gender"] == "all")])
    for direction in (0, 1):
        tau = np.array([rows["tau_c"].iloc[direction] for rows in scored])
        gaps = np.array([rows["del_PL"].iloc[direction] for rows in scored])
        error = 4 / np.sqrt(len(scored))
        assert tau.mean() == pytest.approx(lean * (4 - lean) / 3, abs=error * tau.std(ddof=1) + 1e-12)
        assert gaps.mean() == pytest.approx(100 * lean, abs=error * gaps.std(ddof=1) + 1e-12)
        assert lean == 1 or tau.std() > 0


def test_intervals_hold_what_was_planted_as_often_as_they_say():
    held = []
    for seed in range(100):
        rows = scoring.score(
            planted.answers(found(), lean=0.3, seed=seed), "published", bootstrap=200, seed=seed
        )
        whole = rows[(rows["domain"] == "all") & (rows["gender"] == "all")]
        held += whole["tau_c_low"].le(0.37).mul(whole["tau_c_high"].ge(0.37)).tolist()
    # Twelve templates: percentile intervals are a little short. 200 of them; the band is 4 sd of .92.
    assert 0.92 - 4 * np.sqrt(0.92 * 0.08 / 200) < np.mean(held) < 1


def test_lots_hang_on_the_item_and_the_seed():
    first, again, other = (planted.answers(found(), lean=0.3, seed=seed)["response"] for seed in (0, 0, 1))
    assert first.tolist() == again.tolist() != other.tolist()
    shuffled = planted.answers(found().sample(frac=1, random_state=0), lean=0.3, seed=0)["response"]
    assert shuffled.sort_index().tolist() == first.tolist()
