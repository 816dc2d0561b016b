"""Parse and check a node's configuration: Java-style `.properties` text with Kafka's names, frozen afterwards.

Every field of `NodeConfig` is the key of the same name with dots for underscores (`log_dirs` is `log.dirs`), so the
class is the table of keys; `describe()` prints it. Keys that Kafka has and this node lacks are refused, never ignored:
a setting that silently does nothing would invalidate a test. An error names the file, the line, the key, the value and
the remedy (QC-01, CL-24).

Kafka's rules between keys hold. A controller must be among `controller.quorum.voters` and a broker-only node must not
(QC-01), unless the voters are those of the metadata log (KIP-853); then `controller.quorum.bootstrap.servers` locates
the quorum. Controller listeners are separate from broker listeners, which is how KRaft keeps control requests away from
data (CL-24). An advertised listener must be among `listeners` and reachable (CL-10). The only security protocol is
PLAINTEXT.

A broker of a ZooKeeper-era cluster may separate the controller's requests as well, by `control.plane.listener.name`
(KIP-291, CL-09 to CL-13). Where Kafka refuses a configuration of it, the error has Kafka's words, and the remedy.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

INT_MAX = 2**31 - 1
LEADER_SELECTOR = "org.apache.kafka.common.replica.LeaderSelector"
RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LONG_MAX = 2**63 - 1
_ANY_HOST = ("", "0.0.0.0", "::")
_DAY_MS = 86_400_000
_WEEK_MS = 7 * _DAY_MS

REFUSED = {
    "zookeeper.connect": "these nodes form a KRaft quorum; set controller.quorum.voters instead",
    "broker.id": "it is for ZooKeeper; set node.id instead",
    "log.dir": "set log.dirs, to one directory",
    "host.name": "Kafka 3.0 removed it; set listeners instead",
    "port": "Kafka 3.0 removed it; set listeners instead",
    "advertised.host.name": "Kafka 3.0 removed it; set advertised.listeners instead",
    "advertised.port": "Kafka 3.0 removed it; set advertised.listeners instead",
}
PLAINTEXT = "PLAINTEXT"
DEFAULT_LISTENERS = "PLAINTEXT://:9092"
"""Where a broker of a ZooKeeper-era cluster listens if nothing is said; it must then say what to advertise."""
ARRIVAL, CONTROLLER_FIRST = "arrival", "controller-first"


def is_control(character: str) -> bool:
    """Whether the character ends a line or controls a terminal: not allowed in names, addresses and values."""
    return unicodedata.category(character) in ("Cc", "Cf", "Zl", "Zp", "Cs")


class ConfigError(Exception):
    """The configuration cannot be used. The message names source, key, value and remedy."""

    def __init__(self, source: str, key: str, value: str | None, problem: str, line: int | None = None) -> None:
        place = source if line is None else f"{source}:{line}"
        shown = key if value is None else f"{key}={value}"
        super().__init__(f"{place}: {shown}: {problem}")
        self.source = source
        self.key = key
        self.value = value
        self.problem = problem
        self.line = line


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One entry of `listeners` or `advertised.listeners`."""

    listener: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.listener}://{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Address:
    """Address of a listener that is not a Kafka listener."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Ensemble:
    """The servers of a ZooKeeper ensemble, and the znode below which the cluster keeps everything ("" for the root)."""

    servers: tuple[Address, ...] = ()
    chroot: str = ""

    def __str__(self) -> str:
        return ",".join(str(one) for one in self.servers) + self.chroot


@dataclass(frozen=True, slots=True)
class Voter:
    """One entry of `controller.quorum.voters`."""

    id: int
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.id}@{self.host}:{self.port}"


# -- values: each parser takes the text and raises ValueError with the problem and the remedy -----------------------


def text(value: str) -> str:
    if not value:
        raise ValueError("must not be empty")
    return value


def boolean(value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise ValueError("must be true or false")
    return value.lower() == "true"


def integer(low: int, high: int = INT_MAX) -> Callable[[str], int]:
    def parse(value: str) -> int:
        if not re.fullmatch(r"-?\d{1,19}", value) or not low <= int(value) <= high:
            raise ValueError(f"must be a whole number from {low} to {high}")
        return int(value)

    return parse


def one_of(*allowed: str) -> Callable[[str], str]:
    def parse(value: str) -> str:
        if value not in allowed:
            raise ValueError(f"must be {' or '.join(allowed)}")
        return value

    return parse


def names(value: str) -> tuple[str, ...]:
    found = tuple(part.strip() for part in value.split(",") if part.strip())
    if not found:
        raise ValueError("must name at least one")
    for name in found:
        if found.count(name) > 1:
            raise ValueError(f"names {name} twice; leave one out")
    return found


def roles(value: str) -> tuple[str, ...]:
    found = names(value)
    for name in found:
        if name not in ("broker", "controller"):
            raise ValueError(f"{name!r} is not a role; use broker, controller or broker,controller")
    return tuple(sorted(found))


def _address(value: str) -> tuple[str, int]:
    matched = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^:/@\s]*):(\d{1,5})", value)
    if matched is None or not 0 <= int(matched[2]) <= 65535:
        raise ValueError(f"{value!r} is not host:port with a port from 0 to 65535")
    return matched[1].strip("[]"), int(matched[2])


def host_and_port(value: str) -> Address:
    host, port = _address(value)
    if not host:
        raise ValueError(f"{value!r} needs a host; use 127.0.0.1 or the address of one interface")
    return Address(host, port)


def addresses(value: str) -> tuple[Address, ...]:
    found = []
    for part in names(value):
        address = host_and_port(part)
        if not address.port:
            raise ValueError(f"{part!r} needs a port from 1 to 65535")
        found.append(address)
    return tuple(found)


def ensemble(value: str) -> Ensemble:
    servers, slash, path = value.partition("/")
    chroot = (slash + path).rstrip("/")
    if chroot and not re.fullmatch(r"(/[^/\s]+)+", chroot):
        raise ValueError(f"{chroot!r} is no path for a chroot; use host:port,…/name")
    return Ensemble(addresses(servers), chroot)


def endpoints(value: str) -> tuple[Endpoint, ...]:
    found: list[Endpoint] = []
    for part in names(value):
        listener, separator, address = part.partition("://")
        if not separator or not re.fullmatch(r"[A-Za-z0-9_-]+", listener):
            raise ValueError(f"{part!r} is not NAME://host:port")
        host, port = _address(address)
        if any(other.listener == listener for other in found):
            raise ValueError(f"listener {listener} appears twice; give each listener a different name")
        if port and any(other.port == port and other.host == host for other in found):
            raise ValueError(f"{host}:{port} appears twice; give each listener a different port")
        found.append(Endpoint(listener, host, port))
    return tuple(found)


def voters(value: str) -> tuple[Voter, ...]:
    found: list[Voter] = []
    for part in names(value):
        number, separator, address = part.partition("@")
        if not separator or not number.isdecimal() or int(number) > INT_MAX:
            raise ValueError(f"{part!r} is not id@host:port")
        host, port = _address(address)
        if not host or not port:
            raise ValueError(f"{part!r} needs a host and a port from 1 to 65535")
        for other in found:
            if other.id == int(number):
                raise ValueError(f"voter {number} appears twice; ids must differ")
            if (other.host, other.port) == (host, port):
                raise ValueError(f"voters {other.id} and {number} have the same address {host}:{port}")
        found.append(Voter(int(number), host, port))
    return tuple(found)


def protocol_map(value: str) -> tuple[tuple[str, str], ...]:
    found = []
    for part in names(value):
        listener, separator, protocol = part.partition(":")
        if not separator or not listener:
            raise ValueError(f"{part!r} is not NAME:PROTOCOL")
        if protocol != "PLAINTEXT":
            raise ValueError(f"{protocol!r} is not supported; the only security protocol here is PLAINTEXT")
        found.append((listener, protocol))
    return tuple(found)


def one_directory(value: str) -> str:
    directories = names(value)
    if len(directories) > 1:
        raise ValueError("names several directories; this node keeps all its logs in one")
    return directories[0]


def timestamp_type(value: str) -> str:
    if value not in ("CreateTime", "LogAppendTime"):
        raise ValueError("must be CreateTime or LogAppendTime")
    return value


def cluster_id_text(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", value):
        raise ValueError("must be 1 to 64 letters, digits, - or _ (Kafka's are 22 characters of base64)")
    return value


# -- the table ------------------------------------------------------------------------------------------------------


def required(parse: Callable[[str], Any], about: str) -> Any:
    return field(metadata={"parse": parse, "about": about})


def setting(default: Any, parse: Callable[[str], Any], about: str) -> Any:
    return field(default=default, metadata={"parse": parse, "about": about})


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """All settings of one node. Create it with `parse`; the constructor does not check rules between fields."""

    process_roles: tuple[str, ...] = required(roles, "what this node is: broker, controller, or both")
    node_id: int = required(integer(0), "this node's number, unique among brokers and controllers")
    controller_quorum_voters: tuple[Voter, ...] = setting((), voters, "a quorum that never changes, as id@host:port,…")
    controller_quorum_bootstrap_servers: tuple[Address, ...] = setting(
        (), addresses, "where to find a quorum whose voters are in its log, as host:port,…"
    )
    zookeeper_connect: Ensemble = setting(  # noqa: RUF009 - a frozen value
        Ensemble(), ensemble, "a ZooKeeper ensemble that keeps the metadata, as host:port,…/chroot"
    )
    zookeeper_session_timeout_ms: int = setting(18_000, integer(1), "silence after which a session with it expires")
    zookeeper_max_in_flight_requests: int = setting(10, integer(1), "requests to it that are not answered yet")
    controller_listener_names: tuple[str, ...] = required(names, "listeners of the control plane; the first is used")
    listeners: tuple[Endpoint, ...] = required(endpoints, "where to listen, as NAME://host:port,…")
    log_dirs: str = required(one_directory, "the directory of all logs")
    advertised_listeners: tuple[Endpoint, ...] = setting(
        (), endpoints, "addresses for clients and nodes; default: listeners"
    )
    inter_broker_listener_name: str = setting("", text, "the listener brokers use; the first of the brokers'")
    security_inter_broker_protocol: str = setting(
        "", one_of(PLAINTEXT), "brokers use the listener of this protocol's name; instead of the key before"
    )
    control_plane_listener_name: str = setting(
        "", text, "with ZooKeeper: a listener with its own queue and handler, for the controller's requests (KIP-291)"
    )
    listener_security_protocol_map: tuple[tuple[str, str], ...] = setting((), protocol_map, "NAME:PLAINTEXT,…")
    metadata_log_dir: str = setting("", one_directory, "the directory of the metadata log; must equal log.dirs")
    cluster_id: str = setting("squall-cluster-00000-A", cluster_id_text, "the cluster's id, equal on all its nodes")
    broker_rack: str | None = setting(None, text, "the rack of this broker")
    replica_selector_class: str = setting(
        LEADER_SELECTOR, one_of(LEADER_SELECTOR, RACK_AWARE_SELECTOR), "where consumers that name a rack may read"
    )

    metrics_listener: Address | None = setting(  # noqa: RUF009 - a frozen value
        None, host_and_port, "where metrics are served over HTTP, as host:port; nowhere unless set"
    )

    num_partitions: int = setting(1, integer(1), "partitions of a topic created without a number")
    default_replication_factor: int = setting(1, integer(1, 32767), "replicas of a topic created without a number")
    min_insync_replicas: int = setting(1, integer(1), "topics' default of min.insync.replicas")
    unclean_leader_election_enable: bool = setting(False, boolean, "topics' default")
    eligible_leader_replicas_version: int = setting(1, integer(0, 1), "a new cluster's level; 1 keeps ELRs (KIP-966)")
    unclean_recovery_strategy: str = setting(
        "Balanced", one_of("Balanced", "None"), "without ISR and ELR: elect the last known leader, or none"
    )
    auto_leader_rebalance_enable: bool = setting(True, boolean, "leaderships go back to preferred replicas")
    leader_imbalance_check_interval_seconds: int = setting(300, integer(1), "interval of that check")
    leader_imbalance_per_broker_percentage: int = setting(
        10, integer(0), "percent of what a broker is preferred for that others may lead"
    )
    auto_create_topics_enable: bool = setting(False, boolean, "create a topic when a client asks for it")
    message_max_bytes: int = setting(1_048_588, integer(0), "topics' default of max.message.bytes")
    log_segment_bytes: int = setting(1 << 30, integer(1024), "topics' default of segment.bytes")
    log_index_interval_bytes: int = setting(4096, integer(0), "bytes between two entries of an index")
    log_roll_ms: int = setting(_WEEK_MS, integer(1, LONG_MAX), "topics' default of segment.ms")
    log_retention_ms: int = setting(_WEEK_MS, integer(-1, LONG_MAX), "topics' default of retention.ms; -1 is for ever")
    log_retention_bytes: int = setting(-1, integer(-1, LONG_MAX), "topics' default of retention.bytes; -1 is any size")
    log_retention_check_interval_ms: int = setting(300_000, integer(1), "how often retention is applied")
    log_flush_interval_messages: int = setting(LONG_MAX, integer(1, LONG_MAX), "topics' default of flush.messages")
    log_flush_interval_ms: int = setting(LONG_MAX, integer(0, LONG_MAX), "topics' default of flush.ms")
    log_flush_offset_checkpoint_interval_ms: int = setting(60_000, integer(1), "how often recovery points are written")
    log_message_timestamp_type: str = setting(
        "CreateTime", timestamp_type, "topics' default: CreateTime, LogAppendTime"
    )
    producer_id_expiration_ms: int = setting(
        _DAY_MS, integer(1, LONG_MAX), "idle time after which a producer's state expires"
    )

    replica_lag_time_max_ms: int = setting(30_000, integer(1), "time behind after which a follower leaves the ISR")
    replica_fetch_wait_max_ms: int = setting(500, integer(0), "how long a leader may hold a follower's fetch")
    replica_fetch_min_bytes: int = setting(1, integer(0), "minimum bytes of a response to a follower's fetch")
    replica_fetch_max_bytes: int = setting(1 << 20, integer(0), "a follower's fetch: bytes per topic-partition")
    replica_fetch_response_max_bytes: int = setting(10 << 20, integer(0), "a follower's fetch: bytes in all")
    replica_fetch_backoff_ms: int = setting(1000, integer(0), "pause of a topic-partition after an error")
    replica_socket_timeout_ms: int = setting(30_000, integer(1), "a follower's fetch timeout")
    replica_high_watermark_checkpoint_interval_ms: int = setting(
        5000, integer(1), "how often high watermarks are written"
    )

    broker_heartbeat_interval_ms: int = setting(2000, integer(1), "broker to controller")
    broker_session_timeout_ms: int = setting(9000, integer(1), "time without heartbeat after which a broker is fenced")
    initial_broker_registration_timeout_ms: int = setting(60_000, integer(1), "how long one registration may take")
    controlled_shutdown_enable: bool = setting(
        True, boolean, "a broker that is to stop hands its leaderships over first"
    )
    controlled_shutdown_timeout_ms: int = setting(8000, integer(0), "and stops after this time at the latest")
    controller_quorum_election_timeout_ms: int = setting(1000, integer(1), "a vote takes from one to two of these")
    controller_quorum_fetch_timeout_ms: int = setting(2000, integer(1), "time without a leader before an election")
    controller_quorum_election_backoff_max_ms: int = setting(1000, integer(0), "pause after a lost vote, at most")
    controller_quorum_request_timeout_ms: int = setting(2000, integer(1), "requests between voters")
    controller_quorum_retry_backoff_ms: int = setting(20, integer(0), "pause before a request is retried")
    metadata_log_segment_bytes: int = setting(1 << 30, integer(1024), "segments of the metadata log")
    metadata_log_max_record_bytes_between_snapshots: int = setting(
        20 << 20, integer(1), "new bytes in the metadata log after which a snapshot is made"
    )
    metadata_log_max_snapshot_interval_ms: int = setting(
        3_600_000, integer(0, LONG_MAX), "a snapshot at least this often, if anything is new; 0 is never"
    )
    metadata_max_retention_bytes: int = setting(
        100 << 20,
        integer(-1, LONG_MAX),
        "above it old snapshots and the log before the kept ones are deleted; -1 is any",
    )
    metadata_max_retention_ms: int = setting(
        _WEEK_MS, integer(-1, LONG_MAX), "snapshots older than this are deleted; -1 is for ever"
    )
    metadata_max_idle_interval_ms: int = setting(500, integer(0), "a record at least this often; 0 is never")

    queued_max_requests: int = setting(500, integer(1), "data requests waiting before connections are paused")
    request_queue_order: str = setting(
        ARRIVAL, one_of(ARRIVAL, CONTROLLER_FIRST), "how a queue is served; the latter is what KIP-291 rejected"
    )
    queued_max_request_bytes: int = setting(
        128 << 20,
        integer(-1),
        "queued bytes of requests and responses, per plane, before connections are paused; -1 is no limit",
    )
    turn_requests_max: int = setting(16, integer(1), "data requests handled before timers and control requests")
    turn_bytes_max: int = setting(
        256 << 10, integer(1), "bytes of data requests handled before timers and control requests"
    )
    socket_request_max_bytes: int = setting(104_857_600, integer(1024), "a longer request closes its connection")
    max_connections: int = setting(INT_MAX, integer(1), "connections accepted in all, if descriptors allow as many")
    max_connections_per_ip: int = setting(INT_MAX, integer(1), "connections accepted from one address")
    connections_max_idle_ms: int = setting(600_000, integer(1), "idle time after which a connection is closed")
    request_timeout_ms: int = setting(30_000, integer(1), "requests to the active controller")
    fetch_max_bytes: int = setting(57_671_680, integer(1024), "bytes in one fetch response")
    max_incremental_fetch_session_cache_slots: int = setting(1000, integer(0), "fetch sessions kept; 0 is none")

    @classmethod
    def parse(cls, content: str, source: str = "node.properties") -> NodeConfig:
        """Parse the text of a properties file. Raises ConfigError."""
        return cls._checked(parse_properties(content), source)

    @classmethod
    def of(cls, properties: Mapping[str, str], source: str = "configuration") -> NodeConfig:
        """Build from keys and values, for hosts without a file. Raises ConfigError."""
        return cls._checked({key: (str(value), None) for key, value in properties.items()}, source)

    @classmethod
    def _checked(cls, given: Mapping[str, tuple[str, int | None]], source: str) -> NodeConfig:
        known = {item.name.replace("_", "."): item for item in fields(cls)}
        values: dict[str, Any] = {}
        for key, (value, line) in given.items():
            if key not in known:
                raise ConfigError(source, key, value, _unknown(key, list(known)), line)
            item = known[key]
            if breaks := [one for one in value if is_control(one)]:
                problem = f"{breaks[0]!r} is in it; a value is one line, without control characters"
                raise ConfigError(source, key, repr(value), problem, line)
            try:
                values[item.name] = item.metadata["parse"](value)
            except ValueError as error:
                raise ConfigError(source, key, value, str(error), line) from None
        if "zookeeper.connect" in given:
            values |= _of_ensemble(given, source)
        for key, item in known.items():
            if item.name not in values and item.default is _MISSING:
                raise ConfigError(source, key, None, f"missing; add it: {item.metadata['about']}")
        return _Agreement(cls(**values), given, source).settle()

    @property
    def is_broker(self) -> bool:
        return "broker" in self.process_roles

    @property
    def is_controller(self) -> bool:
        return "controller" in self.process_roles

    @property
    def broker_listeners(self) -> tuple[Endpoint, ...]:
        return tuple(one for one in self.listeners if one.listener not in self.controller_listener_names)

    @property
    def controller_listeners(self) -> tuple[Endpoint, ...]:
        return tuple(one for one in self.listeners if one.listener in self.controller_listener_names)

    @property
    def data_listeners(self) -> tuple[Endpoint, ...]:
        """The listeners whose requests share one queue with those of clients."""
        return tuple(one for one in self.broker_listeners if one.listener != self.control_plane_listener_name)

    @property
    def control_listeners(self) -> tuple[Endpoint, ...]:
        """The listeners of the control plane: of a quorum's controller, or the one of KIP-291."""
        data = self.data_listeners
        return tuple(one for one in self.listeners if one not in data)

    @property
    def controller_request_listener(self) -> str:
        """The listener at which brokers and the controller of a ZooKeeper-era cluster reach each other (CL-15)."""
        return self.control_plane_listener_name or self.inter_broker_listener_name

    @property
    def uses_zookeeper(self) -> bool:
        """Whether ZooKeeper keeps the metadata, and elects one of the brokers as the controller."""
        return bool(self.zookeeper_connect.servers)

    @property
    def has_dynamic_voters(self) -> bool:
        """Whether the voters are those of the metadata log (kraft.version 1)."""
        return not self.controller_quorum_voters

    @property
    def advertised_broker_listeners(self) -> tuple[Endpoint, ...]:
        return tuple(one for one in self.advertised_listeners if one.listener not in self.controller_listener_names)

    @property
    def advertised_controller(self) -> Endpoint | None:
        """The endpoint at which other nodes reach this controller; None for a broker."""
        name = self.controller_listener_names[0]
        known = {one.listener: one for one in (*self.controller_listeners, *self.advertised_listeners)}
        return known.get(name)

    @classmethod
    def describe(cls) -> str:
        """The table of keys for help output: one per line, with default and meaning."""
        lines = []
        for item in fields(cls):
            default = "required" if item.default is _MISSING else _shown(item.default)
            lines.append(f"  {item.name.replace('_', '.'):<46} {default:<24} {item.metadata['about']}")
        return "\n".join(lines)


