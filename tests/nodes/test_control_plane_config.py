"""The configuration matrix of `control.plane.listener.name`, in Kafka's words (CL-09 to CL-13)."""

from __future__ import annotations

import pytest

from squall.nodes.config import ConfigError, Endpoint, NodeConfig

BROKER = {
    "node.id": "1",
    "zookeeper.connect": "10.0.0.1:2181",
    "log.dirs": "/data",
    "listeners": "INTERNAL://10.0.0.9:9092,EXTERNAL://10.1.1.5:9093,CONTROLLER://10.0.0.9:9094",
    "listener.security.protocol.map": "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "INTERNAL",
    "control.plane.listener.name": "CONTROLLER",
}


def without(*keys: str) -> dict[str, str]:
    return {key: value for key, value in BROKER.items() if key not in keys}


def test_the_control_plane_has_a_listener_and_data_the_others() -> None:
    config = NodeConfig.of(BROKER)
    assert [one.listener for one in config.control_listeners] == ["CONTROLLER"]
    assert [one.listener for one in config.data_listeners] == ["INTERNAL", "EXTERNAL"]
    assert config.controller_request_listener == "CONTROLLER"
    assert len(config.advertised_broker_listeners) == 3


def test_without_the_key_all_listeners_are_of_one_plane() -> None:
    """CL-09: null is the default, and then there is nothing dedicated."""
    config = NodeConfig.of(without("control.plane.listener.name"))
    assert config.control_plane_listener_name == ""
    assert config.control_listeners == ()
    assert [one.listener for one in config.data_listeners] == ["INTERNAL", "EXTERNAL", "CONTROLLER"]
    assert config.controller_request_listener == "INTERNAL"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"inter.broker.listener.name": "EXTERNAL"}, "EXTERNAL"),
        ({"security.inter.broker.protocol": "PLAINTEXT", "listeners": "A://h:1,PLAINTEXT://h:2"}, "PLAINTEXT"),
        ({"listeners": "A://h:1,PLAINTEXT://h:2"}, "PLAINTEXT"),
        ({"listeners": "A://h:1,B://h:2"}, "A"),
    ],
)
def test_the_inter_broker_listener_comes_from_its_name_or_its_protocol(given: dict[str, str], expected: str) -> None:
    """CL-12. The last row is ours: Kafka wants a listener called PLAINTEXT there."""
    bare = without("control.plane.listener.name", "inter.broker.listener.name", "listener.security.protocol.map")
    assert NodeConfig.of(bare | given).inter_broker_listener_name == expected


PLAIN, ROUTED = Endpoint("PLAINTEXT", "h", 9092), Endpoint("PLAINTEXT", "outside", 9192)


@pytest.mark.parametrize(
    ("given", "listeners", "advertised"),
    [
        ({"listeners": "PLAINTEXT://h:9092"}, PLAIN, PLAIN),
        ({"listeners": "PLAINTEXT://h:9092", "advertised.listeners": str(ROUTED)}, PLAIN, ROUTED),
        ({"advertised.listeners": str(ROUTED)}, Endpoint("PLAINTEXT", "", 9092), ROUTED),
    ],
)
def test_listeners_are_derived_as_in_the_table(
    given: dict[str, str], listeners: Endpoint, advertised: Endpoint
) -> None:
    """CL-13: `listeners`, else PLAINTEXT at Kafka's port; what is advertised, else `listeners`."""
    bare = {key: BROKER[key] for key in ("node.id", "zookeeper.connect", "log.dirs")}
    config = NodeConfig.of(bare | given)
    assert config.listeners == (listeners,)
    assert config.advertised_listeners == (advertised,)


def test_the_control_planes_listener_may_be_bound_to_all_interfaces_and_advertised_at_one() -> None:
    config = NodeConfig.of(
        BROKER
        | {
            "listeners": "INTERNAL://10.0.0.9:9092,CONTROLLER://0.0.0.0:9094",
            "advertised.listeners": "INTERNAL://10.0.0.9:9092,CONTROLLER://10.0.0.9:9094",
        }
    )
    assert config.control_listeners == (Endpoint("CONTROLLER", "0.0.0.0", 9094),)


