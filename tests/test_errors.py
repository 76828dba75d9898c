"""How an entry answers a mistake and a key pressed."""

import sys

import pytest

from src.errors import LONGEST, InputError, NotApplicable, answered, key_values
from src.tracking import Unreachable


def raising(error, context=None):
    def entry():
        if context is None:
            raise error
        try:
            raise context
        except BaseException:
            raise error  # noqa: B904 - as Lightning does

    return entry


@pytest.mark.parametrize(
    ("entry", "code", "said"),
    [
        (lambda: 0, 0, ""),
        (raising(InputError("what, where, what to do")), 1, "what, where, what to do"),
        (raising(KeyboardInterrupt()), 130, "Interrupted"),
        (raising(SystemExit(1), KeyboardInterrupt()), 130, "Interrupted"),
    ],
)
def test_mistakes_and_interruptions_have_no_traceback(entry, code, said, capsys):
    assert answered(entry) == code
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("error", [ZeroDivisionError(), SystemExit(2)])
def test_faults_and_exits_pass(error):
    with pytest.raises(type(error)):
        answered(lambda: sys.exit(2) if isinstance(error, SystemExit) else 1 // 0)


@pytest.mark.parametrize("kind", [InputError, NotApplicable, Unreachable])
def test_of_a_message_as_long_as_a_file_the_place_and_the_remedy_are_left(kind):
    said = str(kind(f"faces.csv: no face is {'x' * 140_000}. Correct faces.genders."))
    assert said.startswith("faces.csv: no face is xxx")
    assert said.endswith("xxx. Correct faces.genders.")
    assert "x…x" in said
    assert len(said) <= LONGEST
    assert str(kind("x" * LONGEST)) == "x" * LONGEST


def test_arguments_of_an_entry_stand_upon_their_defaults():
    assert key_values(["b=2=3"], {"a": "1", "b": ""}) == {"a": "1", "b": "2=3"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sed=1"], r"^sed=1: not understood\. Did you mean seed=\?"),
        (["seed"], r"^seed: not understood\. There is seed=;"),
        (["seed=1", "seed=2"], "^seed=2: given twice"),
        (["seed= "], "^seed= : empty"),
    ],
)
def test_arguments_that_are_not_understood_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        key_values(arguments, {"seed": "0"})
