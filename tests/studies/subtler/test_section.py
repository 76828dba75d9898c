"""What a reader sees of generative models' choices: numbers, what is undecided, two tasks side by side."""

import re

import pandas as pd
import pytest
from PIL import Image

from src.report import load, page
from src.storage import results
from src.studies.subtler import figures, latex_table, rows, section
from src.studies.subtler.scoring import score
from src.studies.subtler.terminal import reasons, short
from tests.report import made
from tests.report.test_page import Read
from tests.studies.sobit import sobit
from tests.studies.subtler import choices

MODELS = ("llama", made.HOSTILE)


def findings_of(models):
    frames = [
        choices.scored(model, task, seed=number)
        for number, model in enumerate(models)
        for task in choices.DOMAINS
    ]
    return choices.swept(*frames)


@pytest.fixture(scope="module")
def findings():
    return findings_of(MODELS)


@pytest.fixture(scope="module")
def written(findings, tmp_path_factory):
    return page.write(findings, tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="module")
def read(written):
    return Read(written.read_text(encoding="utf-8"))


def pictures(folder):
    return {path.stem: Image.open(path).info["Description"] for path in (folder / "figures").glob("*.png")}


def test_every_number_of_the_page_is_that_of_analyses_csv(findings, written, read):
    told = pd.read_csv(written.parent / "tables" / "subtler.csv", dtype=str, keep_default_na=False)
    own = told[told["gender"] == "all"].set_index(["config", "coding", "domain", "direction"])
    met = set()
    for row, cell, text in read.cells:
        if row and "data-choices" in row:
            at = (row["data-choices"], row["data-coding"], row["data-domain"], row["data-direction"])
            exact = own.loc[at, cell["data-column"]]
            assert float(cell["data-value"]) == float(exact)
            shown = text.replace("−", "-").replace(",", "")
            if not shown.startswith("<"):
                assert float(shown) == pytest.approx(float(exact), abs=0.0501)
            met.add((*at, cell["data-column"]))
    # Where a task has one domain, all domains are the same.
    kept = own.index[~((own["exp"] == "subtler_zh") & (own.index.get_level_values("domain") == "all"))]
    columns = [name for name in rows.NUMBERS if name in own]
    assert met == {(*at, column) for at in kept for column in columns}


def test_the_table_of_all_rows_comes_back_to_the_last_bit(findings, written):
    found = results.read_csv(written.parent / "tables" / "subtler.csv").drop(columns="study")
    pd.testing.assert_frame_equal(found, findings.of("subtler"), check_dtype=False, check_exact=True)


def test_the_page_of_choices_alone_is_of_them_alone(findings, read, written):
    assert "No job of this sweep has a result" not in read.text
    assert "2 models, 2 experiments" in read.text
    assert f"{len(findings.of('subtler'))} analyses" in read.text
    targets = {attributes["id"] for _, attributes in read.tags if "id" in attributes}
    assert {"subtler", "subtler-compared", "provenance"} <= targets
    assert not {"main", "implicit", "sobit"} & targets
    links = [attributes["href"] for _, attributes in read.tags if "href" in attributes]
    assert "#subtler" in links
    for link in links:
        assert link[1:] in targets if link.startswith("#") else (written.parent / link).is_file()


def test_what_the_words_are_and_what_p_is_not_is_said(read):
    assert "probes, not claims" in read.text
    assert "p takes every item for an independent one, the interval does not" in read.text


def test_every_picture_says_its_numbers_and_their_intervals(findings, written, read):
    found = pictures(written.parent)
    assert {name.removesuffix(f"-{at}") for name in found for at in ("SAI", "ASA") if name.endswith(at)} == {
        f"subtler-{kind}-{of}"
        for kind in ("gaps", "tau")
        for of in (
            *("subtler_en", "subtler_zh-as-published", "subtler_zh-corrected"),
            *("compared-1", "compared-2"),
        )
    }
    row = (
        findings.of("subtler")
        .query("model == 'llama' and exp == 'subtler_en' and domain == 'beauty' and direction == 'ASA'")
        .set_index("gender")
    )
    whole, women = row.loc["all"], row.loc["female"]
    one = f"llama del_NL {whole['del_NL']:+.1f} [{whole['del_NL_low']:.1f}, {whole['del_NL_high']:.1f}]"
    assert one.replace("-", "−") in found["subtler-gaps-subtler_en-ASA"]
    ends = f"[{women['tau_c_low']:.2f}, {women['tau_c_high']:.2f}]"
    one = f"llama female {women['tau_c']:.2f}, {women['n']} ({women['n_unmatched']}) {ends}"
    assert one.replace("-", "−") in found["subtler-tau-subtler_en-ASA"]
    shown = [attributes["alt"] for tag, attributes in read.tags if tag == "img"]
    assert sorted(shown) == sorted(found.values())


