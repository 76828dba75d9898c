"""What is installed is what was looked at: pinned, with hashes; an audit that cannot be made is no error."""

import re
import subprocess

import pytest

from tests.paths import CHECKOUT

LINE = re.compile(r"[A-Za-z0-9_.\[\]-]+==[^\s;]+( ; [^\\]+)?( \\)?")
HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}( \\)?")


def requirements():
    text = (CHECKOUT / "requirements.txt").read_text()
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("    "):
            found[list(found)[-1]].append(line)
        else:
            found[line] = []
    return found


def test_every_requirement_is_pinned_with_hashes():
    found = requirements()
    assert len(found) > 100
    for line, hashes in found.items():
        assert LINE.fullmatch(line), line
        assert hashes, f"{line}: no hash"
        assert all(HASH.fullmatch(digest) for digest in hashes), line


def test_no_requirement_comes_from_elsewhere():
    text = (CHECKOUT / "requirements.txt").read_text()
    assert not re.search(r"https?://|git\+|--index-url|--extra-index-url|--find-links|--trusted-host", text)


def test_the_environment_is_made_with_these_hashes_alone():
    made = (CHECKOUT / "Makefile").read_text()
    installs = re.findall(r"-m pip install.*", made)
    assert any("--require-hashes -r requirements.txt" in line for line in installs)
    assert all("--require-hashes" in line or "--no-deps" in line for line in installs), installs


def test_malicious_releases_are_not_taken():
    names = [line.split(" ")[0] for line in requirements()]
    assert not {"lightning==2.6.2", "lightning==2.6.3"} & set(names)


def audit(tool):
    return subprocess.run(
        ["make", "-s", "audit", "READY=ready", "-o", "ready", f"AUDIT={tool}"], cwd=CHECKOUT,
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_an_audit_without_its_tool_says_so_and_ends_well(tmp_path):
    done = audit(tmp_path / "none")
    assert done.returncode == 0, done.stderr
    assert "pip-audit is not here" in done.stdout


@pytest.mark.parametrize(
    ("said", "status", "ends_well", "told"),
    [
        ("Found 2 known vulnerabilities in 1 package", 1, False, ""),
        ("ConnectionError: Max retries exceeded", 1, True, "nothing is known of the packages, good or bad"),
        # What a mirror without advisories leads to: pip-audit is content.
        ("No known vulnerabilities found\ntorch  not found on PyPI and could not be audited: torch",
         0, True, "Of 1 packages nothing is known, good or bad"),
        ("No known vulnerabilities found", 0, True, ""),
    ],
)  # fmt: skip
def test_an_audit_is_never_better_than_what_was_asked(tmp_path, said, status, ends_well, told):
    tool = tmp_path / "pip-audit"
    tool.write_text(f"#!/bin/sh\necho '{said}'\nexit {status}\n")
    tool.chmod(0o755)
    done = audit(tool)
    assert (done.returncode == 0) is ends_well, done.stderr
    assert said in done.stdout
    assert told in done.stdout
    assert ("nothing is known" in done.stdout) is bool(told)
