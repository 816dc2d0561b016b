"""Write the ISR changes of this broker's leaders to the ensemble (ZK-07).

A leader's proposal reaches this module as an AlterPartition request, which with a quorum would go to the controller.
Here the leader's broker writes the state itself, on the condition that its version is the partition epoch that the
leader knows. Where the version differs, the controller has decided something since, and the proposal is refused with
INVALID_UPDATE_VERSION, or a former write of the same state succeeded and its answer was lost.

The controller and the other brokers learn of the new ISR by a notification in `/isr_change_notification`, for many
topic-partitions at once and up to `PROPAGATION_DELAY` later.

Mutant: `isr-version-unchecked` in `_write`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from squall.nodes.metadata.image import MetadataImage
from squall.nodes.mutants import HEALTHY, Mutants
from squall.nodes.ports import Trace
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    PartitionDataRequest,
    PartitionDataResponse,
    TopicDataResponse,
)
from squall.nodes.protocol.requests.session import OutboundRequest
from squall.nodes.zookeeper.client import ZooKeeperClient
from squall.nodes.zookeeper.session import ANY_VERSION, Code, Create, GetData, SessionResponse, SetData
from squall.nodes.zookeeper.znodes import (
    ISR_CHANGES,
    StateZnode,
    TopicPartition,
    decode_state,
    encode_isr_change,
    encode_state,
    state_path,
)

PROPAGATION_DELAY = 1_000_000
"""Kafka waits 2.5 to 60 seconds, depending on how often ISRs change."""
NEVER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class _Change:
    """One topic-partition of a request, with the state to write."""

    key: TopicPartition
    topic_id: bytes
    asked: PartitionDataRequest
    state: StateZnode


class IsrWriter:
    """See the module. `controller_epoch` is the newest that this broker has heard of."""

    def __init__(
        self,
        node: int,
        client: ZooKeeperClient,
        image: MetadataImage,
        controller_epoch: Callable[[], int],
        trace: Trace,
        mutants: Mutants = HEALTHY,
    ) -> None:
        self._node = node
        self._client = client
        self._image = image
        self._controller_epoch = controller_epoch
        self._trace = trace
        self._mutants = mutants
        self._changed: dict[TopicPartition, None] = {}
        self._propagate_at = NEVER

    # -- the change -----------------------------------------------------------------------------------------------

    def alter(self, now: int, request: OutboundRequest) -> None:
        """Write the proposed ISRs; answer like a controller."""
        body = request.message
        assert isinstance(body, AlterPartitionRequest)
        changes, refused = self._changes(body)
        if not changes:
            request.complete(now, _response(refused))
            return

        def written(now: int, responses: list[SessionResponse]) -> None:
            if any(one.code is Code.SESSION_EXPIRED for one in responses):
                request.complete(now, None)
                return
            unsure = [one for one, found in zip(changes, responses, strict=True) if found.code is Code.BAD_VERSION]
            results = refused + [
                self._written(now, one, found)
                for one, found in zip(changes, responses, strict=True)
                if found.code is not Code.BAD_VERSION
            ]
            if not unsure:
                request.complete(now, _response(results))
                return
            self._client.submit(
                now,
                [GetData(state_path(*one.key)) for one in unsure],
                lambda now, responses: self._compared(now, request, unsure, results, responses),
            )

        self._client.submit(now, [self._write(one) for one in changes], written)

    def _changes(self, body: AlterPartitionRequest) -> tuple[list[_Change], list[TopicDataResponse]]:
        changes, refused = [], []
        for part in body.topics:
            topic = self._image.topics.get(part.topic_id)
            for asked in part.partitions:
                if topic is None:
                    refused.append(_refusal(part.topic_id, asked, ErrorCode.UNKNOWN_TOPIC_ID))
                    continue
                isr = tuple(one.broker_id for one in asked.new_isr_with_epochs)
                state = StateZnode(self._node, asked.leader_epoch, isr, self._controller_epoch(), asked.partition_epoch)
                changes.append(_Change((topic.name, asked.partition_index), topic.id, asked, state))
        return changes, refused

    def _write(self, change: _Change) -> SetData:
        version = ANY_VERSION if self._mutants.has("isr-version-unchecked") else change.state.version
        return SetData(state_path(*change.key), encode_state(change.state), version)

    def _written(self, now: int, change: _Change, found: SessionResponse) -> TopicDataResponse:
        if not found.ok or found.stat is None:
            return _refusal(change.topic_id, change.asked, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return self._accepted(now, change, replace(change.state, version=found.stat.version))

    def _accepted(self, now: int, change: _Change, state: StateZnode) -> TopicDataResponse:
        self._changed[change.key] = None
        self._propagate_at = min(self._propagate_at, now + PROPAGATION_DELAY)
        topic, partition = change.key
        self._trace.event("zk_isr_written", of=f"{topic}-{partition}", isr=state.isr, version=state.version)
        return TopicDataResponse(
            change.topic_id,
            [
                PartitionDataResponse(
                    partition_index=partition,
                    leader_id=state.leader,
                    leader_epoch=state.leader_epoch,
                    isr=list(state.isr),
                    partition_epoch=state.version,
                )
            ],
        )

    def _compared(
        self,
        now: int,
        request: OutboundRequest,
        changes: list[_Change],
        results: list[TopicDataResponse],
        responses: list[SessionResponse],
    ) -> None:
        """Accept states that were written although their answer was lost; refuse the others."""
        for change, found in zip(changes, responses, strict=True):
            stands = None
            if found.ok and found.stat is not None:
                stands = decode_state(state_path(*change.key), found.data, found.stat.version)
            ours = replace(change.state, version=change.state.version + 1)
            if stands == ours:
                results.append(self._accepted(now, change, stands))
            else:
                results.append(_refusal(change.topic_id, change.asked, ErrorCode.INVALID_UPDATE_VERSION))
        request.complete(now, _response(results))

    # -- the notification -----------------------------------------------------------------------------------------

    def tick(self, now: int) -> None:
        """Notify the controller of ISRs that were written."""
        if self._propagate_at <= now and self._changed and self._client.is_connected:
            changed, self._changed = list(self._changed), {}
            self._propagate_at = NEVER
            path = f"{ISR_CHANGES}/isr_change_"
            self._client.submit(
                now, [Create(path, encode_isr_change(changed), sequential=True)], lambda now, responses: None
            )

    def deadline(self) -> int:
        return self._propagate_at if self._client.is_connected else NEVER


def _refusal(topic_id: bytes, asked: PartitionDataRequest, error: ErrorCode) -> TopicDataResponse:
    return TopicDataResponse(topic_id, [PartitionDataResponse(asked.partition_index, int(error))])


def _response(results: list[TopicDataResponse]) -> AlterPartitionResponse:
    return AlterPartitionResponse(topics=results)