_MISSING = next(item for item in fields(NodeConfig) if item.name == "node_id").default


def _shown(default: object) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    return str(default) if default not in (None, "", ()) else "-"


def _unknown(key: str, known: list[str]) -> str:
    if key in REFUSED:
        return f"refused: {REFUSED[key]}"
    close = difflib.get_close_matches(key, known, n=1, cutoff=0.7)
    return f"unknown key; did you mean {close[0]}?" if close else "unknown key; remove it (--help lists all keys)"


_CONTROL_PLANE = "control.plane.listener.name"
_OF_QUORUM = ("process.roles", "controller.listener.names", "controller.quorum.")


def _of_ensemble(given: Mapping[str, tuple[str, int | None]], source: str) -> dict[str, Any]:
    """What a broker with an ensemble is. Raises ConfigError for keys that belong to a quorum."""
    for key, (value, line) in given.items():
        if key.startswith(_OF_QUORUM):
            problem = "belongs to a cluster with a quorum; leave it out, or leave zookeeper.connect out"
            raise ConfigError(source, key, value, problem, line)
    derived: dict[str, Any] = {"process_roles": ("broker",), "controller_listener_names": ()}
    if "listeners" not in given:
        derived["listeners"] = endpoints(DEFAULT_LISTENERS)
    return derived


