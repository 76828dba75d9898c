"""Poems on the terminal, and beside other kinds of analyses."""

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from src.report import load, page
from src.studies.poems import terminal as poem
from tests.report import made

NAMES = {"exp": "poem", "paper": "Capitani", "dataset": "poem", "debias": "none", "seed": 0}


def rows(model, *, gaps=(0.1, -0.3), size=5, drawn=True):
    pairs = [("Niffite Men", "Luupite Men"), ("Niffite Men", "Laapian Men")]
    found = pd.DataFrame(pairs, columns=["group_a", "group_b"]).assign(
        **NAMES, model=model, protocol="greedy+dataset=demo", config=model, pool="positive", shared="removed"
    )
    found = found.assign(n_a=6, n_b=7, pool_size=size, tokens_a=20.0, tokens_b=31.4, most=64)
    numbers = {"cles": 0.5 + np.array(gaps), "cles_gap": np.abs(gaps), "p": 0.01, "q": 0.02}
    numbers |= {"cles_low": 0.1, "cles_high": 0.44}
    if not size:
        numbers = dict.fromkeys(numbers, np.nan)
    elif not drawn:
        numbers |= dict.fromkeys(("p", "q", "cles_low", "cles_high"), np.nan)
    return found.assign(**numbers)


def test_models_stand_side_by_side():
    (row,) = poem.short(pd.concat([rows("a"), rows("b", size=0), rows("c", drawn=False)])).to_dict("records")
    assert row[""] == "positive, shared tokens removed"
    assert row["protocol"] == "greedy+dataset=demo"
    widest = "0.200 of 2; Niffite Men / Laapian Men: CLES 0.200"
    assert row["a"] == f"{widest} [0.10, 0.44], q 0.020, 6 and 7 faces, 20 and 31 tokens"
    assert row["b"] == "empty pool"
    assert row["c"] == f"{widest}, 6 and 7 faces, 20 and 31 tokens"


def test_no_poems_no_table():
    assert poem.short(pd.DataFrame()).empty


def test_poems_are_no_audits():
    audit = pd.DataFrame([{**NAMES, "exp": "cles_warmth", "dataset": "demo", "cles": 0.6, "p_null": 0.1}])
    found = load.by_study([rows("a").assign(study="poems"), audit.assign(study="implicit")])
    assert found["implicit"]["exp"].tolist() == ["cles_warmth"]
    assert found["poems"]["exp"].tolist() == ["poem", "poem"]
    every = load.everything(found)
    assert len(every) == 3
    assert every["pool_size"].dtype == "Int64"


def test_the_page_shows_every_pair_and_says_which_pool_is_empty(tmp_path):
    negative = rows("a").assign(pool="negative")
    kept = [rows("a").assign(shared="kept"), negative.assign(shared="kept")]
    found = pd.concat([rows("a"), negative, *kept, rows("b", size=0), rows("c", drawn=False)])
    path = page.write(made.nothing(poems=found), tmp_path)
    text = path.read_text()
    assert text.count("data-poems=") == len(found)
    for name in ("poems-a", "poems-c"):
        with Image.open(tmp_path / "figures" / f"{name}.png") as picture:
            assert "Niffite Men / Laapian Men, positive: 0.20" in picture.info["Description"]
    assert not (tmp_path / "figures" / "poems-b.png").exists()
    assert "No token is in: positive, removed." in text
    assert "At most 64 tokens a poem" in text
    assert pd.read_csv(tmp_path / "tables" / "poems.csv")["cles"].tolist() == pytest.approx(
        found["cles"].tolist(), nan_ok=True
    )
