"""List why a verdict is unknown: what keeps a run from proving what it should.

Nothing or too little was acknowledged, nothing was read, a final read did not reach its marker, values were not unique,
a fault left no evidence, the run was cut off, or time ran out. Each reason is a sentence for people.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from squall.results.checkers.common.text import duration, grouped, listed, several
from squall.results.checkers.log.result import PartitionResult
from squall.results.checkers.registry import LOG
from squall.results.history.manifest import Manifest
from squall.results.history.segments import FaultWindow


def reasons_of(
    manifest: Manifest,
    results: Sequence[PartitionResult],
    faults: Sequence[FaultWindow],
    unchecked: Sequence[str] = (),
) -> list[str]:
    """List everything that keeps logs, faults and the run itself from proving what they should.

    `unchecked` are topic-partitions for which there was no time.
    """
    return [
        *_unchecked(unchecked),
        *manifest.trouble,
        *_cut_off(manifest),
        *(_of_logs(manifest, results, unchecked) if about_logs(manifest, results) else ()),
        *_ambiguous(results),
        *fault_reasons(manifest, faults),
    ]


def about_logs(manifest: Manifest, results: Sequence[PartitionResult]) -> bool:
    """Whether a run must prove what it should of logs: its `checks` name them, or clients sent to a log or read one.

    Leaving logs out of `checks` never makes a verdict stronger.
    """
    return LOG in manifest.checks or any(_ON_LOGS & one.operations.keys() for one in results)


_ON_LOGS: Final = {f"{f}.{kind}" for f in ("send", "poll", "marker", "final_poll") for kind in ("ok", "fail", "info")}
"""What a client of a log does, as `PartitionResult.operations` counts it."""


def _of_logs(manifest: Manifest, results: Sequence[PartitionResult], unchecked: Sequence[str]) -> list[str]:
    """List the reasons of logs. With unchecked topic-partitions it is unknown whether there was too little."""
    too_little = [] if unchecked else _too_little(manifest, results)
    if not manifest.topics:
        too_little.append("the manifest (run.json) names no topics: unknown which logs had to be read to their end")
    return too_little + _final_reads(manifest, results, unchecked)


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


def with_final_read(results: Sequence[PartitionResult]) -> set[tuple[str, int]]:
    """The topic-partitions that were read to their marker."""
    return {(one.topic, one.partition) for one in results if one.final.complete}


def without_final_read(manifest: Manifest, results: Sequence[PartitionResult]) -> list[str]:
    """The names of topic-partitions that were used, or should have been, but were not read to their marker."""
    done = with_final_read(results)
    used = {(one.topic, one.partition) for one in results}
    wanted = sorted(used | set(manifest.topic_partitions))
    return [f"{topic}-{partition}" for topic, partition in wanted if (topic, partition) not in done]


def _unchecked(names: Sequence[str]) -> list[str]:
    if not names:
        return []
    return [f"the time limit expired before {listed(sorted(names))} had been checked: anomalies there are unknown"]


def _final_reads(manifest: Manifest, results: Sequence[PartitionResult], unchecked: Sequence[str]) -> list[str]:
    missing = [one for one in without_final_read(manifest, results) if one not in unchecked]
    if not missing:
        return []
    return [f"the final read of {listed(missing)} did not reach its marker: losses there are unknown"]


def _ambiguous(results: Sequence[PartitionResult]) -> list[str]:
    twice = sum(one.noted.get("values_sent_twice", 0) for one in results)
    if not twice:
        return []
    return [f"{several(twice, 'value')} had been sent before: the checks need values that are unique"]


def fault_reasons(manifest: Manifest, faults: Sequence[FaultWindow]) -> list[str]:
    """Why a run's faults do not count: none, fewer than planned, no evidence of one, or one that held without load.

    An imported history claims no fault: its verdict states that faults are unknown (`Verdict.not_known`).
    """
    if manifest.imported is not None:
        return []
    if manifest.fault_free:
        return [f"declared fault-free, but {one.name} was injected" for one in faults if one.injected is not None]
    if not faults:
        return ["no fault was injected; if none is wanted, set `fault_free: true` in the scenario"]
    reasons = []
    if len(faults) < manifest.faults_planned:
        reasons.append(f"only {len(faults)} of {manifest.faults_planned} planned faults were injected")
    for one in faults:
        if one.injected is None:
            reasons.append(f"fault {one.name} was never injected: {one.trouble or 'no reason recorded'}")
        elif not one.took:
            seen = one.during or one.trouble or "not observed"
            reasons.append(f"fault {one.name} left no evidence: {seen}")
        elif not one.undone:
            seen = one.after or one.trouble or "not observed"
            reasons.append(f"fault {one.name} was not seen to be undone: {seen}")
        elif (when := _outside_the_load(manifest, one)) is not None:
            reasons.append(f"fault {one.name} held only {when}: no operation began during it")
    return reasons


def _outside_the_load(manifest: Manifest, one: FaultWindow) -> str | None:
    """When a fault held that held at no moment of the load; None if it did, or if the time of the load is unknown."""
    began, ended = manifest.load_started, manifest.load_ended
    assert one.injected is not None
    if one.healed is not None and one.healed < one.injected:
        return "until before it was injected, by clocks that go backwards"
    if ended is not None and one.injected >= ended:
        return f"from {duration(one.injected - ended)} after the load on"
    if began is not None and one.healed is not None and one.healed <= began:
        return f"until {duration(began - one.healed)} before the load"
    return None