class _Agreement:
    """The rules between keys, and the defaults that follow from other keys."""

    def __init__(self, config: NodeConfig, given: Mapping[str, tuple[str, int | None]], source: str) -> None:
        self._config = config
        self._given = given
        self._source = source

    def settle(self) -> NodeConfig:
        self._check_quorum()
        self._check_listeners()
        self._check_limits()
        config = self._config
        derived: dict[str, Any] = {}
        if not config.metadata_log_dir:
            derived["metadata_log_dir"] = config.log_dirs
        self._check_control_plane_is_possible()
        derived["advertised_listeners"] = self._advertised()
        if config.is_broker:
            derived["inter_broker_listener_name"] = self._inter_broker()
            self._check_control_plane(derived["inter_broker_listener_name"])
        values = {item.name: getattr(config, item.name) for item in fields(config)}
        return NodeConfig(**(values | derived))

    def _refuse(self, key: str, problem: str) -> ConfigError:
        value, line = self._given.get(key, (None, None))
        return ConfigError(self._source, key, value, problem, line)

    def _check_quorum(self) -> None:
        config = self._config
        if config.uses_zookeeper:
            return
        static, dynamic = config.controller_quorum_voters, config.controller_quorum_bootstrap_servers
        if not static and not dynamic:
            raise self._refuse(
                "controller.quorum.voters",
                "missing; add it, or controller.quorum.bootstrap.servers if the voters are kept in the log",
            )
        if static and dynamic:
            raise self._refuse(
                "controller.quorum.bootstrap.servers",
                "it would find the quorum that controller.quorum.voters names already; leave one of the two out",
            )
        if dynamic:
            self._check_reachable()
            return
        among = any(voter.id == config.node_id for voter in static)
        if config.is_controller and not among:
            raise self._refuse(
                "controller.quorum.voters", f"node.id {config.node_id} is a controller and must be in it; add it"
            )
        if not config.is_controller and among:
            raise self._refuse(
                "controller.quorum.voters",
                f"node.id {config.node_id} is a voter here but process.roles has no controller; "
                "give the broker another node.id or the role controller",
            )

    def _check_reachable(self) -> None:
        """Refuse an unreachable controller address: it goes into the log, and all nodes connect to it."""
        config = self._config
        advertised = config.advertised_controller
        if config.is_controller and advertised is not None and (advertised.host in _ANY_HOST or not advertised.port):
            raise self._refuse(
                "advertised.listeners" if advertised in config.advertised_listeners else "listeners",
                f"{advertised} cannot be reached by the other controllers; add {advertised.listener}://host:port to "
                "advertised.listeners",
            )

    def _check_listeners(self) -> None:
        config = self._config
        if config.is_controller and not config.controller_listeners:
            wanted = config.controller_listener_names[0]
            raise self._refuse("listeners", f"a controller must listen on {wanted}; add {wanted}://host:port")
        if not config.is_controller and config.controller_listeners:
            name = config.controller_listeners[0].listener
            raise self._refuse(
                "listeners", f"{name} is a controller listener but this node is not a controller; remove it"
            )
        if config.is_broker and not config.broker_listeners:
            raise self._refuse("listeners", "a broker needs a listener not named in controller.listener.names; add one")
        if not config.is_broker and config.broker_listeners:
            name = config.broker_listeners[0].listener
            raise self._refuse("listeners", f"{name} is for brokers but this node is not a broker; remove it")
        mapped = dict(config.listener_security_protocol_map)
        for one in config.listeners if mapped else ():
            if one.listener not in mapped:
                raise self._refuse(
                    "listener.security.protocol.map",
                    f"listener {one.listener} is not in it; add {one.listener}:PLAINTEXT",
                )
        metrics = config.metrics_listener
        for one in config.listeners if metrics is not None and metrics.port else ():
            if metrics is not None and (one.host, one.port) == (metrics.host, metrics.port):
                raise self._refuse("metrics.listener", f"is listener {one.listener}'s; give it a different port")

    def _advertised(self) -> tuple[Endpoint, ...]:
        """The endpoints to advertise: broker listeners as set, all if none is set; controller listeners only as set."""
        config = self._config
        given = [one.listener for one in config.advertised_listeners]
        known = [one.listener for one in config.listeners]
        for one in config.advertised_listeners:
            if one.listener not in known:
                raise self._refuse(
                    "advertised.listeners",
                    "listener names must be equal to or a subset of the ones defined in listeners; "
                    f"{one.listener} is not among this node's listeners ({', '.join(known)})",
                )
        unsaid = not any(one.listener in given for one in config.broker_listeners)
        advertised = (*(config.broker_listeners if unsaid else ()), *config.advertised_listeners)
        for one in advertised:
            if one.host in _ANY_HOST:
                raise self._refuse(
                    "advertised.listeners" if one.listener in given else "listeners",
                    f"{one} cannot be reached: advertised.listeners cannot use the nonroutable meta-address 0.0.0.0; "
                    "advertise an address that others can connect to",
                )
        return advertised

    def _inter_broker(self) -> str:
        config = self._config
        key = "inter.broker.listener.name"
        known = [one.listener for one in self._advertised() if one.listener not in config.controller_listener_names]
        name, protocol = config.inter_broker_listener_name, config.security_inter_broker_protocol
        if name and protocol:
            raise self._refuse(
                key, "Only one of inter.broker.listener.name and security.inter.broker.protocol should be set"
            )
        if name and name in config.controller_listener_names:
            raise self._refuse(key, "is a controller listener; name a listener of the brokers")
        if not name and (protocol or config.control_plane_listener_name):
            name = protocol or PLAINTEXT
            if name not in known:
                raise self._refuse(
                    key,
                    f"must be a listener name defined in advertised.listeners, and is {name} unless it is set. The "
                    f"valid options based on currently configured listeners are {','.join(known)}",
                )
        if name and name not in known:
            raise self._refuse(
                key,
                f"must be a listener name defined in advertised.listeners; it is not advertised; choose one of "
                f"{', '.join(known)}",
            )
        return name or (PLAINTEXT if PLAINTEXT in known else known[0])

    def _check_control_plane_is_possible(self) -> None:
        """Refuse the control plane's listener in a quorum, which has `controller.listener.names` for it (CL-24)."""
        if self._config.control_plane_listener_name and not self._config.uses_zookeeper:
            raise self._refuse(
                _CONTROL_PLANE,
                "is not supported in KRaft mode; name the control plane's listener in controller.listener.names "
                "instead",
            )
        if self._config.request_queue_order != ARRIVAL and not self._config.uses_zookeeper:
            raise self._refuse("request.queue.order", f"is {ARRIVAL} in KRaft mode; leave it out")

    def _check_control_plane(self, inter_broker: str) -> None:
        """Kafka's rules for `control.plane.listener.name`: mapped, advertised, and not the brokers' own (CL-10, CL-11).

        That it must be in `listeners` follows: what is advertised must be.
        """
        config = self._config
        name = config.control_plane_listener_name
        if not name:
            return
        if name not in dict(config.listener_security_protocol_map or ((PLAINTEXT, PLAINTEXT),)):
            raise self._refuse(
                _CONTROL_PLANE,
                f"Listener with {name} defined in control.plane.listener.name not found in "
                f"listener.security.protocol.map; add {name}:PLAINTEXT to it",
            )
        advertised = [one.listener for one in self._advertised()]
        if name not in advertised:
            raise self._refuse(
                _CONTROL_PLANE,
                "must be a listener name defined in advertised.listeners. The valid options based on currently "
                f"configured listeners are {','.join(advertised)}",
            )
        if name == inter_broker:
            raise self._refuse(
                _CONTROL_PLANE,
                "when defined, should have a different value from the inter broker listener name. Currently they both "
                f"have the value {name}",
            )

    def _check_limits(self) -> None:
        config = self._config
        if config.broker_heartbeat_interval_ms >= config.broker_session_timeout_ms:
            raise self._refuse(
                "broker.heartbeat.interval.ms",
                f"must be below broker.session.timeout.ms ({config.broker_session_timeout_ms})",
            )
        if config.replica_fetch_wait_max_ms > config.replica_lag_time_max_ms:
            raise self._refuse(
                "replica.fetch.wait.max.ms",
                f"must be at most replica.lag.time.max.ms ({config.replica_lag_time_max_ms}): a follower whose fetch "
                "is held for longer leaves the ISR",
            )
        if config.metadata_log_dir and config.metadata_log_dir != config.log_dirs:
            raise self._refuse("metadata.log.dir", "must equal log.dirs: this node keeps all its logs in one directory")


