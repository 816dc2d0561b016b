"""Damage that no client sees, on hosts of the lab (HX-06): what each replica holds is compared after the run.

The short run is the short form of `suites/follower-damage.yaml`: a byte in a follower's log goes wrong and stays so.
The follower never leads, so that the clients' history is that of a healthy run. Without `replicas` that run is valid.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from squall.results.checkers.replicas.tables import replicas_in
from squall.results.history.operation_tables import CONTROL_PLANE, REPLICAS, read_kind
from tests.harness.conftest import CommandLine
from tests.labs import need_lab

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("follower-damage")]

SUITES = Path(__file__).parents[4] / "suites"
SHORT = """
suite: damage
scenarios:
  - &damaged
    scenario: damaged
    cluster:
      controllers: 1
      topics: {events: {partitions: 1, replication_factor: 3, min_insync_replicas: 2}}
    workload: {name: log, producers: 1, consumers: 1, rate: 100/s, acks: all, record_size: 4000}
    nemesis:
      - {fault: bit-flip, target: one follower of events/0, file: events-0/*.log, where: middle, restore: false,
         at: 3s, for: 1s}
    time: {load: 6s, settle: 10s}
    min_acknowledged: 50
    expect: {invalid: [replica_divergence]}
  - <<: *damaged
    scenario: as-clients-see-it
    replicas: false
    expect: valid
"""


@pytest.fixture(scope="module", autouse=True)
def _machine() -> None:
    need_lab()


def test_a_byte_gone_wrong_on_a_follower_is_found_and_clients_see_nothing(squall: CommandLine) -> None:
    (squall.directory / "damage.yaml").write_text(SHORT)
    said = squall("run", "damage.yaml", "--seed", "7", "--in-process")
    assert said.status == 0, said.all
    (damaged,) = (squall.directory / "runs" / "damaged").iterdir()
    verdict: dict[str, Any] = json.loads((damaged / "verdict.json").read_text())
    assert "lost_write" not in {one["name"] for one in verdict["anomalies"]}
    assert all(one["holds"] for one in verdict["statements"]), "what clients saw is in order"
    checks = {one["check"]: one for one in verdict["further"]}
    assert checks[REPLICAS]["holds"] is False
    assert checks[REPLICAS]["counts"]["in-sync replicas"] == 3
    assert checks[CONTROL_PLANE]["holds"] is True
    replicas = list(replicas_in(read_kind(damaged / "replicas.parquet", REPLICAS, verdict["run_id"])))
    assert [one.in_sync and one.live for one in replicas if one.topic == "events"] == [True] * 3
    (alone,) = (squall.directory / "runs" / "as-clients-see-it").iterdir()
    assert not (alone / "replicas.parquet").exists()
    assert "further" not in json.loads((alone / "verdict.json").read_text())


@pytest.mark.full
def test_damage_that_is_put_right_leaves_nothing_to_find(squall: CommandLine) -> None:
    said = squall("run", SUITES / "follower-damage.yaml", "--seed", "7", "--in-process")
    assert said.status == 0, said.all
