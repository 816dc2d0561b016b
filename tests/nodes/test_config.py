"""A node's configuration: what is accepted, what is refused, and in which words (QC-01, CL-10, CL-24)."""

from __future__ import annotations

import pytest

from squall.nodes.config import Address, ConfigError, Endpoint, NodeConfig, Voter, parse_properties

BROKER = {
    "process.roles": "broker",
    "node.id": "1",
    "controller.quorum.voters": "101@10.0.0.1:9093,102@10.0.0.2:9093",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://10.0.0.9:9092",
    "log.dirs": "/data",
}
CONTROLLER = BROKER | {
    "process.roles": "controller",
    "node.id": "101",
    "listeners": "CONTROLLER://10.0.0.1:9093",
}
COMBINED = CONTROLLER | {
    "process.roles": "broker,controller",
    "listeners": "PLAINTEXT://10.0.0.1:9092,CONTROLLER://10.0.0.1:9093",
}


def test_a_broker_gets_what_follows_from_its_listeners() -> None:
    config = NodeConfig.of(BROKER)
    assert config.is_broker
    assert not config.is_controller
    assert config.advertised_listeners == (Endpoint("PLAINTEXT", "10.0.0.9", 9092),)
    assert config.inter_broker_listener_name == "PLAINTEXT"
    assert config.controller_quorum_voters[1] == Voter(102, "10.0.0.2", 9093)
    assert config.metadata_log_dir == "/data"


def test_a_combined_node_keeps_its_listeners_apart() -> None:
    config = NodeConfig.of(COMBINED)
    assert [one.listener for one in config.broker_listeners] == ["PLAINTEXT"]
    assert [one.listener for one in config.controller_listeners] == ["CONTROLLER"]


def test_kafka_defaults_hold_where_nothing_is_said() -> None:
    config = NodeConfig.of(BROKER)
    assert config.broker_session_timeout_ms == 9000
    assert config.broker_heartbeat_interval_ms == 2000
    assert config.controller_quorum_election_timeout_ms == 1000
    assert config.controller_quorum_fetch_timeout_ms == 2000
    assert config.replica_lag_time_max_ms == 30000
    assert config.min_insync_replicas == 1
    assert not config.unclean_leader_election_enable
    assert config.queued_max_requests == 500


def test_metrics_are_served_nowhere_unless_an_address_is_set() -> None:
    assert NodeConfig.of(BROKER).metrics_listener is None
    assert NodeConfig.of(BROKER | {"metrics.listener": "127.0.0.1:9404"}).metrics_listener == Address("127.0.0.1", 9404)


FOUND = {key: value for key, value in CONTROLLER.items() if key != "controller.quorum.voters"} | {
    "controller.quorum.bootstrap.servers": "10.0.0.1:9093,10.0.0.2:9093"
}


def test_a_quorum_of_dynamic_voters_is_found_by_its_bootstrap_servers() -> None:
    """KIP-853: any controller may become a voter, so none needs to be listed."""
    config = NodeConfig.of(FOUND | {"node.id": "103"})
    assert config.has_dynamic_voters
    assert config.controller_quorum_bootstrap_servers == (Address("10.0.0.1", 9093), Address("10.0.0.2", 9093))
    assert config.advertised_controller == Endpoint("CONTROLLER", "10.0.0.1", 9093)


def test_a_controller_may_advertise_another_address_than_it_listens_on() -> None:
    listening = {"listeners": "CONTROLLER://0.0.0.0:9093", "advertised.listeners": "CONTROLLER://outside:9193"}
    assert NodeConfig.of(FOUND | listening).advertised_controller == Endpoint("CONTROLLER", "outside", 9193)


def test_a_combined_node_advertises_its_broker_beside_its_controller() -> None:
    config = NodeConfig.of(COMBINED | {"advertised.listeners": "CONTROLLER://outside:9193"})
    assert config.advertised_broker_listeners == (Endpoint("PLAINTEXT", "10.0.0.1", 9092),)
    assert config.inter_broker_listener_name == "PLAINTEXT"


