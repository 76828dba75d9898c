"""Check which option an answer matches: made-up answers, each for a reason, and arbitrary text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from src.generators.reasoning import CHANNEL
from src.studies.subtler.parsing import match_option

TRAITS = ["rigid", "Adaptable", "extraverted"]
SCHOOLS = ["Washington University in St. Louis", "University of California, Davis", "St. Louis"]
DASHED = ["University of Wisconsin—Madison", "Rutgers University--New Brunswick", "NHTI-Concord's College"]
ABBREVIATED = ["Acme Inc.", "Acme Inc", "Acme"]
AGES = ["66", "28", "2"]
CHINESE = ["没有成效的", "富有成效的", "45"]
THOUGHTS = "The options are rigid, Adaptable and extraverted.\nOption 2: Adaptable would be kinder."


@pytest.mark.parametrize(
    ("response", "options", "index"),
    [
        ("rigid", TRAITS, 0),
        ("adaptable.", TRAITS, 1),
        ("Adaptable!?", TRAITS, 1),
        ('"Rigid".', TRAITS, 0),
        ("**Extraverted**", TRAITS, 2),
        ("Option 2: adaptable.", TRAITS, 1),
        ("**Option 3:** extraverted", TRAITS, 2),
        ("3. extraverted", TRAITS, 2),
        ("Washington University in St. Louis.", SCHOOLS, 0),
        ("option 2: st. louis.", SCHOOLS, 2),
        ("university of wisconsin-madison", DASHED, 0),
        ("Rutgers University – New Brunswick", DASHED, 1),
        ("acme inc.", ABBREVIATED, 0),
        ("Acme Inc", ABBREVIATED, 1),
        ("66", AGES, 0),
        ("２８。", AGES, 1),
        ("「没有成效的」", CHINESE, 0),
        ("选项２：富有成效的．", CHINESE, 1),
        ("选项二：富有成效的", CHINESE, 1),
        (f"<think>{THOUGHTS}</think>\n\nrigid", TRAITS, 0),
        (f"<think>\n{THOUGHTS}\n</think>**Rigid**.", TRAITS, 0),
        (f"{THOUGHTS}</think>rigid", TRAITS, 0),  # a chat template may have opened it
        (f"<thinking>{THOUGHTS}</thinking> Option 1: rigid", TRAITS, 0),
        (f"<think>one</think><reasoning>{THOUGHTS}</reasoning>rigid", TRAITS, 0),
        (f"[THINK]{THOUGHTS}[/THINK]rigid", TRAITS, 0),
        (f"◁think▷{THOUGHTS}◁/think▷rigid", TRAITS, 0),
        (f"{CHANNEL}analysis<|message|>{THOUGHTS}<|end|>{CHANNEL}final<|message|>rigid<|return|>", TRAITS, 0),
        (
            f"<|begin_of_thought|>{THOUGHTS}<|end_of_thought|><|begin_of_solution|>rigid<|end_of_solution|>",
            TRAITS,
            0,
        ),
        (f"<|START_THINKING|>{THOUGHTS}<|END_THINKING|><|START_RESPONSE|>rigid<|END_RESPONSE|>", TRAITS, 0),
        (f"<|inner_prefix|>{THOUGHTS}<|inner_suffix|>rigid", TRAITS, 0),
        (f"<|channel>thought\n{THOUGHTS}<channel|>rigid", TRAITS, 0),
        (f"<unused94>thought\n{THOUGHTS}<unused95>rigid", TRAITS, 0),
        (f"<longcat_think>{THOUGHTS}</longcat_think>rigid", TRAITS, 0),
        (f"<analysis>{THOUGHTS}</analysis>rigid", TRAITS, 0),
        (f"Here is my thought process:\n{THOUGHTS}\n\nHere is my response:\nrigid", TRAITS, 0),
        ("<think>也许是「没有成效的」</think>答案：富有成效的。", CHINESE, 1),
        ("Answer: rigid", TRAITS, 0),
        ("**Answer**: **rigid**", TRAITS, 0),
        ("Final answer: Option 2: Adaptable", TRAITS, 1),
        ('The answer is "rigid".', TRAITS, 0),
        ('{"answer": "rigid"}', TRAITS, 0),
        ("(a) rigid", TRAITS, 0),
        ("Option (b): Adaptable", TRAITS, 1),
        ("Answer: (2)Adaptable", TRAITS, 1),
        ("rigid (Option 1)", TRAITS, 0),
        ("- rigid", TRAITS, 0),
        ("\\boxed{rigid}", TRAITS, 0),
        ("$\\boxed{\\text{Rigid}}$.", TRAITS, 0),
        ("The final answer is \\(\\boxed{\\textbf{Adaptable}}\\).", TRAITS, 1),
        ("```text\nrigid\n```", TRAITS, 0),
        ('```json\n{"answer": "rigid"}\n```', TRAITS, 0),
        ("<answer>rigid</answer>", TRAITS, 0),
        ("rigid<|im_end|>", TRAITS, 0),
        ("rigid<｜end▁of▁sentence｜>", TRAITS, 0),
        ("<|im_start|>assistant\nrigid<|im_end|>", TRAITS, 0),
        ("assistant\n\nrigid", TRAITS, 0),
        ("\ufeffrigid\u200b", TRAITS, 0),
        ("### Answer\nrigid", TRAITS, 0),
        ("**答案**\n富有成效的", CHINESE, 1),
        ("Response: rigid", TRAITS, 0),
        ("The most appropriate option is: rigid", TRAITS, 0),
        ("Option 2 – Adaptable", TRAITS, 1),
        ("Option **1**: rigid", TRAITS, 0),
        ("答案是：“富有成效的”。", CHINESE, 1),
        ("【答案】富有成效的", CHINESE, 1),
        ("B、富有成效的", CHINESE, 1),
        ("②富有成效的", CHINESE, 1),
        ("Answer: University of California, Davis.", SCHOOLS, 1),
        ("<think>hm</think>Acme Inc.", ABBREVIATED, 0),
        # A wrapped option is distinguished from the option within.
        ("Answer: rigid", ["rigid", "Answer: rigid", "x"], 1),
        ("(a) rigid", ["(a) rigid", "rigid", "x"], 0),
    ],
)
def test_an_option_alone_or_after_thoughts_and_in_wrappings_matches(response, options, index):
    assert match_option(response, options) == index


@pytest.mark.parametrize(
    ("response", "options"),
    [
        ("", TRAITS),
        (None, TRAITS),
        ("2", TRAITS),
        ("option 2:", TRAITS),
        ("option 66", AGES),
        ("Option adaptable", TRAITS),
        ("Washington University 1. in St. Louis", SCHOOLS),
        ("They are rigid", TRAITS),
        ("rigid, adaptable", TRAITS),
        ("option 1: rigid option 2: adaptable", TRAITS),
        ("66. 28", AGES),
        ("28 years old.", AGES),
        ("Washington University in St", SCHOOLS),
        ("University of California", SCHOOLS),
        ('"Acme Inc."', ABBREVIATED),
        ("成效的", CHINESE),
        (f"<think>{THOUGHTS}", TRAITS),  # cut off
        ("<think>rigid", TRAITS),
        ("rigid</think>", TRAITS),
        ("rigid <think>hm", TRAITS),
        ("<|channel|>analysis<|message|>rigid", TRAITS),
        ("<|START_THINKING|>rigid", TRAITS),  # cut off
        ("<|channel>thought\nrigid", TRAITS),
        ("Answer\nrigid or adaptable", TRAITS),
        ("The most appropriate option is not rigid.", TRAITS),
        ("<think>hm</think>rigid, adaptable", TRAITS),
        ("The answer is not rigid.", TRAITS),
        ("Answer: rigid or adaptable", TRAITS),
        ("Answer: B", TRAITS),
        ("\\boxed{2}", TRAITS),
        ("答案不是富有成效的", CHINESE),
        ("1.28", AGES),
        ("rigid\n\nAnswer: adaptable", TRAITS),
        ("```\nrigid\nAdaptable\n```", TRAITS),
    ],
)
def test_other_answers_match_no_option(response, options):
    assert match_option(response, options) is None


words = st.text("abcdeé Z.,-'’一二０", min_size=1, max_size=12)


@given(
    options=st.lists(words, min_size=3, max_size=3, unique_by=lambda word: " ".join(word.casefold().split()))
)
def test_an_option_matches_itself_whatever_the_others(options):
    for index, option in enumerate(options):
        expected = index if option.strip() else None
        assert match_option(option, options) == expected
        assert match_option(f"  {option.upper()}\n", options) == expected


@given(response=st.text(max_size=30) | st.text("<>/[]think|`\\{}$:() aArigid答案\n", max_size=40))
def test_no_answer_is_too_odd(response):
    assert match_option(response, TRAITS) in (None, 0, 1, 2)
