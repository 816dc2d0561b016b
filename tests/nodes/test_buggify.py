"""Each place of `nodes/buggify.py` does what the catalogue says, and what must hold there still holds."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from squall.harness.scenario.buggify_places import PLACES, WORLD_PLACES
from squall.harness.simulation.world.disk import SimDisk
from squall.nodes.buggify import NODE_PLACES, OFF
from squall.nodes.metadata.snapshot import SnapshotLoader
from squall.nodes.metadata.snapshot_generator import PAUSE, SnapshotConfig, SnapshotGenerator
from squall.nodes.ports import NullTrace
from squall.nodes.protocol.errors import ErrorCode, ProtocolError
from squall.nodes.protocol.messages.alter_partition import AlterPartitionRequest
from squall.nodes.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from squall.nodes.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from squall.nodes.protocol.messages.fetch import FetchResponse
from squall.nodes.protocol.messages.unregister_broker import UnregisterBrokerRequest
from squall.nodes.protocol.records import BatchHeader, Record, build_batch, iterate_batches, parse_records
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.raft.snapshots import PART
from squall.nodes.storage.checkpoints import HIGH_WATERMARKS, RECOVERY_POINTS
from squall.nodes.storage.log import Log, LogConfig
from tests.nodes.broker.requests.test_fetch_sessions import Fetcher, answer
from tests.nodes.broker.world import OTHER, SECOND, THIRD, World, fetched, produced
from tests.nodes.controller.conftest import Controller
from tests.nodes.metadata.test_snapshot import History, snapshot_of
from tests.nodes.raft.alone import Node, answer_of
from tests.nodes.raft.test_snapshot_downloads import AWAY, Retaining, half_way, prepared
from tests.nodes.rarities import At

ROOT = Path(__file__).resolve().parents[2]
MS = 1000


# -- the catalogue -------------------------------------------------------------------------------------------------


def visited(folder: Path) -> Counter[str]:
    """Count the places that the code of a folder asks about."""
    found: Counter[str] = Counter()
    for path in folder.rglob("*.py"):
        for item in ast.walk(ast.parse(path.read_text())):
            if isinstance(item, ast.Call) and isinstance(item.func, ast.Attribute) and item.func.attr == "happens":
                assert isinstance(item.args[0], ast.Constant), f"{path}:{item.lineno}: a place is named in place"
                found[str(item.args[0].value)] += 1
    return found


def test_each_place_of_the_catalogue_is_visited_at_one_point_of_the_code() -> None:
    assert visited(ROOT / "nodes") == dict.fromkeys(NODE_PLACES, 1)
    assert visited(ROOT / "harness" / "simulation" / "world") == dict.fromkeys(WORLD_PLACES, 1)


def test_each_place_has_a_test_that_names_it() -> None:
    tests = (ROOT / "tests/nodes/test_buggify.py", ROOT / "tests/harness/simulation/world/test_buggify.py")
    written = "".join(path.read_text() for path in tests)
    assert [name for name in PLACES if f'"{name}"' not in written] == []


def test_what_makes_a_place_legal_is_a_known_requirement() -> None:
    requirements = (ROOT / "docs/requirements.md").read_text()
    for place in PLACES.values():
        rule = re.fullmatch(r"rule (\d+)", place.requirement)
        known = f"| {rule[1]} |" if rule else f"| {place.requirement} |"
        assert place.requirement.startswith("KIP-") or known in requirements, place
        assert 0 < place.chance <= 1, place


def test_nothing_rare_happens_where_no_host_lets_it() -> None:
    assert not any(OFF.happens(name) for name in PLACES)


# -- the quorum ----------------------------------------------------------------------------------------------------


def test_an_early_election_timer_makes_a_voter_ask_sooner() -> None:
    """QC-05."""
    usual, early = Node(1, []), Node(1, [], buggify=At("early-election-timer"))
    assert early.replica.deadline() == usual.replica.deadline() // 8
    assert early.win().replica.is_leader


def test_an_early_fetch_timeout_makes_a_voter_give_its_leader_up() -> None:
    """QC-05, rule 41: it asks whether a majority would vote for it, in the same epoch."""
    times = []
    for buggify in (OFF, At("early-fetch-timeout")):
        node = Node(1, [], buggify=buggify).follow(2, 1)
        node.told(b"", 0)
        times.append(node.replica.role.give_up_at)  # type: ignore[union-attr]
    assert times[1] == times[0] // 8


def test_a_metadata_fetch_with_one_batch_is_followed_by_the_next_one() -> None:
    batches = []
    for buggify in (OFF, At("metadata-fetch-one-batch")):
        leader = Node(1, [1, 1, 1], buggify=buggify).win()
        records = answer_of(leader.fetched_by(2, 0, 0)).records
        batches.append([header.base_offset for header, _ in iterate_batches(records)])
    assert batches == [[0, 1, 2, 3], [0]]


def test_a_snapshot_in_tiny_pieces_arrives_whole() -> None:
    """SN-05: asked for by position, so that a piece may have any size."""
    cluster: Retaining = prepared("tiny")
    cluster.buggify = At("snapshot-piece-tiny")
    for voter in (1, 2, 3):
        cluster.members[voter].stop()
        cluster.members[voter].start()
    leader = cluster.elect()
    cluster.members[AWAY].start()
    cluster.run_until(lambda: half_way(cluster))
    cluster.run_until(lambda: cluster.members[AWAY].up.high_watermark >= leader.up.log.start_offset)
    assert cluster.buggify.visited.count("snapshot-piece-tiny") > 4_000 // 64
    away = cluster.members[AWAY].up
    latest = away.snapshots.latest
    assert latest is not None and latest == leader.up.snapshots.latest
    assert list(away.snapshots.batches(latest)) == list(leader.up.snapshots.batches(latest))


def test_a_snapshot_loaded_in_parts_makes_the_image_once_it_is_complete() -> None:
    """SN-04: batch by batch, as a snapshot of more records than a node replays in a turn."""
    history = History(1)
    history.write(100)
    _, snapshots, latest = snapshot_of(history.image, 5)
    turns = []
    for buggify in (OFF, At("snapshot-loaded-in-parts")):
        loader = SnapshotLoader(snapshots, latest, buggify)
        turns.append(1)
        while not loader.advance():
            turns[-1] += 1
        assert loader.image.fingerprint() == history.image.fingerprint()
    assert turns[0] == 1 < turns[1]


def test_an_early_snapshot_is_considered_once_after_each_batch() -> None:
    """SN-01, SN-02: nothing above what is committed; and no second one of the same offset."""
    controller = Controller()
    controller.bring_up(1, 2, 3)
    for config, buggify, made in ((SnapshotConfig(), OFF, 0), (SnapshotConfig(), At("snapshot-early"), 1)):
        generator = SnapshotGenerator(config, controller.raft, controller.controller, controller.now, buggify)
        for _ in range(10):
            generator.advance(controller.now)
        assert len(controller.raft.snapshots.ids) == made
    latest = controller.raft.snapshots.latest
    assert latest is not None and latest.end_offset <= controller.raft.high_watermark
    assert isinstance(buggify, At) and buggify.visited.count("snapshot-early") == 1


def test_a_paused_snapshot_holds_what_was_committed_when_it_began() -> None:
    """SN-01, SN-02: the node replays on in the meantime."""
    controller = Controller()
    controller.bring_up(1, 2, 3)
    raft, now = controller.raft, controller.now
    generator = SnapshotGenerator(
        SnapshotConfig(bytes_between=1), raft, controller.controller, now, At("snapshot-paused")
    )
    generator.advance(now)
    generator.advance(now)
    assert generator.deadline() == now + PAUSE
    generator.advance(now + PAUSE - 1)
    assert generator.deadline() == now + PAUSE and not raft.snapshots.ids
    assert any(path.endswith(PART) for path in controller.disk.open_files())
    generator.close()
    assert not any(path.endswith(PART) for path in controller.disk.open_files()), "a node that stops discards it"


# -- the controller ------------------------------------------------------------------------------------------------


def test_an_isr_change_that_is_not_attempted_writes_nothing() -> None:
    """Rule 21: the leader may send the same change again."""
    controller = Controller(buggify=At("isr-change-not-attempted", times=1))
    controller.bring_up(1, 2, 3)
    controller.create_topic()
    before = controller.raft.end_offset
    refused = controller.alter_partition(1, [1, 2]).topics[0].partitions[0]
    assert (refused.error_code, controller.raft.end_offset) == (ErrorCode.OPERATION_NOT_ATTEMPTED, before)
    accepted = controller.alter_partition(1, [1, 2]).topics[0].partitions[0]
    assert (accepted.error_code, controller.partition().isr) == (ErrorCode.NONE, (1, 2))


def test_a_write_refused_once_is_done_when_it_is_asked_for_again() -> None:
    """MD-09: NOT_CONTROLLER in all its parts, so that a broker may send it again; heartbeats are not concerned."""
    controller = Controller(buggify=At("write-refused-once", times=1))
    controller.bring_up(1, 2, 3)
    wish = CreateTopicsRequest(topics=[CreatableTopic("events", 1, 3)], timeout_ms=1000)
    before = controller.raft.end_offset
    refused = controller.ask(wish)
    assert [topic.error_code for topic in refused.topics] == [ErrorCode.NOT_CONTROLLER]
    assert controller.raft.end_offset == before
    assert [topic.error_code for topic in controller.ask(wish).topics] == [ErrorCode.NONE]


def test_a_decision_that_is_split_is_written_in_several_turns_and_answered_after_the_last() -> None:
    """Rule 25: a broker leaves its topic-partitions first and is fenced last.

    The controller decides no other request in between.
    """
    controller = Controller(buggify=(rare := At("decision-split", times=0)))
    controller.bring_up(1, 2, 3)
    controller.create_topic(partitions=3)
    rare.times = 1_000
    before = controller.raft.end_offset
    request = controller.begin(UnregisterBrokerRequest(broker_id=1))
    held = controller.begin(BrokerHeartbeatRequest(broker_id=2, broker_epoch=controller.image.brokers[2].epoch))
    controller.pass_time(0.029)
    assert request.answer is None and held.answer is None and 1 in controller.image.brokers
    controller.pass_time(0.031)
    assert request.answer is not None and held.answer is not None
    written = [batch.next_offset - batch.base_offset for batch in controller.raft.committed(before)]
    assert written == [2, 2], "what is split once stays split"
    assert 1 not in controller.image.brokers
    assert all(1 not in controller.partition(number=number).isr for number in range(3))


# -- a broker and the controller -----------------------------------------------------------------------------------


def started(*places: str, times: int = 1_000_000, **create: Any) -> World:
    """A serving broker at whose places the thing happens from now on, leading `t-0` unless `create` says otherwise."""
    made = World(buggify=(rare := At(*places, times=0)))
    made.start()
    made.create(**create)
    rare.times = times
    rare.visited.clear()
    return made


def rare(world: World) -> At:
    assert isinstance(world.buggify, At)
    return world.buggify


def test_a_late_heartbeat_is_sent_after_two_intervals() -> None:
    """FD-01."""
    interval = World().config.heartbeat_interval
    for places, expected in (((), 1), (("heartbeat-late",), 2)):
        world = started(*places)
        request, _ = world.asked(BrokerHeartbeatRequest, interval)
        request.complete(world.now, BrokerHeartbeatResponse(is_fenced=False))
        waited = next(n for n in range(1, 4) if not world.asked_nothing(BrokerHeartbeatRequest, interval))
        assert waited == expected


def lagging(*places: str, times: int = 1) -> World:
    """A leader one of whose followers has lagged for longer than it may."""
    world = started(*places, times=times)
    for _ in range(13):
        for follower in (OTHER,):
            world.follow(follower, 0)
        world.run(SECOND)
    world.produce(acks=1)
    return world


def test_a_late_isr_change_is_sent_after_a_pause() -> None:
    """IS-04: it does not count before it is committed."""
    world = lagging("isr-change-sent-late")
    for _ in range(12):
        world.follow(OTHER, 1)
        if rare(world).times == 0:
            break
        world.run(SECOND)
    assert rare(world).times == 0
    assert world.asked_nothing(AlterPartitionRequest)
    _, request = world.asked(AlterPartitionRequest, 50 * MS)
    [topic] = request.topics
    assert [one.broker_id for one in topic.partitions[0].new_isr_with_epochs] == [1, OTHER]


def test_metadata_applied_late_is_applied_after_a_pause() -> None:
    """MD-04: as if the broker had fetched it later; and the broker asks to be called then."""
    world = started("metadata-applied-late", times=1)
    world.create("late")
    assert world.broker.replicas.by_name("late", 0) is None
    assert world.broker.deadline() <= world.now + 50 * MS
    world.run(49 * MS)
    assert world.broker.replicas.by_name("late", 0) is None
    world.run(1 * MS)
    assert world.broker.replicas.by_name("late", 0) is not None


def test_a_broker_that_loads_a_snapshot_late_asks_to_be_called_then_and_not_at_once() -> None:
    """Seed 903203 of worlds: it asked again and again, and did nothing."""
    world = started("metadata-applied-late", times=1)
    world.create("late")
    world.broker.observer._loader = object()  # type: ignore[attr-defined]
    assert world.now < world.broker.deadline() <= world.now + 50 * MS
    world.broker._apply_at = 0
    assert world.broker.deadline() == 0


# -- serving and following -----------------------------------------------------------------------------------------


def test_an_early_lag_check_looks_sooner_and_drops_nobody_early() -> None:
    """IS-03: who lags depends on the followers' times."""
    looks = []
    for places in ((), ("lag-check-early",)):
        world = started(*places)
        for _ in range(20):
            for follower in (OTHER, THIRD):
                world.follow(follower, 0)
            world.run(SECOND // 2)
        looks.append(rare(world).visited.count("lag-check-early"))
        hosted = world.broker.replicas.by_name("t", 0)
        assert hosted is not None and hosted.replica.maximal_isr == (1, OTHER, THIRD)
    assert looks[0] <= 2 and looks[1] >= 5


def held(world: World, batches: int = 8) -> World:
    for _ in range(batches):
        world.produce(acks=1)
    return world


def records_in(request: ServerRequest) -> list[int]:
    return [header.base_offset for header, _ in iterate_batches(fetched(request).records or b"")]


def test_a_fetch_brings_one_batch_of_several() -> None:
    world = held(started("fetch-one-batch", times=1))
    assert records_in(world.follow(OTHER, 0)) == [0]
    assert records_in(world.follow(OTHER, 1)) == [1, 2, 3, 4, 5, 6, 7]


def test_a_fetch_ends_within_a_batch_and_its_first_batch_is_whole() -> None:
    world = held(started("fetch-cut", times=2))
    records = fetched(world.follow(OTHER, 0)).records or b""
    whole = [header.base_offset for header, _ in iterate_batches(records, torn_tail=True)]
    assert whole == [0, 1, 2, 3]
    with pytest.raises(ProtocolError):
        list(iterate_batches(records))
    assert records_in(world.follow(OTHER, 7)) == [7]


def test_a_fetch_brings_half_of_what_is_available() -> None:
    world = held(started("fetch-part", times=1))
    assert records_in(world.follow(OTHER, 0)) == [0, 1, 2, 3]
    assert records_in(world.follow(OTHER, 4)) == [4, 5, 6, 7]


def test_an_empty_fetch_is_answered_at_once_and_the_next_brings_all() -> None:
    """DP-05, rule 10: what the fetch proves is counted all the same."""
    world = held(started("fetch-empty", times=1))
    assert records_in(world.follow(OTHER, 0)) == []
    assert len(records_in(world.follow(OTHER, 0))) == 8


def test_a_dropped_fetch_session_is_begun_again_with_nothing_lost() -> None:
    """KIP-227."""
    world = held(started("fetch-session-dropped", times=1))
    follower = Fetcher(world, OTHER)
    follower.begin({0: 0})
    assert answer(follower.fetch({})).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(world.broker.fetching.sessions) == 0
    again: FetchResponse = Fetcher(world, OTHER).begin({0: 0})
    assert again.error_code == ErrorCode.NONE and again.responses[0].partitions[0].records


def test_a_parked_request_that_is_woken_early_goes_on_waiting() -> None:
    """Rules 3 and 16: it is answered by its condition."""
    world = started("parked-woken-early")
    waiting = world.produce(acks=-1)
    idle = world.consume(0, min_bytes=1)
    world.run()
    assert waiting.answer is None and idle.answer is None
    assert "parked-woken-early" in rare(world).visited
    for follower in (OTHER, THIRD):
        world.follow(follower, 1)
    world.run()
    assert produced(waiting)[0].error_code == ErrorCode.NONE
    assert len(records_in(idle)) == 1


# -- logs ----------------------------------------------------------------------------------------------------------

SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=100)


