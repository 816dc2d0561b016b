"""Messages held and cut on hosts of the lab: one short run. The scenario that needs a hold most, on request."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from squall.results.history.history import History
from squall.results.history.segments import FaultWindow, read_faults
from tests.harness.conftest import CommandLine
from tests.harness.run.faults.test_power_loss import acknowledged_and_gone
from tests.labs import need_lab

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("power-loss")]

SUITES = Path(__file__).parents[4] / "suites"

SHORT = """
scenario: messages-held-and-cut
cluster:
  controllers: 1
  topics: {events: {partitions: 1, replication_factor: 3, min_insync_replicas: 2}}
  config: {broker.session.timeout.ms: 1500, broker.heartbeat.interval.ms: 300, replica.lag.time.max.ms: 1500}
workload: {name: log, client: confluent, producers: 2, consumers: 2, rate: 100/s, acks: all}
nemesis:
  - {fault: rpc-hold, api: Fetch, from: one follower of events/0, to: leader of events/0, at: 500ms, for: 1500ms}
  - {fault: rpc-cut, api: Produce, direction: response, messages: 0, to: leader of events/0, at: 4s, for: 3s}
time: {load: 9s, settle: 10s}
min_acknowledged: 50
"""


@pytest.fixture(scope="module", autouse=True)
def _machine() -> None:
    need_lab()


def window_of(directory: Path, name: str) -> FaultWindow:
    return next(window for window in read_faults(directory) if window.fault == name)


@pytest.mark.full
def test_held_followers_and_lost_produce_answers_lose_no_acked_record(squall: CommandLine) -> None:
    (squall.directory / "messages.yaml").write_text(SHORT)
    said = squall("run", "messages.yaml", "--seed", "7", "--in-process")
    assert said.status == 0, said.all
    directory = squall.directory / "runs" / "latest"
    hold, cut = window_of(directory, "rpc-hold"), window_of(directory, "rpc-cut")
    assert hold.took and hold.undone and cut.took and cut.undone
    assert re.match(r"[1-9]\d* Fetch requests held, after [1-9]\d* connections were reset", hold.during), hold.during
    assert re.match(r"[1-9]\d* Produce responses cut at", cut.during), cut.during
    assert acknowledged_and_gone(History.load(directory).of("events", 0)) == set()


@pytest.mark.full
def test_a_starved_broker_withholds_the_leave_of_another(squall: CommandLine) -> None:
    """CS-04: what is held are the answers that would tell one broker of the cluster."""
    said = squall("run", SUITES / "starved-shutdown.yaml", "--only", "starved-shutdown", "--seed", "7", "--in-process")
    assert said.status == 0, said.all
    assert window_of(squall.directory / "runs" / "latest", "rpc-hold").took
