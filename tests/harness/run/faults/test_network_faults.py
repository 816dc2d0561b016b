"""Networks that do worse than being slow or cut, on hosts of the lab: every such fault in one run, proven and over."""

from __future__ import annotations

import pytest

from squall.results.history.history import History
from squall.results.history.segments import read_faults
from tests.harness.conftest import CommandLine
from tests.harness.run.faults.test_power_loss import acknowledged_and_gone
from tests.labs import need_lab

pytestmark = [pytest.mark.lab, pytest.mark.full, pytest.mark.xdist_group("power-loss")]

FAULTS = """
  - {fault: bad-link, target: b1, duplicate: 0.3, corrupt: 0.1, reorder: 0.2, at: 1s, for: 2s}
  - {fault: thirds, at: 4s, for: 1s}
  - {fault: cut-port, target: b2, connections: replication, at: 9s, for: 1500ms}
  - {fault: cut-port, target: leader of events/0, connections: clients, at: 13s, for: 1500ms}
  - {fault: reset, target: b1, every: 300ms, at: 18s, for: 1500ms}
  - {fault: connection-storm, target: b2, connections: 200, at: 22s, for: 1500ms}
  - {fault: slice, target: b1, size: 16, at: 25s, for: 1500ms}
  - {fault: black-hole, target: b1, delay: 300ms, at: 29s, for: 1500ms}
  - {fault: flood, target: b2, rate: 4MiB/s, at: 32s, for: 1500ms}
  - {fault: interface-down, target: b3, at: 36s, for: 3s}
"""
SUITE = f"""
scenario: bad-networks
cluster:
  controllers: 3
  brokers: 3
  topics: {{events: {{partitions: 1, replication_factor: 3, min_insync_replicas: 2}}}}
workload: {{name: log, client: confluent, producers: 2, consumers: 2, rate: 100/s, acks: all}}
nemesis: {FAULTS}
time: {{load: 42s, settle: 20s}}
min_acknowledged: 100
"""


@pytest.fixture(scope="module", autouse=True)
def _machine() -> None:
    need_lab()


def test_every_bad_network_happens_and_ends_and_nothing_acknowledged_is_lost(squall: CommandLine) -> None:
    (squall.directory / "bad-networks.yaml").write_text(SUITE)
    said = squall("run", "bad-networks.yaml", "--seed", "7", "--in-process")
    assert said.status == 0, said.all
    directory = squall.directory / "runs" / "latest"
    windows = read_faults(directory)
    assert len(windows) == FAULTS.count("fault:")
    assert all(window.took and window.undone for window in windows), windows
    assert acknowledged_and_gone(History.load(directory).of("events", 0)) == set()
