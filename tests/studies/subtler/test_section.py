"""Check the section on generative models' choices: numbers, undecided choices, two tasks side by side."""

import re

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from src.report import page
from src.storage import results
from src.studies.subtler import published_answers, rows, section
from src.studies.subtler.scoring import score_answers
from src.studies.subtler.study import build_terminal_tables
from tests.report import factory
from tests.report.conftest import ParsedPage, check_page, check_rows, frame_of, pictures
from tests.studies.subtler import choices

MODELS = ("llama", factory.HOSTILE)


@pytest.fixture(scope="module")
def findings():
    jobs = [(model, task, seed) for seed, model in enumerate(MODELS) for task in choices.DOMAINS]
    return choices.findings(*(choices.analyses(model, task, seed=seed) for model, task, seed in jobs))


def test_every_number_of_the_page_is_that_of_subtler_csv(findings, page_path, html):
    table = pd.read_csv(page_path.parent / "tables" / "subtler.csv", dtype=str, keep_default_na=False)
    subset = table[table["gender"] == "all"].set_index(["config", "coding", "domain", "direction"])
    displayed = set()
    for row, cell, text in html.cells:
        if row and "data-choices" in row:
            key = (row["data-choices"], row["data-coding"], row["data-domain"], row["data-direction"])
            value = subset.loc[key, cell["data-column"]]
            assert float(cell["data-value"]) == float(value)
            number = text.replace("−", "-").replace(",", "")
            if not number.startswith("<"):
                assert float(number) == pytest.approx(float(value), abs=0.0501)
            displayed.add((*key, cell["data-column"]))
    # Where a task has one domain, all domains are the same.
    keys = subset.index[
        ~((subset["exp"] == "subtler_zh") & (subset.index.get_level_values("domain") == "all"))
    ]
    columns = [name for name in rows.NUMBERS if name in subset]
    assert displayed == {(*key, column) for key in keys for column in columns}


def test_published_answers_have_the_tau_of_the_paper_and_stand_next_to_ours(findings):
    scores = published_answers.score_published().set_index(["model", "domain", "direction"])
    assert len(scores) == 5 * 6 * 2
    llama = scores.loc["Llama-2 13B"]
    # The paper prints .094 for 820 answers; of its csv of answers the report misses three of 6,246.
    assert llama.loc[("ageism", "SAI"), "n"] == 820
    assert llama.loc[("ageism", "SAI"), "tau_c"] == pytest.approx(0.09489, abs=1e-5)
    assert llama.loc[("all", "SAI"), "n"] == 6243
    assert llama.loc[("all", "SAI"), "tau_c"] == pytest.approx(0.12964, abs=5e-4)
    gaps = llama.loc[("all", "SAI"), ["del_PL", "del_NL", "del_NuL"]].tolist()
    assert gaps == pytest.approx([10.04, -11.38, 1.33], abs=0.05)
    # By scipy, from the counts of GPT-4 on beauty, first of answers to positive items.
    x = np.repeat([1, -1], [511, 506])
    y = np.repeat([1, -1, 0, 1, -1, 0], [401, 0, 110, 34, 359, 113])
    expected = stats.kendalltau(x, y, variant="c").statistic
    assert scores.loc[("GPT-4", "beauty", "SAI"), "tau_c"] == pytest.approx(expected)
    filled = rows.fill_columns(findings.of("subtler"))
    names, lines = published_answers.compare_with_published(filled)
    assert names == ["GPT-3.5", "GPT-4", "Llama-2 13B", "Mistral 7B", "PaLM 2"]
    keys = {(line["domain"], line["direction"]) for line in lines}
    assert keys == {(domain, way) for domain in ("ageism", "beauty", "all") for way in ("SAI", "ASA")}
    line = next(line for line in lines if (line["domain"], line["direction"]) == ("beauty", "SAI"))
    chosen = "model == 'llama' and exp == 'subtler_en' and domain == 'beauty' and direction == 'SAI'"
    total = filled.query(chosen + " and gender == 'all'")
    assert line["ours"]["llama"] == total["tau_c"].item()
    assert published_answers.compare_with_published(filled[filled["exp"] == "subtler_zh"])[1] == []


