"""Check the import of objects named in configs, by a registered name or as module:attribute."""

import pytest

from src.configs import registry
from src.errors import InputError

KNOWN = {"join": "os.path:join", "broken": "no_such_module:THING"}


def test_registered_names_and_module_attributes_are_imported():
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


def test_a_broken_registered_entry_is_not_reported_as_a_user_error():
    with pytest.raises(ModuleNotFoundError):
        registry.load("x", "broken", KNOWN, object)