def test_tasks_stand_side_by_side_in_the_domains_that_both_have(findings, written):
    assert [title for title, _ in rows.compared(findings.of("subtler"))] == [*MODELS]
    for _, own in rows.compared(findings.of("subtler")):
        assert set(own["domain"]) == {"ageism"}
        assert [*dict.fromkeys(own["series"])] == [
            "subtler_en",
            "subtler_zh, as published",
            "subtler_zh, corrected",
        ]


def test_models_that_share_no_task_are_compared_with_a_warning(tmp_path):
    frames = [choices.scored("llama2_en", "subtler_en"), choices.scored("qwen_zh", "subtler_zh")]
    found = choices.swept(*frames)
    ((title, own),) = rows.compared(found.of("subtler"))
    assert title == ""
    assert set(own["series"]) == {
        *("llama2_en: subtler_en", "qwen_zh: subtler_zh, as published", "qwen_zh: subtler_zh, corrected")
    }
    text = Read(page.write(found, tmp_path).read_text(encoding="utf-8")).text
    assert "No model here did both tasks" in text


def test_all_domains_are_compared_only_where_they_are_the_same():
    two = choices.scored("m", "subtler_en"), choices.scored("m", "subtler_en").assign(exp="subtler_fr")
    ((_, own),) = rows.compared(pd.concat(two))
    assert set(own["domain"]) == {"ageism", "beauty", "all"}
    assert rows.compared(two[0]) == []
    elsewhere = two[1][two[1]["domain"] == "beauty"]
    ageism = two[0][two[0]["domain"] == "ageism"]
    assert rows.compared(pd.concat([ageism, elsewhere])) == []


def test_a_row_without_an_interval_says_so(tmp_path):
    found = choices.swept(choices.scored("m", "subtler_en", templates=1))
    # All domains together have a template of each: two.
    lone = found.of("subtler")[found.of("subtler")["tau_c_low"].isna()]
    assert set(lone["domain"]) == {"ageism", "beauty"}
    written = page.write(found, tmp_path)
    read = Read(written.read_text(encoding="utf-8"))
    assert f"{len(lone)} of {len(found.of('subtler'))} rows have no interval" in read.text
    # Of each direction and domain: three differences, and tau.
    assert written.read_text(encoding="utf-8").count("<em>no interval</em></td>") == 4 * 4
    alternative = pictures(tmp_path)["subtler-tau-subtler_en-SAI"]
    assert alternative.count("no interval") == 2 * 4
    svg = (tmp_path / "figures" / "subtler-tau-subtler_en-SAI.svg").read_text(encoding="utf-8")
    assert len(re.findall(r"<text[^>]*>no interval</text>", svg)) == 2 * 4
    assert "no interval" in (tmp_path / "tables" / "subtler.tex").read_text()


def test_rows_that_p_calls_small_and_the_interval_does_not_are_counted(tmp_path):
    frame = choices.scored("m", "subtler_en").assign(p=0.9, tau_c_low=0.1, tau_c_high=0.2)
    at = frame.index[frame["gender"] == "all"][:2]
    frame.loc[at, ["p", "tau_c_low"]] = [1e-8, -0.2]
    frame.loc[frame.index[frame["gender"] == "all"][2], "p"] = 1e-8
    text = Read(page.write(choices.swept(frame), tmp_path).read_text(encoding="utf-8")).text
    whole = (frame["gender"] == "all").sum()
    assert (
        f"of {whole} rows of all genders with an interval, 2 have p ≤ .05 and an interval that holds 0"
        in text
    )


def test_one_model_and_one_task_have_a_page_without_comparisons(tmp_path):
    found = choices.swept(choices.scored("m", "subtler_en"))
    read = Read(page.write(found, tmp_path).read_text(encoding="utf-8"))
    assert "subtler-compared" not in {attributes.get("id") for _, attributes in read.tags}
    assert "Two codings" not in read.text
    assert len(pictures(tmp_path)) == 4


