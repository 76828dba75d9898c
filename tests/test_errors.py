"""Check exit codes and messages of mistakes, and that the overrides of a command reach its jobs."""

import errno

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from src import configs, run
from src.errors import MAX_MESSAGE, InputError, NotApplicable, parse_key_values, run_entry
from src.jobs.runner import log_failure
from src.sweeps.overrides import to_sweeps
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
    ("entry", "code", "message"),
    [
        (lambda: 0, 0, ""),
        (raising(InputError("what, where, what to do")), 1, "what, where, what to do"),
        (raising(KeyboardInterrupt()), 130, "Interrupted"),
        (raising(SystemExit(1), KeyboardInterrupt()), 130, "Interrupted"),
    ],
)
def test_mistakes_and_interruptions_have_no_traceback(entry, code, message, capsys):
    assert run_entry(entry) == code
    assert message in capsys.readouterr().err
    with pytest.raises(ZeroDivisionError):  # a fault of the program
        run_entry(lambda: 1 // 0)


@pytest.mark.parametrize("kind", [InputError, NotApplicable, Unreachable])
def test_a_long_message_contains_place_and_remedy(kind):
    message = str(kind(f"faces.csv: no face is {'x' * 140_000}. Correct faces.genders."))
    assert message.startswith("faces.csv: no face is xxx")
    assert message.endswith("xxx. Correct faces.genders.")
    assert "x…x" in message
    assert len(message) <= MAX_MESSAGE
    assert str(kind("x" * MAX_MESSAGE)) == "x" * MAX_MESSAGE


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sed=1"], r"^sed=1: not understood\. Did you mean seed=\?"),
        (["seed=1", "seed=2"], "^seed=2: given twice"),
        (["sed=http://me:hunter2@host"], "^sed=http://me:…@host: not understood"),
        (["seed= "], "^seed= : empty"),
    ],
)
def test_arguments_of_an_entry_are_checked(arguments, message):
    assert parse_key_values(["b=2=3"], {"a": "1", "b": ""}) == {"a": "1", "b": "2=3"}
    with pytest.raises(InputError, match=message):
        parse_key_values(arguments, {"seed": "0"})


SWEPT = "model=clip_b32,clip_l14"


@pytest.mark.parametrize(
    "text",
    [
        "model.id=hf-hub:owner/name", "labels.gender_words.Women=[woman,'two words']", 'model.name="a,b"',
        "model.name=a\\,b", "demo.planted={x:1}", "protocol.x=0.5", "resume.x=false", "++new.key=1",
        "model.sha256=''", "a.b=${c.d}", "faces@faces.parents=fairface",
    ],
)  # fmt: skip
def test_plain_overrides_reach_each_job_as_they_were(text):
    parser = OverridesParser.create()
    converted = to_sweeps(["-m", SWEPT, text])
    assert converted[:2] == ["-m", SWEPT]
    (before,), (after,) = parser.parse_overrides([text]), parser.parse_overrides([converted[2]])
    assert after.is_sweep_override()
    (job,) = after.sweep_string_iterator()
    (reached,) = parser.parse_overrides([f"{text.split('=')[0]}={job}"])
    assert reached.value() == before.value()
    assert reached.type == before.type


@pytest.mark.parametrize(
    "text",
    [
        "hydra.sweep.dir=out", "++hydra.job.name=foo", "+hydra.job.env_set.A=1", "seed=1", "~model.x",
        "~model.x=1", "faces.per_group=null", "model.revision='null'", "model.revision='1e4'",
        "model.batch_size=1,2", "not parsed=[", "--cfg", r"model.name='it\'s'", "a.b=x=y",
    ],
)  # fmt: skip
def test_overrides_that_would_change_are_left_alone(text):
    assert to_sweeps(["-m", SWEPT, text]) == ["-m", SWEPT, text]
    unswept = ["-m", "model=clip_b32", "model.weights=random", "protocol.k=1,2"]
    assert to_sweeps(unswept) == unswept


@pytest.mark.parametrize(
    ("override", "remedy"),
    [
        ("+faces.axes.age.column=age", "'+faces.axes={age: {...}}'"),
        ("+faces.axes.race.bins={young: [0, 39]}", "'+faces.axes.race={bins: {...}}'"),
        ("+faces.axes.race.bins.young=[0, 39]", "'+faces.axes.race={bins: {...}}'"),
    ],
)
def test_an_entry_of_a_mapping_that_is_not_set_is_explained(override, remedy, monkeypatch, capsys, tmp_path):
    command = ["src.run", "dataset=demo", "faces=people", "faces.root=x", "faces.listing=y"]
    monkeypatch.setattr("sys.argv", [*command, override, f"hydra.run.dir={tmp_path}"])
    assert run.main() == 1
    assert capsys.readouterr().err == f"{override}: its mapping is not set yet. Set both: {remedy}.\n"


def test_files_without_permission_and_too_little_memory_are_named(capsys):
    assert run_entry(raising(PermissionError(errno.EACCES, "Permission denied", "/a/b"))) == 1
    assert capsys.readouterr().err.startswith("/a/b: cannot be used (Permission denied)")
    outcome = log_failure(MemoryError("Unable to allocate 7 TiB"))
    assert outcome.reason.startswith("memory ran out (Unable to allocate 7 TiB)")
    too_long = OSError(errno.ENAMETOOLONG, "File name too long", "c")
    assert log_failure(too_long).reason.startswith("c: cannot be used")


@pytest.mark.parametrize("override", ["debias=null", "perturb=false", "exp=1"])
def test_a_choice_that_is_no_name_is_an_input_error(override):
    with pytest.raises(InputError, match="cannot be composed: Config group override must be a string"):
        configs.compose([override])
