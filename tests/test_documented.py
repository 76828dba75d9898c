"""Compose or parse each documented command, and run it where it is short.

Commands that list something or write prompts are run; tests marked `thorough` or `exhaustive` also run
`benchmarks` and `benchmarks.scale` with `--quick` (`validation.calibration --quick` runs in its own tests).
Commands that need data, weights, a network, a GPU, a server or hours are only composed or parsed; other
tests run similar jobs.
"""

import importlib
import inspect
import os
import re
import runpy
import shlex
import subprocess
import sys
from itertools import groupby
from typing import NamedTuple

import pytest
from dvc.cli import parse_args
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Glob

from benchmarks import __main__ as bench
from src import configs
from src.errors import parse_key_values
from src.sweeps import overrides
from tests.paths import CHECKOUT, PACKAGES

PATTERNS = ("README.md", "CONTRIBUTING.md", "docs/**/*.md", "benchmarks/results/README.md")
BLOCK = re.compile(r"^```(.*)\n((?:.*\n)*?)```", re.M)
SHELLS = ("", "bash", "sh", "console")
ENTRY = r"python -m (?:src|benchmarks|validation)\b"
STARTS = ("python -m src.", "python -m benchmarks", "python -m validation.", "make ", "dvc ", "mlflow ")
INLINE = re.compile(rf"`((?:{ENTRY}|make |dvc |mlflow )[^`]+)`")


class Documented(NamedTuple):
    """A command: the module, or the program, and its arguments."""

    name: str
    arguments: list[str]

    def __str__(self) -> str:
        return " ".join((self.name, *self.arguments))


def commands() -> list[Documented]:
    """List each command of the manual, the Makefile and the entries' docstrings once."""
    pages = sorted(page for pattern in PATTERNS for page in CHECKOUT.glob(pattern))
    lines = [line for page in pages for line in _of_page(page.read_text("utf-8"))]
    lines += _of_makefile((CHECKOUT / "Makefile").read_text("utf-8"))
    for path in sorted(path for package in PACKAGES for path in package.rglob("*.py")):
        lines += _of_docstring(path.read_text("utf-8"))
    typed = dict.fromkeys(words for line in lines for words in _words(line))
    typed = [words for words in typed if f"{' '.join(words)} ".startswith(STARTS)]
    named = [words[2:] if words[0] == "python" else words for words in typed]  # without "python -m"
    return [Documented(name, arguments) for name, *arguments in named]


def _words(line: str) -> list[tuple[str, ...]]:
    """Split a line into commands and words as a shell does."""
    if not any(start in line for start in STARTS):
        return []
    lexer = shlex.shlex(line, posix=True, punctuation_chars="&|;")
    lexer.whitespace_split = True
    pieces = groupby(lexer, lambda word: set(word) <= set("&|;"))
    return [tuple(words) for separator, words in pieces if not separator]


def _of_page(text: str) -> list[str]:
    """List lines of shell code blocks, joining continued lines, and commands in running text."""
    text = text.replace("\\\n", " ")
    blocks = [block for shell, block in BLOCK.findall(text) if shell in SHELLS]
    lines = [line.strip().removeprefix("$ ") for block in blocks for line in block.splitlines()]
    return lines + INLINE.findall(BLOCK.sub("", text))


def _of_makefile(text: str) -> list[str]:
    """List the recipes that call an entry, with variables removed.

    Recipes with `$(call` are left out: they need downloaded answers.
    """
    lines = text.replace("\\\n", " ").splitlines()
    called = [match[1] for line in lines if (match := re.search(rf"\$\(BIN\)/({ENTRY}.*)", line))]
    return [re.sub(r"\$\(\w+\)", "", line) for line in called if "$(call" not in line]


def _of_docstring(text: str) -> list[str]:
    """List usage lines, with the brackets of options and the explanations removed."""
    result = re.findall(rf"^({ENTRY}.*)$", text, re.M)
    return [re.sub(r"[\[\]]", "", line) if "[--" in line else re.split(r"\s{3,}", line)[0] for line in result]


COMMANDS = commands()
HYDRA = {"src.run": "run", "src.generate": "generate"}
# Names of the reader's YAMLs in CONTRIBUTING.md, and existing ones to compose in their place.
PLACEHOLDERS = {"model=NAME": "model=clip_b32", "dataset=mine": "dataset=photos"} | {
    "task=subtler_en,subtler_LANGUAGE": "task=subtler_en,subtler_zh"
}
# Commands that take seconds and need no data, weights or network.
SHORT = (
    *("src.encoders list", "src.encoders list --all", "src.encoders list --capitani"),
    *("src.stimuli", "src.stimuli status cfd oasis nrc_vad"),
    "src.stage prompts exp=sobit_association --output prompts.parquet",
)
# The function in each entry's module that does the work after parsing; tests replace it by a stub.
WORK = {
    **dict.fromkeys(("src.stimuli", "src.encoders", "src.embeddings"), "run_entry"),
    **dict.fromkeys((f"validation.truth{end}" for end in ("", ".people", ".languages")), "run_entry"),
    **dict.fromkeys(("validation.calibration", "src.tracking", "src.stage", "benchmarks"), "run_entry"),
    "benchmarks.gpu": "run_entry",
    "benchmarks.image_embedding": "time_pictures",
    **dict.fromkeys(("benchmarks.scale", "benchmarks.profiles"), "measure"),
}
# Entries whose arguments are key=value, and arguments to add where a page names the entry alone.
READ = {"src.report": [], "src.captions": ["path=FILE"]}


