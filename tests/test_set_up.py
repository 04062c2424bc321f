"""The installation by `make run` and `make test`: lock files, and a Chromium for the tests."""

from __future__ import annotations

import os
import re
import sys
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from core.paths import ROOT
from tests.support import chromium

pytestmark = pytest.mark.slow
LOCKS = {"": ["requirements.lock"]}
LOCKS["-dev"] = [*LOCKS[""], "requirements-dev.lock"]
LOCKS["-server"] = [*LOCKS[""], "requirements-server.lock"]
TORCH = re.compile("torch$|triton$|cuda-|nvidia-")
"""Packages that are not in the lock files, since they depend on the machine."""


def pins(part: str) -> list[Requirement]:
    lines = (ROOT / f"requirements{part}.txt").read_text().splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith(("#", "-r "))]


def locked(part: str) -> dict[str, list[tuple[Requirement, int]]]:
    """Return package → its versions in the lock files of a part, each with its number of hashes."""
    packages: dict[str, list[tuple[Requirement, int]]] = {}
    for name in LOCKS[part]:
        for block in re.split(r"\n(?=[a-z])", (ROOT / name).read_text()):
            head = block.partition(" \\\n")[0]
            if not head.startswith("#"):
                requirement = Requirement(head)
                hashes = len(re.findall(r"--hash=sha256:[0-9a-f]{64}\b", block))
                packages.setdefault(canonicalize_name(requirement.name), []).append((requirement, hashes))
    return packages


@pytest.mark.parametrize("part", LOCKS)
def test_each_pin_is_in_its_lock_with_the_same_version(part: str) -> None:
    """Run `make lock` if this fails."""
    packages = locked(part)
    for pin in pins(part):
        name = canonicalize_name(pin.name)
        if not TORCH.match(name):
            assert [str(requirement.specifier) for requirement, _ in packages.get(name, [])] == [str(pin.specifier)]


@pytest.mark.parametrize("part", LOCKS)
def test_a_lock_names_one_version_with_hashes_and_no_place(part: str) -> None:
    for name in LOCKS[part]:
        text = (ROOT / name).read_text()
        assert "://" not in text
        assert not re.search(r"^\s*--(?!hash=sha256:)", text, re.MULTILINE), "an option that names a place"
    packages = locked(part)
    assert not [name for name in packages if TORCH.match(name)]
    for versions in packages.values():
        for requirement, hashes in versions:
            assert re.fullmatch(r"==[\w.!+]+", str(requirement.specifier))
            assert hashes
        here = [requirement for requirement, _ in versions if not requirement.marker or requirement.marker.evaluate()]
        assert len(here) <= 1, "two versions of it for one machine"


@pytest.mark.parametrize("part", ["", "-dev"])
def test_the_dependencies_of_pinned_packages_are_locked(part: str) -> None:
    """Follows the requirements of installed packages from the pins, on this machine and Python."""
    packages = locked(part)
    queue = [*pins(""), *pins(part)]
    walked: set[str] = set()
    while queue:
        requirement = queue.pop()
        name = canonicalize_name(requirement.name)
        for extra in ("", *requirement.extras):
            if f"{name}[{extra}]" in walked:
                continue
            walked.add(f"{name}[{extra}]")
            try:
                needs = [Requirement(line) for line in requires(name) or []]
            except PackageNotFoundError:
                pytest.fail(f"{name} is not installed")
            queue += [need for need in needs if not need.marker or need.marker.evaluate({"extra": extra})]
        assert TORCH.match(name) or any(
            not version.marker or version.marker.evaluate() for version, _ in packages.get(name, [])
        ), f"{name} is in no lock"
    assert len(walked) > 50


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without a browser, with root rights and a fake apt-get at this path."""
    monkeypatch.setenv("CHROMIUM", str(tmp_path / "chromium"))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return tmp_path / "apt-get"


def program(path: Path, *lines: str) -> None:
    path.write_text("\n".join(("#!/bin/sh", *lines, "")))
    path.chmod(0o755)


posix = pytest.mark.skipif(sys.platform == "win32", reason="the stand-in for apt-get is a shell script")


@posix
def test_root_on_debian_gets_a_browser(apt: Path, capsys: pytest.CaptureFixture[str]) -> None:
    browser = apt.with_name("chromium")
    program(apt, 'for last; do :; done; test "$last" = update && exit 100', f'cp "$0" {browser}')
    chromium.main()
    assert browser.exists()
    assert "skipped" not in capsys.readouterr().out


@posix
def test_if_apt_fails_a_sentence_says_that_tests_are_skipped(apt: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program(apt, "echo E: no network", "exit 100")
    chromium.main()
    (sentence,) = [line for line in capsys.readouterr().out.splitlines() if "skipped" in line]
    assert chromium.NO_BROWSER in sentence
    assert "E: no network" in sentence


@posix
def test_only_root_calls_apt(apt: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    called = apt.with_name("called")
    program(apt, f"touch {called}")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    chromium.main()
    assert not called.exists()
    assert "skipped" in capsys.readouterr().out
