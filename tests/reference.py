"""Compute docs/methods.md, sections 2 and 3, by naive loops over Python floats: slow, independent.

Nothing of src is imported here. `to_a`, `to_b`: cosines of the images of two groups with prompts, a row per
image, a column per prompt.
"""

import math
from collections import defaultdict
from statistics import fmean as mean

import numpy as np
import pandas as pd
from scipy import stats

EXPERIMENTS = {
    "scenes_to_words": "1*-a", "words_to_scenes": "1*-b", "faces_to_words": "1-a", "labels_to_scenes": "1-b",
    "faces_to_labels": "2*-a", "labels_to_faces": "2*-b", "scenes_to_labels": "2-a", "words_to_faces": "2-b",
}  # fmt: skip


def dot(x, y):
    return math.fsum(a * b for a, b in zip(x, y, strict=True))


def cosine(x, y):
    # An image may have several vectors: the largest cosine counts.
    if isinstance(x[0], list):
        return max(cosine(q, y) for q in x)
    if isinstance(y[0], list):
        return max(cosine(x, q) for q in y)
    return dot(x, y) / math.sqrt(dot(x, x) * dot(y, y))


def difference(cosines, a, b):
    return math.fsum(cosines[i] for i in a) / len(a) - math.fsum(cosines[i] for i in b) / len(b)


def effect(cosines, a, b, ddof):
    both = [cosines[i] for i in a] + [cosines[i] for i in b]
    mean = math.fsum(both) / len(both)
    deviation = math.sqrt(math.fsum((v - mean) ** 2 for v in both) / (len(both) - ddof))
    return difference(cosines, a, b) / deviation


def nearest(cosines, rows, k):
    return sorted(rows, key=lambda i: (-cosines[i], i))[:k]


def mean_of(vectors):
    """Return the mean of vectors, scaled to length 1; several vectors of an image are first averaged so."""
    singles = [mean_of(vector) if isinstance(vector[0], list) else vector for vector in vectors]
    means = [math.fsum(numbers) / len(singles) for numbers in zip(*singles, strict=True)]
    length = math.sqrt(dot(means, means))
    return [number / length for number in means]


def share_nearest(vector, classes):
    """Return the share of templates in which each class is nearest to a target; ties are split equally.

    `classes`: template -> name -> unit mean.
    """
    shares = defaultdict(float)
    for means in classes.values():
        cosines = {name: round(cosine(vector, mean), 12) for name, mean in means.items()}
        best = [name for name in cosines if cosines[name] == max(cosines.values())]
        for name in best:
            shares[name] += 1 / len(best) / len(classes)
    return shares


