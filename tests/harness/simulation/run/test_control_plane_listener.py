"""KIP-291 in simulation: how long a controller's requests take under a flood (P20), and a migration in two rolls (P21).

The whole cluster is simulated, controller and ensemble included. Times are virtual: what counts are the turns of the
brokers and their slow disks.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from squall.harness.scenario.suite import Scenario, load_suite
from squall.harness.simulation.run.run import SimOptions, Simulation
from squall.nodes.protocol.messages import ApiKey
from squall.workloads.core.operation import OK, SEND, Event

SUITES = Path(__file__).resolve().parents[4] / "suites"
SCENARIOS = {
    one.scenario: one
    for suite in ("control-listener-backlog", "control-listener-migration")
    for one in load_suite(SUITES / f"{suite}.yaml").own
}
BACKLOG, OFF, REJECTED = (
    SCENARIOS[name]
    for name in ("control-listener-backlog", "control-listener-backlog-off", "control-listener-backlog-rejected")
)
SLOW_FROM_S, SLOW_UNTIL_S = 2.0, 19.0
LISTENER = "CONTROLLER"


class Requests:
    """A controller's requests of one run: how long their responses took, by when, and on which listener they came."""

    def __init__(self, simulation: Simulation) -> None:
        self.took: dict[int, list[float]] = {}
        """Milliseconds by API, of those that were sent while disks were slow."""
        self.led_after: list[float] = []
        """Milliseconds from a LeaderAndIsr until its broker began to lead a topic-partition by it."""
        self.taken: list[tuple[float, int, str]] = []
        """When, in seconds of the load; at which broker; on which listener."""
        self.in_flight_most = 0
        self._simulation = simulation
        self._sent: dict[tuple[int, int, int], list[tuple[float, int]]] = {}
        self._ordered: dict[int, float] = {}
        for name, listener in (
            ("zk_request_sent", self._on_sent),
            ("zk_request_answered", self._on_answered),
            ("zk_request_taken", self._on_taken),
            ("leader", self._on_leader),
        ):
            simulation.observer._listeners.setdefault(name, []).append(listener)

    def _now(self) -> float:
        began = self._simulation.load_started
        return -1.0 if began is None else (self._simulation.world.now_ns() - began) / 1e9

    def _between(self, fields: Any) -> tuple[int, int, int]:
        """The controller, its incarnation and the broker: what a controller has sent is nothing to its next life."""
        world, node = self._simulation.world, fields["node"]
        return node, world.processes[world.cluster.name_of(node)].incarnation, fields["broker"]

    def _on_sent(self, name: str, fields: Any) -> None:
        waiting = self._sent.setdefault(self._between(fields), [])
        waiting.append((self._now(), fields["api"]))
        if fields["api"] == ApiKey.LEADER_AND_ISR:
            self._ordered[fields["broker"]] = self._now()
        self.in_flight_most = max(self.in_flight_most, len(waiting))

    def _on_answered(self, name: str, fields: Any) -> None:
        at, api = self._sent[self._between(fields)].pop(0)
        if fields["answered"] and SLOW_FROM_S < at < SLOW_UNTIL_S:
            self.took.setdefault(api, []).append((self._now() - at) * 1000)

    def _on_leader(self, name: str, fields: Any) -> None:
        at = self._ordered.get(fields["broker"], 0.0)
        if SLOW_FROM_S < at < SLOW_UNTIL_S:
            self.led_after.append((self._now() - at) * 1000)

    def slowest(self, api: ApiKey) -> float:
        return max(self.took[int(api)])

    def _on_taken(self, name: str, fields: Any) -> None:
        self.taken.append((self._now(), fields["node"], fields["listener"]))


def run(scenario: Scenario, folder: Path, prepare: Callable[[Simulation], None] = lambda one: None) -> Requests:
    simulation = Simulation(scenario, 1, SimOptions(), folder / scenario.scenario)
    requests = Requests(simulation)
    prepare(simulation)
    simulation.run()
    return requests


# -- P20 -------------------------------------------------------------------------------------------------------------


@pytest.mark.full
def test_a_flood_delays_a_controllers_requests_unless_they_have_a_listener(tmp_path: Path) -> None:
    """P20: the backlog shows in the shared queue; with the listener it does not. CL-03, and what comes of it."""
    own, shared, rejected = (run(one, tmp_path) for one in (BACKLOG, OFF, REJECTED))
    for api, harm in (
        (ApiKey.LEADER_AND_ISR, "CL-03: replicas learn late what they are"),
        (ApiKey.UPDATE_METADATA, "CL-07: clients are sent to brokers that lead no more"),
    ):
        times = own.slowest(api), shared.slowest(api), rejected.slowest(api)
        assert times[1] > 5 * times[0] and times[2] > 2 * times[0], f"{harm}: own, shared, rejected {times} ms"
    led = max(own.led_after), max(shared.led_after)
    assert led[1] > 5 * led[0], f"CL-06: a topic-partition has no leader meanwhile: own, shared {led} ms"
    stopped = [len(run.took[int(ApiKey.STOP_REPLICA)]) for run in (own, shared)]
    assert stopped[0] > 1.5 * stopped[1], f"CL-08: fewer topics are deleted in the same time: own, shared {stopped}"
    assert {listener for _, _, listener in own.taken} == {LISTENER}
    assert {listener for _, _, listener in shared.taken + rejected.taken} == {"PLAINTEXT"}


