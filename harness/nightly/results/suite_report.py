"""What `squall run` leaves about a suite: `suite.json` and JUnit XML, also when it is interrupted. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from squall.harness.nightly.results.junit import Case, junit_xml

SUITE_JSON: Final = "suite.json"
SCHEMA: Final = 1


@dataclass(frozen=True)
class SuiteRun:
    """One run of a suite. `verdict` is None if it was refused or has not ended; `problem` says which and why."""

    scenario: str
    seed: int
    expected: str
    verdict: str | None
    as_expected: bool
    refused: bool = False
    machine: bool = False
    """Whether it was refused because of hosts: they are in use, or cannot be reached."""
    anomalies: tuple[str, ...] = ()
    problem: str = ""
    directory: str = ""
    seconds: float = 0.0
    repeat: str = ""


@dataclass(frozen=True)
class SuiteReport:
    """A suite: all its runs in order, those that have not ended included. `status` is None as long as it runs."""

    suite: str
    started: str
    runs: Sequence[SuiteRun]
    status: int | None
    left_out: Sequence[str] = ()

    def as_json(self) -> dict[str, Any]:
        """Return `suite.json`."""
        return {
            "schema": SCHEMA,
            "suite": self.suite,
            "started": self.started,
            "finished": self.status is not None,
            "exit_status": self.status,
            "left_out": list(self.left_out),
            "items": [
                {
                    "scenario": one.scenario,
                    "seed": one.seed,
                    "expected": one.expected,
                    "verdict": "refused" if one.refused else one.verdict,
                    "as_expected": one.as_expected,
                    "machine": one.machine,
                    "anomalies": list(one.anomalies),
                    "problem": one.problem,
                    "directory": one.directory,
                    "seconds": round(one.seconds, 1),
                    "repeat": one.repeat,
                }
                for one in self.runs
            ],
        }

    def junit(self) -> str:
        """Return the JUnit document."""
        return junit_xml(self.suite, [_case(self.suite, one) for one in self.runs], started=self.started[:19])


def _case(suite: str, one: SuiteRun) -> Case:
    properties = {
        "seed": str(one.seed),
        "verdict": one.verdict or "none",
        "expected": one.expected,
        "run": one.directory,
    }
    properties["repeat"] = one.repeat
    named = f"{one.scenario} seed {one.seed}"
    if one.as_expected:
        return Case(named, suite, one.seconds, properties=properties)
    found = f" ({', '.join(one.anomalies)})" if one.anomalies else ""
    if one.refused:
        message = f"refused: {one.problem}"
    elif one.verdict is None:
        message = "did not end"
    else:
        message = f"{one.verdict}{found} where {one.expected} is expected"
    return Case(
        named,
        suite,
        one.seconds,
        outcome="failure" if one.verdict in ("valid", "invalid") else "error",
        message=message.splitlines()[0],
        detail=f"{one.problem}\nrepeat with: {one.repeat}",
        properties=properties,
    )