def group_sets(rows, image, set_size, seed, *draw):
    groups = sorted({row["group"] for row in rows})
    permuted = {}
    for i, group in enumerate(groups):
        ids = sorted(row["id"] for row in rows if row["group"] == group)
        permuted[group] = [ids[j] for j in np.random.default_rng([seed, i, *draw]).permutation(len(ids))]
    smallest = min(map(len, permuted.values()))
    sizes = [
        n
        for n in range(len(groups), set_size + 1, len(groups))
        if n <= smallest and (not image or n + n // len(groups) <= smallest)
    ]
    n = max(sizes)
    b = [name for group in groups for name in permuted[group][-(n // len(groups)) :]]
    position = {row["id"]: i for i, row in enumerate(rows)}
    return {
        group: ([position[name] for name in permuted[group][:n]], [position[name] for name in b])
        for group in groups
    }


def moved_rows(rows, moved):
    """Return, for each row, the row whose position its word or image takes."""
    position = {(row.get("word", row["id"]), row.get("template")): i for i, row in enumerate(rows)}
    return [position[(moved[row.get("word", row["id"])], row.get("template"))] for row in rows]


def propagate(exp, tables, vectors, *, extremes, **options):
    """Compute the analyses of an experiment from `unit_scores`.

    Returns:
        One dict per analysis: group, stratum, n, rho, p, rho_all, n_all; and the scores
        {(stratum, id): (intrinsic, extrinsic)}.
    """
    analyses, scores = [], {}
    for content, units in unit_scores(exp, tables, vectors, extremes=extremes, **options).items():
        for stratum, members, with_all in strata(exp.split("_to_")[0], units, content, extremes):
            x, y = zip(*(units[unit][:2] for unit in members), strict=True)
            rho, p = stats.spearmanr(x, y)
            row = {"group": None if stratum == "extremes" else stratum, "stratum": stratum}
            row |= {"n": len(members), "rho": rho, "p": p, "rho_all": math.nan, "n_all": math.nan}
            if with_all:
                x, y = zip(*(unit[:2] for unit in units.values()), strict=True)
                row |= {"rho_all": stats.spearmanr(x, y)[0], "n_all": len(units)}
            analyses.append(row)
            scores |= {(stratum, unit): units[unit][:2] for unit in members}
    return analyses, scores


def unit_scores(
    exp, tables, vectors, *, k, extremes, set_size, ddof, seed,
    moved=None, held_out=False, intrinsic_by="sc_eat", extrinsic_by="top_k",
):  # fmt: skip
    """Score the targets of an experiment from tables (role -> rows sorted by id) and their vectors.

    `moved` maps a word or image of the corpus to the item whose place it takes: its valence or group, and
    its membership in A or B, move there; the vectors of all places stay. `held_out`: extremes of valence are
    not retrieved.

    Returns:
        {property: {unit: (intrinsic, extrinsic, row of the unit)}}; the property is a group, or None.
    """
    target_role, corpus_role = exp.split("_to_")
    targets, corpus = tables[target_role], tables[corpus_role]
    image_corpus = corpus_role in ("faces", "scenes")
    valence = corpus_role in ("scenes", "words")
    if valence:
        contents = [None]  # a single property; otherwise one per group
        name = "id" if image_corpus else "word"
        pools = defaultdict(list)
        for i, row in enumerate(corpus):
            pools[None if image_corpus else row["template"]].append(i)
    else:
        contents = sorted({row["group"] for row in corpus})
        sets = group_sets(corpus, image_corpus, set_size, seed)

    places = list(range(len(corpus))) if moved is None else moved_rows(corpus, moved)
    properties = [None] * len(corpus)
    for i, row in enumerate(corpus):
        properties[places[i]] = row["valence" if valence else "group"]
    per_target = {content: defaultdict(list) for content in contents}

    def associated(cosines, a, b):
        return effect(cosines, a, b, ddof) if intrinsic_by == "sc_eat" else difference(cosines, a, b)

    corpus_vectors = vectors[corpus_role]
    if extrinsic_by == "zero_shot" and not valence:
        classes = defaultdict(dict)
        for template, group in {(row.get("template"), row["group"]) for row in corpus}:
            members = [
                corpus_vectors[i]
                for i, row in enumerate(corpus)
                if (row.get("template"), properties[i]) == (template, group)
            ]
            classes[template][group] = mean_of(members)
    extreme_classes = {}
    for row, vector in zip(targets, vectors[target_role], strict=True):
        cosines = [cosine(vector, other) for other in vectors[corpus_role]]
        unit = row["id"] if target_role in ("faces", "scenes") else row["word"]
        if valence:
            intrinsic, extrinsic = [], []
            for rows in pools.values():
                order = sorted(rows, key=lambda i: (corpus[i]["valence"], corpus[i][name]))
                low, high = order[:extremes], order[-extremes:]
                retrievable = [i for i in rows if not held_out or i not in low + high]
                high, low = [places[i] for i in high], [places[i] for i in low]
                intrinsic.append(associated(cosines, high, low))
                if extrinsic_by == "zero_shot":
                    if rows[0] not in extreme_classes:
                        members = {"A": high, "B": low}
                        means = {
                            name: mean_of([corpus_vectors[i] for i in positions])
                            for name, positions in members.items()
                        }
                        extreme_classes[rows[0]] = {None: means}
                    extrinsic.append(share_nearest(vector, extreme_classes[rows[0]])["A"])
                    continue
                retrieved = [properties[i] for i in nearest(cosines, retrievable, k)]
                extrinsic.append(math.fsum(retrieved) / k)
            scores = math.fsum(intrinsic) / len(pools), math.fsum(extrinsic) / len(pools)
            per_target[None][unit].append((scores, row))
        else:
            if extrinsic_by == "zero_shot":
                shares = share_nearest(vector, classes)
            else:
                retrieved = [properties[i] for i in nearest(cosines, range(len(corpus)), k)]
                shares = {group: retrieved.count(group) / k for group in contents}
            for group in contents:
                a, b = ([places[i] for i in items] for items in sets[group])
                scores = associated(cosines, a, b), shares[group]
                per_target[group][unit].append((scores, row))

    return {
        content: {
            unit: (
                # Scores that differ by rounding alone are tied.
                round(math.fsum(s[0] for s, _ in pairs) / len(pairs), 12),
                round(math.fsum(s[1] for s, _ in pairs) / len(pairs), 12),
                pairs[0][1],
            )
            for unit, pairs in per_target[content].items()
        }
        for content in contents
    }


def strata(target_role, units, content, extremes):
    by_group = target_role in ("faces", "labels")
    if content is None and not by_group:
        order = sorted(units, key=lambda unit: (units[unit][2]["valence"], unit))
        return [("extremes", order[:extremes] + order[-extremes:], True)]
    groups = sorted({row["group"] for *_, row in units.values()}) if by_group else []
    if content is None:
        return [(g, [u for u in units if units[u][2]["group"] == g], False) for g in groups]
    members = [u for u in units if not by_group or units[u][2]["group"] == content]
    return [(content, members, by_group)]


def rows_of(frame: pd.DataFrame) -> list[dict]:
    """Return rows in the order of their ids."""
    return sorted(frame.to_dict("records"), key=lambda row: row["id"])


def jackknife_variance(statistic, ways):
    """Compute the variance of statistic(rows that remain) over one or two crossed ways, names [n] each.

    More than 100 clusters of a way, or cells of both, are dealt to 100 parts in the order of their names.
    """

    def of_way(names):
        numbers = {name: number % 100 for number, name in enumerate(sorted(set(names)))}
        clusters = np.array([numbers[name] for name in names])
        without = np.array([statistic(clusters != number) for number in sorted(set(clusters))])
        return (len(without) - 1) / len(without) * ((without - without.mean(axis=0)) ** 2).sum(axis=0)

    if len(ways) == 1:
        return of_way(ways[0])
    cells = of_way([*zip(*ways, strict=True)])
    return np.maximum(sum(map(of_way, ways)) - cells, cells)


def t_interval(estimate, variance, df):
    half = stats.t.ppf(0.975, df) * math.sqrt(variance)
    return estimate - half, estimate + half


def variance(values):
    values = list(values)
    center = mean(values)
    return math.fsum((value - center) ** 2 for value in values) / (len(values) - 1)


def gaps(to_a, to_b):
    return [mean(row[x] for row in to_a) - mean(row[x] for row in to_b) for x in range(len(to_a[0]))]


def delta_gap(to_a, to_b):
    return mean(abs(gap) for gap in gaps(to_a, to_b))


def cohens_d(to_a, to_b):
    a, b = ([mean(row) for row in side] for side in (to_a, to_b))
    squares = (len(a) - 1) * variance(a) + (len(b) - 1) * variance(b)
    return (mean(a) - mean(b)) / math.sqrt(squares / (len(a) + len(b) - 2))


def z(to_a, to_b):
    a, b = (variance(value for row in side for value in row) for side in (to_a, to_b))
    return delta_gap(to_a, to_b) / math.sqrt((a + b) / 2)


def cles_mcgraw_wong(to_a, to_b):
    a, b = ([value for row in side for value in row] for side in (to_a, to_b))
    return stats.norm.cdf((mean(a) - mean(b)) / math.sqrt(variance(a) + variance(b)))


def cles(to_a, to_b, ties="half"):
    """Average wins of A over all triples of an image of A, an image of B and a prompt."""
    tie = {"half": 0.5, "strict": 0.0}[ties]
    wins = [
        1.0 if a[x] > b[x] else tie if a[x] == b[x] else 0.0
        for a in to_a
        for b in to_b
        for x in range(len(to_a[0]))
    ]
    return mean(wins)


def iat_sums(positive, negative):
    """Return a number per pair of prompts: images nearer to the positive prompt minus all other images."""
    return [
        sum(1 if row[j] > other[j] else -1 for row, other in zip(positive, negative, strict=True))
        for j in range(len(positive[0]))
    ]


def iat(sums_a, sums_b, specification="total"):
    differences = [a - b for a, b in zip(sums_a, sums_b, strict=True)]
    return abs(sum(differences)) if specification == "total" else sum(map(abs, differences))
