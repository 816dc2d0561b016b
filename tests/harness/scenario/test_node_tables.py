"""From what hosts and cluster said to the tables that are judged (HX-05, HX-06): no replica is asked for too much."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from squall.harness.scenario.node_tables import (
    Asked,
    Described,
    TornDigest,
    committed_ends,
    parse_watermarks,
    read_digest,
    read_trace,
    tables_of,
)
from squall.harness.scenario.suite import Scenario
from squall.nodes.metadata.records import (
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
    encode_record,
)
from squall.nodes.ports import NullTrace
from squall.nodes.protocol.records import Record, build_batch
from squall.nodes.protocol.topic_partition import format_id
from squall.nodes.protocol.value_batches import build_value_batch
from squall.nodes.server.digest import main as describe
from squall.nodes.server.disk import RealDisk
from squall.nodes.server.trace import ControlTrace
from squall.nodes.storage.checkpoints import write_lines, write_offsets, write_properties
from squall.nodes.storage.log import Log, LogConfig
from squall.results.checkers.further import check_further
from squall.results.checkers.replicas.anomalies import DIVERGENCE, LACKS, WRONG_FILE
from squall.results.checkers.replicas.control import NODE_STARTED, TORN_LINE, QuorumFacts
from squall.results.checkers.replicas.tables import replicas_in
from squall.results.history.operation_tables import CONTROL_PLANE, REPLICAS

ID, OTHER_ID = bytes(range(16)), bytes(range(1, 17))
BROKERS, CONTROLLER = (1, 2), 101
COMMITTED = 6
DEFAULTS = LogConfig()


class Host:
    """A node's disk, with its metadata log."""

    def __init__(self, root: Path, node: int) -> None:
        self.node, self.root = node, root / f"n{node}"
        self.disk = RealDisk(self.root / "data")
        changes = [
            *(RegisterBrokerRecord(broker_id=one, broker_epoch=at, fenced=False) for at, one in enumerate(BROKERS)),
            TopicRecord(name="events", topic_id=ID),
            PartitionRecord(
                partition_id=0, topic_id=ID, replicas=[1, 2], isr=[1, 2], leader=1, leader_epoch=0, partition_epoch=0
            ),
            PartitionChangeRecord(partition_id=0, topic_id=ID, isr=[1]),
            PartitionChangeRecord(partition_id=0, topic_id=ID, isr=[1, 2]),
        ]
        log = self.log("__cluster_metadata-0")
        for one in changes:
            log.append_as_leader(build_value_batch([encode_record(one)], 0), 1, 0)
        log.close()

    def log(self, name: str, config: LogConfig = DEFAULTS) -> Log:
        return Log.open(self.disk, name, config, now_ms=0, trace=NullTrace())

    def events(self, values: Iterable[bytes], topic_id: bytes = ID, config: LogConfig = DEFAULTS) -> Host:
        """Have the log of events-0 hold these records, each in a batch."""
        log = self.log("events-0", config)
        for value in values:
            log.append_as_leader(build_batch([Record(value=value)]), 0, 0)
        log.close()
        write_properties(self.disk, "events-0/partition.metadata", {"version": "0", "topic_id": format_id(topic_id)})
        return self

    def described(self, *, live: bool = True) -> Described:
        out = self.root / "digest.gz"
        assert describe([str(self.root / "data"), str(out)]) == 0
        return Described(f"n{self.node}", self.node, live, "", *read_digest(out))


VALUES = (b"a", b"b", b"c", b"d")


@pytest.fixture
def controller(tmp_path: Path) -> Described:
    return Host(tmp_path, CONTROLLER).described()


def asked(committed: int = COMMITTED, before: int = COMMITTED, **facts: object) -> Asked:
    quorums = [
        QuorumFacts(leader=CONTROLLER, epoch=1, committed=one, voters=(CONTROLLER,)) for one in (before, committed)
    ]
    known = {"watermarks": {node: {("events", 0): 3} for node in BROKERS}, "ends": {("events", 0): 4}} | facts
    return Asked((quorums[0], quorums[1]), **known)  # type: ignore[arg-type]


def anomalies(question: Asked, *hosts: Described) -> tuple[dict[str, int], tuple[str, ...]]:
    replicas, _ = tables_of(question, hosts, ())
    found = check_further(REPLICAS, replicas, {})
    return found.anomalies, found.undecided


