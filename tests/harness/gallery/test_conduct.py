"""The conductor on a family of this test: steps, evidence and history need nothing of Kafka, NATS or etcd."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import msgspec
import pytest

from squall.harness.gallery import conduct
from squall.harness.gallery.conduct import Conductor
from squall.harness.gallery.core.entry import BROKEN, Arm, Entry
from squall.harness.gallery.core.family import Problem, Say, Stage
from squall.harness.gallery.core.frame_proxy import HoldRule
from squall.harness.gallery.core.node_process import NodeProcess
from squall.harness.gallery.core.observations import MARKER, Marked, Place, Position, Read
from squall.harness.gallery.core.trouble import NotReproduced
from squall.harness.gallery.core.waiting import wait_until
from squall.harness.gallery.entries import load_entry
from squall.nemesis.agent.rpc.rpc_rules import Effect
from squall.results.check import verdict_of
from tests.harness.gallery.editing import edited

CLIENT = """
import json, sys, time
offset = 0
for line in sys.stdin:
    command = json.loads(line)
    op, do, now = command["op"], command["do"], time.monotonic_ns()
    if do == "open":
        print(json.dumps({"op": op, "client": command["settings"]["client"]}), flush=True)
    elif do in ("send", "write"):
        for number in range(command.get("each", 1)):
            offset += 1
            value = command["first"] + number if do == "send" else command["value"]
            times = {"invoked": now, "completed": time.monotonic_ns()}
            fate = {"op": op, "value": value, "partition": 0, "type": "ok", "offset": offset, **times}
            print(json.dumps(fate), flush=True)
    else:
        print(json.dumps({"op": op, "done": True}), flush=True)
