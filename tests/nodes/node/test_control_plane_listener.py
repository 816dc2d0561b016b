"""KIP-291 in one broker, in the hands of a test that plays its host: the queue, the turn, addresses, metrics."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from random import Random

import pytest

from squall.harness.simulation.world.disk import SimDisk
from squall.nodes.config import NodeConfig
from squall.nodes.node.base import CONTROL_PLANE_CAPACITY
from squall.nodes.node.dispatch import ZOOKEEPER_VERSIONS
from squall.nodes.node.effects import Connect, Pause
from squall.nodes.node.metrics import metric_names as names
from squall.nodes.node.metrics.collector import Collector
from squall.nodes.node.zookeeper_node import ZooKeeperNode
from squall.nodes.ports import NullTrace
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from squall.nodes.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from squall.nodes.protocol.messages.metadata import MetadataRequest
from squall.nodes.protocol.messages.update_metadata import UpdateMetadataRequest
from squall.nodes.protocol.requests.headers import decode_response
from squall.nodes.zookeeper.brokers.broker_agent import BrokerAgent
from squall.nodes.zookeeper.znodes import broker_path, decode_broker
from tests.nodes.node.test_node import CLIENT, CONTROL, SECOND, Clock, Host
from tests.nodes.zookeeper.ensemble import Ensemble

TURN_REQUESTS_MAX, QUEUE = 5, 20
KEY = "control.plane.listener.name"
PROPERTIES = {
    "node.id": "1",
    "zookeeper.connect": "10.0.0.1:2181",
    "listeners": f"PLAINTEXT://127.0.0.1:{CLIENT},CONTROLLER://127.0.0.1:{CONTROL}",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "log.dirs": "/data",
    "turn.requests.max": str(TURN_REQUESTS_MAX),
    "queued.max.requests": str(QUEUE),
}
OFF: Mapping[str, str] = {}
ON = {KEY: "CONTROLLER"}
REJECTED = {"request.queue.order": "controller-first"}


class ZooKeeperHost(Host):
    """Runs the only broker of a cluster, which is its controller as well."""

    node: ZooKeeperNode  # type: ignore[assignment]

    def __init__(self, properties: Mapping[str, str]) -> None:
        self.disk, self.now = SimDisk(Random(1)), 0
        self.ensemble = Ensemble()
        self.node = ZooKeeperNode(
            NodeConfig.of(PROPERTIES | dict(properties)), self.ensemble.session(),
            disk=self.disk, clock=Clock(), rng=Random(2), trace=NullTrace(), now=0,
        )  # fmt: skip
        self.sent: list[tuple[int, bytes]] = []
        self.effects: list[object] = []
        self.connects: list[int] = []
        """The ports that the node connected to."""
        self._peers: dict[int, int] = {}
        self._last = 1000
        self._correlation = 0
        self.run()
        assert self.node.broker.is_serving and self.node.is_active_controller

    def _carry(self, effect: object) -> None:
        if isinstance(effect, Connect):
            self.connects.append(effect.port)
        super()._carry(effect)

    def flood(self, requests: int, first: int = 1, port: int = CLIENT) -> None:
        """A connection with one request each."""
        for connection in range(first, first + requests):
            self.open(connection, port)
            self.send(connection, MetadataRequest(), 12)

    def order(self, connection: int, port: int) -> int:
        """Send the controller's request; return how many others are answered before it."""
        self.open(connection, port)
        epoch = self.node.agent.registration.epoch
        self.send(connection, UpdateMetadataRequest(controller_id=1, controller_epoch=1, broker_epoch=epoch), 8)
        before = len(self.sent)
        while not self.answered(connection):
            self.iterate()
            self.now += 10
        return [to for to, _ in self.sent[before:]].index(connection)

    def metric(self, metric: names.Metric, **labels: str) -> float:
        collector = Collector(self.node, Clock(), 0, 0)
        found = [
            one.value
            for one in collector.collect(self.now, 0)
            if one is not None and one.metric is metric and labels.items() <= dict(one.labels).items()
        ]
        assert len(found) == 1
        return found[0]


@pytest.fixture
def on() -> ZooKeeperHost:
    return ZooKeeperHost(ON)


@pytest.fixture
def off() -> ZooKeeperHost:
    return ZooKeeperHost(OFF)


# -- the queue -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("port", [CLIENT, CONTROL])
def test_by_default_a_controllers_request_waits_for_those_of_clients(off: ZooKeeperHost, port: int) -> None:
    """CL-01, CL-09: one queue and one priority, whatever listener it comes in on."""
    off.flood(12)
    assert off.order(99, port) == 12
    assert len(off.node.control) == off.node.control.received == 0