# -- Java's properties format ---------------------------------------------------------------------------------------


BLANKS = " \t\f"
"""White space within a line, as Java defines it."""


def parse_properties(content: str) -> dict[str, tuple[str, int | None]]:
    """Map keys to (value, line number). Comments, continued lines, escapes as in Java; the last of equal keys wins."""
    found: dict[str, tuple[str, int | None]] = {}
    lines = re.split(r"\r\n|\r|\n", content)
    index = 0
    while index < len(lines):
        first = index + 1
        line = lines[index].lstrip(BLANKS)
        index += 1
        if not line or line[0] in "#!":
            continue
        while _continued(line) and index < len(lines):
            line = line[:-1] + lines[index].lstrip(BLANKS)
            index += 1
        key, value = _split(line)
        found[_unescape(key)] = (_unescape(value).rstrip(), first)
    return found


def format_properties(properties: Mapping[str, str]) -> str:
    """Return text from which `parse_properties` reads exactly these keys and values.

    Keys and values may hold any characters; only blanks at the end of a value are lost.
    """
    return "".join(f"{_escape(key, key=True)}={_escape(value, key=False)}\n" for key, value in properties.items())


def _escape(text: str, *, key: bool) -> str:
    escaped = "".join(_escaped(one, key) for one in text)
    if not key and escaped.startswith(" "):
        escaped = "\\" + escaped
    return escaped


def _escaped(character: str, key: bool) -> str:
    """Escape one character; in a key, also every character that would end it."""
    if character == "\\" or (key and character in "=: #!"):
        return "\\" + character
    if " " <= character <= "~" or ord(character) > 0xFFFF:
        return character
    return f"\\u{ord(character):04x}"


def _continued(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str) -> tuple[str, str]:
    matched = re.match(r"((?:\\.|[^\\:= \t\f])*)[ \t\f]*[:=]?[ \t\f]*(.*)", line, re.DOTALL)
    assert matched is not None
    return matched[1], matched[2]


def _unescape(value: str) -> str:
    plain = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}

    def replace(matched: re.Match[str]) -> str:
        return chr(int(matched[1], 16)) if matched[1] else plain.get(matched[2], matched[2])

    return re.sub(r"\\(?:u([0-9A-Fa-f]{4})|(.))", replace, value, flags=re.DOTALL)
