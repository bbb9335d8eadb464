"""What keeps the house in order: versions, targets, layers, and what is shipped."""

import os
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import nextclick

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [line.split("==") for line in lines if line and not line.startswith("#")]
    assert all(len(pin) == 2 for pin in pins), "a line pins one version"
    return {normal(name): version for name, version in pins}


def test_the_version_is_said_once_and_the_same() -> None:
    assert PROJECT["project"]["version"] == nextclick.__version__ == metadata.version("nextclick")


def test_everything_installed_is_pinned() -> None:
    pins = pinned()
    wanted = list(PROJECT["project"]["dependencies"])
    for group in PROJECT["dependency-groups"].values():
        wanted += group
    wanted += PROJECT["build-system"]["requires"]
    for requirement in wanted:
        match = re.match(r"[\w.-]+", requirement)
        assert match
        assert normal(match[0]) in pins, requirement
    assert pins["torch"] == "2.13.0"


def test_what_is_installed_is_what_is_pinned() -> None:
    pins = pinned()
    needed = {normal(re.split(r"[<>=\[ ;]", r)[0]) for r in PROJECT["project"]["dependencies"]}
    for name in needed:
        assert metadata.version(name).split("+")[0] == pins[name], name


def test_make_help_lists_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.*)", makefile, re.MULTILINE)
    assert phony
    listed = subprocess.run(
        ["make", "--no-print-directory", "help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert {line.split()[1] for line in listed.splitlines()} == set(phony[1].split())
    assert {"demo", "test", "help"} <= set(phony[1].split())


def test_continuous_integration_can_be_run() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    subprocess.run(["bash", "-n", script], check=True)
    text = script.read_text()
    assert "set -euo pipefail" in text
    assert "make --no-print-directory test" in text


def test_hooks_use_tools_that_are_installed() -> None:
    hooks = re.findall(r"entry: \.venv/bin/(\S+)", (ROOT / ".pre-commit-config.yaml").read_text())
    assert hooks == ["ruff", "ruff", "mypy", "lint-imports"]
    for tool in hooks:
        assert Path(sys.executable).with_name(tool).exists()


def test_the_layers_leave_no_module_out(tmp_path: Path) -> None:
    """A module that no layer names breaks the contract: nobody can forget to place one."""
    package = tmp_path / "src"
    for source in (ROOT / "src" / "nextclick").rglob("*.py"):
        target = package / source.relative_to(ROOT / "src")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(source.read_bytes())
    (package / "nextclick" / "forgotten.py").touch()
    (tmp_path / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(package)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "nextclick.forgotten" in done.stdout
    assert "Contracts: 2 kept, 1 broken" in done.stdout


def test_the_changelog_has_a_place_for_what_comes() -> None:
    assert "## [Unreleased]" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("folder", ["src", "tests", "docs", "benchmarks"])
def test_nothing_depends_on_where_it_was_written(folder: str) -> None:
    home = re.compile(r"/(work|root|home)/\w|/tmp/\w")
    for file in (ROOT / folder).rglob("*"):
        if file.suffix in (".py", ".md", ".toml", ".yml") and file != Path(__file__):
            assert not home.search(file.read_text(encoding="utf-8")), file


def test_types_are_shipped() -> None:
    assert (Path(nextclick.__file__).parent / "py.typed").exists()
    assert PROJECT["tool"]["setuptools"]["package-data"]["nextclick"] == ["py.typed"]