REFUSALS = {
    "not in the protocol map (CL-10)": (
        without("listener.security.protocol.map"),
        "Listener with CONTROLLER defined in control.plane.listener.name not found in listener.security.protocol.map",
    ),
    "in the map, and not in listeners (CL-10)": (
        BROKER | {"listeners": "INTERNAL://10.0.0.9:9092"},
        "must be a listener name defined in advertised.listeners. The valid options based on currently configured "
        "listeners are INTERNAL",
    ),
    "listened on, and not advertised (CL-10)": (
        BROKER | {"advertised.listeners": "INTERNAL://10.0.0.9:9092,EXTERNAL://10.1.1.5:9093"},
        "must be a listener name defined in advertised.listeners. The valid options based on currently configured "
        "listeners are INTERNAL,EXTERNAL",
    ),
    "advertised, and not listened on (CL-10)": (
        BROKER
        | {
            "listeners": "INTERNAL://10.0.0.9:9092",
            "advertised.listeners": "INTERNAL://10.0.0.9:9092,CONTROLLER://10.0.0.9:9094",
        },
        "listener names must be equal to or a subset of the ones defined in listeners",
    ),
    "an address that nobody can reach (CL-10)": (
        BROKER | {"listeners": "INTERNAL://10.0.0.9:9092,CONTROLLER://0.0.0.0:9094"},
        "cannot use the nonroutable meta-address 0.0.0.0",
    ),
    "the brokers' own listener (CL-11)": (
        BROKER | {"control.plane.listener.name": "INTERNAL"},
        "when defined, should have a different value from the inter broker listener name. Currently they both have the "
        "value INTERNAL",
    ),
    "the brokers' own listener, by its protocol (CL-11)": (
        without("inter.broker.listener.name")
        | {
            "control.plane.listener.name": "PLAINTEXT",
            "listeners": "PLAINTEXT://h:1,A://h:2",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,A:PLAINTEXT",
        },
        "Currently they both have the value PLAINTEXT",
    ),
    "both keys of the inter-broker listener (CL-12)": (
        BROKER | {"security.inter.broker.protocol": "PLAINTEXT"},
        "Only one of inter.broker.listener.name and security.inter.broker.protocol should be set",
    ),
    "an inter-broker listener by a protocol without listener (CL-12)": (
        without("inter.broker.listener.name"),
        "must be a listener name defined in advertised.listeners, and is PLAINTEXT unless it is set",
    ),
    "an inter-broker listener that is not there (CL-12)": (
        BROKER | {"inter.broker.listener.name": "REPLICATION"},
        "must be a listener name defined in advertised.listeners",
    ),
    "an empty name": (BROKER | {"control.plane.listener.name": ""}, "must not be empty"),
    "a name that differs in case": (BROKER | {"control.plane.listener.name": "controller"}, "not found in listener"),
    "hosts of Kafka 2 (CL-13)": (BROKER | {"host.name": "h"}, "Kafka 3.0 removed it; set listeners instead"),
    "ports of Kafka 2 (CL-13)": (BROKER | {"advertised.port": "1"}, "set advertised.listeners instead"),
    "no address at all (CL-13)": (
        {key: BROKER[key] for key in ("node.id", "zookeeper.connect", "log.dirs")},
        "PLAINTEXT://:9092 cannot be reached",
    ),
    "the key of a quorum": (BROKER | {"controller.listener.names": "CONTROLLER"}, "leave zookeeper.connect out"),
    "an order that there is not": (BROKER | {"request.queue.order": "random"}, "must be arrival or controller-first"),
}


@pytest.mark.parametrize(("properties", "words"), REFUSALS.values(), ids=REFUSALS.keys())
def test_what_kafka_refuses_is_refused(properties: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        NodeConfig.of(properties)
    assert words in str(caught.value)
