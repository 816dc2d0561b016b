"""AlterPartition: send ISR changes of this broker's leaders to the active controller (IS-01, rule 21).

One request is in flight at a time and carries the change of every leader that has one. So a broker that falls behind
everywhere costs one request, not one per topic-partition, and no topic-partition ever has two changes in flight. After
a lost or refusing response the change is sent again after a pause, as long as the leader still wants it.
"""

from __future__ import annotations

from collections.abc import Callable

from squall.nodes.broker.hosting.config import NEVER, BrokerConfig
from squall.nodes.broker.hosting.hosted_partition import HostedPartition, TurnChanges
from squall.nodes.broker.hosting.replicas import Replicas
from squall.nodes.buggify import OFF, Buggify
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionDataRequest,
    TopicDataRequest,
)
from squall.nodes.protocol.requests.session import OutboundRequest, ToActiveController
from squall.nodes.protocol.schema import Message
from squall.nodes.replication.ports import IsrProposal, ProposalAnswer

RETRY_PAUSE = 50_000
_Sent = dict[tuple[bytes, int], tuple[HostedPartition, IsrProposal]]


class IsrSender:
    """Sends the ISR changes of this broker's leaders. The broker drains `requests`."""

    def __init__(
        self,
        config: BrokerConfig,
        replicas: Replicas,
        progress: TurnChanges,
        *,
        broker_epoch: Callable[[], int],
        buggify: Buggify = OFF,
    ) -> None:
        self.requests: list[OutboundRequest] = []
        self.sent_count = 0
        self.expands = self.shrinks = self.failures = 0
        """Changes committed by the controller (`expands`, `shrinks`), and responses with a refusal (`failures`)."""
        self._config = config
        self._replicas = replicas
        self._progress = progress
        self._broker_epoch = broker_epoch
        self._buggify = buggify
        self._under_way: _Sent = {}
        """What the request in flight holds; empty if there is none."""
        self._rest_until = 0

    def carries(self, hosted: HostedPartition) -> bool:
        """Whether the change of a topic-partition's leader is in flight, or will be sent."""
        return hosted in self._replicas.isr_wanted or (hosted.topic_id, hosted.partition) in self._under_way

    @property
    def in_flight(self) -> int:
        """How many changes the request in flight holds."""
        return len(self._under_way)

    def tick(self, now: int) -> None:
        """Send the pending changes, unless a request is in flight or the pause after a failure lasts."""
        wanted = self._replicas.isr_wanted
        if self._under_way or not wanted or now < self._rest_until or self._broker_epoch() < 0:
            return
        if self._buggify.happens("isr-change-sent-late"):
            self._rest_until = now + RETRY_PAUSE
            return
        sent: _Sent = {}
        for hosted in wanted:
            proposal = hosted.replica.proposal
            if proposal is not None:
                sent[hosted.topic_id, hosted.partition] = (hosted, proposal)
        wanted.clear()
        if sent:
            self._send(sent)

    def deadline(self) -> int:
        waits = bool(self._under_way) or self._broker_epoch() < 0
        return self._rest_until if self._replicas.isr_wanted and not waits else NEVER

    def _send(self, sent: _Sent) -> None:
        self._under_way = sent
        self.sent_count += len(sent)

        def complete(now: int, response: Message | None) -> None:
            self._answered(now, sent, response)

        self.requests.append(
            OutboundRequest(ToActiveController(), self._request(sent), self._config.request_timeout, complete)
        )

    def _request(self, sent: _Sent) -> AlterPartitionRequest:
        topics: dict[bytes, TopicDataRequest] = {}
        for (topic_id, partition), (_, proposal) in sent.items():
            topic = topics.setdefault(topic_id, TopicDataRequest(topic_id=topic_id))
            topic.partitions.append(
                PartitionDataRequest(
                    partition_index=partition,
                    leader_epoch=proposal.leader_epoch,
                    new_isr_with_epochs=[BrokerState(broker, epoch) for broker, epoch in proposal.isr],
                    partition_epoch=proposal.partition_epoch,
                )
            )
        return AlterPartitionRequest(self._config.node_id, self._broker_epoch(), list(topics.values()))

    def _answered(self, now: int, sent: _Sent, response: Message | None) -> None:
        self._under_way = {}
        answers: dict[tuple[bytes, int], ProposalAnswer] = {}
        if isinstance(response, AlterPartitionResponse) and response.error_code == ErrorCode.NONE:
            answers = {
                (topic.topic_id, part.partition_index): ProposalAnswer(
                    part.error_code, part.leader_id, part.leader_epoch, part.partition_epoch, tuple(part.isr)
                )
                for topic in response.topics
                for part in topic.partitions
            }
        else:
            self._rest_until = now + RETRY_PAUSE
        for key, (hosted, proposal) in sent.items():
            answer = answers.get(key)
            self._count(proposal, answer)
            if answer is not None:
                self._progress.noted(hosted)
                if hosted.replica.proposal_answered(now, proposal, answer):
                    self._progress.advanced(hosted)
            if hosted.replica.proposal is not None:
                self._rest_until = max(self._rest_until, now + RETRY_PAUSE)
                self._replicas.isr_changed(hosted)

    def _count(self, proposal: IsrProposal, answer: ProposalAnswer | None) -> None:
        if answer is None or answer.error:
            self.failures += 1
        elif proposal.grows:
            self.expands += 1
        else:
            self.shrinks += 1