def test_every_picture_says_its_numbers_and_their_intervals(findings, page_path, html):
    result = pictures(page_path.parent)
    tasks = ["subtler_en", "subtler_zh-as-published", "subtler_zh-corrected", "compared-1", "compared-2"]
    assert {name[:-4] for name in result} == {
        f"subtler-{kind}-{task}" for kind in ("gaps", "tau") for task in tasks
    }
    chosen = "model == 'llama' and exp == 'subtler_en' and domain == 'beauty' and direction == 'ASA'"
    row = findings.of("subtler").query(chosen).set_index("gender")
    pooled, female = row.loc["all"], row.loc["female"]
    text = f"llama del_NL {pooled['del_NL']:+.1f} [{pooled['del_NL_low']:.1f}, {pooled['del_NL_high']:.1f}]"
    assert text.replace("-", "−") in result["subtler-gaps-subtler_en-ASA"]
    ends = f"[{female['tau_c_low']:.2f}, {female['tau_c_high']:.2f}]"
    text = f"llama female {female['tau_c']:.2f}, {female['n']} ({female['n_unmatched']}) {ends}"
    assert text.replace("-", "−") in result["subtler-tau-subtler_en-ASA"]
    assert len(check_page(page_path, html)) == len(result)
    check_rows(findings, page_path, "subtler", "subtler")


def test_models_that_share_no_task_are_compared_with_a_warning(tmp_path):
    frames = [choices.analyses("llama2_en", "subtler_en"), choices.analyses("qwen_zh", "subtler_zh")]
    result = choices.findings(*frames)
    ((title, subset),) = rows.select_task_comparisons(result.of("subtler"))
    assert title == ""
    assert set(subset["series"]) == {
        *("llama2_en: subtler_en", "qwen_zh: subtler_zh, as published", "qwen_zh: subtler_zh, corrected")
    }
    text = ParsedPage(page.write(result, tmp_path).read_text(encoding="utf-8")).text
    assert "No model here did several tasks" in text


def test_a_row_without_an_interval_says_so(tmp_path):
    result = choices.findings(choices.analyses("m", "subtler_en", templates=3))
    # All domains together have six templates, three of each domain.
    without_interval = result.of("subtler")[result.of("subtler")["tau_c_low"].isna()]
    assert set(without_interval["domain"]) == {"ageism", "beauty"}
    assert set(without_interval["reason"]) == {"no interval: fewer than 5 templates"}
    page_path = page.write(result, tmp_path)
    html = ParsedPage(page_path.read_text(encoding="utf-8"))
    assert "beauty no interval: fewer than 5 templates" in html.text
    assert "No τ-c." not in html.text
    assert f"{len(without_interval)} of {len(result.of('subtler'))} rows have no interval" in html.text
    # Of each direction and domain: three differences, and tau.
    assert page_path.read_text(encoding="utf-8").count("<em>no interval</em></td>") == 4 * 4
    alt_text = pictures(tmp_path)["subtler-tau-subtler_en-SAI"]
    assert alt_text.count("no interval") == 2 * 4
    svg = (tmp_path / "figures" / "subtler-tau-subtler_en-SAI.svg").read_text(encoding="utf-8")
    assert len(re.findall(r"<text[^>]*>no interval</text>", svg)) == 2 * 4
    assert "no interval" in (tmp_path / "tables" / "subtler.tex").read_text()


def test_the_page_has_the_first_specification_of_each_task_and_model(tmp_path):
    english = choices.analyses("m", "subtler_en")
    again = choices.analyses("m", "subtler_en", protocol="recorded+bootstrap=5", lean=0.7)
    chinese = choices.analyses("m", "subtler_zh", protocol="recorded+positive")
    result = choices.findings(again, english, chinese)
    selected = rows.select_first_specifications(result.of("subtler"))
    assert set(zip(selected["exp"], selected["protocol"], strict=True)) == {
        ("subtler_en", "recorded"),
        ("subtler_zh", "recorded+positive"),
    }
    assert rows.count_hidden_specifications(result.of("subtler")) == 1
    text = ParsedPage(page.write(result, tmp_path).read_text(encoding="utf-8")).text
    assert f"{len(english) + len(chinese)} analyses" in text
    assert "one specification is shown; 1 more is in" in text