"""


class Writes:
    """A hold of writes that meets one at once, unless it is `quiet`."""

    def __init__(self, quiet: bool) -> None:
        self.held, self.quiet = 0, quiet

    def begin(self) -> None:
        self.held = int(not self.quiet)

    def end(self) -> None:
        """Nothing waits."""

    def wait_until_ended(self) -> None:
        """Nothing waits."""


class Proxy:
    """A proxy that holds a message at once; when it is released, its sender is gone if the proxy is `late`."""

    def __init__(self, late: bool) -> None:
        self.late, self.found = late, Effect()

    def hold(self, rule: HoldRule) -> None:
        self.found = Effect(met=1)

    def release(self, name: str) -> None:
        self.found = Effect(met=1, delivered=1, answered=1, late=int(self.late))

    def effect(self, name: str) -> Effect:
        return self.found

    def waiting(self, name: str) -> int:
        return self.found.met - self.found.delivered


class SleepingNode(NodeProcess):
    """A process that does nothing. A loss of power takes `gone` bytes."""

    gone = 7

    def _spawn(self, out: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(["sleep", "600"], stdout=out, stderr=out)

    def lose_power(self) -> int:
        self.kill()
        return self.gone


class Answers:
    """An observer that finds what it is given: the last value of a register, the records of a topic from 1 on."""

    findings = ("a finding",)

    def __init__(self, register: int, records: Sequence[int]) -> None:
        self._register, self._records = register, records
        self.moves: list[tuple[str, int, tuple[int, ...]]] = []

    def create_topic(self, name: str, replicas: Sequence[Sequence[int]], config: Mapping[str, str]) -> None:
        """There is every topic."""

    def in_sync(self, topic: str, partition: int) -> tuple[int, tuple[int, ...]]:
        return 1, (1, 2, 3)

    def reassign(self, topic: str, partition: int, replicas: Sequence[int]) -> None:
        self.moves.append((topic, partition, tuple(replicas)))

    def wait_until(self, holds: Callable[[], bool], what: str, seconds: float) -> None:
        wait_until(holds, what, seconds)

    def position(self, group: str, topic: str, partition: int) -> Position:
        raise AssertionError

    def read_register(self, name: str) -> Position:
        now = conduct.time.monotonic_ns()
        return Position(name, "read", now, now + 1, self._register)

    def mark(self, places: Sequence[Place]) -> list[Marked]:
        now = conduct.time.monotonic_ns()
        return [Marked(topic, at, now, now + 1, MARKER, len(self._records) + 1) for topic, at in places]

    def read_all(self, markers: Sequence[Marked]) -> list[Read]:
        now = conduct.time.monotonic_ns()
        records = tuple(enumerate([*self._records, MARKER], start=1))
        return [Read(one.topic, one.partition, now, now + 1, records) for one in markers]


class Family:
    """A family of sleeping nodes."""

    def __init__(self, observer: Answers, *, quiet: bool = False, proxy: Proxy | None = None) -> None:
        self.observer, self.quiet, self.proxy = observer, quiet, proxy

    def problems(self, entry: Entry) -> Iterator[Problem]:
        yield from ()

    def command_of(self, arm: Arm, say: Say) -> list[str]:
        return [sys.executable, "-c", CLIENT]

    def settings_of(self, arm: Arm, bootstrap: str) -> dict[str, str]:
        return {"client": arm.client.words}

    def stage(self, arm: Arm, work: Path, kept: Path, say: Say, stack: ExitStack) -> Stage:
        nodes: dict[int, NodeProcess] = {}
        for number in range(1, arm.cluster.brokers + 1):
            nodes[number] = SleepingNode(work / f"{number}.log")
            nodes[number].writes = Writes(self.quiet)  # type: ignore[assignment]
            stack.callback(nodes[number].kill)
            nodes[number].start()
        proxies: dict[int, Any] = {} if self.proxy is None else {1: self.proxy}
        return Stage(nodes, "nowhere", proxies, self.observer)


def conducted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, family: Family, entry: Entry) -> Path:
    monkeypatch.setattr(conduct, "family_of", lambda _: family)
    return Conductor(entry.arm(BROKEN), tmp_path / "run", lambda _: None).run()


def faults_of(run: Path) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in (run / "faults.jsonl").read_bytes().splitlines()]


@pytest.mark.parametrize(
    ("register", "verdict", "anomalies"), [(1, "invalid", ["lost_register_write"]), (2, "valid", [])]
)
def test_a_history_of_registers_alone_is_judged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, register: int, verdict: str, anomalies: list[str]
) -> None:
    entry = load_entry(edited("E1", tmp_path))
    run = conducted(monkeypatch, tmp_path, Family(Answers(register, [])), entry)
    found = verdict_of(run)
    assert (found.verdict, [one.name for one in found.anomalies]) == (verdict, anomalies)
    assert [(one["id"], one["fault"], one["took"], one["undone"]) for one in faults_of(run)] == [
        ("hang", "disk-hang", True, True),
        ("broker 1", "kill", True, True),
    ]


def test_a_hold_that_held_nothing_is_not_reproduced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    schedule = [
        {"do": "hold-writes", "as": "hang", "broker": 1},
        {"do": "await", "held": "hang", "within": "100ms"},
    ]
    entry = load_entry(edited("E1", tmp_path, schedule=schedule))
    with pytest.raises(NotReproduced, match="hang: a write is held: not so"):
        conducted(monkeypatch, tmp_path, Family(Answers(1, []), quiet=True), entry)


THREE = {"brokers": 3, "topics": {"events": {"replicas": [[1, 2, 3]]}}}
SEND = {"do": "send", "as": "first", "topic": "events", "partitions": [0], "each": 2}
AWAIT = {"do": "await", "sent": "first"}


@pytest.mark.parametrize(("records", "lost"), [([1, 2], False), ([1], True)])
def test_each_fault_of_a_node_has_evidence_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, records: list[int], lost: bool
) -> None:
    twice = [{"do": do, "broker": 1} for do in ("kill", "start", "kill", "start")]
    power = [{"do": do, "broker": 2} for do in ("lose-power", "start")]
    faults = [twice[0], SEND | {"as": "one", "each": 1}, twice[1], *twice[2:], *power]
    entry = load_entry(edited("N1", tmp_path, schedule=[SEND, AWAIT, *faults]))
    run = conducted(monkeypatch, tmp_path, Family(Answers(0, [*records, 3])), entry)
    assert [(one["id"], one["fault"], one["took"], one["undone"]) for one in faults_of(run)] == [
        ("broker 1", "kill", True, True),
        ("broker 1 (2)", "kill", True, True),
        ("broker 2", "power-loss", True, True),
    ]
    assert "a finding" in (run / "run.json").read_text()
    assert ("lost_write" in {one.name for one in verdict_of(run).anomalies}) is lost


def test_a_topic_partition_moves_and_its_old_leader_is_awaited_to_be_deposed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    move = {"do": "reassign", "topic": "events", "replicas": [3, 2]}
    deposed, leading = (
        {"do": "await", "in_sync": {"topic": "events", "deposed": one}, "within": "100ms"} for one in (2, 1)
    )
    observer = Answers(0, [1, 2])
    entry = load_entry(edited("K1", tmp_path, cluster=THREE, schedule=[SEND, AWAIT, move, deposed]))
    conducted(monkeypatch, tmp_path, Family(observer), entry)
    assert observer.moves == [("events", 0, (3, 2))]
    entry = load_entry(edited("K1", tmp_path, cluster=THREE, schedule=[SEND, AWAIT, leading]))
    with pytest.raises(NotReproduced, match="no longer led by 1: not so"):
        conducted(monkeypatch, tmp_path / "again", Family(Answers(0, [1, 2])), entry)


def test_a_loss_of_power_that_took_nothing_makes_it_unknown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(SleepingNode, "gone", 0)
    power = [{"do": do, "broker": 2} for do in ("lose-power", "start")]
    entry = load_entry(edited("N1", tmp_path, schedule=[SEND, AWAIT, power[0], SEND | {"as": "second"}, power[1]]))
    run = conducted(monkeypatch, tmp_path, Family(Answers(0, [1, 2, 3, 4])), entry)
    assert verdict_of(run).verdict == "unknown"


ONE_TOPIC = {"brokers": 3, "proxied": [1], "topics": {"events": {"replicas": [[1, 2, 3]]}}}
LATE_MESSAGE = [
    {"do": "hold", "as": "late", "api": "EndTxn", "outlive": True},
    SEND | {"each": 1},
    {"do": "await", "held": "late"},
    {"do": "release", "hold": "late"},
    {"do": "await", "answered": "late"},
    SEND | {"as": "second", "each": 1},
]


@pytest.mark.parametrize("late", [True, False])
def test_a_message_that_did_not_outlive_its_sender_proves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, late: bool
) -> None:
    """A schedule about a late message says nothing where the message was on time."""
    entry = load_entry(edited("T1a", tmp_path, schedule=LATE_MESSAGE, cluster=ONE_TOPIC))
    run = conducted(monkeypatch, tmp_path, Family(Answers(0, [1, 2]), proxy=Proxy(late)), entry)
    (fault,) = faults_of(run)
    assert (fault["took"], fault["undone"]) == (late, True)
    assert verdict_of(run).verdict == ("valid" if late else "unknown")


def test_a_hold_ends_when_it_is_released_and_not_with_the_schedule(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    schedule = [*LATE_MESSAGE, {"do": "wait", "time": "200ms"}]
    entry = load_entry(edited("T1a", tmp_path, schedule=schedule, cluster=ONE_TOPIC))
    run = conducted(monkeypatch, tmp_path, Family(Answers(0, [1, 2]), proxy=Proxy(late=True)), entry)
    (fault,) = faults_of(run)
    assert fault["healed"] - fault["injected"] < 150_000_000