def test_a_full_queue_blocks_a_controllers_request_as_well(off: ZooKeeperHost) -> None:
    """CL-02: it is behind all that was read before, and its connection is not read until there is room."""
    off.flood(2 * QUEUE)
    off.open(99)
    off.send(99, MetadataRequest(), 12)
    off.iterate()
    assert Pause(99) in off.effects
    assert off.order(100, CLIENT) > QUEUE


def test_with_its_listener_it_is_taken_first(on: ZooKeeperHost) -> None:
    """CL-16."""
    on.flood(2 * QUEUE)
    assert on.order(99, CONTROL) == 0
    assert len(on.sent) == 2, "and clients are served in that turn, one of them"


def test_on_another_listener_it_waits_although_there_is_a_control_plane(on: ZooKeeperHost) -> None:
    """CL-21: from a controller that is not configured with the listener yet."""
    on.flood(12)
    assert on.order(99, CLIENT) == 12


@pytest.mark.parametrize(("flood", "before"), [(QUEUE - 1, 0), (QUEUE + 15, 16)])
def test_the_rejected_design_helps_until_the_queue_is_full(flood: int, before: int) -> None:
    """CL-23. It is answered at the end of the turn, after the others of that turn."""
    host = ZooKeeperHost(REJECTED)
    host.flood(flood)
    assert before <= host.order(99, CLIENT) < before + TURN_REQUESTS_MAX


def test_what_is_sent_to_the_control_planes_port_never_is_in_the_data_plane(on: ZooKeeperHost) -> None:
    """CL-17: a client that connects there is served by the control plane, as in Kafka."""
    control, data = on.node.control.received, on.node.data.received
    on.flood(3, port=CONTROL)
    on.iterate()
    assert [on.answered(one) != [] for one in (1, 2, 3)] == [True] * 3
    assert (on.node.control.received, on.node.data.received) == (control + 3, data)
    assert ApiKey.METADATA in on.node.control_times.by_api
    assert ApiKey.METADATA not in on.node.data_times.by_api


def test_the_control_planes_queue_holds_twenty_whatever_is_configured(on: ZooKeeperHost) -> None:
    """CL-16, CL-20."""
    assert on.node.control.capacity == CONTROL_PLANE_CAPACITY == 20
    on.flood(CONTROL_PLANE_CAPACITY, port=CONTROL)
    on.iterate()
    assert [one for one in on.effects if isinstance(one, Pause)] == [Pause(CONTROL_PLANE_CAPACITY)]


def test_a_full_control_plane_leaves_clients_alone_and_the_other_way_round(on: ZooKeeperHost) -> None:
    on.flood(2 * CONTROL_PLANE_CAPACITY, port=CONTROL)
    on.flood(1, first=500)
    on.iterate()
    assert on.answered(500) and Pause(500) not in on.effects


# -- addresses -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("properties", "port"), [(OFF, CLIENT), (ON, CONTROL)], ids=["off", "on"])
def test_the_controller_chooses_the_endpoint_by_its_own_configuration(properties: Mapping[str, str], port: int) -> None:
    """CL-15: its requests to brokers, and those of brokers to it."""
    host = ZooKeeperHost(properties)
    assert host.connects and set(host.connects) == {port}
    node = host.node
    assert node.orders_address(1) == node.voter_address(1) == ("127.0.0.1", port)
    assert node.broker_address(1) == ("127.0.0.1", CLIENT), "followers fetch where they always do"


def test_a_broker_without_the_endpoint_is_reported(on: ZooKeeperHost) -> None:
    """CL-21: the first roll was not completed."""
    on.run(SECOND)
    on.node.notices.clear()
    data = json.loads(on.ensemble.data(broker_path(1)))
    data["endpoints"] = ["PLAINTEXT://127.0.0.1:9"]
    on.node.controller._check_endpoints({2: decode_broker(2, json.dumps(data).encode(), 7)})
    (notice,) = on.node.controller.notices
    assert notice.startswith("End point with listener name CONTROLLER not found for broker 2")


def test_all_advertised_endpoints_are_published_as_kafka_writes_them(on: ZooKeeperHost) -> None:
    """CL-14."""
    data = on.ensemble.data(broker_path(1))
    assert json.loads(data) == {
        "version": 5,
        "host": "127.0.0.1",
        "port": CLIENT,
        "jmx_port": -1,
        "timestamp": str(Clock().now_ms()),
        "endpoints": [f"PLAINTEXT://127.0.0.1:{CLIENT}", f"CONTROLLER://127.0.0.1:{CONTROL}"],
        "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT"},
        "features": {},
    }
    endpoints = decode_broker(1, data, 1).endpoints
    assert [(one.listener, one.port) for one in endpoints] == [("PLAINTEXT", CLIENT), ("CONTROLLER", CONTROL)]


