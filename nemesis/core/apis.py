"""The names and API keys of Kafka's requests that a fault can affect.

`nemesis` needs its own copy of this table: it imports nothing of `nodes`, and other systems under test speak the same
protocol. Names are those of Kafka's message schemas.
"""

from __future__ import annotations

import difflib

API_KEYS = {
    "Produce": 0,
    "Fetch": 1,
    "ListOffsets": 2,
    "Metadata": 3,
    "LeaderAndIsr": 4,
    "StopReplica": 5,
    "UpdateMetadata": 6,
    "ControlledShutdown": 7,
    "OffsetCommit": 8,
    "OffsetFetch": 9,
    "FindCoordinator": 10,
    "JoinGroup": 11,
    "ApiVersions": 18,
    "CreateTopics": 19,
    "DeleteTopics": 20,
    "DeleteRecords": 21,
    "InitProducerId": 22,
    "OffsetForLeaderEpoch": 23,
    "AddPartitionsToTxn": 24,
    "AddOffsetsToTxn": 25,
    "EndTxn": 26,
    "WriteTxnMarkers": 27,
    "TxnOffsetCommit": 28,
    "DescribeConfigs": 32,
    "AlterReplicaLogDirs": 34,
    "DescribeLogDirs": 35,
    "CreatePartitions": 37,
    "ElectLeaders": 43,
    "IncrementalAlterConfigs": 44,
    "AlterPartitionReassignments": 45,
    "ListPartitionReassignments": 46,
    "Vote": 52,
    "BeginQuorumEpoch": 53,
    "EndQuorumEpoch": 54,
    "DescribeQuorum": 55,
    "AlterPartition": 56,
    "UpdateFeatures": 57,
    "FetchSnapshot": 59,
    "DescribeCluster": 60,
    "BrokerRegistration": 62,
    "BrokerHeartbeat": 63,
    "UnregisterBroker": 64,
    "AllocateProducerIds": 67,
    "DescribeTopicPartitions": 75,
    "AddRaftVoter": 80,
    "RemoveRaftVoter": 81,
    "UpdateRaftVoter": 82,
}


def known_api(name: str) -> str:
    """Return the name itself. Raises ValueError, worded to follow the value, for a name that is not in the table."""
    if name in API_KEYS:
        return name
    near = difflib.get_close_matches(name, API_KEYS, n=1, cutoff=0.5)
    meant = f"; did you mean {near[0]}?" if near else f"; known are {', '.join(API_KEYS)}"
    raise ValueError(f"is not a request of Kafka's protocol{meant}")
