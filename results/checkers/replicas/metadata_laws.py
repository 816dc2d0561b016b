"""What must hold of every committed change of a topic-partition, whatever the controller decides.

The controller's decisions are many, and what follows from them is judged elsewhere, often long after. These laws need
no knowledge of why it decides so. The first group compares a topic-partition before and after one record:

* IS-02  the ISR is a part of the replicas. A topic-partition without a leader gets one of its ISR or ELR, unless the
         record says that records may be lost
* EL-02  eligible leader replicas are replicas outside the ISR, and were in ISR or ELR before. While there are any, none
         that was in either is forgotten: it is in one of them, or a last known one, or no replica any more. Who is
         eligible becomes no last known one, except the leader of an ISR that is empty now
* RA-04  replicas are named once. Adding and removing ones are replicas. One may be both: it was added, and the next
         reassignment leaves it out again. There is a directory for each replica
* RA-05  replicas leave a topic-partition only when all that stay are in the ISR, or when a reassignment is cancelled,
         and then only those that it had added. A reassignment is over when all that it added are in the ISR, or are
         no replicas again
* MD-08  a change record states only fields that it changes. If it removes replicas, it also names a leader that stays:
         a new leader epoch begins (rule 23)

* CS-02  an active leader leaves an ISR as its broker is about to be fenced, which is written last, or because it stops,
         and then it is marked first. So until it is either it joins no ISR (`LeftLeaders`)

The second group compares it before and after a batch, which holds an event, such as a broker that is fenced, and all
that follows from it:

* EL-02  with as many in sync as min ISR requires, none is eligible or last known. With fewer, whoever was in ISR or ELR
         is in one of them or a last known one, or no replica any more, unless an election has lost records. Another
         min ISR ends eligibility, but not where the ISR is empty
* EL-04  a leader stays if it is active and in the ISR, or the first replica takes its place (preferred election). Else
         the first active member of the ISR leads, in assignment order. Without a leader no member is active, nor, if
         the ISR is empty, any eligible replica, other than the leader before: the batch that fences it may follow, if
         the decision is a large one (`worlds` seed 1020000). An election that may lose records takes place only where
         no other member of the ISR before was active (`worlds` seed 1020756); unless the settings allow unclean
         elections, only where no replica is left that has everything, active or not
* RA-08  while a reassignment is under way, or is changed, the replicas with which it began are kept apart from those
         that it adds: cancelling restores them

Legal: a leader that still recovers and is elected again (seed 970230).

Both who replays a run's metadata logs (`decisions.py`) and the observer of simulations call them, each with its own
image of a topic-partition. Every function yields the breaches it finds, the gravest first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple, Protocol

from squall.results.checkers.replicas.metadata import NO_LEADER, RECOVERING

Members = tuple[int, ...]


class Breach(NamedTuple):
    """A broken law: the requirement's id, and what breaks it."""

    law: str
    what: str


class TopicPartitionState(Protocol):
    """What the laws know of a topic-partition at one place in the metadata log."""

    @property
    def replicas(self) -> Members: ...

    @property
    def isr(self) -> Members: ...

    @property
    def leader(self) -> int: ...

    @property
    def adding(self) -> Members: ...

    @property
    def removing(self) -> Members: ...

    @property
    def elr(self) -> Members: ...

    @property
    def last_known_elr(self) -> Members: ...

    @property
    def recovery_state(self) -> int: ...


# -- by record -------------------------------------------------------------------------------------------------


class Stated(NamedTuple):
    """The fields that a change record states; None for a field that it leaves as it is."""

    leader: int | None
    isr: Members | None
    replicas: Members | None
    adding: Members | None
    removing: Members | None
    elr: Members | None
    last_known_elr: Members | None
    recovery_state: int | None


def needless(before: TopicPartitionState, stated: Stated) -> Iterator[Breach]:
    """MD-08: fields that a change record states with the value that they had before."""
    for name, value in stated._asdict().items():
        if value is None or value != getattr(before, name):
            continue
        if name == "leader" and stated.replicas is not None and not set(before.replicas) <= set(stated.replicas):
            continue
        yield Breach("MD-08", f"the record states {name.replace('_', ' ')} {value}, which is no change")


def leaves_for_good(before: TopicPartitionState, now: TopicPartitionState) -> list[int]:
    """Return the replicas that a completed reassignment takes away; none if one is cancelled."""
    leaving = [one for one in before.replicas if one not in now.replicas]
    return [] if all(one in before.adding for one in leaving) else leaving


def leaving_replicas(before: TopicPartitionState, now: TopicPartitionState) -> Iterator[Breach]:
    """RA-05."""
    leaving = leaves_for_good(before, now)
    behind = [one for one in now.replicas if one not in now.isr]
    if leaving and behind:
        yield Breach(
            "RA-05",
            f"replicas {leaving} leave, but {behind} of {list(now.replicas)} are not in the ISR {list(now.isr)}",
        )


