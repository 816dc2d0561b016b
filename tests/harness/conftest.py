"""The command line as a user meets it: a process of its own, no terminal, its own working directory."""

from __future__ import annotations

import os
import signal
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
        process = subprocess.Popen(
            self.argv(*arguments),
            cwd=self.directory,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            out, err = process.communicate(timeout=self.seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)  # it writes where each of its threads is
            out, err = process.communicate(timeout=60)
            raise AssertionError(
                f"{arguments} did not end within {self.seconds:g} s:\n{out[-4000:]}{err[-12000:]}"
            ) from None
        except BaseException:
            process.kill()
            raise
        return Said(process.returncode, out, err)

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
        return {**os.environ, "TERM": "xterm-256color", "PYTHONFAULTHANDLER": "1", **self.environment}


@pytest.fixture
def squall(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path)
