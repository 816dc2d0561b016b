"""The verdict: valid, invalid or unknown, with everything it rests on (HX-06, HX-07, HX-10).

Severity is invalid > unknown > valid. A rule of availability that the scenario states and that does not hold
(`required.py`) is a violation as well. A definite violation stands, whatever else went wrong: no missing final
read makes two values at one offset right. Otherwise a run is only as good as what was looked at. *Unknown*
always has reasons: nothing or too little was acknowledged, nothing was read, a final read did not get to its
marker, a fault left no evidence that it took hold and was undone, the run was cut off, the history is
ill-formed, a check beside that of logs could not decide (`further_verdict.py`). A run that proves nothing is never
green. What sends and final reads must amount to is asked only of runs that are about logs (`checks` has `log`).

Exit codes: 0 valid, 1 invalid, 2 unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from squall.results.checks.anomalies import ANOMALIES
from squall.results.checks.further import FurtherResult
from squall.results.checks.result import PartitionResult
from squall.results.further_verdict import LOG, FurtherSummary, ToldFurther, further_reasons, summarised, tell_further
from squall.results.manifest import Expected, Manifest
from squall.results.required import judged_requirements
from squall.results.segments import FaultWindow
from squall.results.text import grouped, listed, several
from squall.results.witness import Surroundings, Witness, tell

VERDICT_FILE: Final = "verdict.json"
EXIT_CODES: Final = {"valid": 0, "invalid": 1, "unknown": 2}

APPENDS: Final = (
    "inconsistent_offset",
    "duplicate",
    "phantom",
    "aborted_read",
    "rt_order",
    "future_read",
    "stale_read",
    "hw_regress",
    "nonmonotonic_send",
)
READS: Final = ("int_poll_skip", "int_nonmonotonic", "poll_skip", "nonmonotonic_poll")

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
    """Something that was checked: it holds, it does not, or (None) nobody can tell."""

    text: str
    holds: bool | None


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """What the verdict rests on: how much was checked, and by what."""

    topic_partitions: int = 0
    sends_ok: int = 0
    sends_info: int = 0
    sends_fail: int = 0
    polls: int = 0
    records: int = 0
    acknowledged: int = 0
    unseen: int = 0
    lost_unprotected: int = 0
    duplicate_not_idempotent: int = 0
    stale_log_ends: int = 0
    torn_lines: int = 0
    faults: int = 0
    faults_proven: int = 0
    engine: str = ""
    seconds: float = 0.0


class Outage(msgspec.Struct, frozen=True, kw_only=True):
    """The longest time without an acknowledged send, and the faults that held meanwhile."""

    nanoseconds: int
    start: int
    where: str
    faults: tuple[str, ...]


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What can be said about one run. `verdict.json` is exactly this."""

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
    further: tuple[FurtherSummary, ...] = ()
    further_witnesses: tuple[ToldFurther, ...] = ()

    @property
    def is_about_logs(self) -> bool:
        """Whether it says what holds of logs; one about registers alone does not."""
        return any(one.text == PROMISE for one in self.statements)

    @property
    def requirements_hold(self) -> bool:
        """Whether nothing that the scenario requires of availability is broken."""
        return not any(reason.startswith(REQUIRED) for reason in self.reasons)

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.verdict]

    @property
    def as_expected(self) -> bool:
        """Whether it is the verdict the scenario wants, with at least the anomalies it names."""
        found = {one.name for one in self.anomalies}
        return self.verdict == self.expected.verdict and set(self.expected.anomalies) <= found

    def save(self, run_dir: Path | str) -> Path:
        path = Path(run_dir) / VERDICT_FILE
        data = {**msgspec.to_builtins(self), "exit_code": self.exit_code, "as_expected": self.as_expected}
        if not self.further:
            del data["further"], data["further_witnesses"]
        path.write_bytes(msgspec.json.format(msgspec.json.encode(data), indent=2) + b"\n")
        return path

    @classmethod
    def load(cls, run_dir: Path | str) -> Verdict:
        return msgspec.json.decode((Path(run_dir) / VERDICT_FILE).read_bytes(), type=cls)


def worst(verdicts: Sequence[Name]) -> Name:
    """invalid > unknown > valid; of nothing, unknown."""
    if not verdicts:
        return "unknown"
    return max(verdicts, key=("valid", "unknown", "invalid").index)


def ill_formed(manifest: Manifest | None, problem: str) -> Verdict:
    """The verdict on a history that cannot be read or makes no sense."""
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
    torn: int = 0,
    engine: str = "",
    seconds: float = 0.0,
) -> Verdict:
    """The verdict on a run from the results of all its topic-partitions, and of its `further` checks."""
    anomalies = _anomalies(results, further)
    before = [one for one in around.cluster if one.kind == "controller" and one.time < (manifest.load_started or 0)]
    seen = before[-1:] + [one for one in around.cluster if _within_load(manifest, one.time)]
    required = [Statement(text, holds) for text, holds in judged_requirements(manifest.require, results, seen)]
    broken = [f"{REQUIRED}: {one.text}" for one in required if one.holds is False]
    unsure = (*_reasons(manifest, results, around.faults), *further_reasons(manifest, further))
    reasons = (*broken, *unsure, *_unjudged(required))
    coverage = _coverage(results, around.faults, torn, engine, seconds)
    return Verdict(
        verdict="invalid" if anomalies or broken else "unknown" if reasons else "valid",
        scenario=manifest.scenario,
        run_id=manifest.run_id,
        seed=manifest.seed,
        reasons=reasons,
        anomalies=anomalies,
        statements=(*(_statements(manifest, results, anomalies) if LOG in manifest.checks else ()), *required),
        coverage=coverage,
        witnesses=_witnesses(results, around),
        longest_outage=_longest_outage(results, around.faults),
        realtime_lag_p99=max((one.lag_p99 for one in results), default=0),
        realtime_lag_max=max((one.lag_max for one in results), default=0),
        expected=manifest.expect,
        mutants=manifest.mutants,
        command=manifest.command,
        further=summarised(further),
        further_witnesses=tell_further(further, around),
    )