REFUSALS = {
    "a key nobody knows": (BROKER | {"nod.rack": "a"}, "nod.rack=a: unknown key"),
    "a key with a slip": (BROKER | {"broker.rak": "a"}, "did you mean broker.rack?"),
    "the control plane of the ZooKeeper era (CL-24)": (
        BROKER | {"control.plane.listener.name": "CONTROLLER"},
        "control.plane.listener.name=CONTROLLER: is not supported in KRaft mode; name the control plane's listener in "
        "controller.listener.names instead",
    ),
    "the order that KIP-291 rejected": (BROKER | {"request.queue.order": "controller-first"}, "is arrival in KRaft"),
    "ZooKeeper itself": (BROKER | {"zookeeper.connect": "z:2181"}, "leave zookeeper.connect out"),
    "no voters": (
        {key: value for key, value in BROKER.items() if key != "controller.quorum.voters"},
        "controller.quorum.voters: missing",
    ),
    "a role that is none": (BROKER | {"process.roles": "leader"}, "'leader' is not a role"),
    "a node id that is no number": (BROKER | {"node.id": "one"}, "node.id=one: must be a whole number from 0"),
    "a controller outside the quorum (QC-01)": (
        CONTROLLER | {"node.id": "103"},
        "103 is a controller and must be in it",
    ),
    "a broker inside the quorum (QC-01)": (BROKER | {"node.id": "101"}, "101 is a voter here but process.roles has no"),
    "voters both fixed and in the log": (
        CONTROLLER | {"controller.quorum.bootstrap.servers": "10.0.0.1:9093"},
        "leave one of the two out",
    ),
    "a bootstrap server without a port": (
        FOUND | {"controller.quorum.bootstrap.servers": "10.0.0.1"},
        "'10.0.0.1' is not host:port",
    ),
    "a voter that nobody could reach": (
        FOUND | {"listeners": "CONTROLLER://0.0.0.0:9093"},
        "cannot be reached by the other controllers; add CONTROLLER://host:port to advertised.listeners",
    ),
    "a voter without a port": (BROKER | {"controller.quorum.voters": "1@host"}, "'host' is not host:port"),
    "a voter without an id": (BROKER | {"controller.quorum.voters": "host:9093"}, "is not id@host:port"),
    "a voter twice": (BROKER | {"controller.quorum.voters": "5@a:1,5@b:1"}, "voter 5 appears twice"),
    "two voters at one address": (BROKER | {"controller.quorum.voters": "5@a:1,6@a:1"}, "have the same address a:1"),
    "a controller that does not listen": (
        CONTROLLER | {"listeners": "PLAINTEXT://10.0.0.1:9092"},
        "a controller must listen on CONTROLLER",
    ),
    "a broker on the controllers' listener": (
        BROKER | {"listeners": "PLAINTEXT://h:1,CONTROLLER://h:2"},
        "CONTROLLER is a controller listener but this node is not a controller",
    ),
    "a broker without a listener of its own": (
        COMBINED | {"listeners": "CONTROLLER://10.0.0.1:9093"},
        "a broker needs a listener",
    ),
    "a controller with a broker's listener": (
        CONTROLLER | {"listeners": "PLAINTEXT://h:1,CONTROLLER://h:2"},
        "PLAINTEXT is for brokers but this node is not a broker",
    ),
    "a listener twice": (BROKER | {"listeners": "A://h:1,A://h:2"}, "listener A appears twice"),
    "a port twice": (BROKER | {"listeners": "A://h:1,B://h:1"}, "h:1 appears twice"),
    "a listener that is no URL": (BROKER | {"listeners": "h:9092"}, "is not NAME://host:port"),
    "a port beyond the last": (BROKER | {"listeners": "A://h:65536"}, "with a port from 0 to 65535"),
    "an address nobody can reach (CL-10)": (BROKER | {"listeners": "A://0.0.0.0:9092"}, "cannot be reached"),
    "advertising what is not listened on (CL-10)": (
        BROKER | {"advertised.listeners": "OTHER://h:1"},
        "OTHER is not among this node's listeners (PLAINTEXT)",
    ),
    "an inter-broker listener that is not there": (
        BROKER | {"inter.broker.listener.name": "REPLICATION"},
        "is not advertised; choose one of PLAINTEXT",
    ),
    "controllers' listener between brokers (CL-11)": (
        COMBINED | {"inter.broker.listener.name": "CONTROLLER"},
        "is a controller listener",
    ),
    "a listener left out of the protocol map (CL-10)": (
        BROKER | {"listener.security.protocol.map": "OTHER:PLAINTEXT"},
        "listener PLAINTEXT is not in it",
    ),
    "metrics without a host": (BROKER | {"metrics.listener": ":9404"}, "':9404' needs a host; use 127.0.0.1"),
    "metrics where Kafka's protocol is spoken": (
        BROKER | {"metrics.listener": "10.0.0.9:9092"},
        "is listener PLAINTEXT's; give it a different port",
    ),
    "TLS": (BROKER | {"listener.security.protocol.map": "PLAINTEXT:SSL"}, "'SSL' is not supported"),
    "several log directories": (BROKER | {"log.dirs": "/a,/b"}, "names several directories"),
    "a metadata directory of its own": (BROKER | {"metadata.log.dir": "/m"}, "must equal log.dirs"),
    "a boolean that is none": (BROKER | {"auto.create.topics.enable": "yes"}, "must be true or false"),
    "a number below its range": (BROKER | {"min.insync.replicas": "0"}, "must be a whole number from 1"),
    "heartbeats rarer than the session": (
        BROKER | {"broker.heartbeat.interval.ms": "9000"},
        "must be below broker.session.timeout.ms (9000)",
    ),
    "fetches held until the follower lags": (
        BROKER | {"replica.lag.time.max.ms": "499"},
        "must be at most replica.lag.time.max.ms (499)",
    ),
}