def test_a_wrong_file_beside_a_log_is_reported_unless_faults_damage_files(
    tmp_path: Path, controller: Described
) -> None:
    """DP-13: the leader epochs of a follower name another epoch than its batches."""
    leader = Host(tmp_path, 1).events(VALUES).described()
    follower = Host(tmp_path, 2)
    follower.events(VALUES, config=LogConfig(segment_bytes=100))
    write_lines(follower.disk, "events-0/leader-epoch-checkpoint", ["3 0"])
    assert anomalies(asked(), controller, leader, follower.described())[0] == {WRONG_FILE: 1}
    assert anomalies(asked(damaged=True), controller, leader, follower.described())[0] == {}


def test_replicas_that_agree_are_alike_and_whole(tmp_path: Path, controller: Described) -> None:
    hosts = [Host(tmp_path, node).events(VALUES).described() for node in BROKERS]
    replicas, control = tables_of(asked(), [*hosts, controller], ())
    found = check_further(REPLICAS, replicas, {})
    assert (found.anomalies, found.undecided) == ({}, ())
    assert dict(found.counts)["digests equal"] == 2
    judged = check_further(CONTROL_PLANE, control, {})
    assert judged.anomalies == {}
    assert judged.undecided == tuple(f"no control trace of n{node} was collected" for node in (1, 2, CONTROLLER))


def test_a_follower_that_lost_the_last_record_lacks_it(tmp_path: Path, controller: Described) -> None:
    whole, short = (Host(tmp_path, node).events(VALUES[:end]).described() for node, end in ((1, 4), (2, 3)))
    assert anomalies(asked(), whole, short, controller)[0] == {LACKS: 1}


def test_a_follower_with_another_record_diverges(tmp_path: Path, controller: Described) -> None:
    one = Host(tmp_path, 1).events(VALUES).described()
    other = Host(tmp_path, 2).events((*VALUES[:3], b"x")).described()
    assert anomalies(asked(), one, other, controller)[0] == {DIVERGENCE: 1}


def test_a_log_may_begin_later_where_others_than_the_load_deleted_records(
    tmp_path: Path, controller: Described
) -> None:
    """DP-07: the first leader had deleted two records, and another one took over that did not know of it."""
    whole, shorter = (Host(tmp_path, node).events(VALUES) for node in BROKERS)
    write_offsets(shorter.disk, "log-start-offset-checkpoint", {("events", 0): 2})
    hosts = (whole.described(), shorter.described(), controller)
    assert anomalies(asked(), *hosts)[0] == {LACKS: 2}
    assert anomalies(asked(deleted={"events"}), *hosts)[0] == {}
    assert anomalies(asked(deleted={"other"}), *hosts)[0] == {LACKS: 2}


def test_an_isr_is_the_committed_one_and_no_later_one(tmp_path: Path, controller: Described) -> None:
    """Up to offset 5, node 2 is out of the ISR; that it may come back is not committed."""
    whole, short = (Host(tmp_path, node).events(VALUES[:end]).described() for node, end in ((1, 4), (2, 1)))
    assert anomalies(asked(committed=5), whole, short, controller) == ({}, ())
    assert anomalies(asked(committed=6), whole, short, controller)[0] == {LACKS: 3}


def test_without_a_final_read_high_watermarks_on_disk_say_what_is_committed(
    tmp_path: Path, controller: Described
) -> None:
    whole, short = (Host(tmp_path, node).events(VALUES[:end]).described() for node, end in ((1, 4), (2, 3)))
    assert anomalies(asked(ends={}), whole, short, controller) == ({}, ())
    higher = {node: {("events", 0): 4} for node in BROKERS}
    assert anomalies(asked(ends={}, watermarks=higher), whole, short, controller)[0] == {LACKS: 1}


def test_a_high_watermark_of_a_topic_that_is_gone_counts_for_nothing(tmp_path: Path, controller: Described) -> None:
    """The checkpoint knows names: of before the topic was made again it may tell of the old one."""
    hosts = [Host(tmp_path, node).events(VALUES[:1]).described() for node in BROKERS]
    high = {node: {("events", 0): 900} for node in BROKERS}
    assert anomalies(asked(before=0, ends={}, watermarks=high), *hosts, controller) == ({}, ())