def test_of_each_task_and_model_the_first_reading_is_shown(tmp_path):
    english = choices.scored("m", "subtler_en")
    again = choices.scored("m", "subtler_en", protocol="recorded+bootstrap=5", lean=0.7)
    chinese = choices.scored("m", "subtler_zh", protocol="recorded+positive")
    found = choices.swept(again, english, chinese)
    shown = rows.shown(found.of("subtler"))
    assert set(zip(shown["exp"], shown["protocol"], strict=True)) == {
        ("subtler_en", "recorded"),
        ("subtler_zh", "recorded+positive"),
    }
    assert rows.others(found.of("subtler")) == 1
    text = Read(page.write(found, tmp_path).read_text(encoding="utf-8")).text
    assert f"{len(english) + len(chinese)} analyses" in text
    assert "one reading is shown; 1 more is in" in text


def test_answers_that_match_no_option_are_counted(tmp_path):
    frame = choices.items(["ageism", "beauty"])
    found = choices.swept(choices.scored("m", "subtler_en"))
    lost, every = (frame["response"] == "else").sum(), len(frame)
    text = Read(page.write(found, tmp_path).read_text(encoding="utf-8")).text
    assert f"recorded, seed 0 {every} {lost} ({100 * lost / every:.1f}%)" in text


def test_directions_and_both_codings_of_a_task_share_the_axis(findings):
    every = rows.completed(findings.of("subtler")).assign(series=findings.of("subtler")["model"])
    task = every[every["exp"] == "subtler_zh"].copy()
    # One of them alone would need less room.
    task.loc[task["coding"] == "published", [*rows.GAPS, "tau_c", *rows.ENDS]] *= 0.3
    for kind in ("gaps", "taus"):
        limits = {
            figures.drawings(own, task, direction, name="x", title="x")[kind][0].figure.axes[0].get_xlim()
            for _, own in rows.sets(task)
            for direction in ("SAI", "ASA")
        }
        assert len(limits) == 1
        ((low, high),) = limits
        assert low == -high


def test_many_models_have_figures_of_their_own_and_the_first_have_tables(tmp_path):
    models = [f"m{number}" for number in range(9)]
    found = choices.swept(*(choices.scored(model, "subtler_en", each=1) for model in models))
    read = Read(page.write(found, tmp_path).read_text(encoding="utf-8"))
    assert "Tables of the first 8 models; of 1 more" in read.text
    names = pictures(tmp_path)
    assert {"subtler-tau-subtler_en-SAI-1", "subtler-tau-subtler_en-SAI-2"} <= set(names)
    assert "m5 all" in names["subtler-tau-subtler_en-SAI-1"]
    assert "m6 all" in names["subtler-tau-subtler_en-SAI-2"]


def test_rows_of_an_older_version_have_dashes(tmp_path):
    found = choices.swept(choices.scored("m", "subtler_en").drop(columns="n_templates"))
    read = Read(page.write(found, tmp_path).read_text(encoding="utf-8"))
    cells = {text for _, cell, text in read.cells if cell["data-column"] == "n_templates"}
    assert cells == {"–"}


def test_other_experiments_stand_beside(tmp_path):
    words = sobit.taxonomy(each=2).head(4)
    (tmp_path / "jobs").mkdir()
    found = sobit.swept(
        tmp_path / "jobs", models=("m",), debias=("none",), words=words, races=sobit.RACES[:2], draws=5,
        subtler=choices.scored("m", "subtler_en"),
    )  # fmt: skip
    (tmp_path / "report").mkdir()
    read = Read(page.write(found, tmp_path / "report").read_text(encoding="utf-8"))
    assert {"sobit", "subtler"} <= {attributes.get("id") for _, attributes in read.tags}


def test_the_findings_of_a_sweep_hold_them_once(findings):
    frames = [own for _, own in findings.of("subtler").groupby("config", sort=False)]
    every = load.everything(load.by_study(frame.assign(study="subtler") for frame in [*frames, frames[0]]))
    assert len(every) == len(findings.of("subtler"))
    assert (every["n_templates"].dtype, every["n_unmatched"].dtype) == ("Int64", "Int64")


def test_latex_has_a_row_per_domain_and_direction_and_a_column_per_model(findings):
    text = latex_table.table(rows.completed(rows.shown(findings.of("subtler"))))
    lines = [line for line in text.splitlines() if line.startswith("subtler")]
    assert len(lines) == 6 + 2 * 4
    assert all(line.count(" & ") == 4 for line in lines)
    assert "<script>" not in text
    one = findings.of("subtler").query("gender == 'all' and model == 'llama'").iloc[0]
    assert (
        f"${one['tau_c']:.2f}$ $[{one['tau_c_low']:.2f}, {one['tau_c_high']:.2f}]$ ({one['n']})" in lines[0]
    )


