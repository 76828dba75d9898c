"""Compute the measures of docs/methods.md, section 3, by naive loops over Python floats.

Slow, easy to read and independent: nothing of src is imported here. `to_a`, `to_b`: cosines of the images of
two groups with prompts, a row per image, a column per prompt.
"""

import math


def mean(values):
    values = list(values)
    return math.fsum(values) / len(values)


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


def upper_tail(x):
    """Return 1 - Phi(x), the upper tail of the standard normal distribution."""
    return math.erfc(x / math.sqrt(2)) / 2


def cles_mcgraw_wong(to_a, to_b):
    a, b = ([value for row in side for value in row] for side in (to_a, to_b))
    return upper_tail(-(mean(a) - mean(b)) / math.sqrt(variance(a) + variance(b)))


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
