"""Describe frames in words: what a request or response states about one log, and whether that is new.

A request is identified by its header, a response by its request on the connection. Most of the traffic of a cluster
carries no news: followers repeatedly fetch records that do not exist yet. So a frame about the log is reported only if
it differs from the previous frame of its kind, in the same direction between the same two nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from squall.harness.hosts.system import CONTROLLER_PORT
from squall.harness.simulation.world.network import ConnectionEnd
from squall.nodes.metadata.records import (
    NO_LEADER_CHANGE,
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    PartitionChangeRecord,
    PartitionRecord,
    TopicRecord,
    decode_record,
)
from squall.nodes.protocol.errors import ErrorCode, ProtocolError
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.records import iterate_batches, parse_records
from squall.nodes.protocol.requests.headers import (
    correlation_id_of,
    decode_request_body,
    decode_response,
    parse_request_header,
)
from squall.nodes.protocol.schema import Message

METADATA = "metadata"
ALWAYS = (ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH)
_NAMES = {key: key.name.replace("_", " ").title().replace(" ", "") for key in ApiKey}


@dataclass(frozen=True, slots=True)
class Said:
    """One frame:

    the API, whether it is the response, and its content about the log. `weight` is 2 for frames with data.
    """

    api: str
    is_answer: bool
    text: str
    weight: int = 1

    def __str__(self) -> str:
        return f"{self.api} {self.text}".rstrip()


class FrameReader:
    """Reads the frames of one run for what they state about one log."""

    def __init__(self, log: tuple[str, int]) -> None:
        self.names: Mapping[int, str] = {}
        self._topic, self._partition = log
        self._topic_id: bytes | None = None
        self._asked: dict[tuple[int, int], tuple[int, int]] = {}
        self._before: dict[tuple[str, str, str, bool], str] = {}

    def read(self, end: ConnectionEnd, frame: bytes) -> Said | None:
        """Return what this frame, sent from `end`, states about the log; None if that is nothing, or nothing new."""
        try:
            said = self._answer(end, frame) if end.is_server else self._request(end, frame)
        except ProtocolError:
            return None
        if said is None:
            return None
        way = (end.address, end.peer_address, said.api, said.is_answer)
        if self._before.get(way) == said.text and said.weight < 2:
            return None
        self._before[way] = said.text
        return said

    def _request(self, end: ConnectionEnd, frame: bytes) -> Said | None:
        header, rest = parse_request_header(frame)
        body = decode_request_body(header, rest)
        assert end.peer is not None
        self._asked[end.peer.identity, header.correlation_id] = (header.api_key, header.api_version)
        return self._said(header.api_key, body, is_answer=False)

    def _answer(self, end: ConnectionEnd, frame: bytes) -> Said | None:
        asked = self._asked.pop((end.identity, correlation_id_of(frame)), None)
        if asked is None:
            return None
        key, version = asked
        _, body = decode_response(key, version, frame)
        if key == ApiKey.FETCH and end.port == CONTROLLER_PORT:
            text = ", ".join(filter(None, self._records_of_metadata(body)))
            return Said(METADATA, True, text, 2) if text else None
        return self._said(key, body, is_answer=True)

    def _said(self, key: int, body: Message, *, is_answer: bool) -> Said | None:
        api = ApiKey(key)
        if api in ALWAYS:
            text = self._quorum_words(body, is_answer)
            return Said(_NAMES[api], is_answer, text) if text else None
        words = {
            (ApiKey.PRODUCE, False): self._produce,
            (ApiKey.PRODUCE, True): self._produced,
            (ApiKey.FETCH, False): self._fetch,
            (ApiKey.FETCH, True): self._fetched,
            (ApiKey.ALTER_PARTITION, False): self._alter,
            (ApiKey.ALTER_PARTITION, True): self._altered,
            (ApiKey.METADATA, True): self._metadata,
        }.get((api, is_answer))
        found = None if words is None else words(body)
        return None if found is None else Said(_NAMES[api], is_answer, *found)

    # -- by API -------------------------------------------------------------------------------------------------

    def _is_it(self, topic: Any) -> bool:
        name, topic_id = getattr(topic, "name", "") or getattr(topic, "topic", ""), getattr(topic, "topic_id", b"")
        return name == self._topic or (self._topic_id is not None and bytes(topic_id) == self._topic_id)

    def _ours(self, topics: Any, partitions: str, index: str) -> Iterator[Any]:
        for topic in topics:
            if self._is_it(topic):
                for one in getattr(topic, partitions):
                    if getattr(one, index) == self._partition:
                        yield one

    def _produce(self, body: Any) -> tuple[str, int] | None:
        for one in self._ours(body.topic_data, "partition_data", "index"):
            count = sum(header.last_offset_delta + 1 for header, _ in iterate_batches(one.records or b""))
            return f"{count} record{'s' * (count != 1)}, acks {'all' if body.acks == -1 else body.acks}", 2
        return None

    def _produced(self, body: Any) -> tuple[str, int] | None:
        for one in self._ours(body.responses, "partition_responses", "index"):
            return (f"acknowledged at {one.base_offset}" if one.error_code == 0 else _error(one.error_code)), 2
        return None

    def _fetch(self, body: Any) -> tuple[str, int] | None:
        replica = max(body.replica_id, body.replica_state.replica_id)
        for one in self._ours(body.topics, "partitions", "partition"):
            last = f", last epoch {one.last_fetched_epoch}" if replica >= 0 and one.last_fetched_epoch >= 0 else ""
            return f"from {one.fetch_offset}, epoch {one.current_leader_epoch}{last}", 1
        return None

    def _fetched(self, body: Any) -> tuple[str, int] | None:
        for one in self._ours(body.responses, "partitions", "partition_index"):
            if one.error_code:
                return _error(one.error_code), 1
            if one.diverging_epoch.epoch >= 0:
                return f"diverges: epoch {one.diverging_epoch.epoch} ends at {one.diverging_epoch.end_offset}", 2
            batches = [header for header, _ in iterate_batches(one.records or b"", torn_tail=True)]
            if not batches:
                return f"nothing new, HW {one.high_watermark}", 1
            first, last = batches[0].base_offset, batches[-1].last_offset
            return f"records {first}{f'–{last}' * (last > first)}, HW {one.high_watermark}", 2
        return None

    def _alter(self, body: Any) -> tuple[str, int] | None:
        for one in self._ours(body.topics, "partitions", "partition_index"):
            members = one.new_isr or [member.broker_id for member in one.new_isr_with_epochs]
            return f"ISR {self._named(members)}, epoch {one.leader_epoch}/{one.partition_epoch}", 2
        return None

    def _altered(self, body: Any) -> tuple[str, int] | None:
        if body.error_code:
            return _error(body.error_code), 2
        for one in self._ours(body.topics, "partitions", "partition_index"):
            if one.error_code:
                return _error(one.error_code), 2
            return f"ISR {self._named(one.isr)}, epoch {one.leader_epoch}/{one.partition_epoch}", 2
        return None

    def _metadata(self, body: Any) -> tuple[str, int] | None:
        for one in self._ours(body.topics, "partitions", "partition_index"):
            return f"leader {self._named([one.leader_id])}, epoch {one.leader_epoch}", 1
        return None

    def _records_of_metadata(self, body: Any) -> Iterator[str]:
        """Yield what a piece of the metadata log states about the topic-partition, and which brokers it fences."""
        for topic in body.responses:
            for one in topic.partitions:
                for header, batch in iterate_batches(one.records or b""):
                    if not header.is_control:
                        yield from (self._record(decode_record(each.value or b"")) for each in parse_records(batch))

    def _record(self, record: Message) -> str:
        if isinstance(record, TopicRecord) and record.name == self._topic:
            self._topic_id = bytes(record.topic_id)
        if isinstance(record, FenceBrokerRecord):
            return f"{self._named([record.id])} fenced"
        if isinstance(record, BrokerRegistrationChangeRecord) and record.fenced == 1:
            return f"{self._named([record.broker_id])} fenced"
        if not isinstance(record, PartitionRecord | PartitionChangeRecord):
            return ""
        if bytes(record.topic_id) != self._topic_id or record.partition_id != self._partition:
            return ""
        said = [] if record.leader == NO_LEADER_CHANGE else [f"leader {self._named([record.leader])}"]
        said += [] if record.isr is None else [f"ISR {self._named(record.isr)}"]
        said += [f"ELR {self._named(record.eligible_leader_replicas)}"] if record.eligible_leader_replicas else []
        return " · ".join(said)

    def _quorum_words(self, body: Any, is_answer: bool) -> str:
        for topic in body.topics:
            for one in topic.partitions:
                if is_answer and hasattr(one, "vote_granted"):
                    return f"epoch {one.leader_epoch}: {'granted' if one.vote_granted else 'refused'}"
                epoch = getattr(one, "replica_epoch", getattr(one, "leader_epoch", None))
                return "" if is_answer else f"epoch {epoch}"
        return ""

    def _named(self, ids: Any) -> str:
        return " ".join(self.names.get(one, "nobody") for one in ids)


def _error(code: int) -> str:
    return ErrorCode(code).name.lower().replace("_", " ")
