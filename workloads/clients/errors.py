"""Which failure means what: one table per kind of client (HX-03, DP-09).

`fail` is a strong word: the operation certainly did not happen and never will. It may be said in two cases
only:

* nothing of it was ever handed to the network (the library refused it at its own door), or
* a client that makes a single attempt was answered with a code the broker gives *before* it appends.

Everything else is `info`. That includes codes that look definite but can reach a producer after its records
were appended: NOT_LEADER_OR_FOLLOWER and UNKNOWN_TOPIC_OR_PARTITION answer a parked acks=all request whose
leader moved away, REQUEST_TIMED_OUT and NOT_ENOUGH_REPLICAS_AFTER_APPEND say so themselves. A client that
retries by itself may have had any number of attempts in flight, so no answer to the last one says anything
about the earlier ones.

Reads change nothing, so a failed read is always `fail`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from squall.workloads.operation import FAIL, FINAL_POLL, INFO, LIST_OFFSETS, POLL, Completion, CompletionType

READS = frozenset({POLL, FINAL_POLL, LIST_OFFSETS})


@dataclass(frozen=True)
class Meaning:
    """What an error says about a write, and why."""

    type: CompletionType
    name: str
    reason: str


def _table(rows: list[tuple[int, CompletionType, str, str]]) -> dict[int, Meaning]:
    return {code: Meaning(kind, name, reason) for code, kind, name, reason in rows}


# Answers of a broker to a single Produce request.
SINGLE_ATTEMPT: Mapping[int, Meaning] = _table(
    [
        (2, FAIL, "corrupt_message", "refused before the append"),
        (3, INFO, "unknown_topic_or_partition", "also answers a parked request whose replica went away"),
        (6, INFO, "not_leader_or_follower", "also answers a parked request whose leader moved"),
        (7, INFO, "request_timed_out", "appended, not yet replicated"),
        (10, FAIL, "message_too_large", "refused before the append"),
        (17, FAIL, "invalid_topic", "refused before the append"),
        (18, FAIL, "record_list_too_large", "refused before the append"),
        (19, FAIL, "not_enough_replicas", "the ISR is checked before the append"),
        (20, INFO, "not_enough_replicas_after_append", "appended"),
        (21, FAIL, "invalid_required_acks", "refused before the append"),
        (29, FAIL, "topic_authorization_failed", "refused before the append"),
        (35, FAIL, "unsupported_version", "refused before the append"),
        (45, FAIL, "out_of_order_sequence_number", "refused before the append"),
        (46, INFO, "duplicate_sequence_number", "an earlier attempt was appended"),
        (47, FAIL, "invalid_producer_epoch", "refused before the append"),
        (56, INFO, "kafka_storage_error", "the disk failed during or after the append"),
        (59, FAIL, "unknown_producer_id", "refused before the append"),
        (87, FAIL, "invalid_record", "refused before the append"),
    ]
)

# Delivery reports of librdkafka, which retries by itself. Negative codes are its own.
LIBRDKAFKA: Mapping[int, Meaning] = _table(
    [
        (-184, FAIL, "queue_full", "refused at the door: the local queue is full"),
        (-152, INFO, "purged_from_queue", "it may have been there for its second attempt"),
        (-151, INFO, "purged_in_flight", "it was on its way"),
        (-192, INFO, "message_timed_out", "an attempt may be in flight"),
        (-195, INFO, "transport", "the connection broke; an attempt may have arrived"),
        (-150, INFO, "fatal", "the producer gave up; attempts may have arrived"),
        (-144, INFO, "gapless_guarantee", "the producer gave up; attempts may have arrived"),
    ]
)


def single_attempt(f: str, code: int) -> Completion:
    """What an error code answered to a single request means for the operation."""
    meaning = SINGLE_ATTEMPT.get(code, Meaning(INFO, f"kafka_error_{code}", "unknown code"))
    return Completion(FAIL if f in READS else meaning.type, error=meaning.name)


def retrying(f: str, code: int, name: str) -> Completion:
    """What a library that retries by itself means by an error; `name` is the library's own."""
    meaning = LIBRDKAFKA.get(code)
    if f in READS:
        return Completion(FAIL, error=meaning.name if meaning else name)
    if meaning is not None:
        return Completion(meaning.type, error=meaning.name)
    return Completion(INFO, error=name.lower().lstrip("_"))


def refused(reason: str) -> Completion:
    """The client did not hand the operation to the network at all."""
    return Completion(FAIL, error=reason)


def lost(f: str, reason: str) -> Completion:
    """The connection or the time ran out after the request may have left."""
    return Completion(FAIL if f in READS else INFO, error=reason)
