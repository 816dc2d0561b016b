"""Judge a run: valid, invalid or unknown, with everything the verdict rests on (HX-06, HX-07, HX-10).

Severity is invalid > unknown > valid. A rule of availability that the scenario states and that does not hold
(`required.py`) is a violation as well. A definite violation stands regardless of other problems: a missing final read
does not excuse two values at one offset. Otherwise a run proves only what was checked. *Unknown* always has reasons:
nothing or too little was acknowledged, nothing was read, a final read did not reach its marker, a fault left no
evidence that it took effect and was undone, the run was cut off, the history is ill-formed, a check other than that of
logs could not decide (`results/verdict/further.py`). A run that proves nothing is never green. Minimum numbers of sends
and final reads are required only of runs about logs: `checks` has `log`, or their clients sent to a log or read one,
whether or not `checks` names it.

Exit codes: 0 valid, 1 invalid, 2 unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from squall.results.checkers.anomalies import ANOMALIES
from squall.results.checkers.common.tally import Tally
from squall.results.checkers.further import FurtherResult
from squall.results.checkers.log.anomalies import APPENDS, LOSSES, READS
from squall.results.checkers.log.result import PartitionResult
from squall.results.history.ill_formed import IllFormedHistory
from squall.results.history.manifest import PLUGINS, Expected, Manifest
from squall.results.history.segments import ClusterObservation, FaultWindow
from squall.results.history.whole_file import write_whole
from squall.results.verdict.further import FurtherSummary, ToldFurther, further_reasons, summarised, tell_further
from squall.results.verdict.latency import SendLatency, send_latency
from squall.results.verdict.reasons import about_logs, reasons_of, with_final_read, without_final_read
from squall.results.verdict.required import Load, judged_requirements
from squall.results.witnesses.witness import Surroundings, Witness, tell

VERDICT_FILE: Final = "verdict.json"
EXIT_CODES: Final = {"valid": 0, "invalid": 1, "unknown": 2}

REQUIRED: Final = "required, but not so"
PROMISE: Final = "linearizable appends"
"""The first statement of every verdict on logs."""

Name = Literal["valid", "invalid", "unknown"]


class AnomalyCount(msgspec.Struct, frozen=True):
    """How often an anomaly occurred, and where."""

    name: str
    meaning: str
    count: int
    where: dict[str, int]


class Statement(msgspec.Struct, frozen=True):
    """A checked statement: it holds, it does not, or (None) that is unknown."""

    text: str
    holds: bool | None


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """What the verdict rests on: how much was checked, and by which engine."""

    topic_partitions: int = 0
    sends_ok: int = 0
    sends_info: int = 0
    sends_fail: int = 0
    polls: int = 0
    records: int = 0
    acknowledged: int = 0
    unseen: int = 0
    lost_unprotected: int = 0
    declared_lost: int = 0
    """Acknowledged sends whose records an observed unclean election was allowed to lose."""
    duplicate_not_idempotent: int = 0
    duplicate_after_removal: int = 0
    """Values of idempotent producers at two offsets, of which the lower one had been removed from the log's front."""
    stale_log_ends: int = 0
    deleted_read: int = 0
    """Deleted records that were delivered by nodes that do not promise otherwise."""
    torn_lines: int = 0
    faults: int = 0
    faults_proven: int = 0
    engine: str = ""
    seconds: float = 0.0


