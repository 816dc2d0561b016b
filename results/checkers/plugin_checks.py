"""Carry out the checks of installed packages (`check_plugins.py`), and turn what they return into results.

They run in the control process, with the whole history in memory.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from squall.results.checkers.check_plugins import Check, Outcome, Proof, plugins
from squall.results.checkers.further import FurtherResult, in_words
from squall.results.history.history import History
from squall.results.history.manifest import Manifest
from squall.results.history.rows import TYPES

MOST_SECONDS: Final = 120.0
"""The most seconds that a check is given, unless the deadline is earlier."""
MOST_WITNESSES: Final = 8


def plugin_results(run_dir: Path, manifest: Manifest, deadline: float | None) -> Iterator[FurtherResult]:
    """Carry out the checks of installed packages that a run names."""
    for name in manifest.checks:
        if name in plugins().names:
            yield _checked(name, run_dir, manifest, deadline)


def _checked(name: str, run_dir: Path, manifest: Manifest, deadline: float | None) -> FurtherResult:
    began = time.perf_counter()
    seconds = MOST_SECONDS if deadline is None else min(MOST_SECONDS, deadline - time.time())
    try:
        check = plugins().load(name)
    except ValueError as wrong:
        return _result(name, None, Outcome(0, undecided=(str(wrong),)), 0, began)
    if seconds <= 0:
        return _result(name, check, Outcome(0, undecided=("the time was up before it was looked at",)), 0, began)
    acknowledged = 0
    try:
        history = History.load(run_dir, run_id=manifest.run_id)
        acknowledged = int((np.asarray(history.table["type"]) == TYPES["ok"]).sum())
        outcome = _sound(check.look(history, manifest, seconds), check)
    except (Exception, SystemExit) as trouble:
        raised = f"{type(trouble).__name__}: {trouble}".removesuffix(": ")
        outcome = Outcome(0, undecided=(f"the check of {plugins().origin(name)} raised {raised}",))
    return _result(name, check, outcome, acknowledged, began)


def _sound(outcome: Any, check: Check) -> Outcome[Proof]:
    """The outcome, if a verdict can rest on it. Raises TypeError or ValueError."""
    if not isinstance(outcome, Outcome):
        raise TypeError(f"it returned {outcome!r}, which is no Outcome")
    declared = {one.name for one in check.anomalies}
    undeclared = {*outcome.anomalies, *(one.anomaly for one in outcome.proofs)} - declared
    if undeclared:
        raise ValueError(f"it reported {min(undeclared)}, which is none of the anomalies that it declares")
    return outcome


def _result(name: str, check: Check | None, outcome: Outcome[Proof], acknowledged: int, began: float) -> FurtherResult:
    declared = {one.name: one for one in (check.anomalies if check is not None else ())}
    return FurtherResult(
        check=name,
        statement=check.statement if check is not None else f"check {name}",
        checked=outcome.checked,
        acknowledged=acknowledged,
        counts=tuple(outcome.counts.items()),
        anomalies={anomaly: count for anomaly, count in outcome.anomalies.items() if count},
        noted=dict(outcome.noted),
        witnesses=tuple(in_words(one, declared.values()) for one in outcome.proofs[:MOST_WITNESSES]),
        undecided=outcome.undecided,
        milliseconds=(time.perf_counter() - began) * 1000,
        plugin=plugins().origin(name),
        meanings={anomaly: one.meaning for anomaly, one in declared.items()},
    )
