"""What a controller may decide, by committed records written by hand: each breach beside what is legal (HX-06)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from squall.results.checkers.replicas.anomalies import ILLEGAL_DECISION
from squall.results.checkers.replicas.decisions import BROKER, TOPIC, UNREAD, judge_decisions
from squall.results.checkers.replicas.facts import Findings
from squall.results.checkers.replicas.metadata import RECOVERED, RECOVERING, MetadataRecord, RecordFacts

Members = tuple[int, ...]
ELIGIBLE = RecordFacts(name="eligible.leader.replicas.version", number=1)


class History:
    """Committed metadata: brokers 1 to 4 run, and events-0 has replicas 1, 2 and 3, which are in sync."""

    def __init__(self, *, eligible: bool = False) -> None:
        self.records: list[MetadataRecord] = []
        self.epoch = 1
        if eligible:
            self.batch(("feature", ELIGIBLE))
        for broker in (1, 2, 3, 4):
            self.batch(("broker", RecordFacts(broker=broker, number=len(self.records), fenced=False)))
        facts = RecordFacts(replicas=(1, 2, 3), directories=3)
        self.batch(
            MetadataRecord(offset=0, what="topic", topic_id="id", topic="events", facts=RecordFacts()),
            MetadataRecord(
                offset=0,
                what="partition",
                topic_id="id",
                partition=0,
                leader=1,
                isr=(1, 2, 3),
                leader_epoch=0,
                partition_epoch=0,
                facts=facts,
            ),
        )

    def batch(self, *records: MetadataRecord | tuple[str, RecordFacts]) -> History:
        """Commit these in one batch."""
        first = len(self.records)
        for one in records:
            record = one if isinstance(one, MetadataRecord) else of_cluster(*one)
            assert record.facts is not None
            facts = RecordFacts(
                **{name: getattr(record.facts, name) for name in FIELDS} | {"batch": first, "epoch": self.epoch}
            )
            self.records.append(replace(record, offset=len(self.records), facts=facts))
        return self

    def elects(self) -> History:
        """Another controller writes what follows."""
        self.epoch += 1
        return self

    def changes(self, *changes: MetadataRecord) -> History:
        """Commit each in a batch of its own."""
        for one in changes:
            self.batch(one)
        return self

    def judged(self, committed: int | None = None) -> Findings:
        findings = Findings("control-plane.parquet")
        judge_decisions(self.records, len(self.records) if committed is None else committed, findings)
        return findings

    def broken(self) -> set[str]:
        """The laws that it breaks."""
        found = self.judged()
        assert set(found.anomalies) <= {ILLEGAL_DECISION}
        return {witness.evidence[1][0] for witness in found.witnesses}


FIELDS = [one for one in RecordFacts.__struct_fields__ if one not in ("batch", "epoch")]


def of_cluster(what: str, facts: RecordFacts) -> MetadataRecord:
    return MetadataRecord(offset=0, what=what, topic_id="", facts=facts)


def change(
    leader: int | None = None, isr: Members | None = None, partition: int = 0, **facts: Members | int
) -> MetadataRecord:
    return MetadataRecord(
        offset=0,
        what="change",
        topic_id="id",
        partition=partition,
        leader=leader,
        isr=isr,
        facts=RecordFacts(**facts),  # type: ignore[arg-type]
    )


def fenced(broker: int) -> tuple[str, RecordFacts]:
    return "broker_changed", RecordFacts(broker=broker, fenced=True)


def unfenced(broker: int) -> tuple[str, RecordFacts]:
    return "broker_changed", RecordFacts(broker=broker, fenced=False)


def stops(broker: int) -> tuple[str, RecordFacts]:
    return "broker_changed", RecordFacts(broker=broker, stopping=True)


def unregistered(broker: int) -> tuple[str, RecordFacts]:
    return "broker_removed", RecordFacts(broker=broker)


def sets(name: str, value: str | None, topic: str = "events") -> tuple[str, RecordFacts]:
    resource = (TOPIC, topic) if topic else (BROKER, "")
    return "setting", RecordFacts(resource=resource, name=name, value=value)


def min_isr(value: int, topic: str = "events") -> tuple[str, RecordFacts]:
    return sets("min.insync.replicas", str(value), topic)


def nobody_has_everything(*last_known: int) -> History:
    """All replicas have restarted uncleanly, and are fenced."""
    history = History(eligible=True).batch(min_isr(3))
    history.batch(fenced(2), fenced(3), change(isr=(1,), eligible=(2, 3)))
    history.batch(fenced(1), change(leader=-1, isr=(), eligible=(1, 2, 3)))
    again = [
        ("broker", RecordFacts(broker=one, number=len(history.records) + one - 1, fenced=True)) for one in (1, 2, 3)
    ]
    return history.batch(*again, change(eligible=(), last_known=last_known or None))


def risks(leader: int, **facts: Members) -> MetadataRecord:
    return change(leader=leader, isr=(leader,), recovery=RECOVERING, **facts)


LEGAL: dict[str, History] = {
    "the last known leader is elected where nobody has everything": nobody_has_everything(2, 1, 3)
    .batch(unfenced(1))
    .batch(unfenced(2), risks(2, last_known=())),
    "another one is elected while the last known leader is down": nobody_has_everything(2, 1, 3).batch(
        unfenced(1), risks(1, last_known=())
    ),
    "without a last known leader the first active replica is elected": nobody_has_everything().batch(
        unfenced(2), risks(2)
    ),
    "an ISR shrinks and grows": History().changes(change(isr=(1, 2)), change(isr=(1, 2, 3))),
    "a fenced leader is followed by the next in sync": History().batch(fenced(1), change(leader=2, isr=(2, 3))),
    "a broker that stops hands over": History().batch(stops(1), change(leader=2, isr=(2, 3))),
    "a broker leaves many ISRs in several batches, and is fenced last": History()
    .changes(change(leader=2, isr=(2, 3)))
    .batch(fenced(1))
    .batch(unfenced(1))
    .changes(change(isr=(1, 2, 3))),
    "the last one in sync loses its leadership, and is fenced in a later batch": History()
    .changes(change(isr=(1,)), change(leader=-1))
    .batch(fenced(1)),
    "the last one in sync is replaced uncleanly, and fenced in a later batch": History()
    .changes(change(isr=(1,)), change(leader=2, isr=(2,), recovery=RECOVERING))
    .batch(fenced(1))
    .batch(unfenced(1))
    .changes(change(recovery=RECOVERED), change(isr=(1, 2))),
    "a controller ends before it has fenced whom it has taken out of ISRs": History()
    .changes(change(leader=2, isr=(2, 3)))
    .elects()
    .changes(change(isr=(1, 2, 3))),
    "a leader moves away and comes back": History().changes(
        change(replicas=(2, 3), isr=(2, 3), leader=2, directories=2),
        change(replicas=(1, 2, 3), adding=(1,), directories=3),
        change(isr=(1, 2, 3), adding=()),
    ),
    "a preferred election": History()
    .batch(fenced(1), change(leader=2, isr=(2, 3)))
    .batch(unfenced(1))
    .changes(change(isr=(1, 2, 3)), change(leader=1)),
    "the last one in sync is fenced and stays": History().changes(change(isr=(1,))).batch(fenced(1), change(leader=-1)),
    "the last one in sync is unregistered and stays": History()
    .changes(change(isr=(1,)))
    .batch(unregistered(1), change(leader=-1)),
    "an unclean election where nobody was in sync any more": History()
    .batch(sets("unclean.leader.election.enable", "false"))
    .changes(change(isr=(1,)))
    .batch(unregistered(1), change(leader=2, isr=(2,), recovery=RECOVERING)),
    "a reassignment": History().changes(
        change(replicas=(2, 3, 4, 1), adding=(4,), removing=(1,), directories=4),
        change(isr=(1, 2, 3, 4)),
        change(leader=2, isr=(2, 3, 4), replicas=(2, 3, 4), adding=(), removing=(), directories=3),
    ),
    "replicas leave, and their leader stays in a new leader epoch": History().changes(
        change(replicas=(1, 2), isr=(1, 2), leader=1, directories=2)
    ),
    "a reassignment that only adds replicas": History().changes(
        change(replicas=(1, 2, 3, 4), adding=(4,), directories=4), change(isr=(1, 2, 3, 4), adding=())
    ),
    "eligible leaders are forgotten as min ISR changes, since enough are in sync": History(eligible=True)
    .batch(min_isr(3))
    .batch(fenced(3), change(isr=(1, 2), eligible=(3,)))
    .batch(min_isr(2), change(eligible=())),
    "another min ISR ends eligibility, although too few are in sync": History(eligible=True)
    .batch(min_isr(2))
    .batch(fenced(2), fenced(3), change(isr=(1,), eligible=(2, 3)))
    .batch(min_isr(3), change(eligible=())),
    "an eligible leader restarts and is last known": History(eligible=True)
    .batch(min_isr(3))
    .batch(fenced(3), change(isr=(1, 2), eligible=(3,)))
    .batch(("broker", RecordFacts(broker=3, number=10, fenced=True)), change(eligible=())),
    "an election that lost records, after which nobody is eligible": History(eligible=True)
    .batch(min_isr(3))
    .batch(fenced(2), fenced(3), change(isr=(1,), eligible=(2, 3)))
    .batch(fenced(1), change(leader=-1, isr=(), eligible=(1, 2, 3)))
    .batch(unfenced(2), change(leader=2, isr=(2,), eligible=(), recovery=RECOVERING)),
    "a cancelled reassignment": History().changes(
        change(replicas=(1, 2, 3, 4), adding=(4,), removing=(1,), directories=4),
        change(replicas=(1, 2, 3), adding=(), removing=(), directories=3),
    ),
    "an eligible leader is elected": History(eligible=True)
    .batch(min_isr(2))
    .batch(fenced(3), change(isr=(1, 2)))
    .batch(fenced(2), change(isr=(1,), eligible=(2,)))
    .batch(fenced(1), change(leader=-1, isr=(), eligible=(1, 2)))
    .batch(unfenced(2), change(leader=2, isr=(2,), eligible=(1,))),
    "another min ISR, with another partition epoch": History(eligible=True)
    .batch(min_isr(1))
    .batch(min_isr(2), change()),
    "the same min ISR again": History(eligible=True).batch(min_isr(2)).batch(min_isr(2)),
    "another min ISR without eligible leaders": History().batch(min_isr(1)).batch(min_isr(2)),
    "a topic of the same name, once the first is gone": History().batch(
        MetadataRecord(offset=0, what="topic_removed", topic_id="id", facts=RecordFacts()),
        MetadataRecord(offset=0, what="topic", topic_id="other", topic="events", facts=RecordFacts()),
    ),
    "blocks of producer ids": History()
    .batch(("producer_ids", RecordFacts(number=1000)))
    .batch(("producer_ids", RecordFacts(number=2000))),
    "what an empty ISR gets back as eligible leaders are switched off": History(eligible=True)
    .batch(fenced(2), fenced(3), change(isr=(1,), eligible=(2, 3)))
    .batch(fenced(1), change(leader=-1, isr=(), eligible=(1, 2, 3)))
    .batch(
        ("feature", RecordFacts(name="eligible.leader.replicas.version", number=0)), change(isr=(1, 2, 3), eligible=())
    ),
}

BREACHES: dict[str, tuple[str, History]] = {
    "the last known leader is passed over": (
        "EL-04",
        nobody_has_everything(2, 1, 3).batch(unfenced(1)).batch(unfenced(2), risks(1, last_known=())),
    ),
    "records are risked by another than the first active replica": (
        "EL-04",
        nobody_has_everything().batch(unfenced(1)).batch(unfenced(3), risks(3)),
    ),
    "a member that is no replica": ("IS-02", History().changes(change(isr=(1, 2, 4)))),
    "a member twice": ("IS-02", History().changes(change(isr=(1, 1)))),
    "a leader elected from outside, and said to have everything": (
        "IS-02",
        History().changes(change(isr=(1,))).batch(fenced(1), change(leader=-1)).changes(change(leader=2, isr=(2,))),
    ),
    "no replica at all": ("RA-04", History().changes(change(leader=2, replicas=(), directories=0))),
    "a replica twice": ("RA-04", History().changes(change(replicas=(1, 2, 3, 3)))),
    "a replica to be added that is none": ("RA-04", History().changes(change(adding=(4,)))),
    "a directory too few": ("RA-04", History().changes(change(directories=2))),
    "a replica leaves before the new one is in sync": (
        "RA-05",
        History().changes(
            change(replicas=(2, 3, 4, 1), adding=(4,), removing=(1,), directories=4),
            change(leader=2, isr=(2, 3), replicas=(2, 3, 4), adding=(), removing=(), directories=3),
        ),
    ),
    "a reassignment that only adds replicas is over before they are in sync": (
        "RA-05",
        History().changes(change(replicas=(1, 2, 3, 4), adding=(4,), directories=4), change(adding=())),
    ),
    "a second reassignment forgets with which replicas the first began": (
        "RA-08",
        History().changes(
            change(replicas=(1, 2, 3, 4), adding=(4,), directories=4),
            change(replicas=(1, 2, 3, 4), adding=(), removing=(3,)),
        ),
    ),
    "a leader is replaced for nothing": ("EL-04", History().changes(change(leader=3))),
    "the wrong member follows": ("EL-04", History().batch(fenced(1), change(leader=3, isr=(3, 2)))),
    "a leader leaves the ISR as it stops, is not marked, and comes back": (
        "CS-02",
        History().batch(change(leader=2, isr=(2, 3))).batch(change(isr=(1, 2, 3))).batch(stops(1)),
    ),
    "nobody leads although a member could": ("EL-04", History().changes(change(leader=-1))),
    "records are risked although a member is active": (
        "EL-04",
        History().changes(change(leader=3, isr=(3,), recovery=RECOVERING)),
    ),
    "records are risked although a replica has everything": (
        "EL-04",
        History()
        .batch(sets("unclean.leader.election.enable", "false", ""))
        .changes(change(isr=(1,)))
        .batch(fenced(1), change(leader=2, isr=(2,), recovery=RECOVERING)),
    ),
    "an eligible leader is forgotten": (
        "EL-02",
        History(eligible=True)
        .batch(fenced(2), change(isr=(1, 3), eligible=(2,)))
        .batch(fenced(3), change(isr=(1,), eligible=(3,))),
    ),
    "eligible leaders are forgotten as min ISR changes, although nobody is in sync": (
        "EL-02",
        History(eligible=True)
        .batch(min_isr(1))
        .batch(fenced(2), fenced(3), change(isr=(1,)))
        .batch(fenced(1), change(leader=-1, isr=(), eligible=(1,)))
        .batch(min_isr(2), change(eligible=())),
    ),
    "the ISR shrinks below min ISR, and nobody is eligible": (
        "EL-02",
        History(eligible=True).batch(min_isr(2)).changes(change(isr=(1,))),
    ),
    "a stranger is eligible": (
        "EL-02",
        History(eligible=True).changes(change(isr=(1, 2)), change(isr=(1,), eligible=(2, 3))),
    ),
    "a member of the ISR is eligible": ("EL-02", History(eligible=True).changes(change(isr=(1, 2), eligible=(2, 3)))),
    "an eligible leader is a last known one as well, while others are in sync": (
        "EL-02",
        History(eligible=True)
        .batch(min_isr(2))
        .changes(change(isr=(1, 2)))
        .batch(fenced(2), change(isr=(1,), eligible=(2,), last_known=(2,))),
    ),
    "eligible leaders are kept although enough are in sync": (
        "EL-02",
        History(eligible=True).batch(min_isr(2)).changes(change(isr=(1, 2), eligible=(3,))),
    ),
    "another min ISR, with the same partition epoch": (
        "EL-03",
        History(eligible=True).batch(min_isr(1)).batch(min_isr(2)),
    ),
    "another default of min ISR, with the same partition epoch": (
        "EL-03",
        History(eligible=True).batch(min_isr(1, "")).batch(min_isr(2, "")),
    ),
    "an unregistered broker stays in sync": ("EL-05", History().batch(unregistered(3))),
    "an unregistered broker stays eligible": (
        "EL-05",
        History(eligible=True).changes(change(isr=(1, 2), eligible=(3,))).batch(unregistered(3)),
    ),
    "an ISR without members, and no eligible leaders": (
        "IS-09",
        History().changes(change(isr=(1,))).batch(fenced(1), change(leader=-1, isr=())),
    ),
    "a fenced broker joins": (
        "CS-02",
        History().changes(change(isr=(1, 2))).batch(fenced(3)).changes(change(isr=(1, 2, 3))),
    ),
    "a broker that is about to stop leads": ("CS-02", History().batch(stops(2)).changes(change(leader=2))),
    "a fenced broker goes on leading": ("FD-02", History().batch(fenced(1))),
    "a fenced broker is fenced again": (
        "FD-02",
        History().batch(fenced(3), change(isr=(1, 2))).batch(fenced(3)),
    ),
    "a topic-partition begins with a fenced broker": (
        "IS-02",
        History()
        .batch(fenced(4))
        .batch(
            MetadataRecord(offset=0, what="topic", topic_id="new", topic="new", facts=RecordFacts()),
            MetadataRecord(
                offset=0,
                what="partition",
                topic_id="new",
                partition=0,
                leader=4,
                isr=(4,),
                leader_epoch=0,
                facts=RecordFacts(replicas=(4,)),
            ),
        ),
    ),
    "a broker epoch that is no offset": (
        "MD-08",
        History().batch(("broker", RecordFacts(broker=5, number=2, fenced=True))),
    ),
    "producer ids given twice": (
        "MD-08",
        History().batch(("producer_ids", RecordFacts(number=1000))).batch(("producer_ids", RecordFacts(number=1000))),
    ),
    "a record that names the leader that leads": ("MD-08", History().changes(change(leader=1))),
    "a record that names the ISR that is": ("MD-08", History().changes(change(isr=(1, 2, 3)))),
    "a record that says again that nothing is lost": ("MD-08", History().changes(change(recovery=RECOVERED))),
    "two topics of one name": (
        "MD-08",
        History().batch(MetadataRecord(offset=0, what="topic", topic_id="x", topic="events", facts=RecordFacts())),
    ),
}


@pytest.mark.parametrize("name", LEGAL)
def test_a_legal_decision_raises_nothing(name: str) -> None:
    found = LEGAL[name].judged()
    assert (found.anomalies, found.witnesses) == ({}, [])
    assert found.looked_at["decisions"] > 5


@pytest.mark.parametrize("name", BREACHES)
def test_a_decision_that_no_controller_may_make_is_found(name: str) -> None:
    law, history = BREACHES[name]
    assert law in history.broken()


def test_a_witness_names_the_place_the_batch_and_the_law() -> None:
    (witness,) = History().batch(fenced(1)).judged().witnesses
    assert (witness.place, witness.offset) == ("events-0", 6)
    assert witness.evidence == (
        ("metadata", "the batch at offsets 6 to 6: broker 1 is fenced, and still leads"),
        ("FD-02", "does not allow that"),
    )


def test_a_batch_that_is_not_committed_as_a_whole_is_not_judged() -> None:
    history = History().batch(fenced(1), change(isr=(1, 2, 4)))
    assert history.judged(committed=7).anomalies == {}
    assert history.judged(committed=8).anomalies == {ILLEGAL_DECISION: 2}


def snapshot_of(records: Sequence[MetadataRecord]) -> list[MetadataRecord]:
    return [replace(one, facts=RecordFacts(**{name: getattr(one.facts, name) for name in FIELDS})) for one in records]


def test_records_of_a_snapshot_are_no_decisions() -> None:
    """SN-01. A topic-partition in it may have begun with brokers that are fenced by now."""
    history = History().batch(fenced(1), change(leader=2, isr=(2, 3)))
    history.records = snapshot_of([*history.records[:3], of_cluster(*fenced(1)), *history.records[3:6]])
    history.changes(change(leader=2, isr=(2, 3)))
    found = history.judged()
    assert (found.anomalies, found.looked_at["decisions"]) == ({}, 1)


def test_a_log_with_records_that_could_not_be_read_is_not_judged() -> None:
    history = History().batch((UNREAD, RecordFacts())).batch(fenced(1))
    found = history.judged()
    assert found.anomalies == {} and list(found.noted.values()) == [1]


def test_a_table_from_before_these_facts_were_collected_is_not_judged() -> None:
    records = [replace(one, facts=None) for one in History().batch(fenced(1)).records]
    findings = Findings("control-plane.parquet")
    judge_decisions(records, len(records), findings)
    assert findings.anomalies == {} and findings.looked_at["decisions"] == 0


def test_a_leader_replaced_by_an_election_that_may_lose_records_comes_back_only_after_its_end() -> None:
    history = History().changes(change(isr=(1,)), change(leader=3, isr=(3,), recovery=RECOVERING))
    assert not history.broken(), "what fences it may follow"
    history.changes(change(recovery=RECOVERED), change(isr=(1, 3)))
    assert history.broken() == {"CS-02"}
