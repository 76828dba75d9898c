"""Check the import of objects that configs name, by a table of known names or as module:attribute."""

import pytest

from src.configs import registry
from src.errors import InputError

KNOWN = {"join": "os.path:join", "broken": "no_such_module:THING"}


def test_names_of_the_table_and_of_other_modules_are_imported():
    import os.path

    assert registry.load("x", "join", KNOWN, object) is os.path.join
    assert registry.load("x", "os.path:join", {}, object) is os.path.join


@pytest.mark.parametrize(
    ("name", "known", "message"),
    [
        ("jion", KNOWN, "x: unknown name 'jion'. Did you mean 'join'? Known: join, broken; or name your own"),
        ("no_such:THING", KNOWN, "x=no_such:THING: cannot be imported (No module named 'no_such')"),
        ("os:sep", KNOWN, "x=os:sep: expected int, got str"),
        ("unfinished:THING", KNOWN, "x=unfinished:THING: cannot be imported ('(' was never closed"),
    ],
)
def test_an_invalid_name_is_refused(tmp_path, monkeypatch, name, known, message):
    (tmp_path / "unfinished.py").write_text("THING = (\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(InputError) as raised:
        registry.load("x", name, known, int)
    assert message in str(raised.value)


def test_a_broken_entry_of_the_table_is_no_mistake_of_the_user():
    with pytest.raises(ModuleNotFoundError):
        registry.load("x", "broken", KNOWN, object)