def test_latex_has_a_row_per_domain_and_direction_and_a_column_per_model(findings):
    text = section.format_latex(rows.fill_columns(rows.select_first_specifications(findings.of("subtler"))))
    lines = [line for line in text.splitlines() if line.startswith("subtler")]
    assert len(lines) == 6 + 2 * 4
    assert all(line.count(" & ") == 4 for line in lines)
    assert "<script>" not in text
    item = findings.of("subtler").query("gender == 'all' and model == 'llama'").iloc[0]
    ends = f"[{item['tau_c_low']:.2f}, {item['tau_c_high']:.2f}]"
    assert f"${item['tau_c']:.2f}$ ${ends}$ ({item['n']})" in lines[0]


def test_the_terminal_table_has_a_row_per_domain_and_a_column_per_model():
    frames = [choices.analyses("one", "subtler_zh"), choices.analyses("two", "subtler_zh", templates=3)]
    result = frame_of(build_terminal_tables(pd.concat(frames), "subtler")[0])
    assert result[""].tolist()[:2] == ["subtler_zh published ageism SAI", "subtler_zh published ageism ASA"]
    assert len(result) == 2 * 4
    row = frames[0].query("gender == 'all'").iloc[0]
    interval = f"[{row['tau_c_low']:.2f}, {row['tau_c_high']:.2f}]"
    assert result["one"][0] == f"{row['tau_c']:.3f} {interval}, {row['n']} ({row['n_unmatched']})"
    assert " no interval: fewer than 5 templates, " in result["two"][0]


def test_a_tau_that_is_withheld_is_no_number_anywhere_and_its_reason_is_on_the_page(tmp_path):
    """Score a model whose answers match options, one that fails in one domain, and one that always fails."""
    partly_unmatched = choices.items(["ageism", "beauty"], lean=0.3)
    partly_unmatched.loc[partly_unmatched["domain"] == "beauty", "response"] = "<b>Who</b> knows"
    unmatched = partly_unmatched.assign(response="As a language model I cannot say")
    fields = {"paper": "Kamruzzaman", "dataset": "subtler", "debias": "none", "perturb": "none"}
    fields |= {"protocol": "generate", "seed": 0}
    frames = [choices.analyses("understood", "subtler_en", protocol="generate")]
    for model, items in (("in part", partly_unmatched), ("not at all", unmatched)):
        scores = score_answers(items, "published")
        named = results.with_job_columns(
            {"exp": "subtler_en", **fields, "model": model, "config": model}, scores
        )
        frames.append(named[frames[0].columns])
    page_path = page.write(choices.findings(*frames), tmp_path)
    html = ParsedPage(page_path.read_text(encoding="utf-8"))
    assert "not at all subtler_en published all SAI: no τ-c. 120 of 120 answers match no option" in html.text
    assert "in part subtler_en published beauty ASA: no τ-c. 60 of 60 answers match no option" in html.text
    assert "“<b>Who</b> knows”" in html.text
    assert "nan" not in html.text.lower().split()
    rows = [(row, cell) for row, cell, _ in html.cells if row.get("data-choices") == "not at all"]
    empty = {cell["data-column"] for _, cell in rows if cell["data-value"] == ""}
    assert {"tau_c", "p", "tau_b", "tau_c_matched", "del_PL", "PPL"} <= empty
    # A model that has its τ-c has no reason.
    assert not re.search(r"understood subtler_en published \w+ \w+: no τ-c", html.text)
    latex = (page_path.parent / "tables" / "subtler.tex").read_text()
    assert " & -- " in latex
    alt_text = pictures(page_path.parent)["subtler-tau-subtler_en-SAI"]
    assert "not at all all –, 120 (120) no interval" in alt_text
