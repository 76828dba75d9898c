"""Provide a few words, groups of people, and files of captions."""

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from src.studies.sobit.captions.lexicon import build_lexicon

WORDS = pd.DataFrame(
    [
        ("criminal justice", "criminal", "noun"),
        ("health", "calm", "adjective"),
        ("behaviour", "calm", "adjective"),
        ("health", "mentally ill", "adjective"),
        ("health", "ill", "adjective"),
        ("further stereotypes", "third-world", "adjective"),
        ("occupation", "homemaker", "noun"),
        ("occupation", "café owner", "noun"),
        ("politics", "waving a flag", "activity"),
        ("politics", "savage", "adjective"),
    ],
    columns=["category", "word", "type"],
)
RACES = {
    "Black": ["black", "african", "african-american", "afro-american"],
    "White": ["white", "american", "european", "englishman", "englishmen"],
}
GENDERS = {"Women": ["woman", "girl", "queen"], "Men": ["man", "gentleman", "king"]}
LEXICON = build_lexicon(WORDS, {"race": RACES, "gender": GENDERS})


def write_captions(path, captions, *, column="caption", kind=None, **options):
    """Write captions to a Parquet file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    cells = captions if isinstance(captions, pa.Array) else pa.array(captions, kind)
    pq.write_table(pa.table({"id": pa.array(range(len(cells))), column: cells}), path, **options)
    return path


def word_index(word):
    """Return the index of a word of `WORDS`."""
    return LEXICON.words["word"].tolist().index(word)


def group_index(name):
    """Return the index of a group."""
    return LEXICON.groups["group"].tolist().index(name)
