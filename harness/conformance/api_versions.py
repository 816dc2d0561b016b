"""ApiVersions: what nodes announce, in each version in which a client may ask for it.

Clients choose by it how they speak, and which features they use. A range that begins too late shuts older clients out:
all from Kafka 2.1 on are to be served (KIP-896). One that ends too early takes what newer versions offer from all
clients, and one that ends too late promises what the node cannot read. Nothing else shows these, since clients use the
newest version that both sides have.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from squall.harness.conformance.client import Address, ConformanceClient, expect, expect_error
from squall.harness.conformance.topic import CheckedTopic
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import APIS, ApiKey
from squall.nodes.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

LOWEST: Final = {
    ApiKey.PRODUCE: 0,  # served from 3 on; older librdkafka compresses only where it begins at 0 (KAFKA-18659)
    ApiKey.FETCH: 4,
    ApiKey.LIST_OFFSETS: 1,
    ApiKey.METADATA: 0,
    ApiKey.OFFSET_FETCH: 1,
    ApiKey.FIND_COORDINATOR: 0,
    ApiKey.JOIN_GROUP: 0,
    ApiKey.API_VERSIONS: 0,
    ApiKey.CREATE_TOPICS: 2,
    ApiKey.DELETE_TOPICS: 1,
    ApiKey.DELETE_RECORDS: 0,
    ApiKey.INIT_PRODUCER_ID: 0,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: 2,
    ApiKey.DESCRIBE_CONFIGS: 1,
    ApiKey.ALTER_REPLICA_LOG_DIRS: 1,
    ApiKey.DESCRIBE_LOG_DIRS: 1,
    ApiKey.CREATE_PARTITIONS: 0,
    ApiKey.ELECT_LEADERS: 0,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: 0,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: 0,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: 0,
    ApiKey.UPDATE_FEATURES: 0,
    ApiKey.DESCRIBE_QUORUM: 0,
    ApiKey.DESCRIBE_CLUSTER: 0,
    ApiKey.UNREGISTER_BROKER: 0,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: 0,
}
"""The version with which each API of a broker begins since Kafka 4.0 (KIP-896)."""
HIGHEST: Final = {
    ApiKey.PRODUCE: 12,
    ApiKey.FETCH: 18,
    ApiKey.LIST_OFFSETS: 11,
    ApiKey.METADATA: 12,
    ApiKey.FIND_COORDINATOR: 6,
    ApiKey.API_VERSIONS: 4,
    ApiKey.CREATE_TOPICS: 7,
    ApiKey.DELETE_TOPICS: 6,
    ApiKey.DELETE_RECORDS: 2,
    ApiKey.INIT_PRODUCER_ID: 4,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: 4,
    ApiKey.DESCRIBE_CONFIGS: 4,
    ApiKey.ALTER_REPLICA_LOG_DIRS: 2,
    ApiKey.DESCRIBE_LOG_DIRS: 5,
    ApiKey.CREATE_PARTITIONS: 3,
    ApiKey.ELECT_LEADERS: 2,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: 1,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: 1,
    ApiKey.UPDATE_FEATURES: 1,
    ApiKey.DESCRIBE_QUORUM: 2,
    ApiKey.DESCRIBE_CLUSTER: 2,
}
"""The version up to which a broker must serve each API. Kafka 4.4 serves all of these. The later versions that it has
of some add what is not judged here, such as transactions, or in Metadata 13 an error for the whole request."""
OF_CONTROLLERS: Final = {
    ApiKey.CREATE_TOPICS: (2, 7),
    ApiKey.DELETE_TOPICS: (1, 6),
    ApiKey.CREATE_PARTITIONS: (0, 3),
    ApiKey.ELECT_LEADERS: (0, 2),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (0, 1),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (0, 0),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (0, 1),
    ApiKey.UPDATE_FEATURES: (0, 1),
    ApiKey.VOTE: (0, 2),
    ApiKey.BEGIN_QUORUM_EPOCH: (0, 1),
    ApiKey.END_QUORUM_EPOCH: (0, 1),
    ApiKey.DESCRIBE_QUORUM: (0, 2),
    ApiKey.FETCH_SNAPSHOT: (0, 1),
    ApiKey.DESCRIBE_CLUSTER: (0, 2),
    ApiKey.BROKER_REGISTRATION: (0, 4),
    ApiKey.BROKER_HEARTBEAT: (0, 1),
    ApiKey.ALTER_PARTITION: (3, 3),
    ApiKey.UNREGISTER_BROKER: (0, 0),
    ApiKey.ALLOCATE_PRODUCER_IDS: (0, 0),
    ApiKey.ADD_RAFT_VOTER: (0, 1),
    ApiKey.REMOVE_RAFT_VOTER: (0, 0),
    ApiKey.UPDATE_RAFT_VOTER: (0, 0),
}
"""The versions that a controller must serve of each API, to others of its quorum, to brokers and to administrators who
ask it (KIP-919)."""
FEATURES_SINCE: Final = 3
METADATA_VERSION: Final = "metadata.version"
ELIGIBLE_LEADERS: Final = "eligible.leader.replicas.version"
ELIGIBLE_LEADERS_SINCE: Final = 23
"""The level of the metadata's version, 4.0-IV1, that eligible leader replicas need (KIP-966)."""
LEVEL_ZERO_SINCE: Final = 4
"""A client that asks in an older version cannot read that a feature may have level 0 (KAFKA-17011)."""


