"""Packages of users: those of the guides, installed as a user would, and small broken ones, written by hand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GUIDES = ("writing-a-fault.md", "writing-a-workload.md", "writing-a-check.md", "writing-a-system.md")
FILE = re.compile(r"^```(?:toml|python)\n# ([\w.]+\.(?:toml|py))\n(.*?)^```$", re.MULTILINE | re.DOTALL)
"""A block of a guide whose first line is the name of a file."""


@dataclass(frozen=True)
class Ran:
    """What a command printed, and its exit status."""

    status: int
    out: str


def write_package_of(guide: str, into: Path) -> Path:
    """Write the example package of a guide as the guide has it."""
    files = dict(FILE.findall((ROOT / "docs" / guide).read_text(encoding="utf-8")))
    assert "pyproject.toml" in files and len(files) == 2, f"{guide}: {sorted(files)}"
    into.mkdir(parents=True)
    for name, text in files.items():
        (into / name).write_text(text, encoding="utf-8")
    return into


def install(packages: Sequence[Path], target: Path) -> None:
    """Install packages into a directory of their own, with what is here: nothing is downloaded."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]
    command += ["--no-deps", "--no-build-isolation", "--target", str(target)]
    done = subprocess.run([*command, *map(str, packages)], capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stdout + done.stderr


def write_installed(
    target: Path, group: str, points: Mapping[str, str], modules: Mapping[str, str], *, package: str = "squall-mine"
) -> Path:
    """A package as it lies in a directory of installed ones: modules, and the entry points of one group."""
    described = target / f"{package.replace('-', '_')}-1.2.dist-info"
    described.mkdir(parents=True)
    (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n")
    lines = "".join(f"{name} = {value}\n" for name, value in points.items())
    (described / "entry_points.txt").write_text(f"[{group}]\n{lines}")
    for name, text in modules.items():
        (target / f"{name}.py").write_text(text)
    return target


def squall(*arguments: str, plugins: Path | None = None, cwd: Path | None = None, timeout: float = 120) -> Ran:
    """Run the command line in a process of its own, with the packages of a directory installed beside Squall."""
    environment = os.environ | {"PYTHONPATH": str(plugins or "")}
    command = [sys.executable, "-m", "squall.harness.cli.main", *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=cwd, env=environment, timeout=timeout, errors="replace"
    )
    return Ran(done.returncode, done.stdout + done.stderr)


def run_python(code: str, plugins: Path) -> Ran:
    """Run Python in a process of its own, with the packages of a directory installed beside Squall."""
    environment = os.environ | {"PYTHONPATH": str(plugins)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=120)
    return Ran(done.returncode, done.stdout + done.stderr)
