"""Judge one mutant by the unit tests of the nodes: those that execute the mutated statement, fastest first.

Which tests execute what is measured once, with probes, and kept beside the ledger with a fingerprint of nodes and
tests. Tests that start processes are left out: a mutant is in the memory of one process only.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

from squall.harness.errors import UsageError
from squall.harness.simulation.mutation.generation.mutation import Mutation, squall_root
from squall.harness.simulation.mutation.judgement import KILLED, NOT_REACHED, SURVIVED, UNIT, Judgement
from squall.harness.simulation.mutation.process import LIVE
from squall.harness.simulation.mutation.pytest_plugin import JOB
from squall.harness.simulation.mutation.reach import reaches, statement_line

TESTS = "tests/nodes"
LEFT_OUT = "tests/nodes/server"
BUDGET_S = 60.0
"""Healthy time of the tests that are run against one mutant."""
PASSED, FAILED_TESTS = 0, 1


@dataclass(frozen=True)
class KnownTest:
    """One test, how long it takes on healthy nodes, and what it executes."""

    name: str
    seconds: float
    reached: dict[str, str]


class UnitTests:
    """The unit tests of the nodes, from the checkout that this package runs from."""

    def __init__(self, path: Path) -> None:
        self.root = (squall_root() / "nodes").resolve().parent
        if not (self.root / TESTS).is_dir():
            raise UsageError(f"no {TESTS} beside the nodes", remedy="--modes simulation,history needs no checkout")
        self._path = path
        self._lock = threading.Lock()
        self._tests: list[KnownTest] | None = None

    def judge(self, mutation: Mutation, text: str) -> Judgement:
        """Run the tests that execute the mutated statement until one fails."""
        chosen = self._chosen(mutation, text)
        if not chosen:
            return Judgement(UNIT, NOT_REACHED)
        with tempfile.TemporaryDirectory(prefix="squall-mutant-") as scratch:
            out = Path(scratch) / "out"
            job: dict[str, object] = {
                "module": mutation.module,
                "source": mutation.apply(text),
                "tests": chosen,
                "out": str(out),
            }
            status, seconds = self._pytest(job, Path(scratch), _files(chosen), BUDGET_S * 3)
            lines = out.read_text().splitlines() if out.exists() else []
            said = (Path(scratch) / "said").read_text()[-500:]
        failed = [one.removeprefix("failed ") for one in lines if one.startswith("failed ")]
        tried = len({one.split(" ", 1)[1] for one in lines})
        if status == PASSED:
            return Judgement(UNIT, SURVIVED, seconds=seconds, tried=tried)
        by = failed[:1] or ("HANG" if status in (-signal.SIGXCPU, -signal.SIGKILL) else "CRASH",)
        return Judgement(UNIT, KILLED, by=tuple(by), seconds=seconds, tried=tried, problem=said)

    def _chosen(self, mutation: Mutation, text: str) -> list[str]:
        """Return the tests that execute the mutated statement, fastest first, as many as the budget allows."""
        line, chosen, left = statement_line(mutation, text), list[str](), BUDGET_S
        for test in self._known():
            if reaches(test.reached, mutation, line):
                left -= test.seconds
                if left < 0:
                    break
                chosen.append(test.name)
        return chosen

    def _known(self) -> list[KnownTest]:
        """Return the tests that pass on healthy nodes, fastest first."""
        with self._lock:
            if self._tests is None:
                if not self._is_current():
                    self._measure()
                entries = [json.loads(line) for line in self._path.read_text().splitlines()[1:]]
                passed = [KnownTest(one["test"], one["seconds"], one["reached"]) for one in entries if one["passed"]]
                self._tests = sorted(passed, key=lambda one: (one.seconds, one.name))
            return self._tests

    def _fingerprint(self) -> str:
        digest = hashlib.sha256()
        for folder in ("nodes", TESTS):
            for path in sorted((self.root / folder).rglob("*.py")):
                digest.update(path.relative_to(self.root).as_posix().encode() + b"\0" + path.read_bytes())
        return digest.hexdigest()[:16]

    def _is_current(self) -> bool:
        if not self._path.exists():
            return False
        with self._path.open() as file:
            return file.readline().strip() == self._fingerprint()

    def _measure(self) -> None:
        with tempfile.TemporaryDirectory(prefix="squall-mutant-") as scratch:
            out = Path(scratch) / "out"
            out.write_text(self._fingerprint() + "\n")
            self._pytest({"module": "", "source": "", "out": str(out)}, Path(scratch), [TESTS], 3600, stop=False)
            whole = self._path.with_suffix(".part")
            whole.write_text(out.read_text())
            whole.replace(self._path)

    def _pytest(
        self, job: dict[str, object], scratch: Path, files: list[str], limit_s: float, *, stop: bool = True
    ) -> tuple[int, float]:
        """Run pytest with the plugin. Return its exit status and its processor time."""
        (scratch / "job.json").write_text(json.dumps(job))
        command = [sys.executable, "-m", "pytest", "-p", "squall.harness.simulation.mutation.pytest_plugin", "-n0"]
        command += ["-p", "no:cacheprovider", "-q", "--no-header", "--tb=no", "-W", "ignore", "--hypothesis-seed=0"]
        command += [
            "-m",
            "not full and not lab and not spark",
            f"--ignore={LEFT_OUT}",
            *(["-x"] if stop else []),
            *files,
        ]
        surroundings = {JOB: str(scratch / "job.json"), "HYPOTHESIS_STORAGE_DIRECTORY": str(scratch / "hypothesis")}
        began = _children_s()
        process = subprocess.Popen(
            command,
            cwd=self.root,
            env={**os.environ, **surroundings},
            stdin=subprocess.DEVNULL,
            stdout=(scratch / "said").open("w"),
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (int(limit_s), int(limit_s) + 5)),
        )
        LIVE.add(process)
        try:
            status = process.wait(limit_s * 20)
        except subprocess.TimeoutExpired:
            status = -signal.SIGKILL
        finally:
            process.kill()
            process.wait()
            LIVE.discard(process)
        return status, round(_children_s() - began, 2)


def _children_s() -> float:
    """Processor time of the processes that have ended; with several at once, an upper bound for one."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _files(tests: list[str]) -> list[str]:
    return sorted({name.partition("::")[0] for name in tests})
