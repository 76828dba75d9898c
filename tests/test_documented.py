"""Every command that a user is told to type is composed or parsed, and run where it is short.

Run here: what lists or writes prompts. Run as `thorough`: each `--quick`. Composed or parsed only: what needs
data, weights, a network, a GPU, a server or hours; tests of their own run the jobs that these make.
"""

import importlib
import inspect
import os
import runpy
import subprocess
import sys

import pytest
from dvc.cli import parse_args
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Glob

from benchmarks import __main__ as bench
from src import configs
from src.errors import key_values
from src.sweeps import overrides
from tests.documented import Documented, commands
from tests.paths import CHECKOUT

COMMANDS = commands()
HYDRA = {"src.run": "run", "src.generate": "generate"}
# Short enough to be run, with nothing that is not here.
SHORT = (
    *("src.run --help", "src.generate --help", "src.encoders list", "src.encoders list --all"),
    *("src.encoders list --capitani", "src.stimuli", "src.stimuli status cfd oasis nrc_vad"),
    "src.stage prompts exp=sobit_association --output prompts.parquet",
)
# What an entry does once it has understood its arguments: replaced here.
WORK = {
    **dict.fromkeys(("src.stimuli", "src.encoders", "src.embeddings", "validation.truth"), "answered"),
    **dict.fromkeys(("validation.calibration", "src.tracking", "src.stage", "benchmarks"), "answered"),
    **{"benchmarks.image_embedding": "pictures", "benchmarks.scale": "measure"},
}
# Entries whose arguments are key=value, and what has to be given where a page names the bare entry.
READ = {"src.report": [], "src.captions": ["path=FILE"], "src.tracking.serve": []}


def of(*names: str) -> list[Documented]:
    return [command for command in COMMANDS if command.name in names]


def test_the_commands_are_found():
    assert len(COMMANDS) > 100
    assert {command.name for command in COMMANDS} <= {*HYDRA, *WORK, *READ, "make", "dvc", "mlflow"}
    assert {"README.md", "docs/scale.md", "Makefile", "benchmarks/__main__.py"} <= {c.where for c in COMMANDS}


def singles(arguments: list[str], entry: str) -> list[list[str]]:
    """Overrides of single jobs that together take every choice of a sweep once."""
    parser = OverridesParser.create()
    fixed, choices = [], []
    for override in parser.parse_overrides([item for item in arguments if item not in ("-m", "--help")]):
        value = override.value()
        if isinstance(value, Glob):
            known = [path.stem for path in (CHECKOUT / "conf" / override.key_or_group).glob("*.yaml")]
            choices.append([f"{override.key_or_group}={name}" for name in value.filter(known)])
            assert choices[-1], override.input_line
        elif isinstance(value, ChoiceSweep):
            choices.append(
                [f"{override.get_key_element()}={value}" for value in override.sweep_string_iterator()]
            )
        else:
            fixed.append(override.input_line)
    longest = max(map(len, choices), default=1)
    return [[*fixed, *(own[number % len(own)] for own in choices)] for number in range(longest)]


@pytest.mark.parametrize("command", of(*HYDRA), ids=str)
def test_a_command_of_hydra_composes(command):
    arguments = overrides.as_sweeps(overrides.without_secrets(command.arguments))
    for typed in singles(arguments, HYDRA[command.name])[:3]:
        configs.compose(typed, HYDRA[command.name])


def entry(name: str):
    """The module that a command runs."""
    module = importlib.import_module(name)
    return importlib.import_module(f"{name}.__main__") if hasattr(module, "__path__") else module


@pytest.mark.parametrize("command", of(*WORK), ids=str)
def test_a_command_is_parsed(command, monkeypatch, tmp_path):
    module = entry(command.name)
    arguments = [argument.replace("/scratch", str(tmp_path)) for argument in command.arguments]
    monkeypatch.setattr(module, WORK[command.name], lambda *_: [])
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: None)
    monkeypatch.setattr(sys, "argv", [command.name, *arguments])
    assert not (module.main(arguments) if inspect.signature(module.main).parameters else module.main())


@pytest.mark.parametrize("command", of(*READ), ids=str)
def test_a_command_of_keys_and_values_is_read(command):
    module = entry(command.name)
    arguments = [item for item in command.arguments if item != "--help"] or READ[command.name]
    assert key_values(arguments, module.DEFAULTS) if command.name == "src.report" else module.read(arguments)


@pytest.mark.parametrize("command", of("make"), ids=str)
def test_a_target_is_one(command):
    done = subprocess.run(
        ["make", "--dry-run", *command.arguments], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", of("dvc"), ids=str)
def test_a_command_of_dvc_is_parsed(command):
    if {"url", "endpointurl"} & {*command.arguments}:
        pytest.skip("its value is the user's")
    assert parse_args(command.arguments).func


@pytest.mark.parametrize("typed", SHORT)
def test_a_short_command_runs(typed, monkeypatch, tmp_path, capsys):
    assert f"python -m {typed}" in {str(command) for command in COMMANDS} | {"python -m src.generate --help"}
    name, *arguments = typed.split()
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path / "folder")
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(name, run_name="__main__")
    printed = capsys.readouterr()
    assert not ended.value.code, printed.err
    assert printed.out


@pytest.mark.thorough
@pytest.mark.parametrize("part", bench.PARTS)
def test_a_part_of_the_benchmark_runs_quick(part, tmp_path):
    assert bench.main([part, "--quick", "--output", str(tmp_path)]) == 0
    assert f"## {part}" in (tmp_path / "README.md").read_text("utf-8")


@pytest.mark.thorough
@pytest.mark.parametrize(
    "typed", ["benchmarks.scale --quick", "validation.calibration --quick --output calibration"]
)
def test_a_quick_form_runs(typed, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", *typed.split()], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