def commands_of(*names: str) -> list[Documented]:
    return [command for command in COMMANDS if command.name in names]


def test_the_commands_are_detected():
    assert len(COMMANDS) > 100
    assert {command.name for command in COMMANDS} <= {*HYDRA, *WORK, *READ, "make", "dvc", "mlflow"}


def singles(arguments: list[str]) -> list[list[str]]:
    """Return overrides of single jobs that together take each choice of a sweep at least once."""
    parser = OverridesParser.create()
    fixed, choices = [], []
    for override in parser.parse_overrides([item for item in arguments if item not in ("-m", "--help")]):
        value = override.value()
        if isinstance(value, Glob):
            known = [path.stem for path in (CHECKOUT / "conf" / override.key_or_group).glob("*.yaml")]
            choices.append([f"{override.key_or_group}={name}" for name in value.filter(known)])
            assert choices[-1], override.input_line
        elif isinstance(value, ChoiceSweep):
            key = override.get_key_element()
            choices.append([f"{key}={value}" for value in override.sweep_string_iterator()])
        else:
            fixed.append(override.input_line)
    longest = max(map(len, choices), default=1)
    return [[*fixed, *(options[number % len(options)] for options in choices)] for number in range(longest)]


@pytest.mark.parametrize("command", commands_of(*HYDRA), ids=str)
def test_a_command_of_hydra_composes(command):
    arguments = [PLACEHOLDERS.get(argument, argument) for argument in command.arguments]
    arguments = overrides.to_sweeps(overrides.hide_secrets(arguments))
    # The first and the last job of a sweep suffice: composing every choice would take minutes.
    jobs = singles(arguments)
    for single_job in jobs[:: max(1, len(jobs) - 1)]:
        configs.compose(single_job, HYDRA[command.name])


def entry(name: str):
    """Return the module that a command runs."""
    module = importlib.import_module(name)
    return importlib.import_module(f"{name}.__main__") if hasattr(module, "__path__") else module


@pytest.mark.parametrize("command", commands_of(*WORK), ids=str)
def test_a_command_is_parsed(command, monkeypatch, tmp_path):
    module = entry(command.name)
    arguments = [argument.replace("/scratch", str(tmp_path)) for argument in command.arguments]
    monkeypatch.setattr(module, WORK[command.name], lambda *_: [])
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: None)
    monkeypatch.setattr(sys, "argv", [command.name, *arguments])
    assert not (module.main(arguments) if inspect.signature(module.main).parameters else module.main())


@pytest.mark.parametrize("command", commands_of(*READ), ids=str)
def test_a_command_of_keys_and_values_is_read(command):
    module = entry(command.name)
    arguments = [item for item in command.arguments if item != "--help"] or READ[command.name]
    assert (
        parse_key_values(arguments, module.DEFAULTS)
        if command.name == "src.report"
        else module.parse_arguments(arguments)
    )


@pytest.mark.parametrize("command", commands_of("make"), ids=str)
def test_a_documented_target_exists(command):
    subprocess.run(["make", "--dry-run", *command.arguments], cwd=CHECKOUT, capture_output=True, check=True)


@pytest.mark.parametrize("command", commands_of("dvc"), ids=str)
def test_a_command_of_dvc_is_parsed(command):
    if {"url", "endpointurl"} & {*command.arguments}:
        pytest.skip("its value is the user's")
    assert parse_args(command.arguments).func


@pytest.mark.parametrize("typed", SHORT)
def test_a_short_command_runs(typed, monkeypatch, tmp_path, capsys):
    assert typed in {str(command) for command in COMMANDS}
    name, *arguments = typed.split()
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path / "folder")
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(name, run_name="__main__")
    printed = capsys.readouterr()
    assert not ended.value.code, printed.err
    assert printed.out


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", bench.PARTS)
def test_each_benchmark_runs_quickly(name, tmp_path):
    assert bench.main([name, "--quick", "--output", str(tmp_path)]) == 0
    assert f"## {name}" in (tmp_path / "README.md").read_text("utf-8")


@pytest.mark.thorough
def test_the_quick_form_of_large_sweeps_runs(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    typed = [sys.executable, "-m", "benchmarks.scale", "--quick"]
    subprocess.run(typed, cwd=tmp_path, env=environment, check=True)
