"""Check the share of a difference to English that comes with translation against a loop over persons."""

import math

import numpy as np
import pandas as pd
import pytest
from omegaconf import OmegaConf
from scipy import optimize, stats

from src import configs
from src.report import page
from src.studies.languages.differences import compute_differences
from src.studies.languages.overview import label_languages
from src.studies.languages.translation_shares import TOO_SMALL, compute_shares, describe_shares
from tests.studies.languages import language_jobs

EXPERIMENTS = ("faces_to_words", "words_to_scenes")
GROUP = "Y Men"


@pytest.fixture(scope="module")
def findings(tmp_path_factory):
    worlds = language_jobs.build_worlds()
    spanish = worlds["es"]
    names = {"en": worlds["en"], "es/native": spanish}
    names["es/translated"] = language_jobs.mistranslate(spanish, 0.4)
    return language_jobs.sweep(tmp_path_factory.mktemp("jobs"), names, EXPERIMENTS)


@pytest.fixture(scope="module")
def shares(findings):
    return compute_shares(findings, compute_differences(findings))


def level_of(units):
    in_group = units["group"] == GROUP
    return units["retrieved"][in_group].mean() - units["retrieved"][~in_group].mean()


def test_the_share_is_that_of_a_loop_over_persons(findings, shares):
    (row,) = shares[shares["item"] == GROUP].to_dict("records")
    names = ("config_english", "config_translated", "config_native")
    english, translated, native = (findings.read(row[name], "levels") for name in names)
    assert (english["id"] == native["id"]).all()

    def contrast(without):
        levels = [level_of(units[units["cluster"] != without]) for units in (english, translated, native)]
        return levels[1] - levels[2], levels[1] - levels[0]

    explained, difference = contrast(None)
    persons = sorted({*english["cluster"]})
    count = len(persons)
    covariance = (count - 1) ** 2 / count * np.cov(np.array([*map(contrast, persons)]).T)
    df = english[english["group"] == GROUP]["cluster"].nunique() - 1
    quantile = stats.t.ppf(0.975, df)
    assert (row["explained"], row["difference"]) == pytest.approx((explained, difference))
    assert row["difference_high"] - row["difference"] == pytest.approx(quantile * covariance[1, 1] ** 0.5)
    assert row["explained_high"] - row["explained"] == pytest.approx(quantile * covariance[0, 0] ** 0.5)
    assert row["share"] == pytest.approx(explained / difference)

    def excess(ratio):
        weights = np.array([1, -ratio])
        return abs(explained - ratio * difference) - quantile * (weights @ covariance @ weights) ** 0.5

    low = optimize.brentq(excess, row["share"] - 10, row["share"])
    high = optimize.brentq(excess, row["share"], row["share"] + 10)
    assert (row["share_low"], row["share_high"]) == pytest.approx((low, high))


def test_ratings_of_other_words_explain_the_difference(findings, shares):
    # Vectors of Spanish words differ a little from those of English, many ratings were exchanged.
    clear = shares.dropna(subset=["share"])
    assert (clear["share_low"] > 0).all()
    assert clear["share"].between(0.5, 1.5).all()
    too_small = shares[shares["share"].isna()]
    assert len(clear) >= 1
    assert {*too_small["reason"]} <= {TOO_SMALL}
    (sentence,) = describe_shares(shares)
    assert sentence.startswith(
        f"m, Spanish: {len(clear)} of {len(shares)} differences of levels to English are"
    )


def test_no_share_without_both_kinds_of_ratings(findings):
    table = compute_differences(findings)
    for ratings in ("native", "translated"):
        assert compute_shares(findings, table[table["ratings"] != ratings]).empty
    refused = table.assign(verdict=table["verdict"].where(table["ratings"] != "native", "not interpreted"))
    assert describe_shares(compute_shares(findings, refused)) == []


def test_both_kinds_of_ratings_are_named(findings):
    table = compute_differences(findings)
    faces = table[(table["exp"] == "faces_to_words") & (table["measure"] == "level")]
    assert {*label_languages(faces)} == {"English", "Spanish, native ratings", "Spanish, translated ratings"}


@pytest.mark.parametrize(
    ("overrides", "ratings"),
    [
        (["language=es", "words=nrc_vad"], "translated"),
        (["language=es", "words=stadthagen2017"], "native"),
        (["language=de", "words=memolon"], "predicted"),
        (["words=nrc_vad"], "native"),
    ],
)
def test_ratings_are_classified_by_the_list_of_words(overrides, ratings):
    photos = ["exp=faces_to_words", "dataset=photos", "dataset.root=data"]
    words = OmegaConf.to_object(configs.compose([*overrides, *photos])[0].words)
    assert configs.classify_ratings(words) == ratings


def test_invented_words_have_translated_ratings():
    composed, _ = configs.compose(["language=qaa", "dataset=demo_languages", "exp=faces_to_words"])
    assert configs.classify_ratings(OmegaConf.to_object(composed.words)) == "translated"


@pytest.mark.thorough
def test_the_page_has_a_table_of_shares(findings, shares, tmp_path):
    text = page.write(findings, tmp_path).read_text("utf-8")
    section = text[text.index("How much comes with translated ratings?") :]
    assert section[: section.index("</section>")].count(f">{GROUP}</td>") >= 1
    written = pd.read_csv(tmp_path / "tables" / "translation_shares.csv")
    assert written["share"].to_list() == pytest.approx(shares["share"].to_list(), nan_ok=True)
    assert not math.isnan(written["difference"].iloc[0])