def ended_reassignment(before: TopicPartitionState, now: TopicPartitionState) -> Iterator[Breach]:
    """RA-05, of a reassignment that only adds replicas as well."""
    if now.adding or now.removing:
        return
    behind = [one for one in before.adding if one in now.replicas and one not in now.isr]
    if behind:
        yield Breach("RA-05", f"the reassignment is over, but the added {behind} are not in the ISR {list(now.isr)}")


def members(now: TopicPartitionState) -> Iterator[Breach]:
    """RA-04, IS-02, EL-02: who may be what."""
    if not now.replicas or repeated(now.replicas):
        yield Breach("RA-04", f"the replicas are {list(now.replicas)}")
    if repeated(now.isr) or not set(now.isr) <= set(now.replicas):
        yield Breach("IS-02", f"the ISR is {list(now.isr)}, the replicas are {list(now.replicas)}")
    if now.leader != NO_LEADER and now.leader not in now.isr:
        yield Breach("IS-02", f"{now.leader} leads, the ISR is {list(now.isr)}")
    if repeated(now.elr) or not set(now.elr) <= set(now.replicas) - set(now.isr):
        yield Breach(
            "EL-02",
            f"{list(now.elr)} are eligible, the ISR is {list(now.isr)}, the replicas are {list(now.replicas)}",
        )


def reassignment(now: TopicPartitionState, directories: int) -> Iterator[Breach]:
    """RA-04; `directories` is their number, 0 if none are named."""
    if not {*now.adding, *now.removing} <= set(now.replicas):
        yield Breach(
            "RA-04",
            f"{list(now.adding)} are added and {list(now.removing)} removed; the replicas are {list(now.replicas)}",
        )
    if directories and directories != len(now.replicas):
        yield Breach("RA-04", f"{directories} directories for the replicas {list(now.replicas)}")


def election(before: TopicPartitionState, now: TopicPartitionState) -> Iterator[Breach]:
    """IS-02. Nobody joins the ISR while there is no leader, so the next one is of ISR or ELR, or may lack records."""
    if before.leader != NO_LEADER or now.leader == NO_LEADER or now.recovery_state == RECOVERING:
        return
    known = (*before.isr, *before.elr)
    if now.leader not in known:
        yield Breach("IS-02", f"{now.leader} is elected, and was neither in ISR nor in ELR, {known}")


def eligible(before: TopicPartitionState, now: TopicPartitionState) -> Iterator[Breach]:
    """EL-02: who is eligible, where eligible leader replicas are on."""
    had_all = (*before.isr, *before.elr)
    strangers = [one for one in now.elr if one not in had_all]
    if strangers:
        yield Breach("EL-02", f"{strangers} are eligible, and were neither in ISR nor in ELR, {list(had_all)}")
    kept = (*now.isr, *now.elr, *now.last_known_elr)
    forgotten = [one for one in had_all if one in now.replicas and one not in kept]
    if now.elr and forgotten:
        yield Breach(
            "EL-02",
            f"{forgotten} were in ISR or ELR, {list(had_all)}; now the ISR is {list(now.isr)}, the ELR {list(now.elr)}",
        )
    both = [one for one in now.last_known_elr if one in now.elr and one not in before.last_known_elr]
    if both and (now.isr or both != [before.leader]):
        yield Breach("EL-02", f"{both} become last known members and are eligible, {list(now.elr)}")


class LeftLeaders:
    """The active leaders that have left an ISR, and are neither fenced nor marked as stopping yet.

    A large decision is written in several batches, so that more than one may lie in between. Nothing else is decided
    meanwhile, unless the controller ends before the decision does: another one knows nothing of it. So it is with an
    election that may lose records, which replaces the whole ISR.
    """

    def __init__(self) -> None:
        self._epoch = -1
        self._left: dict[int, int] = {}
        """By broker, the offset of the record with which it left, in this epoch of the quorum."""

    def ended(self, broker: int) -> None:
        """A broker is fenced, marked as stopping, unregistered, or registered again."""
        self._left.pop(broker, None)

    def changed(
        self,
        before: TopicPartitionState,
        now: TopicPartitionState,
        active: Callable[[int], bool],
        place: tuple[int, int],
    ) -> Iterator[Breach]:
        """CS-02, of one record at this offset and epoch of the quorum; -1 if the epoch is unknown.

        `active` says which brokers may lead.
        """
        offset, epoch = place
        if epoch != self._epoch:
            self._left.clear()
            self._epoch = epoch
        for one in now.isr:
            if one in self._left and one not in before.isr:
                yield Breach(
                    "CS-02",
                    f"broker {one} joins the ISR {list(now.isr)}; as an active leader it left one at offset "
                    f"{self._left[one]}, and has been neither marked nor fenced since",
                )
        leader = before.leader
        if epoch >= 0 and leader in now.replicas and leader not in now.isr and active(leader):
            self._left[leader] = offset