def opened(disk: SimDisk, *places: str, clean: bool = False) -> Log:
    return Log.open(
        disk, "t-0", SMALL, now_ms=0, trace=NullTrace(), clean_shutdown=clean, buggify=At(*places)
    )  # fmt: skip


def filled(log: Log, batches: int = 24) -> Log:
    for number in range(batches):
        sequence = {"producer_id": 7, "producer_epoch": 0, "base_sequence": number}
        batch = build_batch([Record(value=b"%04d" % number)], timestamp=1000 + number, **sequence)
        log.append_as_leader(batch, 1, 0)
    return log


def contents(log: Log) -> list[tuple[int, bytes | None]]:
    batches = log.batches(log.start_offset, log.end_offset)
    return [(record.offset, record.value) for batch in batches for record in parse_records(batch)]


def test_segments_rolled_early_hold_the_same_records() -> None:
    """Rule 17: segments are a replica's own; recovery finds all of it."""
    disk = SimDisk(Random(1))
    usual, early = filled(opened(SimDisk(Random(1)))), filled(opened(disk, "segment-rolled-early"))
    assert (usual.segment_count, early.segment_count) == (2, 24)
    assert contents(early) == contents(usual) == contents(opened(disk))


def test_without_index_entries_every_offset_and_time_is_found() -> None:
    """Rule 17."""
    disk = SimDisk(Random(1))
    filled(opened(disk, "index-entry-omitted")).close()
    usual = filled(opened(SimDisk(Random(1))))
    for log in (opened(disk, clean=True), filled(opened(SimDisk(Random(1)), "index-entry-omitted"))):
        for offset in range(24):
            found = log.read(offset, 1, upper=24, at_least_one=True)
            assert BatchHeader.read(found).base_offset == offset
            assert log.offset_for_timestamp(1000 + offset, 24) == (1000 + offset, offset)
        assert contents(log) == contents(usual)


