"""Healthy twins: how each (scenario, seed) ends without a mutant, its trace, its time, and what it executes.

A failure of the healthy nodes is not a kill, so a mutant is judged only on seeds whose twin is valid. Twins are run
once, when first asked for, and kept in a file beside the ledger, with a fingerprint of the code they hold for.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from squall.harness.simulation.mutation.generation.mutation import squall_root
from squall.harness.simulation.mutation.process import WorkerProcess
from squall.harness.simulation.mutation.seeds import Loaded, SeedOutcome, SeedRun

ROOMS = ("nodes", "harness", "workloads", "nemesis", "results")
APART = ("harness/simulation/mutation/", "harness/cli/")
"""Code that decides nothing in a run."""
HEALTHY_LIMIT_S = 600.0


def fingerprint_of_code() -> str:
    """Return a hash of all code and suites that decide how a seed ends."""
    root, digest = squall_root(), hashlib.sha256()
    paths = [path for room in ROOMS for path in (root / room).rglob("*.py")]
    for path in sorted([*paths, *(root / "suites").rglob("*.yaml")]):
        name = path.relative_to(root).as_posix()
        if not name.startswith(APART):
            digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def place_in_rotation(scenarios: Sequence[str], index: int) -> tuple[str, int]:
    """Return the scenario at a place, and how many places before it have the same scenario."""
    rounds, place = divmod(index, len(scenarios))
    scenario = scenarios[place]
    return scenario, rounds * scenarios.count(scenario) + scenarios[:place].count(scenario)


class Baselines:
    """The healthy twins of the seeds of some scenarios in rotation: seed 1 of each, then seed 2 of each, …

    A scenario that is named several times has as many seeds in each round.
    """

    def __init__(self, path: Path, scenarios: tuple[str, ...], first_seed: int = 1) -> None:
        self.fingerprint = fingerprint_of_code()
        self._path = path
        self._scenarios = scenarios
        self._first_seed = first_seed
        self._lock = threading.Lock()
        self._worker: WorkerProcess | None = None
        self._known: dict[tuple[str, int], SeedOutcome] = {}
        if path.exists():
            self._read()

    def _read(self) -> None:
        for line in self._path.read_text().splitlines():
            entry = json.loads(line) if line.endswith("}") else {}
            if entry.pop("fingerprint", None) == self.fingerprint:
                outcome = SeedOutcome(**{**entry, "broken": tuple(entry["broken"])})
                self._known[outcome.scenario, outcome.seed] = outcome

    def at(self, index: int) -> SeedOutcome:
        """Return the healthy twin at a place in the rotation; run it if it is not known yet."""
        scenario, number = place_in_rotation(self._scenarios, index)
        seed = self._first_seed + number
        with self._lock:
            if (scenario, seed) not in self._known:
                self._known[scenario, seed] = self._run(SeedRun(scenario, seed, HEALTHY_LIMIT_S))
            return self._known[scenario, seed]

    def _run(self, asked: SeedRun) -> SeedOutcome:
        self._worker = self._worker or WorkerProcess(Loaded(probed=True))
        outcome = self._worker.run(asked)
        with self._path.open("a") as file:
            file.write(json.dumps({**asdict(outcome), "fingerprint": self.fingerprint}) + "\n")
        return outcome

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()
