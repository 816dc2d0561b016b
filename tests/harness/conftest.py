"""The command line as a user meets it: a process of its own, no terminal, its own working directory."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

COMMAND_SECONDS = 240


@dataclass(frozen=True)
class Said:
    """How a command ended."""

    status: int
    out: str
    err: str

    @property
    def all(self) -> str:
        return self.out + self.err


@dataclass(frozen=True)
class CommandLine:
    """`squall …` in a directory. `prefix` goes before it, such as a way into a lab's network."""

    directory: Path
    prefix: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    seconds: float = COMMAND_SECONDS

    def argv(self, *arguments: str | Path) -> list[str]:
        return [*self.prefix, sys.executable, "-m", "squall.harness.cli.main", *map(str, arguments)]

    def __call__(self, *arguments: str | Path) -> Said:
        done = subprocess.run(
            self.argv(*arguments),
            cwd=self.directory,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=self.seconds,
            check=False,
        )
        return Said(done.returncode, done.stdout, done.stderr)

    def start(self, *arguments: str | Path) -> subprocess.Popen[str]:
        """Started and left alone; what it says goes to `said.txt`."""
        with (self.directory / "said.txt").open("w") as said:
            return subprocess.Popen(
                self.argv(*arguments),
                cwd=self.directory,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                text=True,
            )

    def within(self, prefix: Sequence[str]) -> CommandLine:
        """The same, inside another network."""
        return replace(self, prefix=tuple(prefix))

    def knowing(self, **environment: str) -> CommandLine:
        """The same, with other environment variables."""
        return replace(self, environment={**self.environment, **environment})

    def patiently(self, seconds: float) -> CommandLine:
        """The same, waiting longer for what it starts."""
        return replace(self, seconds=seconds)

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "TERM": "xterm-256color", **self.environment}


@pytest.fixture
def squall(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path)
