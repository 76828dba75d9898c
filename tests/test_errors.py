"""How an entry answers a mistake and a key pressed."""

import sys

import pytest

from src.errors import InputError, answered


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
