"""Assign stimuli to clusters: items that have something in common, such as a theme, a stem or a parent.

See docs/methods.md, section 6.1.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping

import numpy as np
import pandas as pd
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from src.stimuli.table import Table

CLUSTER = "cluster"
PARENTS = ("parent_a", "parent_b")
WORDS = ("race_word", "gender_word")
WORD, LEMMA = "_word", "_lemma"  # ends of the names of the columns of an axis of labels
# Stemmer and plurals of tables without clusters or lemmas: those of English (conf/language/en.yaml).
STEMMER = "english"
PLURALS = {"*": "*s", "*man": "*men"}
# Algorithm -> word -> stem; of this process, whose jobs have the same words.
_stems: defaultdict[str, dict[str, str]] = defaultdict(dict)


def assign_clusters(table: Table) -> pd.DataFrame:
    """Return the clusters of each row of a table, with one column per way of clustering.

    Crossed clusters have several columns: `race_lemma`, `gender_lemma` and so on for phrases, `parent_a` and
    `parent_b` for morphs (equal for a face that is not a morph). Other tables have a column `cluster`: the
    table's own column of that name or, without it, the stems of words, the person in a picture, or the items
    themselves. Lemmas are those of the table's own columns or, without them, found by English plurals.
    A set of matched pictures (`set`) is a cluster; sets that share a person are merged.
    """
    frame = table.frame
    if set(PARENTS) <= {*frame}:
        return pd.DataFrame({name: frame[name].fillna(frame["id"]).astype(str) for name in PARENTS})
    if table.role == "labels" and CLUSTER not in frame:
        words = split_labels(frame)
        if list_word_columns(frame) or _is_full_grid(frame, words):
            # A phrase without a word of an axis forms a separate cluster in that column.
            filled = {name: words[name].where(words[name] != "", frame["word"].astype(str)) for name in words}
            return pd.DataFrame(
                {
                    str(name).removesuffix(WORD) + LEMMA: texts.map(find_lemmas(frame, str(name), texts))
                    for name, texts in filled.items()
                }
            )
    if table.role == "words" and CLUSTER not in frame:
        return pd.DataFrame({CLUSTER: stem_words(frame["word"].astype(str))})
    # A scene's column `person`, as of whether it shows somebody, has no effect.
    people = assign_people(frame if table.role == "faces" else frame.drop(columns="person", errors="ignore"))
    if table.role != "faces" or "set" not in frame:
        return pd.DataFrame({CLUSTER: people})
    # The first character tells sets from people of the same name, and sorts sets first.
    sets = ("0set " + frame["set"].astype("string")).fillna("1" + people).astype(str)
    return pd.DataFrame({CLUSTER: _merge_pairs(sets, "1" + people).str[1:]})


def assign_people(frame: pd.DataFrame) -> pd.Series:
    """Return the person of each row: `cluster` or `person` if known, else the item itself."""
    items = frame["word" if "word" in frame else "id"].astype(str)
    known = next((name for name in (CLUSTER, "person") if name in frame), None)
    return items if known is None else frame[known].fillna(items).astype(str)


def merge_linked(clusters: pd.DataFrame) -> pd.Series:
    """Return a single cluster per row: faces that are linked by common parents are merged into one cluster.

    Clusters are the connected components of a graph whose nodes are parents and whose edges are faces. A
    cluster is named after its first parent in alphabetical order.
    """
    if not set(PARENTS) <= {*clusters}:
        return clusters[CLUSTER]
    return _merge_pairs(*(clusters[name] for name in PARENTS))


def _merge_pairs(first: pd.Series, second: pd.Series) -> pd.Series:
    """Return the connected component of each row, an edge between two names; named after its first name."""
    pairs = np.stack([first.to_numpy(dtype=str), second.to_numpy(dtype=str)], axis=1)
    names, indices = np.unique(pairs, return_inverse=True)
    starts, ends = indices.reshape(pairs.shape).T
    edges = coo_array((np.ones(len(starts)), (starts, ends)), shape=(len(names), len(names)))
    components = connected_components(edges, directed=False)[1]
    component_names = pd.Series(names).groupby(components).min().to_numpy()
    return pd.Series(component_names[components[starts]], first.index, name=CLUSTER)


def stem_words(
    words: pd.Series, algorithm: str = STEMMER, lower_case: Mapping[str, str] | None = None
) -> pd.Series:
    """Replace each word by the Snowball stem of its lower-case form.

    Args:
        words: words of one language.
        algorithm: Snowball's name of the stemmer.
        lower_case: letter -> its lower case, where it differs from Unicode's default.
    """
    from snowballstemmer import stemmer

    stems, special = _stems[algorithm], str.maketrans(dict(lower_case or {}))
    lower = {word: word.translate(special).lower() for word in words.unique()}
    new = [word for word in dict.fromkeys(lower.values()) if word not in stems]
    stems.update(zip(new, stemmer(algorithm).stemWords(new), strict=True))
    return words.map({word: stems[text] for word, text in lower.items()})


def map_lemmas(words: Collection[str], plurals: Mapping[str, str] = PLURALS) -> dict[str, str]:
    """Return word -> lemma: its singular if the list contains this singular, else the word itself.

    Args:
        words: words of an axis of labels.
        plurals: singular -> plural, with `*` for what both begin with; default: a final s, or "men" in place
            of "man".

    >>> map_lemmas(["black", "blacks", "boss", "men", "man"])
    {'black': 'black', 'blacks': 'black', 'boss': 'boss', 'men': 'man', 'man': 'man'}
    """
    distinct = dict.fromkeys(words)
    singular: dict[str, str] = {}
    for ends in plurals.items():
        end, plural_end = (text.removeprefix("*") for text in ends)
        singular |= {f"{word.removesuffix(end)}{plural_end}": word for word in distinct if word.endswith(end)}
    return {word: singular.get(word, word) for word in distinct}


def find_lemmas(frame: pd.DataFrame, name: str, words: Collection[str]) -> dict[str, str]:
    """Return word -> lemma of the words of a column of labels, as the frame's own column of lemmas says.

    Without such a column, lemmas are found by English plurals.
    """
    lemma = name.removesuffix(WORD) + LEMMA
    if lemma not in frame or name not in frame:
        return map_lemmas(words)
    lemma_by_word = dict(zip(frame[name], frame[lemma], strict=True))
    return {word: lemma_by_word.get(word, word) for word in words}


def list_word_columns(frame: pd.DataFrame) -> list[str]:
    """List the columns of labels that name the words of a phrase, such as `race_word`; race and gender first.

    The list is empty if it would be `race_word` alone, without a column `race`, or `gender_word` alone,
    without a column `gender`.
    """
    columns = [str(name) for name in frame if str(name).endswith(WORD)]
    if len(columns) == 1 and columns[0] in WORDS and columns[0].removesuffix(WORD) not in frame:
        return []
    return sorted(columns, key=lambda name: [*WORDS, name].index(name))


def split_labels(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the words of each row, a column per axis; split phrases at the last space if necessary."""
    if columns := list_word_columns(frame):
        return frame[columns].fillna("").astype(str)
    split = frame["word"].str.rpartition(" ")
    return pd.DataFrame({"race_word": split[0], "gender_word": split[2]}, index=frame.index)


def _is_full_grid(frame: pd.DataFrame, words: pd.DataFrame) -> bool:
    """Return whether the words into which phrases were split are race words and gender words.

    This is assumed if the phrases combine each first word with each second word, and each word has the same
    groups as some other word.
    """
    phrases = frame.assign(**{name: words[name] for name in WORDS}).drop_duplicates("word")
    sizes = [phrases[name].nunique() for name in WORDS]
    pairs = len(phrases[[*WORDS]].drop_duplicates())
    if pairs < len(phrases) or pairs < sizes[0] * sizes[1]:
        return False
    for name, other in (WORDS, WORDS[::-1]):
        groups_of_word = phrases.sort_values(other).groupby(name)["group"].agg(tuple)
        if (groups_of_word.value_counts() < 2).any():
            return False
    return True
