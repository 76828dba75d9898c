"""Objects that configs name: of a table, or from elsewhere."""

import pytest

from src.configs import registry
from src.errors import InputError

KNOWN = {"join": "os.path:join", "broken": "no_such_module:THING"}


def test_names_of_the_table_and_from_elsewhere_are_imported():
    import os.path

    assert registry.load("x", "join", KNOWN) is registry.load("x", "os.path:join", {}) is os.path.join


@pytest.mark.parametrize(
    ("name", "known", "message"),
    [
        ("jion", KNOWN, "x: unknown name 'jion'. Did you mean 'join'? Known: join, broken; or name your own"),
        ("jion", {}, "x: unknown name 'jion'. Name your own as module:attribute"),
        ("no_such:THING", KNOWN, "x=no_such:THING: cannot be imported (No module named 'no_such')"),
        ("os:no_such", KNOWN, "x=os:no_such: cannot be imported (module 'os' has no attribute 'no_such')"),
        (":THING", KNOWN, "x=:THING: cannot be imported"),
        ("os:sep", KNOWN, "x=os:sep: expected int, got str"),
        ("unfinished:THING", KNOWN, "x=unfinished:THING: cannot be imported ('(' was never closed"),
    ],
)
def test_a_name_that_is_none_is_refused(tmp_path, monkeypatch, name, known, message):
    (tmp_path / "unfinished.py").write_text("THING = (\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(InputError) as raised:
        registry.load("x", name, known, int)
    assert message in str(raised.value)


def test_a_fault_of_the_house_is_no_mistake_of_the_user_s():
    with pytest.raises(ModuleNotFoundError):
        registry.load("x", "broken", KNOWN)