class Outage(msgspec.Struct, frozen=True, kw_only=True):
    """The longest time without an acknowledged send, and the faults that held during it."""

    nanoseconds: int
    start: int
    where: str
    faults: tuple[str, ...]


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on one run. `verdict.json` is exactly this."""

    verdict: Name
    scenario: str
    run_id: str
    seed: int
    reasons: tuple[str, ...]
    anomalies: tuple[AnomalyCount, ...]
    statements: tuple[Statement, ...]
    coverage: Coverage
    witnesses: tuple[Witness, ...]
    longest_outage: Outage | None
    realtime_lag_p99: int
    realtime_lag_max: int
    expected: Expected
    mutants: tuple[str, ...]
    command: str
    not_known: tuple[str, ...] = ()
    """What no check can know about an imported history; empty for any other."""
    further: tuple[FurtherSummary, ...] = ()
    further_witnesses: tuple[ToldFurther, ...] = ()
    send_latency: SendLatency | None = None
    plugins: dict[str, str] = {}
    """The plugins that the run used, such as `fault full-inodes`, and the package of each with its version."""

    @property
    def is_about_logs(self) -> bool:
        """Whether it states what holds of logs; a verdict about registers alone does not."""
        return any(one.text == PROMISE for one in self.statements)

    @property
    def requirements_hold(self) -> bool:
        """Whether no availability requirement of the scenario is broken."""
        return not any(reason.startswith(REQUIRED) for reason in self.reasons)

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.verdict]

    @property
    def as_expected(self) -> bool:
        """Whether it is the verdict the scenario expects, with at least the anomalies it names."""
        found = {one.name for one in self.anomalies}
        return self.verdict == self.expected.verdict and set(self.expected.anomalies) <= found

    def data(self) -> dict[str, Any]:
        """Return what `verdict.json` holds."""
        data = {**msgspec.to_builtins(self), "exit_code": self.exit_code, "as_expected": self.as_expected}
        if not self.not_known:
            del data["not_known"]
        if not self.further:
            del data["further"], data["further_witnesses"]
        if not self.plugins:
            del data["plugins"]
        return data

    def save(self, run_dir: Path | str) -> Path:
        path = Path(run_dir) / VERDICT_FILE
        write_whole(path, msgspec.json.format(msgspec.json.encode(self.data()), indent=2) + b"\n")
        return path

    @classmethod
    def load(cls, run_dir: Path | str) -> Verdict:
        """Load a verdict. Raises FileNotFoundError if there is none, and IllFormedHistory for an unreadable file."""
        path = Path(run_dir) / VERDICT_FILE
        try:
            return msgspec.json.decode(path.read_bytes(), type=cls)
        except msgspec.ValidationError as trouble:
            raise IllFormedHistory(path, None, f"is not a verdict: {trouble}") from trouble
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as trouble:
            raise IllFormedHistory(path, None, f"is not JSON: {trouble}") from trouble


def worst(verdicts: Sequence[Name]) -> Name:
    """Return the worst: invalid > unknown > valid; of none, unknown."""
    if not verdicts:
        return "unknown"
    return max(verdicts, key=("valid", "unknown", "invalid").index)


def ill_formed(manifest: Manifest | None, problem: str) -> Verdict:
    """Return the verdict on a history that cannot be read or is ill-formed."""
    return Verdict(
        verdict="unknown",
        scenario=manifest.scenario if manifest else "",
        run_id=manifest.run_id if manifest else "",
        seed=manifest.seed if manifest else 0,
        reasons=(problem, *(manifest.trouble if manifest else ())),
        anomalies=(),
        statements=(),
        coverage=Coverage(),
        witnesses=(),
        longest_outage=None,
        realtime_lag_p99=0,
        realtime_lag_max=0,
        expected=manifest.expect if manifest else Expected(),
        mutants=manifest.mutants if manifest else (),
        command=manifest.command if manifest else "",
    )


def judge(
    manifest: Manifest,
    results: Sequence[PartitionResult],
    around: Surroundings,
    *,
    further: Sequence[FurtherResult] = (),
    unchecked: Sequence[str] = (),
    latencies: Tally | None = None,
    torn: int = 0,
    engine: str = "",
    seconds: float = 0.0,
) -> Verdict:
    """Judge a run from the results of its topic-partitions and of its `further` checks.

    `unchecked` topic-partitions have no results for lack of time. `latencies` counts those of acknowledged sends by
    bucket and class.
    """
    anomalies = _anomalies(results, further)
    seen = _seen_of_the_cluster(manifest, around)
    required = [
        Statement(text, None if unchecked or manifest.imported is not None else holds)
        for text, holds in judged_requirements(manifest.require, results, seen, _load(manifest, around))
    ]
    broken = [f"{REQUIRED}: {one.text}" for one in required if one.holds is False]
    unsure = reasons_of(manifest, results, around.faults, unchecked) + further_reasons(manifest, further)
    reasons = (*broken, *unsure, *_unjudged(required))
    coverage = _coverage(results, around.faults, torn, engine, seconds)
    return Verdict(
        verdict="invalid" if anomalies or broken else "unknown" if reasons else "valid",
        scenario=manifest.scenario,
        run_id=manifest.run_id,
        seed=manifest.seed,
        reasons=reasons,
        anomalies=anomalies,
        statements=(*_statements(manifest, results, anomalies, all_checked=not unchecked), *required),
        coverage=coverage,
        witnesses=_witnesses(results, around),
        longest_outage=_longest_outage(results, around.faults),
        realtime_lag_p99=max((one.lag_p99 for one in results), default=0),
        realtime_lag_max=max((one.lag_max for one in results), default=0),
        expected=manifest.expect,
        mutants=manifest.mutants,
        command=manifest.command,
        not_known=_not_known(manifest),
        further=summarised(further),
        further_witnesses=tell_further(further, around),
        send_latency=None if latencies is None else send_latency(latencies, results),
        plugins={**_plugins_of(manifest), **{f"check {one.check}": one.plugin for one in further if one.plugin}},
    )


def _anomalies(results: Sequence[PartitionResult], further: Sequence[FurtherResult] = ()) -> tuple[AnomalyCount, ...]:
    found = []
    for name, anomaly in ANOMALIES.items():
        where = {one.name: one.anomalies[name] for one in results if one.anomalies.get(name)}
        where |= {one.check: one.anomalies[name] for one in further if one.anomalies.get(name)}
        if where:
            found.append(AnomalyCount(name, anomaly.meaning, sum(where.values()), where))
    for one in further:
        found += [
            AnomalyCount(name, one.meanings[name], count, {one.check: count})
            for name, count in one.anomalies.items()
            if name in one.meanings
        ]
    return tuple(found)


def _plugins_of(manifest: Manifest) -> dict[str, str]:
    named = manifest.options.get(PLUGINS)
    return {str(name): str(package) for name, package in named.items()} if isinstance(named, dict) else {}


def _witnesses(results: Sequence[PartitionResult], around: Surroundings) -> tuple[Witness, ...]:
    """Describe all witnesses, in the order of the registry: first by importance, then by topic-partition."""
    order = {name: place for place, name in enumerate(ANOMALIES)}
    told, seen = [], set()
    for one in results:
        for facts in one.witnesses:
            which = (facts.anomaly, one.name)
            told.append(tell(facts, one.anomalies[facts.anomaly], around, another=which in seen))
            seen.add(which)
    return tuple(sorted(told, key=lambda one: order[one.anomaly]))


def _coverage(
    results: Sequence[PartitionResult], faults: Sequence[FaultWindow], torn: int, engine: str, seconds: float
) -> Coverage:
    counts: Counter[str] = Counter()
    for one in results:
        counts.update(one.operations)
        counts.update(one.noted)
    return Coverage(
        topic_partitions=len(results),
        sends_ok=counts["send.ok"] + counts["marker.ok"],
        sends_info=counts["send.info"] + counts["marker.info"],
        sends_fail=counts["send.fail"] + counts["marker.fail"],
        polls=counts["poll.ok"] + counts["final_poll.ok"],
        records=sum(one.records for one in results),
        acknowledged=sum(one.acknowledged for one in results),
        unseen=counts["unseen"],
        lost_unprotected=counts["lost_unprotected"],
        declared_lost=counts["declared_lost"],
        duplicate_not_idempotent=counts["duplicate_not_idempotent"],
        duplicate_after_removal=counts["duplicate_after_removal"],
        stale_log_ends=counts["stale_log_ends"],
        deleted_read=counts["deleted_read"],
        torn_lines=torn,
        faults=len(faults),
        faults_proven=sum(bool(one.took and one.undone) for one in faults),
        engine=engine,
        seconds=round(seconds, 3),
    )


def _statements(
    manifest: Manifest,
    results: Sequence[PartitionResult],
    anomalies: Sequence[AnomalyCount],
    *,
    all_checked: bool,
) -> tuple[Statement, ...]:
    """What holds of logs; no statement in a run that is not about them."""
    if not about_logs(manifest, results):
        return ()
    found = {one.name for one in anomalies}
    acknowledged = sum(one.acknowledged for one in results)
    records = sum(one.records for one in results)
    finished = bool(with_final_read(results)) and not without_final_read(manifest, results)

    def holds(names: Sequence[str], looked: bool) -> bool | None:
        return False if found & set(names) else True if looked and all_checked else None

    declared = sum(one.noted.get("declared_lost", 0) for one in results)
    kept = "nothing acknowledged lost" + (f" but {declared} by unclean elections, as allowed" if declared else "")
    return (
        Statement(PROMISE, holds(APPENDS, acknowledged > 0 and records > 0)),
        Statement("gap-free reads", holds(READS, records > 0)),
        Statement(kept, holds(LOSSES, finished and acknowledged > 0)),
    )


def _not_known(manifest: Manifest) -> tuple[str, ...]:
    """What a history that another tool recorded does not state."""
    if manifest.imported is None:
        return ()
    return ("whether faults took hold", *manifest.imported.unknown)


def _longest_outage(results: Sequence[PartitionResult], faults: Sequence[FaultWindow]) -> Outage | None:
    tried = [one for one in results if one.operations.get("send.ok") or one.longest_outage]
    if not tried:
        return None
    longest = max(tried, key=lambda one: one.longest_outage)
    start, end = longest.longest_outage_start, longest.longest_outage_start + longest.longest_outage
    names = [
        one.name
        for one in faults
        if one.injected is not None and one.injected < end and (one.healed is None or one.healed > start)
    ]
    return Outage(nanoseconds=longest.longest_outage, start=start, where=longest.name, faults=tuple(names))


def _load(manifest: Manifest, around: Surroundings) -> Load:
    return Load(manifest.load_started or 0, manifest.load_ended, manifest.topic_partitions, around.watched)


def _seen_of_the_cluster(manifest: Manifest, around: Surroundings) -> list[ClusterObservation]:
    """Return the state of the cluster when the load began, and the changes during the load."""
    began = manifest.load_started or 0
    stood = {(one.kind, one.topic, one.partition): one for one in around.cluster if one.time < began}
    return [*stood.values(), *(one for one in around.cluster if _within_load(manifest, one.time))]


def _within_load(manifest: Manifest, time: int) -> bool:
    ended = manifest.load_ended
    return (manifest.load_started or 0) <= time and (ended is None or time <= ended)


def _unjudged(required: Sequence[Statement]) -> list[str]:
    return [f"required, but unknown: {one.text}" for one in required if one.holds is None]
