"""Processes that die at a call, again and again or with their host, and processes that get too little, in the lab."""

from __future__ import annotations

import re

import pytest

from squall.results.history.history import History
from tests.harness.conftest import CommandLine
from tests.harness.run.faults.test_disk_faults import window_of
from tests.harness.run.faults.test_power_loss import acknowledged_and_gone
from tests.labs import need_lab

pytestmark = [pytest.mark.lab, pytest.mark.full, pytest.mark.xdist_group("power-loss")]

SUITE = """
scenario: dying
cluster:
  controllers: 1
  topics: {events: {partitions: 1, replication_factor: 3, min_insync_replicas: 2}}
  config:
    broker.session.timeout.ms: 1500
    broker.heartbeat.interval.ms: 300
    replica.lag.time.max.ms: 1500
workload: {name: log, client: confluent, producers: 2, consumers: 2, rate: 100/s, acks: all}
nemesis:
  - {fault: kill-at-call, target: leader of events/0, path: events-0/*.log, nth: 20, at: 500ms, for: 1500ms}
  - {fault: bounce, target: b1, every: 1200ms, at: 5s, for: 4s}
  - {fault: host-down, target: b2, at: 12s, for: 2s}
  - {fault: rolling-restart, target: "b1, b3", at: 17s, for: 6s}
time: {load: 25s, settle: 10s}
min_acknowledged: 50
"""

STARVED = """
scenario: starved
cluster:
  controllers: 1
  topics: {events: {partitions: 1, replication_factor: 3, min_insync_replicas: 2}}
workload: {name: log, client: confluent, producers: 2, consumers: 2, rate: 100/s, acks: all}
nemesis:
  - {fault: cpu-throttle, target: one follower of events/0, share: 0.1, at: 500ms, for: 1500ms}
  - {fault: cpu-stress, target: b1, at: 3s, for: 1500ms}
  - {fault: memory-stress, target: b2, at: 5500ms, for: 500ms}
  - {fault: process-limit, target: b3, memory: 256MiB, descriptors: 200, at: 7s, for: 500ms}
time: {load: 9s, settle: 10s}
min_acknowledged: 50
"""

ASLEEP = """
scenario: asleep
cluster:
  controllers: 1
  clients: 1
  topics: {events: {partitions: 1, replication_factor: 3, min_insync_replicas: 2}}
workload: {name: log, client: confluent, producers: 2, consumers: 2, rate: 100/s, acks: all}
nemesis:
  - {fault: pause-clients, at: 1s, for: 2s}
time: {load: 6s, settle: 10s}
min_acknowledged: 50
"""


@pytest.fixture(scope="module", autouse=True)
def _machine() -> None:
    need_lab()


def test_deaths_of_all_kinds_happen_and_end_and_nothing_acknowledged_is_lost(squall: CommandLine) -> None:
    (squall.directory / "dying.yaml").write_text(SUITE)
    said = squall("run", "dying.yaml", "--seed", "7", "--in-process")
    assert said.status == 0, said.all
    directory = squall.directory / "runs" / "latest"
    told = {name: window_of(directory, name) for name in ("kill-at-call", "bounce", "host-down", "rolling-restart")}
    assert all(window.took and window.undone for window in told.values()), told
    at_call = told["kill-at-call"].during
    found = re.search(r"before write number 20: b\d at events-0/0+\.log \((\d+) bytes then, (\d+) now\)", at_call)
    assert found and int(found[1]) == int(found[2]) > 0, at_call
    assert int(re.findall(r"(\d+) processes on b1", told["bounce"].during)[0]) >= 3
    assert told["host-down"].during == "process gone, and silent to 3 of 3"
    assert acknowledged_and_gone(History.load(directory).of("events", 0)) == set()


def test_what_a_node_needs_is_withheld_and_given_back(squall: CommandLine) -> None:
    (squall.directory / "starved.yaml").write_text(STARVED)
    said = squall("run", "starved.yaml", "--seed", "7", "--in-process")
    assert said.status == 0, said.all
    directory = squall.directory / "runs" / "latest"
    told = {
        name: window_of(directory, name) for name in ("cpu-throttle", "cpu-stress", "memory-stress", "process-limit")
    }
    assert all(window.took and window.undone for window in told.values()), told
    assert re.search(
        r"stopped in [1-9]\d+ of \d+ looks, \d+% of a processor \(duty cycle\)", told["cpu-throttle"].during
    )
    assert re.search(r"busy processes use \d\.\d of \d+ processors", told["cpu-stress"].during)
    assert int(re.findall(r"(\d+) MiB resident", told["memory-stress"].during)[0]) >= 64
    limits = re.search(r"may have (\d+) descriptors and uses (\d+)", told["process-limit"].during)
    assert limits and int(limits[1]) == int(limits[2]) + 200


def test_clients_that_sleep_wake_and_lose_nothing(squall: CommandLine) -> None:
    (squall.directory / "asleep.yaml").write_text(ASLEEP)
    said = squall("run", "asleep.yaml", "--seed", "7", "--in-process")
    assert said.status == 0, said.all
    directory = squall.directory / "runs" / "latest"
    asleep = window_of(directory, "pause-clients")
    assert asleep.took and asleep.undone, asleep
    sends = History.load(directory).of("events", 0)
    assert acknowledged_and_gone(sends) == set()