def test_an_epoch_saved_early_is_forgotten_if_nothing_was_written_in_it() -> None:
    """Rule 14: by the next opening, durable or not."""
    disk = SimDisk(Random(1))
    log = filled(opened(disk, "epoch-saved-early"))
    log.assign_epoch(5, log.end_offset)
    saved = disk.content("t-0/leader-epoch-checkpoint")
    assert saved is not None and b"5 24" in saved
    assert opened(disk).epochs.entries == [(1, 0)]


def test_a_skipped_producer_snapshot_loses_no_producer() -> None:
    """Rule 7: the state is read from the batches after an older snapshot."""
    disk = SimDisk(Random(1))
    log = filled(opened(disk, "producer-snapshot-skipped"))
    known = log.producers.state_of(7)
    log.close()
    assert max(log.producers.snapshots()) < log.end_offset
    again = opened(disk, clean=True).producers.state_of(7)
    assert known is not None and again is not None and again.batches == known.batches


@pytest.mark.parametrize(
    ("place", "checkpoint", "setting"),
    [
        ("recovery-points-not-written", RECOVERY_POINTS, "recovery_checkpoint_interval"),
        ("high-watermarks-not-written", HIGH_WATERMARKS, "checkpoint_interval"),
    ],
)
def test_a_checkpoint_left_out_is_written_an_interval_later(place: str, checkpoint: str, setting: str) -> None:
    """Rules 11 and 17: an older promise still holds."""
    world = held(started(place, times=1))
    for follower in (OTHER, THIRD):
        world.follow(follower, 8)
    interval = getattr(world.config, setting)
    before = world.disk.content(checkpoint)
    world.run(interval)
    assert rare(world).times == 0 and world.disk.content(checkpoint) == before
    world.run(interval)
    assert world.disk.content(checkpoint) != before