# -- what lateness does, one harm alone ------------------------------------------------------------------------------

HELD_FROM_S, MOVED_S, HELD_UNTIL_S = 1.0, 2.0, 6.0
HELD = {
    "fault": "rpc-hold",
    "api": "LeaderAndIsr",
    "from": "active controller",
    "to": "one follower of events/0",
    "at": f"{HELD_FROM_S:g}s",
    "for": f"{HELD_UNTIL_S - HELD_FROM_S:g}s",
}


def late_follower(*nemesis: dict[str, str]) -> Scenario:
    """A scenario in which the leader stops cleanly; nothing takes a follower out of the ISR."""
    return Scenario.model_validate(
        {
            "scenario": f"late-follower-{len(nemesis)}",
            "cluster": {
                "metadata": "zookeeper",
                "topics": {"events": {"partitions": 1, "replication_factor": 3, "min_insync_replicas": 2}},
                "config": {"replica.lag.time.max.ms": 60_000, "replica.fetch.backoff.ms": 200},
            },
            "workload": {"name": "log", "producers": 1, "consumers": 1, "rate": "40/s", "acks": "all", "in_flight": 4},
            "nemesis": [
                *nemesis,
                {"fault": "restart", "target": "leader of events/0", "at": f"{MOVED_S:g}s", "for": "1s"},
            ],
            "time": {"load": "8s", "settle": "30s"},
            "min_acknowledged": 10,
        }
    )


def acknowledgements(scenario: Scenario, folder: Path) -> list[float]:
    """When sends were acknowledged, in seconds of the load."""
    found: list[float] = []

    def prepare(simulation: Simulation) -> None:
        observe = simulation.observer.client_event

        def client_event(event: Event, *more: int) -> None:
            if event.operation.f == SEND and event.completion is not None and event.completion.type == OK:
                found.append((simulation.world.now_ns() - (simulation.load_started or 0)) / 1e9)
            observe(event, *more)

        simulation.observer.client_event = client_event  # type: ignore[method-assign]

    run(scenario, folder, prepare)
    return found


def test_a_late_leader_and_isr_to_a_follower_parks_acks_all(tmp_path: Path) -> None:
    """CL-04: a follower that fetches from a leader that is gone holds up the new one until it learns of it."""
    late, prompt = (acknowledgements(late_follower(*held), tmp_path) for held in ([HELD], []))
    assert [at for at in late if MOVED_S + 0.5 < at < HELD_UNTIL_S] == []
    assert [at for at in late if at > HELD_UNTIL_S]
    assert [at for at in prompt if MOVED_S + 0.5 < at < HELD_UNTIL_S - 1]


# -- P21 -------------------------------------------------------------------------------------------------------------

MIGRATION = SCENARIOS["control-listener-migration"]
WINDOW_NS = 56 * 10**9
"""How long the second of its faults lasts."""


def test_two_rolls_move_a_controllers_requests_to_the_listener_and_lose_nothing(tmp_path: Path) -> None:
    """P21, CL-15, CL-20, CL-21: requests switch in the second roll only, and a mixed cluster works meanwhile."""
    simulations: list[Simulation] = []
    requests = run(MIGRATION, tmp_path, simulations.append)
    (simulation,) = simulations
    first, second = (one for one in simulation.fault_log.windows.values() if one.fault == "reconfigure")
    assert all(one.took and one.undone for one in (first, second))
    rolls, rolled, goes_back, back, as_before = (
        (at - simulation.load_started) / 1e9
        for at in (second.injected, second.shown, second.injected + WINDOW_NS, second.healed, first.healed)
    )

    def between(since: float, until: float) -> set[str]:
        return {listener for at, _, listener in requests.taken if since < at < until}

    assert between(0, rolls) == {"PLAINTEXT"}, "the first roll adds an endpoint and changes nothing"
    assert between(rolls, rolled) == {"PLAINTEXT", LISTENER}, "each controller goes by its own configuration"
    assert between(rolled, goes_back) == {LISTENER}
    assert between(goes_back, back) >= {LISTENER}, "as long as the controller has the key"
    assert between(back, as_before) == {"PLAINTEXT"}
    assert requests.in_flight_most <= 2, "one, and one to an incarnation of a broker that is gone"
    assert {broker for _, broker, listener in requests.taken if listener == LISTENER} == {1, 2, 3}
    assert simulation.observer.cluster.counters.controlled_shutdowns == 2 * 6 + 1
    assert simulation.observer.cluster.counters.acknowledged > 300


def test_the_controllers_requests_are_those_three(tmp_path: Path) -> None:
    """ZK-06: what the listener is for, and nothing else of the cluster comes in on it but the shutdowns of brokers."""
    taken: dict[int, None] = {}

    def prepare(simulation: Simulation) -> None:
        simulation.observer._listeners.setdefault("zk_request_taken", []).append(
            lambda name, fields: taken.setdefault(int(fields["api"]))
        )

    short = BACKLOG.model_copy(update={"nemesis": (), "fault_free": True})
    run(short.model_copy(update={"time": short.time.model_copy(update={"load": 1.0})}), tmp_path, prepare)
    assert set(taken) <= {ApiKey.LEADER_AND_ISR, ApiKey.UPDATE_METADATA, ApiKey.STOP_REPLICA}
