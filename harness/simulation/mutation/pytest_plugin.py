"""A pytest plugin that loads one mutant, or probes, before any test is imported.

    SQUALL_MUTATION=job.json pytest -p squall.harness.simulation.mutation.pytest_plugin tests/nodes

With probes it writes one line for each test: its id, its time, whether it passed, and the statements it executed.
With a mutant it runs the tests that the job lists, in that order, and writes the name of the first that fails.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from squall.harness.simulation.mutation.loading import load_mutant
from squall.harness.simulation.mutation.reach import Reached

JOB = "SQUALL_MUTATION"


class Probing:
    """Notes what each test executes."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self._reached = Reached()
        self._reached.install()
        self._seconds = 0.0
        self._passed = True

    def pytest_collection_finish(self) -> None:
        self._reached.take()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds += report.duration
        self._passed = self._passed and report.passed

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._seconds, self._passed = 0.0, True
        yield
        entry = {"test": item.nodeid, "seconds": round(self._seconds, 4), "passed": self._passed}
        with self._out.open("a") as file:
            file.write(json.dumps({**entry, "reached": self._reached.take()}) + "\n")


class Judging:
    """Runs the listed tests in their order; names the first that fails."""

    def __init__(self, tests: list[str], out: Path) -> None:
        self._place = {name: place for place, name in enumerate(tests)}
        self._out = out

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        chosen = [item for item in items if item.nodeid in self._place]
        items[:] = sorted(chosen, key=lambda item: self._place[item.nodeid])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        with self._out.open("a") as file:
            file.write(f"{'failed' if report.failed else 'passed'} {report.nodeid}\n")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Install what the job asks for, before a conftest imports any node."""
    if JOB not in os.environ:
        return
    config = early_config
    job = json.loads(Path(os.environ[JOB]).read_text())
    if job["module"]:
        load_mutant(job["module"], job["source"])
        config.pluginmanager.register(Judging(job["tests"], Path(job["out"])))
    else:
        config.pluginmanager.register(Probing(Path(job["out"])))