async def announced(client: ConformanceClient, topic: CheckedTopic) -> None:
    """Every version of ApiVersions names the same APIs, and the features that its clients can read.

    All nodes are at the same levels (KIP-584).
    """
    address = client.rng.choice((*client.brokers, *client.controllers))
    answers = {version: await _asked(client, address, version) for version in range(LEVEL_ZERO_SINCE + 1)}
    newest = answers[LEVEL_ZERO_SINCE]
    for version, answer in answers.items():
        expect(address, f"the APIs of ApiVersions v{version}", _apis(answer), _apis(newest))
    lowest, highest = LOWEST, HIGHEST
    if address not in client.brokers:
        lowest = {key: low for key, (low, _) in OF_CONTROLLERS.items()}
        highest = {key: high for key, (_, high) in OF_CONTROLLERS.items()}
    ranges = {ApiKey(key): one for key, one in _apis(newest).items() if key in {*lowest, *highest}}
    late = {key.name: low for key, (low, _) in ranges.items() if low > lowest.get(key, low)}
    expect(address, "APIs of which older clients know no version", late, {})
    early = {key.name: high for key, (_, high) in ranges.items() if high < highest.get(key, high)}
    expect(address, "APIs without the version that current clients use", early, {})
    if address in client.controllers and client.knows_all:
        missing = [key.name for key in OF_CONTROLLERS if key not in ranges]
        expect(address, "APIs that a controller has to serve, and does not", missing, [])
    if client.knows_all:
        known = {int(key): api.versions[1] for key, api in APIS.items()}
        unknown = {key: high for key, (_, high) in _apis(newest).items() if high > known.get(key, -1)}
        expect(address, "API keys with a version that the node cannot read", unknown, {})
    supported = {one.name: (one.min_version, one.max_version) for one in newest.supported_features}
    readable = {name: levels for name, levels in supported.items() if levels[0] > 0}
    older = {one.name: (one.min_version, one.max_version) for one in answers[FEATURES_SINCE].supported_features}
    expect(address, f"the features of ApiVersions v{FEATURES_SINCE}", older, readable)
    await client.settled(partial(_expect_equal_levels, client, address))
    levels = {one.name: one.max_version_level for one in newest.finalized_features}
    if levels.get(ELIGIBLE_LEADERS):
        enough = levels.get(METADATA_VERSION, 0) >= ELIGIBLE_LEADERS_SINCE
        expect(address, f"whether {METADATA_VERSION} allows {ELIGIBLE_LEADERS} ({levels})", enough, True)
    for one in newest.finalized_features:
        expect(address, f"the levels of {one.name}", one.min_version_level, one.max_version_level)
        low, high = supported.get(one.name, (0, -1))
        expect(
            address, f"whether {one.name} is of a level that is supported", low <= one.max_version_level <= high, True
        )


async def _expect_equal_levels(client: ConformanceClient, address: Address) -> None:
    """Expect that a node is at the same levels as another one. A quorum has the version of its metadata among them."""
    other = client.rng.choice((*client.brokers, *client.controllers))
    levels = [await levels_of(client, one) for one in (address, other)]
    expect(address, f"the levels of all features, at another node {levels[1]}", levels[0], levels[1])
    if client.controllers:
        expect(address, f"whether {METADATA_VERSION} has a level", METADATA_VERSION in levels[0], True)


async def levels_of(client: ConformanceClient, address: Address) -> dict[str, int]:
    """Return the levels of a cluster's features, as a node announces them. One of level 0 may be left out."""
    answer = await _asked(client, address, LEVEL_ZERO_SINCE)
    return {one.name: one.max_version_level for one in answer.finalized_features}


async def _asked(client: ConformanceClient, address: Address, version: int) -> ApiVersionsResponse:
    request = ApiVersionsRequest(client_software_name="squall", client_software_version="0")
    answer = await client.ask(address, request, ApiVersionsResponse, since=version, until=version)
    expect_error(address, f"ApiVersions v{version}", answer.error_code, ErrorCode.NONE)
    return answer


def _apis(answer: ApiVersionsResponse) -> dict[int, tuple[int, int]]:
    return {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}
