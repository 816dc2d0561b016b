"""Features by client: what Apache Kafka does, and what Squall does or how it refuses (docs/interoperability.md).

Each row is a call of one of Kafka's own tools. `works` is what the tool must say on Apache Kafka, and on Squall, too,
unless the row is `refused`: then it is what it must say on Squall, at once. `fresh_partitions`
is the number of topic-partitions of the fresh topic after the row: the rows that follow need it, and brokers learn of a
change a moment after the tool was answered. Braces are filled with a cluster's own values (`test_kafkas_tools.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

TOOLS = "org.apache.kafka.tools."
CONFIGS = "kafka.admin.ConfigCommand"
TOPICS = TOOLS + "TopicCommand"
QUORUM = TOOLS + "MetadataQuorumCommand"
CLUSTER = TOOLS + "ClusterTool"
FEATURES = TOOLS + "FeatureCommand"
OFFSETS = TOOLS + "GetOffsetShell"
CONSUMER = TOOLS + "consumer.ConsoleConsumer"
GROUPS = TOOLS + "consumer.group.ConsumerGroupCommand"
TRANSACTIONS = TOOLS + "TransactionsCommand"
AT = ("--bootstrap-server", "{bootstrap}")
AT_CONTROLLERS = ("--bootstrap-controller", "{controllers}")
NO_TOPIC_ERROR = r"^(?![\s\S]*Error while executing topic command)"
"""kafka-topics says nothing when it has altered or deleted a topic."""
NO_JOIN = "The version of API is not supported"
NO_TRANSACTIONS = "Transactions are not served by this cluster"


@dataclass(frozen=True)
class Feature:
    """One row; see the module."""

    name: str
    tool: str
    arguments: tuple[str, ...]
    works: str
    refused: str | None = None
    fresh_partitions: int | None = None


def _lacks(api: str) -> str:
    return f"The node does not support {api}"


WORKING = (
    Feature("kafka-topics --list", TOPICS, (*AT, "--list"), r"{topic}"),
    Feature("kafka-topics --describe", TOPICS, (*AT, "--describe", "--topic", "{topic}"), r"PartitionCount: 2"),
    Feature(
        "kafka-topics --create",
        TOPICS,
        (*AT, "--create", "--topic", "{fresh}"),
        r"Created topic {fresh}",
        fresh_partitions=1,
    ),
    Feature(
        "kafka-topics --alter --partitions",
        TOPICS,
        (*AT, "--alter", "--topic", "{fresh}", "--partitions", "4"),
        NO_TOPIC_ERROR,
        fresh_partitions=4,
    ),
    Feature("kafka-topics --delete", TOPICS, (*AT, "--delete", "--topic", "{fresh}"), NO_TOPIC_ERROR),
    Feature(
        "kafka-configs, a topic's",
        CONFIGS,
        (
            *AT,
            "--alter",
            "--entity-type",
            "topics",
            "--entity-name",
            "{topic}",
            "--add-config",
            "retention.ms=86400000",
        ),
        r"Completed updating config for topic {topic}",
    ),
    Feature(
        "kafka-configs, a broker's described",
        CONFIGS,
        (*AT, "--describe", "--all", "--entity-type", "brokers", "--entity-name", "1"),
        r"All configs for broker 1 are:[\s\S]*log\.dirs",
    ),
    Feature(
        "kafka-verifiable-producer",
        TOOLS + "VerifiableProducer",
        (*AT, "--topic", "{topic}", "--max-messages", "20"),
        r"shutdown_complete|producer_send_success|startup_complete",
    ),
    Feature(
        "kafka-producer-perf-test",
        TOOLS + "ProducerPerformance",
        (*AT, "--topic", "{topic}", "--num-records", "100", "--record-size", "100", "--throughput", "-1"),
        r"100 records sent",
    ),
    Feature(
        "kafka-console-consumer --partition",
        CONSUMER,
        (*AT, "--topic", "{topic}", "--partition", "0", "--offset", "earliest", "--max-messages", "2"),
        r"Processed a total of 2 messages",
    ),
    Feature(
        "kafka-console-consumer, records larger than the fetch size",
        CONSUMER,
        (
            *AT,
            "--topic",
            "{topic}",
            "--partition",
            "1",
            "--offset",
            "earliest",
            "--max-messages",
            "2",
            "--command-property",
            "max.partition.fetch.bytes=100",
            "--command-property",
            "fetch.max.bytes=100",
        ),
        r"Processed a total of 2 messages",
    ),
    Feature("kafka-get-offsets, latest", OFFSETS, (*AT, "--topic", "{topic}"), r"{topic}:1:\d"),
    Feature("kafka-get-offsets, earliest", OFFSETS, (*AT, "--topic", "{topic}", "--time", "-2"), r"{topic}:1:6"),
    Feature("kafka-get-offsets, by time", OFFSETS, (*AT, "--topic", "{topic}", "--time", "1"), r"{topic}:1:6"),
    Feature("kafka-get-offsets, max-timestamp", OFFSETS, (*AT, "--topic", "{topic}", "--time", "-3"), r"{topic}:1:\d"),
    Feature("kafka-get-offsets, earliest-local", OFFSETS, (*AT, "--topic", "{topic}", "--time", "-4"), r"{topic}:1:6"),
    Feature(
        "kafka-get-offsets, latest-tiered (none is)", OFFSETS, (*AT, "--topic", "{topic}", "--time", "-5"), r"^\s*$"
    ),
    Feature(
        "kafka-get-offsets, earliest-pending-upload (none is)",
        OFFSETS,
        (*AT, "--topic", "{topic}", "--time", "earliest-pending-upload"),
        r"^\s*$",
    ),
    Feature("kafka-log-dirs --describe", TOOLS + "LogDirsCommand", (*AT, "--describe"), r'"partition":"{topic}-1"'),
    Feature("kafka-metadata-quorum --status", QUORUM, (*AT, "describe", "--status"), r"LeaderId: +10\d"),
    Feature(
        "kafka-metadata-quorum --status, by a controller",
        QUORUM,
        (*AT_CONTROLLERS, "describe", "--status"),
        r"LeaderId: +10\d",
    ),
    Feature(
        "kafka-metadata-quorum --replication, by a controller",
        QUORUM,
        (*AT_CONTROLLERS, "describe", "--replication"),
        r"10\d\s.*Leader",
    ),
    Feature("kafka-cluster cluster-id", CLUSTER, ("cluster-id", *AT), r"Cluster ID: \S"),
    Feature("kafka-cluster cluster-id, by a controller", CLUSTER, ("cluster-id", *AT_CONTROLLERS), r"Cluster ID: \S"),
    Feature("kafka-cluster list-endpoints", CLUSTER, ("list-endpoints", *AT), r"3 .*unfenced +broker"),
    Feature(
        "kafka-cluster list-endpoints, fenced brokers as well",
        CLUSTER,
        ("list-endpoints", *AT, "--include-fenced-brokers"),
        r"3 .*unfenced +broker",
    ),
    Feature(
        "kafka-cluster list-endpoints, by a controller",
        CLUSTER,
        ("list-endpoints", *AT_CONTROLLERS),
        r"101 .*controller",
    ),
    Feature("kafka-features describe", FEATURES, (*AT, "describe"), r"Feature: metadata\.version"),
    Feature(
        "kafka-features describe, by a controller",
        FEATURES,
        (*AT_CONTROLLERS, "describe"),
        r"Feature: metadata\.version",
    ),
    Feature(
        "kafka-leader-election",
        TOOLS + "LeaderElectionCommand",
        (*AT, "--election-type", "preferred", "--all-topic-partitions"),
        r"",
    ),
    Feature("kafka-broker-api-versions", TOOLS + "BrokerApiVersionsCommand", AT, r"ListOffsets\(2\): 1 to 11"),
    Feature(
        "kafka-cluster unregister, a broker that is not",
        CLUSTER,
        ("unregister", *AT, "--id", "77"),
        r"BrokerIdNotRegisteredException",
    ),
)

REFUSED = (
    Feature(
        "kafka-console-consumer --group",
        CONSUMER,
        (*AT, "--topic", "{topic}", "--group", "g", "--from-beginning", "--max-messages", "2"),
        r"Processed a total of 2 messages",
        NO_JOIN,
    ),
    Feature(
        "kafka-console-consumer, group protocol of KIP-848",
        CONSUMER,
        (*AT, "--topic", "{topic}", "--group", "h", "--from-beginning", "--max-messages", "2",
         "--command-property", "group.protocol=consumer"),
        r"Processed a total of 2 messages",
        "The cluster does not support the new CONSUMER group protocol",
    ),
    Feature(
        "kafka-verifiable-consumer",
        TOOLS + "VerifiableConsumer",
        (*AT, "--topic", "{topic}", "--group-id", "v", "--max-messages", "2"),
        r"records_consumed",
        NO_JOIN,
    ),
    Feature(
        "kafka-e2e-latency",
        TOOLS + "EndToEndLatency",
        (*AT, "--topic", "{topic}", "--num-records", "3", "--producer-acks", "all", "--record-size", "10"),
        r"Avg latency",
        _lacks("OFFSET_COMMIT"),
    ),
    Feature(
        "kafka-consumer-perf-test",
        TOOLS + "ConsumerPerformance",
        (*AT, "--topic", "{topic}", "--num-records", "10", "--timeout", "8000"),
        r"\d{{4}}-\d\d-\d\d .*, \d{{4}}-",
        NO_JOIN,
    ),
    Feature("kafka-consumer-groups --list", GROUPS, (*AT, "--list"), r"(?m)^g$", _lacks("LIST_GROUPS")),
    Feature(
        "kafka-consumer-groups --describe",
        GROUPS,
        (*AT, "--describe", "--group", "g"),
        r"CURRENT-OFFSET",
        _lacks("DESCRIBE_GROUPS"),
    ),
    Feature(
        "kafka-consumer-groups --reset-offsets",
        GROUPS,
        (*AT, "--reset-offsets", "--group", "g", "--topic", "{topic}", "--to-earliest", "--execute"),
        r"NEW-OFFSET",
        _lacks("DESCRIBE_GROUPS"),
    ),
    Feature(
        "kafka-consumer-groups --delete-offsets",
        GROUPS,
        (*AT, "--delete-offsets", "--group", "g", "--topic", "{topic}"),
        r"Successful",
        _lacks("OFFSET_DELETE"),
    ),
    Feature(
        "kafka-consumer-groups --delete",
        GROUPS,
        (*AT, "--delete", "--group", "g"),
        r"was successful",
        _lacks("DELETE_GROUPS"),
    ),
    Feature(
        "kafka-transactions list",
        TRANSACTIONS,
        (*AT, "list"),
        r"TransactionalId\s+Coordinator",
        _lacks("LIST_TRANSACTIONS"),
    ),
    Feature(
        "kafka-transactions describe",
        TRANSACTIONS,
        (*AT, "describe", "--transactional-id", "x"),
        r"the ID could not be found",
        "FindCoordinator request for key .* failed due to an unexpected error",
    ),
    Feature(
        "kafka-transactions describe-producers",
        TRANSACTIONS,
        (*AT, "describe-producers", "--topic", "{topic}", "--partition", "0"),
        r"ProducerId\s+ProducerEpoch",
        _lacks("DESCRIBE_PRODUCERS"),
    ),
    Feature(
        "kafka-producer-perf-test --transactional-id",
        TOOLS + "ProducerPerformance",
        (*AT, "--topic", "{topic}", "--num-records", "10", "--record-size", "10", "--throughput", "-1",
         "--transactional-id", "x"),
        r"10 records sent",
        NO_TRANSACTIONS,
    ),
    Feature(
        "kafka-configs, a replication throttle",
        CONFIGS,
        (*AT, "--alter", "--entity-type", "brokers", "--entity-name", "1",
         "--add-config", "leader.replication.throttled.rate=1000000"),
        r"Completed updating config for broker 1",
        r"leader\.replication\.throttled\.rate cannot be set: replication is not throttled",
    ),
    Feature(
        "kafka-configs, a client's quota",
        CONFIGS,
        (*AT, "--alter", "--entity-type", "clients", "--entity-name", "c", "--add-config", "consumer_byte_rate=1000"),
        r"Completed updating config for client c",
        r"The node does not support (ALTER|DESCRIBE)_CLIENT_QUOTAS",
    ),
)  # fmt: skip

ALL = WORKING + REFUSED


def table() -> str:
    """The rows as Markdown, for docs/interoperability.md."""
    lines = ["| feature | Apache Kafka | Squall |", "|---|---|---|"]
    for one in ALL:
        said = "works" if one.refused is None else "refused: `" + one.refused.replace("\\.", ".") + "`"
        lines.append(f"| {one.name} | works | {said.replace('|', '/')} |")
    return "\n".join(lines) + "\n"