def test_in_short_a_row_per_domain_a_column_per_model():
    frames = [choices.scored("one", "subtler_zh"), choices.scored("two", "subtler_zh", templates=1)]
    found = short(pd.concat(frames))
    assert found[""].tolist()[:2] == ["subtler_zh published ageism SAI", "subtler_zh published ageism ASA"]
    assert len(found) == 2 * 4
    row = frames[0].query("gender == 'all'").iloc[0]
    interval = f"[{row['tau_c_low']:.2f}, {row['tau_c_high']:.2f}]"
    assert found["one"][0] == f"{row['tau_c']:.3f} {interval}, {row['n']} ({row['n_unmatched']})"
    assert "no interval" in found["two"][0]
    assert short(pd.DataFrame()).empty


def test_the_position_effect_is_of_all_answers():
    weighed = choices.scored("m", "subtler_en").assign(position_effect=0.5)
    weighed.loc[weighed["direction"] == "ASA", "position_effect"] = 0.25
    whole = pd.concat([weighed, choices.scored("r", "subtler_en")]).query("gender == 'all'")
    found = section.answers(rows.completed(whole)).set_index("model")["position_effect"]
    assert found["m"] == pytest.approx(0.375)
    assert pd.isna(found["r"])


@pytest.fixture(scope="module")
def withheld(tmp_path_factory):
    """A model that is understood, and another that is not in one domain, nor in either of another task."""
    few = choices.items(["ageism", "beauty"], lean=0.3)
    few.loc[few["domain"] == "beauty", "response"] = "<b>Who</b> knows"
    none = few.assign(response="As a language model I cannot say")
    about = {"paper": "Kamruzzaman", "dataset": "subtler", "debias": "none"}
    about |= {"protocol": "generate", "seed": 0}
    frames = [choices.scored("understood", "subtler_en", protocol="generate")]
    for model, items in (("in part", few), ("not at all", none)):
        scores = score(items, "published", bootstrap=20, seed=0)
        named = results.named({"exp": "subtler_en", **about, "model": model, "config": model}, scores)
        frames.append(named[frames[0].columns])
    found = choices.swept(*frames)
    return found, page.write(found, tmp_path_factory.mktemp("withheld"))


def test_a_tau_that_is_withheld_is_no_number_anywhere_and_its_reason_is_on_the_page(withheld):
    _, written = withheld
    read = Read(written.read_text(encoding="utf-8"))
    assert "not at all subtler_en published all SAI: no τ-c. 96 of 96 answers match no option" in read.text
    assert "in part subtler_en published beauty ASA: no τ-c. 48 of 48 answers match no option" in read.text
    assert "“<b>Who</b> knows”" in read.text
    assert "nan" not in read.text.lower().split()
    rows = [(row, cell) for row, cell, _ in read.cells if row.get("data-choices") == "not at all"]
    empty = {cell["data-column"] for _, cell in rows if cell["data-value"] == ""}
    assert {"tau_c", "p", "tau_b", "tau_c_matched", "del_PL", "PPL"} <= empty
    assert "0 understood" not in read.text
    tex_lines = (written.parent / "tables" / "subtler.tex").read_text()
    assert " & -- " in tex_lines
    alternative = pictures(written.parent)["subtler-tau-subtler_en-SAI"]
    assert "not at all all –, 96 (96) no interval" in alternative


def test_in_short_a_tau_that_is_withheld_is_said(withheld):
    found, _ = withheld
    told = short(found.of("subtler")).set_index("")
    assert told.loc["subtler_en published all SAI", "not at all"] == "no τ-c: 96 of 96 match no option"
    # A domain is named where another has a τ.
    lines = reasons(found.of("subtler"))
    assert [line.split(":")[0] for line in lines if line.startswith("not at all")] == [
        f"not at all subtler_en published all {direction}" for direction in ("SAI", "ASA")
    ]
    assert not [line for line in lines if line.startswith("understood")]


def test_answers_that_were_not_given_are_counted(tmp_path):
    frame = choices.scored("m", "subtler_en").assign(n_unanswered=3)
    cells = Read(page.write(choices.swept(frame), tmp_path).read_text(encoding="utf-8")).cells
    assert {text for _, cell, text in cells if cell["data-column"] == "n_unanswered"} == {"3"}
    (row,) = section.answers(rows.completed(frame.query("gender == 'all'"))).to_dict("records")
    assert row["n_unanswered"] == 6