def repeated(names: Sequence[int]) -> bool:
    """Return whether one is named twice."""
    return len(set(names)) != len(names)


def are_enough(now: TopicPartitionState, min_isr: int) -> bool:
    """Return whether as many replicas are in sync as min ISR requires."""
    return len(now.isr) >= min(min_isr, len(now.replicas))


# -- by batch --------------------------------------------------------------------------------------------------


def originals(before: TopicPartitionState, now: TopicPartitionState) -> Iterator[Breach]:
    """RA-08."""
    if not now.adding and not now.removing:
        return
    began, begin = set(before.replicas) - set(before.adding), set(now.replicas) - set(now.adding)
    if began != begin:
        yield Breach(
            "RA-08",
            f"the reassignment began with replicas {sorted(began)}, and cancelling it would leave {sorted(begin)}",
        )


def kept_by_min_isr(
    before: TopicPartitionState, now: TopicPartitionState, min_isr: int, ended: Collection[int], *, is_set: bool
) -> Iterator[Breach]:
    """EL-02, where eligible leader replicas are on.

    `ended` are brokers that may have lost records; `is_set`: the batch sets min ISR.
    """
    if are_enough(now, min_isr):
        if (now.isr, now.elr) != (before.isr, before.elr) and (now.elr or now.last_known_elr):
            yield Breach(
                "EL-02",
                f"the ISR {list(now.isr)} is as large as min ISR, {min_isr}, requires, and {list(now.elr)} are "
                f"eligible, {list(now.last_known_elr)} last known",
            )
        return
    if now.recovery_state == RECOVERING or (is_set and now.isr):
        return
    kept = (*now.isr, *now.elr, *now.last_known_elr, *ended)
    forgotten = [one for one in (*before.isr, *before.elr) if one in now.replicas and one not in kept]
    if forgotten:
        yield Breach(
            "EL-02",
            f"{forgotten} were in ISR or ELR, and are not any more; the ISR is {list(now.isr)}, the ELR "
            f"{list(now.elr)}, min ISR {min_isr}",
        )


def leader(before: TopicPartitionState, now: TopicPartitionState, active: Collection[int]) -> Iterator[Breach]:
    """EL-04; `active` are the brokers that may lead after the batch."""
    if now.leader == NO_LEADER:
        idle = [one for one in now.isr or now.elr if one in active and one != before.leader]
        if idle:
            yield Breach("EL-04", f"has no leader, although {idle} are active and have everything")
        return
    if now.leader == before.leader:
        return
    if now.recovery_state == RECOVERING and before.recovery_state != RECOVERING:
        passed_over = [one for one in before.isr if one in active and one in now.replicas and one != before.leader]
        if passed_over:
            yield Breach("EL-04", f"{now.leader} is elected and may lack records, although {passed_over} were in sync")
        first = _first_that_may_lack(before, now, active)
        if first not in (None, now.leader):
            yield Breach("EL-04", f"{now.leader} is elected and may lack records, although {first} comes before it")
        return
    stays = before.leader in active and before.leader in now.isr
    if stays and now.replicas[:1] != (now.leader,):
        yield Breach("EL-04", f"{now.leader} takes the place of leader {before.leader}, which is active and in sync")
    first = next((one for one in now.replicas if one in now.isr and one in active), now.leader)
    if not stays and now.leader != first:
        yield Breach("EL-04", f"{now.leader} is elected, although {first} comes before it in {list(now.replicas)}")


def _first_that_may_lack(before: TopicPartitionState, now: TopicPartitionState, active: Collection[int]) -> int | None:
    """Return the replica that an election which may lose records must choose; None if that is not known.

    It is known where ISR and ELR were empty before the batch: the first of the last known members if it is active, else
    the first active replica in assignment order.
    """
    if before.leader != NO_LEADER or before.isr or before.elr or before.adding:
        return None
    return next((one for one in (*before.last_known_elr[:1], *now.replicas) if one in active), None)


def nobody_left(before: TopicPartitionState, now: TopicPartitionState, ended: Collection[int]) -> Iterator[Breach]:
    """EL-04, where the settings allow no unclean elections; `ended` are brokers that may have lost records."""
    if now.leader in (NO_LEADER, before.leader) or now.recovery_state != RECOVERING:
        return
    left = [one for one in (*before.isr, *before.elr) if one in now.replicas and one not in ended]
    if left and before.recovery_state != RECOVERING:
        yield Breach("EL-04", f"{now.leader} is elected and may lack records, although {left} have everything")
