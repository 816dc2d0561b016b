"""Compare the replicas of a topic-partition: ACK, UNIQ, ISR, LM and EPOCH on hosts (docs/requirements.md).

Clients read from leaders. A follower that has lost or changed a record and stays in the ISR is seen by no client until
it leads. So every replica is described batch by batch after the run (`harness/run/node_records.py`), and compared here:

* a live member of the committed ISR has every record below `required`, without a gap                   (ACK, ISR)
* live members of the ISR hold the same batches there, and these fit their checksums                    (UNIQ)
* any two replicas that have a batch of the same offset and epoch have the same batch, after the same   (LM)
* leader epochs never go back within a log                                                              (EPOCH)
* the files beside the log of a live member of the ISR agree with its batches                   (DP-05, DP-13)

Legal, and must raise nothing: a tail above `required`, which is not committed; other records, of another epoch, in the
tail of a replica outside of the ISR; a node that does not run; a log that begins later than another if retention or
DeleteRecords may have removed its front; a topic of the same name with another id, which is another log.

What could not be read is undecided, and named: an in-sync replica whose host did not respond, or a topic-partition of
which no in-sync replica was read. Pure functions; `tables.py` makes their input from a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np

from squall.results.checkers.common.text import grouped, listed
from squall.results.checkers.replicas.anomalies import (
    DAMAGED,
    DIVERGENCE,
    EPOCH_REGRESS,
    LACKS,
    LOG_MATCHING,
    WRONG_FILE,
)
from squall.results.checkers.replicas.facts import Findings
from squall.results.checkers.replicas.replica import Ints, Replica

OUT_OF_SYNC = "replicas out of sync"
MOST_FILES = 3
NOT_LIVE = "in-sync replicas of nodes that do not run"


def compare_all(topic_partitions: Iterable[Sequence[Replica]], findings: Findings) -> Findings:
    """Compare the replicas of each topic-partition."""
    for replicas in topic_partitions:
        compare(replicas, findings)
    return findings


def compare(replicas: Sequence[Replica], findings: Findings) -> None:
    """Compare all replicas of one topic-partition, of one topic id."""
    place = replicas[0].place
    members = [one for one in replicas if one.counts]
    required = max(one.required for one in replicas)
    _note(replicas, findings)
    unread = [one for one in replicas if one.in_sync and not one.collected]
    findings.undecided += [
        f"{place}: the in-sync replica on {one.host} could not be looked at: {one.problem}" for one in unread
    ]
    if not members:
        if required >= 0 and not unread:
            hosts = listed([one.host for one in replicas if one.in_sync])
            findings.undecided.append(
                f"{place}: no in-sync replica could be looked at"
                + (f": the nodes on {hosts} do not run" if hosts else ": the committed ISR is empty")
            )
    elif required < 0:
        findings.undecided.append(f"{place}: up to where it is committed is not known, so replicas cannot be judged")
    else:
        _look_at_members(members, required, findings)
    for one in members:
        look_at_files(one, findings)
    there = [one for one in replicas if one.collected and len(one.batches)]
    for one, other in combinations(there, 2):
        _match(one, other, required, findings)
    for one in there:
        _look_at_epochs(one, findings)


def _note(replicas: Sequence[Replica], findings: Findings) -> None:
    """Count what was compared, and the replicas that need not have what members of the ISR must have."""
    for one in replicas:
        if one.counts:
            findings.looked_at["in-sync replicas"] += 1
            findings.looked_at["batches"] += len(one.batches)
            findings.looked_at["records"] += int(one.batches.count.sum())
        elif one.collected:
            findings.noted[NOT_LIVE if one.in_sync else OUT_OF_SYNC] += 1


# -- members of the ISR ----------------------------------------------------------------------------------------


def _look_at_members(members: Sequence[Replica], required: int, findings: Findings) -> None:
    floor = min(one.start for one in members)
    lacking = [one for one in members if _lacks(one, floor, required, findings)]
    for one in members:
        _look_at_checksums(one, required, findings)
    reference = next((one for one in members if one.leads), members[0])
    different = [one for one in members if one is not reference and _differs(reference, one, required, findings)]
    findings.looked_at["digests equal"] += len(members) - len({id(one) for one in (*lacking, *different)})


def _lacks(one: Replica, floor: int, required: int, findings: Findings) -> bool:
    """Whether records are missing that must be there; missing records are counted and reported."""
    begin = one.start if one.removal else floor
    holes = holes_of(one, begin, required)
    if not len(holes):
        return False
    first, last = (int(number) for number in holes[0])
    count = int((holes[:, 1] - holes[:, 0] + 1).sum())
    evidence = [
        ("committed", f"every record below offset {grouped(required)} was acknowledged or is below the high watermark"),
        (
            one.host,
            f"in the ISR, has offsets {grouped(one.start)} to {grouped(one.end - 1)}" if len(one.batches) else "",
        ),
        (one.host, f"lacks offsets {grouped(first)} to {grouped(last)}" + _more(len(holes) - 1)),
        *([(one.host, one.problem)] if one.problem else []),
    ]
    if not len(one.batches):
        evidence[1] = (one.host, "in the ISR, has no record")
    findings.accuse(LACKS, one.place, first, *evidence, count=count)
    return True


def holes_of(one: Replica, begin: int, end: int) -> Ints:
    """First and last offset of each stretch of `begin` to `end` (excluded) that is in none of its batches."""
    inside = one.batches.where((one.batches.last >= begin) & (one.batches.base < end))
    before = np.concatenate(([begin], inside.last + 1))
    after = np.concatenate((inside.base, [end]))
    found = np.stack((before, after - 1), axis=1)
    return found[found[:, 0] <= found[:, 1]]


def _more(count: int) -> str:
    return f", and {grouped(count)} more stretches" if count > 0 else ""


def _look_at_checksums(one: Replica, required: int, findings: Findings) -> None:
    bad = np.flatnonzero((one.batches.sound == 0) & (one.batches.base < required))
    if len(bad):
        index = int(bad[0])
        findings.accuse(
            DAMAGED,
            one.place,
            int(one.batches.base[index]),
            (one.host, f"in the ISR, has {one.batches.told(index)}, which does not fit the CRC-32C in its header"),
            count=len(bad),
        )


def look_at_files(one: Replica, findings: Findings) -> None:
    """Report the files beside a log that contradict its batches, as the host found them (`server/log_files.py`)."""
    if one.files:
        evidence = [(one.host, f"beside the log, {file}") for file in one.files[:MOST_FILES]]
        findings.accuse(WRONG_FILE, one.place, one.start, *evidence, count=len(one.files))


def _differs(reference: Replica, one: Replica, required: int, findings: Findings) -> bool:
    """Whether a member's committed batches differ from the reference's, where both have some."""
    low, high = max(reference.start, one.start), min(required, reference.end, one.end)
    places = different_at(reference, one, low, high)
    if not len(places):
        return False
    first = int(places[0])
    findings.accuse(
        DIVERGENCE,
        one.place,
        first,
        (reference.host, f"{_role(reference)}, has {_at(reference, first)}"),
        (one.host, f"{_role(one)}, has {_at(one, first)}"),
        ("committed", f"is what lies below offset {grouped(required)}"),
        count=len(places),
    )
    return True


def different_at(one: Replica, other: Replica, low: int, high: int) -> Ints:
    """Offsets from `low` on and below `high` where the batches of both differ: where these begin, in order."""
    mine = one.batches.where((one.batches.last >= low) & (one.batches.base < high))
    theirs = other.batches.where((other.batches.last >= low) & (other.batches.base < high))
    _, here, there = np.intersect1d(mine.base, theirs.base, assume_unique=True, return_indices=True)
    differ = np.zeros(len(here), np.bool_)
    for name in ("last", "epoch", "digest", "count"):
        differ |= getattr(mine, name)[here] != getattr(theirs, name)[there]
    alone = np.setdiff1d(mine.base, theirs.base, assume_unique=True)
    alone_there = np.setdiff1d(theirs.base, mine.base, assume_unique=True)
    shifted = np.concatenate((alone[other.covers(alone)], alone_there[one.covers(alone_there)]))
    return np.unique(np.concatenate((mine.base[here][differ], shifted)))


def _role(one: Replica) -> str:
    return "the leader" if one.leads else "in the ISR" if one.in_sync else "out of sync"


def _at(one: Replica, offset: int) -> str:
    index = int(np.searchsorted(one.batches.base, offset, "right")) - 1
    if index < 0 or one.batches.last[index] < offset:
        return f"nothing at offset {grouped(offset)}"
    return one.batches.told(index)


# -- any two replicas ------------------------------------------------------------------------------------------


def _match(one: Replica, other: Replica, required: int, findings: Findings) -> None:
    """Check log matching. What two members of the ISR have below `required` was compared already, and is left out."""
    low = max(one.start, other.start)
    if one.counts and other.counts:
        low = max(low, required)
    places = mismatches(one, other, low)
    if not len(places):
        return
    first = int(places[0])
    findings.accuse(
        LOG_MATCHING,
        one.place,
        first,
        (one.host, f"{_role(one)}, has {_at(one, first)}, after {_before(one, first)}"),
        (other.host, f"{_role(other)}, has {_at(other, first)}, after {_before(other, first)}"),
        count=len(places),
    )


def mismatches(one: Replica, other: Replica, low: int) -> Ints:
    """Offsets of batches, from `low` on, with the same offset and epoch that differ or follow different batches."""
    mine = one.batches.where(one.batches.base >= low)
    theirs = other.batches.where(other.batches.base >= low)
    _, here, there = np.intersect1d(mine.base, theirs.base, assume_unique=True, return_indices=True)
    same = mine.epoch[here] == theirs.epoch[there]
    here, there = here[same], there[same]
    differ = (mine.digest[here] != theirs.digest[there]) | (mine.last[here] != theirs.last[there])
    later = (here > 0) & (there > 0)  # what comes before the first one is not known here
    before, before_there = np.maximum(here - 1, 0), np.maximum(there - 1, 0)
    differ |= later & (
        (mine.base[before] != theirs.base[before_there]) | (mine.epoch[before] != theirs.epoch[before_there])
    )
    return mine.base[here][differ]


def _before(one: Replica, offset: int) -> str:
    index = int(np.searchsorted(one.batches.base, offset)) - 1
    return "nothing" if index < 0 else f"offset {grouped(int(one.batches.last[index]))} of {one.batches.epoch[index]}"


def _look_at_epochs(one: Replica, findings: Findings) -> None:
    falls = np.flatnonzero(np.diff(one.batches.epoch) < 0)
    if len(falls):
        index = int(falls[0])
        findings.accuse(
            EPOCH_REGRESS,
            one.place,
            int(one.batches.base[index + 1]),
            (one.host, f"has {one.batches.told(index + 1)}"),
            (one.host, f"before it stands {one.batches.told(index)}"),
            count=len(falls),
        )