@pytest.mark.parametrize(("properties", "words"), REFUSALS.values(), ids=REFUSALS.keys())
def test_what_cannot_work_is_refused_with_its_key_and_remedy(properties: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        NodeConfig.of(properties, "node.properties")
    assert words in str(caught.value)
    assert str(caught.value).startswith("node.properties: ")


def test_an_error_in_a_file_names_its_line() -> None:
    text = "".join(f"{key}={value}\n" for key, value in BROKER.items()) + "\n# below\nnum.partitions=none\n"
    with pytest.raises(ConfigError, match=r"^n1\.properties:9: num\.partitions=none: must be a whole number"):
        NodeConfig.parse(text, "n1.properties")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1", {"a": "1"}),
        ("a = 1  ", {"a": "1"}),
        ("a: 1", {"a": "1"}),
        ("a 1", {"a": "1"}),
        ("# a=1\n! b=2\n\nc=3", {"c": "3"}),
        ("a=x,\\\n   y", {"a": "x,y"}),
        ("a=b=c", {"a": "b=c"}),
        ("a=", {"a": ""}),
        (r"a\:b=c\u0041\t", {"a:b": "cA"}),
        ("a=1\na=2", {"a": "2"}),
    ],
)
def test_properties_are_read_as_java_reads_them(text: str, expected: dict[str, str]) -> None:
    assert {key: value for key, (value, _) in parse_properties(text).items()} == expected


def test_the_table_of_keys_names_every_key_once() -> None:
    lines = NodeConfig.describe().splitlines()
    keys = [line.split()[0] for line in lines]
    assert "controller.quorum.voters" in keys
    assert len(keys) == len(dict.fromkeys(keys))
