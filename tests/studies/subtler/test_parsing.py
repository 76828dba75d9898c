"""Which option an answer is: made-up answers, each for a reason, and what no answer may do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from src.studies.subtler.parsing import match

TRAITS = ["rigid", "Adaptable", "extraverted"]
SCHOOLS = ["Washington University in St. Louis", "University of California, Davis", "St. Louis"]
DASHED = ["University of Wisconsin—Madison", "Rutgers University--New Brunswick", "NHTI-Concord's College"]
ABBREVIATED = ["Acme Inc.", "Acme Inc", "Acme"]
AGES = ["66", "28", "2"]
CHINESE = ["没有成效的", "富有成效的", "45"]


@pytest.mark.parametrize(
    ("response", "options", "index"),
    [
        ("rigid", TRAITS, 0),
        ("  ADAPTABLE \n", TRAITS, 1),
        ("adaptable.", TRAITS, 1),
        ("Adaptable!?", TRAITS, 1),
        ('"Rigid".', TRAITS, 0),
        ("‘rigid’", TRAITS, 0),
        ("**Extraverted**", TRAITS, 2),
        ("Option 2: adaptable.", TRAITS, 1),
        ("option 1: Adaptable", TRAITS, 1),
        ("OPTION 3 : extraverted", TRAITS, 2),
        ("**Option 3:** extraverted", TRAITS, 2),
        ('"Option 2: Adaptable"', TRAITS, 1),
        ("3. extraverted", TRAITS, 2),
        ("(3) extraverted", TRAITS, 2),
        ("washington university in st. louis", SCHOOLS, 0),
        ("Washington University in St. Louis.", SCHOOLS, 0),
        ("option 2: st. louis.", SCHOOLS, 2),
        ("university of  california, davis", SCHOOLS, 1),
        ("university of wisconsin-madison", DASHED, 0),
        ("Rutgers University – New Brunswick", DASHED, 1),
        ("nhti-concord’s college", DASHED, 2),
        ("acme inc.", ABBREVIATED, 0),
        ("Acme Inc", ABBREVIATED, 1),
        ("66", AGES, 0),
        ("28.", AGES, 1),
        ("２８。", AGES, 1),
        ("2", AGES, 2),
        ("Option 1: 28", AGES, 1),
        ("富有成效的。", CHINESE, 1),
        ("「没有成效的」", CHINESE, 0),
        ("选项２：富有成效的．", CHINESE, 1),
        ("选项二：富有成效的", CHINESE, 1),
        ("４５", CHINESE, 2),
    ],
)
def test_the_whole_answer_is_an_option(response, options, index):
    assert match(response, options) == index


@pytest.mark.parametrize(
    ("response", "options"),
    [
        ("", TRAITS),
        ("  ", TRAITS),
        (".", TRAITS),
        (None, TRAITS),
        (float("nan"), TRAITS),
        ("2", TRAITS),
        ("Option 2", TRAITS),
        ("option 2:", TRAITS),
        ("Option 2", AGES),
        ("option 66", AGES),
        ("option 1 rigid", TRAITS),
        ("Option adaptable", TRAITS),
        ("rigid option 1: ", TRAITS),
        ("Washington University 1. in St. Louis", SCHOOLS),
        ("flexible", TRAITS),
        ("They are rigid", TRAITS),
        ("blank: rigid", TRAITS),
        ("rigid, adaptable", TRAITS),
        ("option 1: rigid option 2: adaptable", TRAITS),
        ("66. 28", AGES),
        ("28 years old.", AGES),
        ("Washington University in St", SCHOOLS),
        ("Louis", SCHOOLS),
        ("Davis", SCHOOLS),
        ("University of California", SCHOOLS),
        ('"Acme Inc."', ABBREVIATED),
        ("成效的", CHINESE),
    ],
)
def test_all_else_is_none(response, options):
    assert match(response, options) is None


THOUGHTS = "The options are rigid, Adaptable and extraverted.\nOption 2: Adaptable would be kinder."


@pytest.mark.parametrize(
    ("response", "options", "index"),
    [
        (f"<think>{THOUGHTS}</think>\n\nrigid", TRAITS, 0),
        (f"<think>\n{THOUGHTS}\n</think>**Rigid**.", TRAITS, 0),
        ("<think>\n\n</think>\n\nrigid", TRAITS, 0),
        (f"{THOUGHTS}</think>rigid", TRAITS, 0),  # a chat template may have opened it
        (f"<thinking>{THOUGHTS}</thinking> Option 1: rigid", TRAITS, 0),
        (f"<think>one</think><reasoning>{THOUGHTS}</reasoning>rigid", TRAITS, 0),
        (f"<THINK>{THOUGHTS}<think>again</think> </THINK> rigid", TRAITS, 0),
        (f"[THINK]{THOUGHTS}[/THINK]rigid", TRAITS, 0),
        (f"rigid <think>{THOUGHTS}</think>", TRAITS, 0),
        (f"◁think▷{THOUGHTS}◁/think▷rigid", TRAITS, 0),
        (
            f"<|channel|>analysis<|message|>{THOUGHTS}<|end|><|channel|>final<|message|>rigid<|return|>",
            TRAITS,
            0,
        ),
        ("<think>也许是「没有成效的」</think>答案：富有成效的。", CHINESE, 1),
        ("Answer: rigid", TRAITS, 0),
        ("**Answer:** rigid.", TRAITS, 0),
        ("**Answer**: **rigid**", TRAITS, 0),
        ("Final answer: Option 2: Adaptable", TRAITS, 1),
        ("The correct answer is: extraverted.", TRAITS, 2),
        ('The answer is "rigid".', TRAITS, 0),
        ('{"answer": "rigid"}', TRAITS, 0),
        ("(a) rigid", TRAITS, 0),
        ("a) Adaptable", TRAITS, 1),
        ("C. extraverted", TRAITS, 2),
        ("Option (b): Adaptable", TRAITS, 1),
        ("(2)Adaptable", TRAITS, 1),
        ("Answer: (2)Adaptable", TRAITS, 1),
        ("rigid (Option 1)", TRAITS, 0),
        ("- rigid", TRAITS, 0),
        ("### rigid", TRAITS, 0),
        ("\\boxed{rigid}", TRAITS, 0),
        ("$\\boxed{\\text{Rigid}}$.", TRAITS, 0),
        ("The final answer is \\(\\boxed{\\textbf{Adaptable}}\\).", TRAITS, 1),
        ("```\nrigid\n```", TRAITS, 0),
        ("```text\nrigid\n```", TRAITS, 0),
        ('```json\n{"answer": "rigid"}\n```', TRAITS, 0),
        ("<answer>rigid</answer>", TRAITS, 0),
        ("[ANSWER] rigid [/ANSWER]", TRAITS, 0),
        ("rigid<|im_end|>", TRAITS, 0),
        ("rigid</s>", TRAITS, 0),
        ("答案：没有成效的", CHINESE, 0),
        ("答案是：“富有成效的”。", CHINESE, 1),
        ("正确答案为「富有成效的」", CHINESE, 1),
        ("【答案】富有成效的", CHINESE, 1),
        ("（Ｂ）富有成效的", CHINESE, 1),
        ("B、富有成效的", CHINESE, 1),
        ("2.富有成效的", CHINESE, 1),
        ("②富有成效的", CHINESE, 1),
        ("Answer: University of California, Davis.", SCHOOLS, 1),
        ("<think>hm</think>Acme Inc.", ABBREVIATED, 0),
    ],
)
def test_thoughts_and_wrappings_of_one_option_are_dropped(response, options, index):
    assert match(response, options) == index


@pytest.mark.parametrize(
    ("response", "options"),
    [
        (f"<think>{THOUGHTS}", TRAITS),  # cut off
        ("<think>rigid", TRAITS),
        ("<think>rigid</think>", TRAITS),
        ("<think>hm</think>", TRAITS),
        ("rigid</think>", TRAITS),
        ("rigid <think>hm", TRAITS),
        ("<think>hm</think><think>rigid", TRAITS),
        ("<|channel|>analysis<|message|>rigid", TRAITS),
        ("<think>hm</think>It is not rigid", TRAITS),
        ("<think>hm</think>rigid, adaptable", TRAITS),
        ("Answer: not rigid", TRAITS),
        ("The answer is not rigid.", TRAITS),
        ("Answer: rigid or adaptable", TRAITS),
        ("Answer: Option 2", TRAITS),
        ("Answer: B", TRAITS),
        ("(b)", TRAITS),
        ("\\boxed{2}", TRAITS),
        ("\\boxed{B}", TRAITS),
        ("答案：2", CHINESE),
        ("答案不是富有成效的", CHINESE),
        ("1.28", AGES),
        ("Answer: 3.66", AGES),
        ("rigid\n\nAnswer: adaptable", TRAITS),
        ("(a) rigid (b) Adaptable", TRAITS),
        ("```\nrigid\nAdaptable\n```", TRAITS),
    ],
)
def test_what_is_left_is_no_option(response, options):
    assert match(response, options) is None


def test_an_option_that_is_wrapped_itself_is_told_from_the_one_within():
    assert match("Answer: rigid", ["rigid", "Answer: rigid", "x"]) == 1
    assert match("(a) rigid", ["(a) rigid", "rigid", "x"]) == 0


words = st.text("abcdeé Z.,-'’一二０", min_size=1, max_size=12)


@given(
    options=st.lists(words, min_size=3, max_size=3, unique_by=lambda word: " ".join(word.casefold().split()))
)
def test_an_option_is_itself_whatever_stands_beside_it(options):
    for index, option in enumerate(options):
        found = index if option.strip() else None
        assert match(option, options) == found
        assert match(f"  {option.upper()}\n", options) == found


@given(response=st.text(max_size=30) | st.text("<>/[]think|`\\{}$:() aArigid答案\n", max_size=40))
def test_no_answer_is_too_odd(response):
    assert match(response, TRAITS) in (None, 0, 1, 2)