def test_a_log_of_an_older_topic_of_the_name_is_another_log(tmp_path: Path, controller: Described) -> None:
    new = Host(tmp_path, 1).events(VALUES).described()
    old = Host(tmp_path, 2).events((b"old",), OTHER_ID).described()
    found, _ = anomalies(asked(), new, old, controller)
    assert found == {LACKS: 4}, (
        "the new one is missing on node 2, which is in its ISR; the old one is compared with none"
    )


def test_a_host_that_could_not_be_asked_is_named(tmp_path: Path, controller: Described) -> None:
    there = Host(tmp_path, 1).events(VALUES).described()
    away = Described("n2", 2, True, "n2: no answer within 30 s")
    found, undecided = anomalies(asked(), there, away, controller)
    assert found == {}
    assert undecided == ("events-0: the in-sync replica on n2 could not be looked at: n2: no answer within 30 s",)


def test_a_torn_digest_is_refused(tmp_path: Path) -> None:
    Host(tmp_path, 1).events(VALUES).described()
    whole = tmp_path / "n1" / "digest.gz"
    content = whole.read_bytes()
    for cut in (0, 10, len(content) // 2, len(content) - 9):
        (tmp_path / "cut.gz").write_bytes(content[:cut])
        with pytest.raises(TornDigest):
            read_digest(tmp_path / "cut.gz")
    with gzip.open(whole, "rt") as file:
        lines = file.readlines()
    with gzip.open(tmp_path / "short.gz", "wt") as file:
        file.writelines(lines[:-1])
    with pytest.raises(TornDigest, match="not complete"):
        read_digest(tmp_path / "short.gz")


def test_a_trace_is_read_process_by_process(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    first = ControlTrace(path, 1)
    first.event("state", node=1, role="leader", epoch=3, leader=1)
    first.event("truncate", node=1, end=7, was=9)
    first.event(
        "isr", broker=1, topic="events", partition=0, isr=(1, 2), partition_epoch=4, leader_epoch=2, topic_id=ID
    )
    first.close()
    with path.open("a") as file:
        file.write('{"t": 1, "ev')
    second = ControlTrace(path, 1)
    second.event("high_watermark", node=1, epoch=3, offset=12)
    second.close()
    events = list(read_trace(path, "n1", 1))
    assert [(one.incarnation, one.event) for one in events] == [
        (1, NODE_STARTED),
        (1, "state"),
        (1, "truncate"),
        (1, "isr"),
        (1, TORN_LINE),
        (2, NODE_STARTED),
        (2, "high_watermark"),
    ]
    assert (events[1].role, events[1].epoch, events[2].offset, events[6].offset) == ("leader", 3, 7, 12)
    isr = events[3]
    assert (isr.members, isr.partition_epoch, isr.epoch, isr.topic_id) == ((1, 2), 4, 2, format_id(ID))


def test_what_a_checkpoint_says_is_read_and_nonsense_is_not() -> None:
    assert parse_watermarks("0\n2\nevents 0 17\nevents x 3\n") == {("events", 0): 17}
    assert parse_watermarks("") == {}


@pytest.mark.parametrize(("acks", "complete", "known"), [("all", False, True), ("1", False, False), ("1", True, True)])
def test_a_marker_is_committed_once_all_acknowledged_it_or_it_was_read(acks: str, complete: bool, known: bool) -> None:
    """Under acks=1 the leader alone may have it: no follower is to be blamed for that."""
    workload = {"name": "log", "acks": acks, "idempotent": acks == "all"}
    scenario = Scenario.model_validate({"scenario": "one", "fault_free": True, "workload": workload})
    read = {"topic": "events", "partition": 0, "marker_offset": 9, "complete": complete}
    assert committed_ends([read], scenario) == ({("events", 0): 10} if known else {})
    assert committed_ends([read | {"marker_offset": None}], scenario) == {}


def test_every_row_knows_its_replica(tmp_path: Path, controller: Described) -> None:
    hosts = [Host(tmp_path, node).events(VALUES).described() for node in BROKERS]
    table, _ = tables_of(asked(), [*hosts, controller], ())
    assert {one.host: (one.in_sync, one.leads, one.required, one.end) for one in replicas_in(table)} == {
        "n1": (True, True, 4, 4),
        "n2": (True, False, 4, 4),
    }
    assert set(json.loads(json.dumps(table["producer_id"].to_pylist()))) == {-1}
