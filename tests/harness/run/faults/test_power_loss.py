"""Power loss on hosts of the lab, and what it takes for eligible leader replicas to be worth having (P17, N09).

The scenarios of the leader's death on hosts are here as well (P02, P03, P13, P18): the same files that the simulation
runs, in real time. They are long; one short run with a power loss is part of every test run.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from squall.results.history.history import FUNCTIONS, TYPES, History, read_faults
from squall.results.history.segments import FaultWindow
from tests.harness.conftest import CommandLine, Said
from tests.labs import need_lab

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("power-loss")]

SUITES = Path(__file__).parents[4] / "suites"

SHORT = """
scenario: short-power-loss
cluster:
  controllers: 1
  topics: {events: {partitions: 1, replication_factor: 3, min_insync_replicas: 2}}
  config: {broker.session.timeout.ms: 1500, broker.heartbeat.interval.ms: 300, replica.lag.time.max.ms: 1500}
workload: {name: log, client: mixed, producers: 2, consumers: 2, rate: 100/s, acks: all}
nemesis:
  - {fault: power-loss, target: leader of events/0, mode: torn, at: 1s, for: 2s}
time: {load: 6s, settle: 10s}
min_acknowledged: 50
"""


@pytest.fixture(scope="module", autouse=True)
def _machine() -> None:
    need_lab()


@dataclass(frozen=True)
class Finished:
    """A run that has been judged."""

    said: Said
    directory: Path

    @property
    def verdict(self) -> dict[str, Any]:
        read: dict[str, Any] = json.loads((self.directory / "verdict.json").read_text())
        return read

    def fault(self, name: str) -> FaultWindow:
        return next(window for window in read_faults(self.directory) if window.fault == name)

    def history(self) -> pa.Table:
        return History.load(self.directory).of("events", 0)


def ran(squall: CommandLine, suite: Path | str, *arguments: str) -> Finished:
    said = squall("run", suite, "--seed", "7", "--in-process", *arguments)
    return Finished(said, squall.directory / "runs" / "latest")


def rows(table: pa.Table, f: str, type: str = "ok") -> list[dict[str, Any]]:
    """What was done, as rows."""
    return [row for row in table.to_pylist() if (row["f"], row["type"]) == (FUNCTIONS[f], TYPES[type])]


def lost_offsets(window: FaultWindow, log: str) -> range:
    """The offsets that the disk says it lost of a log."""
    told = re.search(rf"{log} from offset (\d+) to (\d+)", window.during)
    assert told, window.during
    return range(int(told[1]), int(told[2]) + 1)


def acknowledged_and_gone(table: pa.Table) -> set[int]:
    """Values whose sends were acknowledged and that no final read found."""
    found = {value for row in rows(table, "final_poll") for value in row["values"]}
    return {row["value"] for row in rows(table, "send") if row["value"] not in found}


def test_a_leader_losing_unsynced_data_at_power_loss_loses_no_acked_record(
    squall: CommandLine,
) -> None:
    """FD-03 on hosts; half of the clients are librdkafka's, half kafka-python's."""
    (squall.directory / "short.yaml").write_text(SHORT)
    finished = ran(squall, "short.yaml")
    assert finished.said.status == 0, finished.said.all
    window = finished.fault("power-loss")
    assert window.took and window.undone
    assert re.match(r"process gone, and [1-9]\d* bytes that were not fsynced", window.during), window.during
    assert acknowledged_and_gone(finished.history()) == set()


@pytest.mark.full
def test_with_eligible_leader_replicas_the_last_replica_standing_loses_nothing(squall: CommandLine) -> None:
    """P17 (EL-01, EL-05): the same power loss as below."""
    finished = ran(squall, SUITES / "last-replica-standing.yaml", "--only", "last-replica-standing")
    assert finished.said.status == 0, finished.said.all
    assert len(lost_offsets(finished.fault("power-loss"), "events-0")) >= 50
    assert acknowledged_and_gone(finished.history()) == set()


@pytest.mark.full
def test_without_exactly_the_acknowledged_records_that_were_not_fsynced_are_lost(squall: CommandLine) -> None:
    """N09: what the verdict calls lost, and what the disk says it lost, are the same records."""
    finished = ran(squall, SUITES / "last-replica-standing.yaml", "--only", "last-replica-standing-elr-off")
    verdict, window, table = finished.verdict, finished.fault("power-loss"), finished.history()
    assert (verdict["verdict"], verdict["as_expected"]) == ("invalid", True), finished.said.all
    gone = lost_offsets(window, "events-0")
    assert window.injected is not None
    not_fsynced = {
        row["value"] for row in rows(table, "send") if row["completed"] < window.injected and row["offset"] in gone
    }
    assert len(not_fsynced) >= 50
    assert acknowledged_and_gone(table) == not_fsynced
    (lost,) = [anomaly for anomaly in verdict["anomalies"] if anomaly["name"] == "lost_write"]
    assert lost["count"] == len(not_fsynced)


@pytest.mark.full
def test_a_kill_without_power_loss_loses_nothing_even_without_them(squall: CommandLine) -> None:
    """Control (i) of P17: the page cache outlives the process, so it is the disk that matters."""
    finished = ran(squall, SUITES / "last-replica-standing.yaml", "--only", "last-replica-standing-kill-elr-off")
    assert finished.said.status == 0, finished.said.all
    assert acknowledged_and_gone(finished.history()) == set()


@pytest.mark.full
@pytest.mark.parametrize(
    ("suite", "scenario"),
    [
        ("leader-kill-loop", "leader-kill-loop"),
        ("zombie-leader", "zombie-leader"),
        ("isr-limbo", "isr-limbo-shrink"),
        ("failure-ladder", "failure-ladder-brokers"),
        ("failure-ladder", "failure-ladder-controllers"),
    ],
)
def test_scenarios_of_the_simulation_hold_in_real_time(squall: CommandLine, suite: str, scenario: str) -> None:
    """P02, P03, P13 (a) and both halves of P18."""
    finished = ran(squall, SUITES / f"{suite}.yaml", "--only", scenario)
    assert finished.said.status == 0, finished.said.all


@pytest.mark.full
def test_both_real_clients_hold_under_cuts_kills_and_power_losses(squall: CommandLine) -> None:
    """A minute of real-clients; `squall run suites/real-clients.yaml --only real-clients` is five."""
    finished = ran(squall, SUITES / "real-clients.yaml", "--only", "real-clients-short")
    assert finished.said.status == 0, finished.said.all