def _anomalies(results: Sequence[PartitionResult], further: Sequence[FurtherResult] = ()) -> tuple[AnomalyCount, ...]:
    found = []
    for name, anomaly in ANOMALIES.items():
        where = {one.name: one.anomalies[name] for one in results if one.anomalies.get(name)}
        where |= {one.check: one.anomalies[name] for one in further if one.anomalies.get(name)}
        if where:
            found.append(AnomalyCount(name, anomaly.meaning, sum(where.values()), where))
    return tuple(found)


def _witnesses(results: Sequence[PartitionResult], around: Surroundings) -> tuple[Witness, ...]:
    """All of them, in the order of the registry: first what matters most, then by topic-partition."""
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
        duplicate_not_idempotent=counts["duplicate_not_idempotent"],
        stale_log_ends=counts["stale_log_ends"],
        torn_lines=torn,
        faults=len(faults),
        faults_proven=sum(bool(one.took and one.undone) for one in faults),
        engine=engine,
        seconds=round(seconds, 3),
    )


def _statements(
    manifest: Manifest, results: Sequence[PartitionResult], anomalies: Sequence[AnomalyCount]
) -> tuple[Statement, ...]:
    found = {one.name for one in anomalies}
    acknowledged = sum(one.acknowledged for one in results)
    records = sum(one.records for one in results)
    finished = bool(_with_final_read(results)) and not _without_final_read(manifest, results)

    def holds(names: Sequence[str], looked: bool) -> bool | None:
        return False if found & set(names) else True if looked else None

    return (
        Statement(PROMISE, holds(APPENDS, acknowledged > 0 and records > 0)),
        Statement("gap-free reads", holds(READS, records > 0)),
        Statement("nothing acknowledged lost", holds(("lost_write",), finished and acknowledged > 0)),
    )


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


# Reasons not to know -----------------------------------------------------------------------------------------------


def _reasons(manifest: Manifest, results: Sequence[PartitionResult], faults: Sequence[FaultWindow]) -> list[str]:
    return [
        *manifest.trouble,
        *_cut_off(manifest),
        *(_too_little(manifest, results) + _final_reads(manifest, results) if LOG in manifest.checks else ()),
        *_ambiguous(results),
        *fault_reasons(manifest, faults),
    ]


def _within_load(manifest: Manifest, time: int) -> bool:
    ended = manifest.load_ended
    return (manifest.load_started or 0) <= time and (ended is None or time <= ended)


def _unjudged(required: Sequence[Statement]) -> list[str]:
    return [f"required, but nobody can tell: {one.text}" for one in required if one.holds is None]


def _cut_off(manifest: Manifest) -> list[str]:
    if manifest.completed or manifest.trouble:
        return []
    return ["the run was cut off before it ended; this is what had been recorded"]


def _too_little(manifest: Manifest, results: Sequence[PartitionResult]) -> list[str]:
    acknowledged = sum(one.acknowledged_sends for one in results)
    records = sum(one.records for one in results)
    if acknowledged == 0:
        return ["no send was acknowledged: nothing was checked"]
    reasons = []
    if acknowledged < manifest.min_acknowledged:
        reasons.append(
            f"only {grouped(acknowledged)} sends were acknowledged; fewer than "
            f"{grouped(manifest.min_acknowledged)} (min_acknowledged) prove nothing"
        )
    if records == 0:
        reasons.append("nothing was read: sends alone cannot be checked")
    return reasons


def _with_final_read(results: Sequence[PartitionResult]) -> set[tuple[str, int]]:
    return {(one.topic, one.partition) for one in results if one.final.complete}


def _without_final_read(manifest: Manifest, results: Sequence[PartitionResult]) -> list[str]:
    done = _with_final_read(results)
    used = {(one.topic, one.partition) for one in results}
    wanted = sorted(used | set(manifest.topic_partitions))
    return [f"{topic}-{partition}" for topic, partition in wanted if (topic, partition) not in done]


def _final_reads(manifest: Manifest, results: Sequence[PartitionResult]) -> list[str]:
    missing = _without_final_read(manifest, results)
    if not missing:
        return []
    return [f"the final read of {listed(missing)} did not get to its marker: what was lost there cannot be known"]


def _ambiguous(results: Sequence[PartitionResult]) -> list[str]:
    twice = sum(one.noted.get("values_sent_twice", 0) for one in results)
    if not twice:
        return []
    return [f"{several(twice, 'value')} had been sent before: the checks need values that are unique"]


def fault_reasons(manifest: Manifest, faults: Sequence[FaultWindow]) -> list[str]:
    """What keeps a run's faults from counting: none at all, fewer than planned, or no evidence of one."""
    if manifest.fault_free:
        return [f"declared fault-free, but {one.name} was injected" for one in faults if one.injected is not None]
    if not faults:
        return ["no fault was injected; a scenario that wants none says `fault_free: true`"]
    reasons = []
    if len(faults) < manifest.faults_planned:
        reasons.append(f"only {len(faults)} of {manifest.faults_planned} planned faults were injected")
    for one in faults:
        if not one.took:
            seen = one.during or one.trouble or "nobody looked"
            reasons.append(f"fault {one.name} left no evidence: {seen}")
        elif not one.undone:
            seen = one.after or one.trouble or "nobody looked"
            reasons.append(f"fault {one.name} was not seen to be undone: {seen}")
    return reasons
