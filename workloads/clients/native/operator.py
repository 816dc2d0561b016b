"""The native operator: reassignments, preferred leaders, topic settings, quorum voters; in both worlds.

Requests about topics go to one broker after the other, and each forwards them to the active controller. Only the
quorum's leader changes voters, so every controller is tried until one does not refer to another.

Requests use versions that our nodes and Kafka 3.9 both serve.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse, Listener
from squall.nodes.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from squall.nodes.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from squall.nodes.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from squall.nodes.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    PartitionDataRequest,
    TopicDataRequest,
)
from squall.nodes.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from squall.nodes.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from squall.nodes.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)
from squall.nodes.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from squall.nodes.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from squall.nodes.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from squall.workloads.clients.native.admin import (
    CLIENT_ID,
    METADATA_TOPIC,
    Address,
    AdminError,
    NativeAdmin,
    NotAsked,
    error_name,
)

REASSIGN_VERSION: Final = 0
LIST_REASSIGNMENTS_VERSION: Final = 0
ELECT_VERSION: Final = 2
CONFIGS_VERSION: Final = 1
DESCRIBE_CONFIGS_VERSION: Final = 1
QUORUM_VERSION: Final = 2
ADD_VOTER_VERSION: Final = 0
REMOVE_VOTER_VERSION: Final = 0
FEATURES_VERSION: Final = 1
UNREGISTER_VERSION: Final = 0
API_VERSIONS_VERSION: Final = 3
UPGRADE, SAFE_DOWNGRADE = 1, 2
TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
SET, DELETE = 0, 1
SET_FOR_THE_TOPIC = 1
OPERATION_SECONDS = 3.0
CATCH_UP_MS = 2000
"""How long the leader may wait for a new voter to catch up with the log, in ms."""

_Judged = tuple[int, str | None]
_NOTHING_TO_DO = (0, int(ErrorCode.ELECTION_NOT_NEEDED), int(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE))


@dataclass(frozen=True)
class Quorum:
    """The metadata quorum according to its leader: node ids with their directory ids, and the high watermark."""

    leader: int
    voters: Mapping[int, bytes]
    observers: Mapping[int, bytes]
    epoch: int = -1
    committed: int = -1


class NativeOperator(NativeAdmin):
    """An admin client that also changes existing topics and the quorum. Raises OSError and AdminError."""

    async def reassign(self, topic: str, partition: int, replicas: Sequence[int] | None) -> None:
        """Start to move a topic-partition to these brokers; None cancels the move."""
        wanted = ReassignablePartition(partition, None if replicas is None else list(replicas))
        request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(topic, [wanted])])

        async def ask(address: Address) -> list[_Judged]:
            answer = await self._ask(
                address, request, REASSIGN_VERSION, AlterPartitionReassignmentsResponse, OPERATION_SECONDS
            )
            parts = [part for one in answer.responses for part in one.partitions]
            return [(answer.error_code, answer.error_message), *((one.error_code, one.error_message) for one in parts)]

        await self._first(self.brokers, ask, f"reassign {topic}/{partition}")

    async def moving(self, topic: str, partition: int) -> tuple[int, ...]:
        """The replicas of a topic-partition that is being moved, including those being added and removed.

        Reported by the active controller through the first broker that responds; empty if it is not being moved.
        """
        wanted = ListPartitionReassignmentsTopics(topic, [partition])
        request = ListPartitionReassignmentsRequest(topics=[wanted])
        trouble: OSError = ConnectionError(f"moves of {topic}/{partition}: no reachable broker")
        for address in self.brokers:
            try:
                answer = await self._ask(
                    address, request, LIST_REASSIGNMENTS_VERSION, ListPartitionReassignmentsResponse
                )
            except OSError as failed:
                trouble = failed
                continue
            if answer.error_code == 0:
                return tuple(one for told in answer.topics for part in told.partitions for one in part.replicas)
            why = answer.error_message or error_name(answer.error_code)
            trouble = AdminError(f"moves of {topic}/{partition}: {why}")
        raise trouble

    async def elect_preferred(self, topics: Mapping[str, int]) -> None:
        """Elect preferred replicas as leaders. It is no error if one leads already, or cannot lead."""
        wanted = [TopicPartitions(name, list(range(count))) for name, count in topics.items()]
        request = ElectLeadersRequest(election_type=0, topic_partitions=wanted)

        async def ask(address: Address) -> list[_Judged]:
            answer = await self._ask(address, request, ELECT_VERSION, ElectLeadersResponse, OPERATION_SECONDS)
            parts = [part for one in answer.replica_election_results for part in one.partition_result]
            judged = [(one.error_code, one.error_message) for one in parts if one.error_code not in _NOTHING_TO_DO]
            return [(answer.error_code, None), *judged]

        await self._first(self.brokers, ask, "elect preferred leaders")

    async def set_config(self, topic: str, name: str, value: str | None) -> None:
        """Set a topic's setting, or (None) reset it to the default."""
        change = AlterableConfig(name, DELETE if value is None else SET, value)
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(TOPIC_RESOURCE, topic, [change])])

        async def ask(address: Address) -> list[_Judged]:
            answer = await self._ask(
                address, request, CONFIGS_VERSION, IncrementalAlterConfigsResponse, OPERATION_SECONDS
            )
            return [(one.error_code, one.error_message) for one in answer.responses]

        await self._first(self.brokers, ask, f"set {name} of {topic}")

    async def setting_of(self, topic: str, name: str) -> str | None:
        """The value set for a topic, according to the first broker that responds; None if it is not set."""
        found = await self._described(DescribeConfigsResource(TOPIC_RESOURCE, topic, [name]), f"{name} of {topic}")
        of_that_name = [one for one in found.configs if one.name == name]
        return next((one.value for one in of_that_name if one.config_source == SET_FOR_THE_TOPIC), None)

    async def broker_settings(self, broker: int) -> dict[str, str]:
        """The settings by which a broker runs. Only that broker reports them; the others refuse."""
        found = await self._described(
            DescribeConfigsResource(BROKER_RESOURCE, str(broker)), f"settings of broker {broker}"
        )
        return {one.name: one.value or "" for one in found.configs}

    async def _described(self, resource: DescribeConfigsResource, what: str) -> DescribeConfigsResult:
        """The settings of a resource, according to the first broker that does not refuse."""
        request = DescribeConfigsRequest(resources=[resource])
        trouble: OSError = ConnectionError(f"{what}: no reachable broker")
        for address in self.brokers:
            try:
                answer = await self._ask(address, request, DESCRIBE_CONFIGS_VERSION, DescribeConfigsResponse)
            except OSError as failed:
                trouble = failed
                continue
            (result,) = answer.results
            if result.error_code == 0:
                return result
            trouble = AdminError(f"{what}: {error_name(result.error_code)}")
        raise trouble

    async def quorum(self) -> Quorum:
        """Voters and observers; of contradicting responses the one of the newest epoch."""
        part = PartitionDataRequest(partition_index=0)
        request = DescribeQuorumRequest(topics=[TopicDataRequest(topic_name=METADATA_TOPIC, partitions=[part])])
        found: list[tuple[int, Quorum]] = []
        for address in self.controllers:
            try:
                answer = await self._ask(address, request, QUORUM_VERSION, DescribeQuorumResponse)
            except OSError:
                continue
            for told in [one for topic in answer.topics for one in topic.partitions if one.error_code == 0]:
                voters = {one.replica_id: one.replica_directory_id for one in told.current_voters}
                observers = {one.replica_id: one.replica_directory_id for one in told.observers}
                quorum = Quorum(told.leader_id, voters, observers, told.leader_epoch, told.high_watermark)
                found.append((told.leader_epoch, quorum))
        if not found:
            raise AdminError("describe the quorum: none of its controllers says that it leads")
        return max(found, key=lambda one: one[0])[1]

    async def remove_voter(self, voter: int) -> None:
        """Remove a controller from the voters."""
        directory = (await self.quorum()).voters.get(voter)
        if directory is None:
            raise AdminError(f"remove voter {voter}: it is not a voter")
        request = RemoveRaftVoterRequest(None, voter, directory)

        async def ask(address: Address) -> list[_Judged]:
            answer = await self._ask(address, request, REMOVE_VOTER_VERSION, RemoveRaftVoterResponse, OPERATION_SECONDS)
            return [(answer.error_code, answer.error_message)]

        await self._first(self.controllers, ask, f"remove voter {voter}")

    async def add_voter(self, voter: int, listener: str, address_of_it: Address) -> None:
        """Add a controller that follows the quorum to the voters."""
        directory = (await self.quorum()).observers.get(voter)
        if directory is None:
            raise AdminError(f"add voter {voter}: it does not follow the quorum")
        request = AddRaftVoterRequest(None, CATCH_UP_MS, voter, directory, [Listener(listener, *address_of_it)])

        async def ask(address: Address) -> list[_Judged]:
            answer = await self._ask(address, request, ADD_VOTER_VERSION, AddRaftVoterResponse, OPERATION_SECONDS)
            return [(answer.error_code, answer.error_message)]

        await self._first(self.controllers, ask, f"add voter {voter}")

    async def unregister(self, broker: int) -> None:
        """Remove the registration of a broker that is lost for ever. It is an error if it has none.

        Asks one broker only: a request without an answer may be carried out later, when the broker has returned.
        """
        what, request = f"unregister broker {broker}", UnregisterBrokerRequest(broker)
        for address in self.brokers:
            try:
                answer = await self._ask(
                    address, request, UNREGISTER_VERSION, UnregisterBrokerResponse, OPERATION_SECONDS
                )
            except NotAsked:
                continue
            if answer.error_code:
                raise AdminError(f"{what}: {answer.error_message or error_name(answer.error_code)}")
            return
        raise ConnectionError(f"{what}: no reachable broker")

    async def set_feature(self, name: str, level: int) -> None:
        """Set the level of a feature of the cluster; a lower one than before is a safe downgrade."""
        update = FeatureUpdateKey(name, level, upgrade_type=UPGRADE if level else SAFE_DOWNGRADE)
        request = UpdateFeaturesRequest(feature_updates=[update])

        async def ask(address: Address) -> list[_Judged]:
            answer = await self._ask(address, request, FEATURES_VERSION, UpdateFeaturesResponse, OPERATION_SECONDS)
            results = [(one.error_code, one.error_message) for one in answer.results]
            return [(answer.error_code, answer.error_message), *results]

        await self._first(self.brokers, ask, f"set {name} to level {level}")

    async def level_of(self, feature: str) -> int:
        """The level of a feature of the cluster by the newest metadata that a broker has applied; 0 if it is off."""
        request = ApiVersionsRequest(CLIENT_ID, CLIENT_ID)
        newest: ApiVersionsResponse | None = None
        for address in self.brokers:
            try:
                answer = await self._ask(address, request, API_VERSIONS_VERSION, ApiVersionsResponse)
            except OSError:
                continue
            if newest is None or answer.finalized_features_epoch > newest.finalized_features_epoch:
                newest = answer
        if newest is None:
            raise ConnectionError(f"level of {feature}: no reachable broker")
        return next((one.max_version_level for one in newest.finalized_features if one.name == feature), 0)

    async def _first(
        self, addresses: Sequence[Address], ask: Callable[[Address], Awaitable[list[_Judged]]], what: str
    ) -> None:
        """Try one node after the other until one reports success. Raises the error of the last one.

        An error response stops the search, unless it refers to another leader or controller.
        """
        trouble: OSError = ConnectionError(f"{what}: no reachable broker")
        for address in addresses:
            try:
                refused = [one for one in await ask(address) if one[0] != 0]
            except OSError as failed:
                trouble = failed
                continue
            if not refused:
                return
            code, message = refused[0]
            trouble = AdminError(f"{what}: {message or error_name(code)}")
            if code not in (ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_LEADER_OR_FOLLOWER):
                break
        raise trouble