@pytest.mark.parametrize("broker", ["1", ""], ids=["one broker", "all brokers"])
def test_the_listener_cannot_be_changed_at_run_time(on: ZooKeeperHost, broker: str) -> None:
    """CL-22."""
    setting = AlterableConfig(KEY, 0, "PLAINTEXT")
    asked = IncrementalAlterConfigsRequest(resources=[AlterConfigsResource(4, broker, [setting])])
    on.open(7)
    on.send(7, asked, 1)
    on.run(SECOND)
    ((_, frame),) = [one for one in on.sent if one[0] == 7]
    _, response = decode_response(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, frame)
    assert isinstance(response, IncrementalAlterConfigsResponse)
    assert response.responses[0].error_code in (ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_CONFIG)
    assert on.node.config.control_plane_listener_name == "CONTROLLER"


# -- metrics ---------------------------------------------------------------------------------------------------------


def test_the_control_plane_has_metrics_of_its_own(on: ZooKeeperHost) -> None:
    """CL-18, CL-19: what waits on one plane shows in that plane's figures only."""
    on.flood(7)
    on.flood(3, first=50, port=CONTROL)
    assert on.metric(names.DATA_QUEUE) == 7
    assert on.metric(names.CONTROL_QUEUE) == 3
    assert on.metric(names.CONTROL_NETWORK_IDLE) == 1.0
    assert on.metric(names.CONTROL_HANDLER_IDLE) == 1.0
    assert on.metric(names.CONTROL_EXPIRED) == on.metric(names.CONTROL_RESPONSES) == 0
    on.run(SECOND)
    taken = {key: times.count for key, times in on.node.control_times.by_api.items()}
    assert taken[int(ApiKey.METADATA)] == 3
    assert set(BrokerAgent.API_KEYS) & set(taken) and not set(BrokerAgent.API_KEYS) & set(on.node.data_times.by_api)


def test_without_a_control_plane_its_metrics_are_not_numbers(off: ZooKeeperHost) -> None:
    """CL-18."""
    assert math.isnan(off.metric(names.CONTROL_NETWORK_IDLE))
    assert math.isnan(off.metric(names.CONTROL_HANDLER_IDLE))
    assert off.metric(names.CONTROL_QUEUE) == 0
    assert int(ApiKey.UPDATE_METADATA) in off.node.data_times.by_api


def test_they_are_called_as_in_kafka() -> None:
    """CL-18, in KIP-402's spelling."""
    called = {metric.jmx.rpartition("name=")[2] for metric in names.METRICS if metric.jmx}
    assert called >= {
        "RequestQueueSize",
        "ResponseQueueSize",
        "ControlPlaneRequestQueueSize",
        "ControlPlaneResponseQueueSize",
        "NetworkProcessorAvgIdlePercent",
        "ControlPlaneNetworkProcessorAvgIdlePercent",
        "ControlPlaneExpiredConnectionsKilledCount",
        "RequestHandlerAvgIdlePercent",
        "ControlPlaneRequestHandlerAvgIdlePercent",
    }


def test_a_broker_that_is_not_the_controller_refuses_a_controlled_shutdown_from_anyone() -> None:
    """The request once ended the process: only the controller serves it, and a broker does not forward it."""
    host = ZooKeeperHost(OFF)
    host.node.controller.is_active = False
    host.open(1, CLIENT)
    host.send(1, ControlledShutdownRequest(broker_id=1, broker_epoch=1), 3)
    while not host.answered(1):
        host.iterate()
    (frame,) = [content for connection, content in host.sent if connection == 1]
    _, response = decode_response(ApiKey.CONTROLLED_SHUTDOWN, 3, frame)
    assert isinstance(response, ControlledShutdownResponse)
    assert response.error_code == ErrorCode.NOT_CONTROLLER


def test_every_request_that_a_broker_of_an_ensemble_offers_has_somebody_who_serves_it() -> None:
    served = {*BrokerAgent.API_KEYS, *ZooKeeperHost(OFF).node.broker._handlers}
    served |= {ApiKey.CONTROLLED_SHUTDOWN, ApiKey.API_VERSIONS}
    assert set(ZOOKEEPER_VERSIONS) <= {int(one) for one in served}
