"""Assign stimuli to clusters: items that share something which may carry the property.

See docs/methods.md, section 6.1.
"""

import re
from collections.abc import Collection

import numpy as np
import pandas as pd
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from src.stimuli.table import Table

CLUSTER = "cluster"
PARENTS = ("parent_a", "parent_b")
WORDS = ("race_word", "gender_word")
LEMMAS = ("race_lemma", "gender_lemma")


def ways(table: Table) -> pd.DataFrame:
    """Return the clusters of each row of a table, one column per way of clustering.

    Two columns where clusters cross: `race_lemma` and `gender_lemma` of phrases, `parent_a` and `parent_b` of
    morphs (equal for a face that is no morph). Otherwise a column `cluster`: that of the table where it has
    one, the stem of a word, else the item itself.
    """
    frame = table.frame
    if set(PARENTS) <= {*frame}:
        return pd.DataFrame({name: frame[name].fillna(frame["id"]).astype(str) for name in PARENTS})
    if table.role == "labels" and CLUSTER not in frame:
        words = label_words(frame)
        if set(WORDS) <= {*frame} or _is_crossed_guess(frame, words):
            # A phrase without a word of a kind shares it with no other phrase.
            filled = {name: words[name].where(words[name] != "", frame["word"].astype(str)) for name in WORDS}
            columns = zip(LEMMAS, filled.values(), strict=True)
            return pd.DataFrame({lemma: names.map(lemmas(names)) for lemma, names in columns})
    items = frame["word" if "word" in frame else "id"].astype(str)
    if CLUSTER in frame:
        return pd.DataFrame({CLUSTER: frame[CLUSTER].fillna(items).astype(str)})
    return pd.DataFrame({CLUSTER: stems(items) if table.role == "words" else items})


def one_way(clusters: pd.DataFrame) -> pd.Series:
    """Return a single cluster of each row: morphs that are linked by parents are one connected component.

    Parents are the nodes of a graph, and each face is an edge between its two parents. The first parent, by
    name, names the component.
    """
    if not set(PARENTS) <= {*clusters}:
        return clusters[CLUSTER]
    pairs = clusters[[*PARENTS]].to_numpy(dtype=str)
    names, places = np.unique(pairs, return_inverse=True)
    first, second = places.reshape(pairs.shape).T
    edges = coo_array((np.ones(len(first)), (first, second)), shape=(len(names), len(names)))
    labels = connected_components(edges, directed=False)[1]
    first_of = pd.Series(names).groupby(labels).min().to_numpy()
    return pd.Series(first_of[labels[first]], clusters.index, name=CLUSTER)


def stems(words: pd.Series) -> pd.Series:
    """Return the Snowball stem of each lower-cased English word."""
    from snowballstemmer import stemmer

    distinct = words.unique()
    stemmed = stemmer("english").stemWords([word.lower() for word in distinct])
    return words.map(dict(zip(distinct, stemmed, strict=True)))


def lemmas(words: Collection[str]) -> dict[str, str]:
    """Map each word to its lemma: the singular where that is in the list too, else the word itself.

    A word is the plural of another if it is that word with an s, or ends in "men" where that ends in "man".

    >>> lemmas(["black", "blacks", "boss", "men", "man"])
    {'black': 'black', 'blacks': 'black', 'boss': 'boss', 'men': 'man', 'man': 'man'}
    """
    listed = dict.fromkeys(words)
    singular = {f"{word}s": word for word in listed}
    singular |= {re.sub("man$", "men", word): word for word in listed if word.endswith("man")}
    return {word: singular.get(word, word) for word in listed}


def label_words(frame: pd.DataFrame) -> pd.DataFrame:
    """Return race word and gender word of each row; without such columns split phrases at the last space."""
    if set(WORDS) <= {*frame}:
        return frame[[*WORDS]].fillna("").astype(str)
    split = frame["word"].str.rpartition(" ")
    return pd.DataFrame({"race_word": split[0], "gender_word": split[2]}, index=frame.index)


def _is_crossed_guess(frame: pd.DataFrame, words: pd.DataFrame) -> bool:
    """Return whether words guessed from phrases are race words and gender words.

    They are if the phrases are a full grid of them, and if each word shares its groups with another word.
    """
    phrases = frame.assign(**{name: words[name] for name in WORDS}).drop_duplicates("word")
    sizes = [phrases[name].nunique() for name in WORDS]
    pairs = len(phrases[[*WORDS]].drop_duplicates())
    if pairs < len(phrases) or pairs < sizes[0] * sizes[1]:
        return False
    for name, other in (WORDS, WORDS[::-1]):
        named = phrases.sort_values(other).groupby(name)["group"].agg(tuple)
        if (named.value_counts() < 2).any():
            return False
    return True
