"""Check differences between languages against brute force, and statements on languages that are not read."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from src.report import page
from src.report.folder import ReportFolder
from src.report.study import load_report, withhold
from src.studies.languages.differences import (
    DIFFERS,
    NOT_CHECKED,
    NOT_PLACED,
    TARGETS_DIFFER,
    compute_differences,
    has_languages,
)
from src.studies.languages.overview import draw_conclusions, label_languages, summarise_languages
from src.studies.languages.study import build_comparison, build_section, select
from src.studies.propagation.conclusions import conclusions
from tests.report.conftest import frame_of
from tests.studies.languages import language_jobs

GROUP = "Y Men"


@pytest.fixture(scope="module")
def worlds():
    return language_jobs.build_worlds()


@pytest.fixture(scope="module")
def findings(worlds, tmp_path_factory):
    return language_jobs.sweep(tmp_path_factory.mktemp("jobs"), worlds)


@pytest.fixture(scope="module")
def table(findings):
    return compute_differences(findings)


def pick(table, exp, language, measure, item=GROUP):
    columns = {"exp": exp, "language": language, "measure": measure, "item": item}
    (row,) = table[(table[list(columns)] == pd.Series(columns)).all(axis=1)].to_dict("records")
    return row


def level_of(units):
    in_group = units["group"] == GROUP
    return units["retrieved"][in_group].mean() - units["retrieved"][~in_group].mean()


def mean_of(targets):
    return targets["extrinsic"][targets["stratum"] == GROUP].mean()


@pytest.mark.parametrize(
    ("measure", "name", "compute"),
    [("level", "levels", level_of), ("mean outcome", "targets", mean_of)],
)
def test_differences_are_paired_over_pictures_as_in_a_loop_over_persons(
    findings, table, measure, name, compute
):
    row = pick(table, "faces_to_words", "es", measure)
    english, spanish = (findings.read(row[config], name) for config in ("config_english", "config"))
    assert (english["id"] == spanish["id"]).all()
    without = [
        compute(spanish[spanish["cluster"] != person]) - compute(english[english["cluster"] != person])
        for person in sorted(set(english["cluster"]))
    ]
    count = len(without)
    error = math.sqrt((count - 1) / count * sum((each - np.mean(without)) ** 2 for each in without))
    difference = compute(spanish) - compute(english)
    df = english[english["group"] == GROUP]["cluster"].nunique() - 1
    low, high = stats.t.interval(0.95, df, loc=difference, scale=error)
    numbers = [row[column] for column in ("difference", "difference_low", "difference_high", "df")]
    assert numbers == pytest.approx([difference, low, high, df])
    assert row["p"] == pytest.approx(2 * stats.t.sf(abs(difference) / error, df))
    assert (row["value"], row["value_english"]) == pytest.approx((compute(spanish), compute(english)))


def test_values_are_those_of_the_jobs_and_english_is_its_reference(findings, table):
    analyses = findings.of("propagation")
    for row in analyses.to_dict("records"):
        language = "en" if pd.isna(row["language"]) else row["language"]
        for measure, columns in (("level", ("level_low", "level_high")), ("rho", ("ci_low", "ci_high"))):
            picked = pick(table, row["exp"], language, measure, row["stratum"])
            assert (picked["value"], picked["low"], picked["high"]) == pytest.approx(
                (row[measure], *(row[column] for column in columns)), nan_ok=True
            )
    english = table[table["language"] == "en"]
    assert english["difference"].isna().all()
    assert {*english["protocol"], *table["protocol"]} == {"paper"}


def test_only_texts_as_targets_show_that_they_are_placed(table):
    words = table[table["text"] == "words"].groupby("language")["placed"].unique().map(list)
    assert words.to_dict() == {"en": ["yes"], "es": ["yes"], "ar": ["no"]}
    assert {*table[table["checks"]]["exp"]} == {"words_to_scenes", "labels_to_faces"}
    for language in ("en", "es", "ar"):
        measured = pick(table, "labels_to_faces", language, "measured")
        assert (measured["low"] > 0) == (measured["placed"] == "yes")


def test_nothing_is_stated_of_a_language_whose_words_are_not_placed(table):
    faces = table[(table["exp"] == "faces_to_words") & (table["measure"] == "level")].set_index("language")
    assert {*faces.loc["ar", "verdict"]} == {NOT_PLACED}
    # Without the check it would be stated that levels differ.
    assert (faces.loc["ar", "difference_low"] * faces.loc["ar", "difference_high"] > 0).any()
    assert DIFFERS in {*faces.loc["es", "verdict"]}
    assert {*table[(table["exp"] == "words_to_scenes") & (table["language"] == "es")]["reason"]} == {
        TARGETS_DIFFER
    }


def test_unread_texts_are_counted(table):
    counts = table.groupby("language")[["n_texts", "n_unread"]].max().T.to_dict()
    assert {code: counts[code] for code in ("es", "ar")} == language_jobs.COUNTS
    assert math.isnan(counts["en"]["n_texts"])
    sentences = " ".join(draw_conclusions(summarise_languages(select(table)[0])))
    assert "m does not read 24 of 300 words of Spanish whole (8.0%): they are left out." in sentences
    assert sentences.count("left out") == 2  # words and labels


def test_words_that_are_not_checked_and_lost_jobs_are_listed(worlds, tmp_path):
    chosen = {code: worlds[code] for code in ("en", "es", "ar")}
    lost = language_jobs.sweep(tmp_path, chosen, ["scenes_to_words"], failed=[("ar", "scenes_to_words")])
    table = compute_differences(lost)
    (reason,) = table[table["language"] == "ar"]["reason"]
    assert reason == "no results with language=ar (failed: disk full)"
    spanish = table[table["language"] == "es"]
    assert {*spanish["placed"]} == {"unknown"}
    assert {*spanish["verdict"]} == {NOT_CHECKED, ""}
    rows, specification, n_others = select(table)
    assert (specification, n_others) == ("protocol paper, seed 0", 0)
    sentence = draw_conclusions(summarise_languages(rows))[-1]
    assert sentence == (
        "It is unknown whether m places the words of Spanish by valence, as exp=words_to_scenes is not in "
        "the sweep or has no interval: no ρ and no level with them is interpreted. m does not read 24 of 300 "
        "words of Spanish whole (8.0%): they are left out."
    )


class DrawnFolder(ReportFolder):
    """Write the tables of a report only, and keep its figures as they are drawn."""

    def write_figures(self, drawings):
        return drawings


def test_the_section_names_languages_and_leaves_out_rho_that_is_not_interpreted(findings, tmp_path):
    context = build_section(findings, DrawnFolder(tmp_path)).context["languages"]
    labels = {(row["exp"], row["label"], row["placed"]) for rows in context["rows"].values() for row in rows}
    assert {label for _, label, _ in labels} == {"English", "Spanish", "Arabic"}
    assert ("faces_to_words", "Arabic", False) in labels
    for row in context["rows"]["faces_to_words"]:
        assert math.isnan(row["rho_difference"]) == (row["label"] != "Spanish")
    levels, differences = context["pictures"]
    assert "Y Men Spanish −0.192, Y Men Arabic −0.032 (not interpreted)" in levels.alt_text
    assert "Y Men Spanish 0.015, Y Men Arabic 0.175 (not interpreted)" in differences.alt_text
    assert "English" not in differences.alt_text.removeprefix("Forest plot. Difference to English.")
    written = pd.read_csv(tmp_path / "tables" / "languages.csv")
    assert {*written["language"]} == {"en", "es", "ar"}


def test_two_lists_of_words_in_a_language_have_different_labels(table):
    spanish = table[(table["exp"] == "faces_to_words") & (table["language"] == "es")]
    human = spanish.assign(config="ab" * 16)
    assert {*label_languages(pd.concat([spanish, human]))} == {"Spanish 000000", "Spanish ababab"}
    assert {*label_languages(spanish)} == {"Spanish"}


def test_other_sections_withhold_numbers_of_texts_that_are_not_placed(findings, table):
    analyses = withhold(findings).of("propagation")
    is_withheld = analyses["reason"] == NOT_PLACED
    levels = table[table["measure"] == "level"].set_index(["config", "item"])
    placed = levels["placed"].reindex(zip(analyses["config"], analyses["stratum"], strict=True)).to_numpy()
    assert is_withheld.tolist() == ((placed == "no") & analyses["language"].notna()).tolist()
    # All experiments with words of Arabic, and labels of some groups.
    assert {*analyses[is_withheld & (analyses["language"] == "ar")]["exp"]} == {*language_jobs.EXPERIMENTS}
    for name in ("rho", "ci_low", "p_placebo", "level", "level_low", "level_q", "slope"):
        assert analyses[is_withheld][name].isna().all(), name
    assert analyses[is_withheld]["measured"].notna().all()
    original = findings.of("propagation")
    pd.testing.assert_frame_equal(
        analyses[~is_withheld], original[~is_withheld], check_dtype=False, check_column_type=False
    )
    sentences = conclusions(analyses[analyses["language"] == "ar"])
    assert any(sentence.startswith("ρ and level are not interpreted in") for sentence in sentences)
    assert not any(sentence.startswith("ρ is undefined") for sentence in sentences)


@pytest.mark.thorough
def test_a_page_in_a_language_that_is_not_read_states_no_rho_of_words(worlds, tmp_path):
    findings = language_jobs.sweep(tmp_path, {"ar": worlds["ar"]}, ["words_to_scenes", "faces_to_words"])
    (tmp_path / "report").mkdir()
    text = page.write(findings, tmp_path / "report").read_text("utf-8")
    assert "Without ρ, 5 analyses: not interpreted: texts not placed" in text
    assert "Mean ρ" not in text
    written = pd.read_csv(tmp_path / "report" / "tables" / "analyses.csv")
    assert written["rho"].isna().all()
    assert pd.read_csv(tmp_path / "report" / "tables" / "languages.csv")["value"].notna().any()
    # The parent run and the terminal, of which every number is withheld.
    rows, study = withhold(findings).of("propagation"), load_report("propagation")
    assert math.isnan(study.summarise(rows, "lab", tmp_path)["rho"])
    assert "–" in "".join(frame_of(study.terminal(rows, "lab")[0]).astype(str).to_numpy().ravel())


@pytest.mark.thorough
def test_the_page_states_which_languages_are_read(findings, tmp_path):
    text = page.write(findings, tmp_path).read_text("utf-8")
    section = text[text.index('<section id="languages">') :]
    section = section[: section.index("</section>")]
    assert "m does not place the words of Arabic by valence (validity 0.09;" in section
    assert "m places the words of Spanish by valence. With them, 2 of 4 levels and 0 of 4 ρ differ" in section
    # ρ of four groups with words, of four with labels, of words, and of a group in English and Spanish.
    assert section.count("not interpreted</td>") == 11
    assert (
        '<td data-column="n_texts" data-value="300.0">300</td><td data-column="n_unread" data-value="24.0">24'
        in (section)
    )
    (printed,) = build_comparison(findings)
    assert {*frame_of(printed)["language"]} == {"English", "Spanish", "Arabic"}


def test_a_sweep_in_english_has_no_section(findings):
    analyses = findings.of("propagation")
    english = findings.with_frame("propagation", analyses[analyses["language"].isna()])
    english = type(english)(**{**vars(english), "jobs": english.jobs.iloc[:0]})
    assert not has_languages(english)
    assert build_section(english, None) is None
    assert build_comparison(english) == []
