"""Which option an answer is: made-up answers, each for a reason, and what no answer may do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from src.generative.parsing import match

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


words = st.text("abcdeé Z.,-'’一二０", min_size=1, max_size=12)


@given(
    options=st.lists(words, min_size=3, max_size=3, unique_by=lambda word: " ".join(word.casefold().split()))
)
def test_an_option_is_itself_whatever_stands_beside_it(options):
    for index, option in enumerate(options):
        found = index if option.strip() else None
        assert match(option, options) == found
        assert match(f"  {option.upper()}\n", options) == found


@given(response=st.text(max_size=30))
def test_no_answer_is_too_odd(response):
    assert match(response, TRAITS) in (None, 0, 1, 2)
