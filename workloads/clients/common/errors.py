"""Classify failures as `fail` or `info`: one table per kind of client (HX-03, DP-09).

`fail` is a strong claim: the operation certainly did not take effect and never will. It is allowed in two cases only:

* nothing of it was ever handed to the network (the library refused it at once), or
* a client that makes a single attempt received a code that the broker returns *before* it appends.

Everything else is `info`. That includes codes that look definite but can reach a producer after its records were
appended: NOT_LEADER_OR_FOLLOWER and UNKNOWN_TOPIC_OR_PARTITION end a parked acks=all request whose leader moved away;
REQUEST_TIMED_OUT and NOT_ENOUGH_REPLICAS_AFTER_APPEND come after the append by definition. A client that retries on its
own may have had any number of attempts in flight, so the response to the last one says nothing about the earlier ones.
The same holds for a client that changes topics through a broker: the broker forwards the request to the controller and
retries it when the connection breaks, so that TOPIC_ALREADY_EXISTS may be the response to a second delivery of the
client's own request.

`error_codes.py` lists the meaning of each code for a single attempt; the tables of the other kinds follow from it. A
test checks all of them against the protocol's list.

Reads change nothing, so a failed read is always `fail`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from squall.workloads.clients.common.error_codes import GROUPS
from squall.workloads.core.operation import (
    FAIL,
    FINAL_POLL,
    INFO,
    LIST_OFFSETS,
    OK,
    POLL,
    READ,
    Completion,
    CompletionType,
)

DUPLICATE_SEQUENCE_NUMBER = 46

READS = frozenset({POLL, FINAL_POLL, LIST_OFFSETS, READ})


@dataclass(frozen=True)
class Meaning:
    """What a response means for a write, and why."""

    type: CompletionType
    name: str
    reason: str


@dataclass(frozen=True)
class ErrorTable:
    """What each of the protocol's codes, and each of the library's own errors, means for one kind of client.

    `own` is keyed by the library's own number, or the name of its own exception.
    """

    kind: str
    retries: bool
    answers: Mapping[int, Meaning]
    own: Mapping[int | str, Meaning] = field(default_factory=dict)

    def meaning(self, code: int | str | None, name: str) -> Meaning:
        """The meaning of a code or exception; unclassified ones are `info`."""
        known = self.own.get(code) if isinstance(code, str) else None
        if isinstance(code, int):
            known = self.own.get(code) or self.answers.get(code)
        return known or Meaning(INFO, name, "not in the table of error codes")


def exception_name(error: BaseException) -> str:
    """The name of an exception: `NotEnoughReplicasError` becomes `not_enough_replicas`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(error).__name__.removesuffix("Error")).lower()


def _single_attempt_answers() -> dict[int, Meaning]:
    return {code: Meaning(group.type, name, group.reason) for group in GROUPS for code, name in group.codes.items()}


EARLIER_ATTEMPTS = "an earlier attempt may have been appended"
REPEATED_BY_THE_BROKER = "the broker that passed it on may have done so twice"


def _of_the_last_attempt(reason: str) -> Iterator[tuple[int, Meaning]]:
    """The meanings of the same codes where earlier attempts may have been made."""
    for code, single in _single_attempt_answers().items():
        if single.type == FAIL:
            yield code, Meaning(INFO, single.name, f"{single.reason}, but {reason}")
        else:
            yield code, single


def _own(rows: list[tuple[int | str, CompletionType, str, str]]) -> dict[int | str, Meaning]:
    return {code: Meaning(kind, name, reason) for code, kind, name, reason in rows}


SINGLE_ATTEMPT = ErrorTable("native, one attempt", False, _single_attempt_answers())

NATIVE_RETRYING = ErrorTable(
    "native, idempotent",
    True,
    {
        **dict(_of_the_last_attempt(EARLIER_ATTEMPTS)),
        DUPLICATE_SEQUENCE_NUMBER: Meaning(
            OK,
            "duplicate_sequence_number",
            "an earlier attempt was appended; Kafka's own clients call this acknowledged",
        ),
    },
)

LIBRDKAFKA = ErrorTable(
    "librdkafka",
    True,
    dict(_of_the_last_attempt(EARLIER_ATTEMPTS)),
    _own(
        [
            (-184, FAIL, "queue_full", "refused at the door: the local queue is full"),
            (-152, INFO, "purged_from_queue", "it may have been there for its second attempt"),
            (-151, INFO, "purged_in_flight", "it was on its way"),
            (-192, INFO, "message_timed_out", "an attempt may be in flight"),
            (-185, INFO, "timed_out", "an attempt may be in flight"),
            (-195, INFO, "transport", "the connection broke; an attempt may have arrived"),
            (-190, INFO, "unknown_partition", "it may have been known at the first attempt"),
            (-188, INFO, "unknown_topic", "it may have been known at the first attempt"),
            (-150, INFO, "fatal", "the producer gave up; attempts may have arrived"),
            (-148, INFO, "gapless_guarantee", "the producer gave up; attempts may have arrived"),
            (-149, INFO, "inconsistent", "the producer gave up; attempts may have arrived"),
            (-144, INFO, "fenced", "another producer has its name; attempts may have arrived"),
            (-197, INFO, "destroy", "the producer ends; attempts may have arrived"),
        ]
    ),
)
"""Delivery reports of librdkafka; negative codes are the library's own."""

KAFKA_PYTHON = ErrorTable(
    "kafka-python",
    True,
    dict(_of_the_last_attempt(EARLIER_ATTEMPTS)),
    _own(
        [
            ("KafkaTimeoutError", INFO, "kafka_timeout", "an attempt may be in flight"),
            ("KafkaConnectionError", INFO, "kafka_connection", "the connection broke; an attempt may have arrived"),
            ("NodeNotReadyError", INFO, "node_not_ready", "an earlier attempt may have arrived"),
            ("Cancelled", INFO, "cancelled", "it may have been on its way"),
            ("IllegalStateError", INFO, "illegal_state", "the producer gave up; attempts may have arrived"),
        ]
    ),
)
"""Delivery reports of kafka-python; errors that are not a broker's are keyed by the exception's name."""

AIOKAFKA = ErrorTable(
    "aiokafka",
    True,
    dict(_of_the_last_attempt(EARLIER_ATTEMPTS)),
    _own(
        [
            ("KafkaTimeoutError", INFO, "kafka_timeout", "an attempt may be in flight"),
            ("KafkaConnectionError", INFO, "kafka_connection", "the connection broke; an attempt may have arrived"),
            ("NodeNotReadyError", INFO, "node_not_ready", "an earlier attempt may have arrived"),
            ("ProducerFenced", INFO, "producer_fenced", "the producer gave up; attempts may have arrived"),
            ("ProducerClosed", INFO, "producer_closed", "it may have been on its way"),
            ("KafkaError", INFO, "kafka", "the producer gave up; attempts may have arrived"),
        ]
    ),
)
"""Delivery reports of aiokafka; errors that are not a broker's are keyed by the exception's name."""

THROUGH_A_BROKER = ErrorTable("admin through a broker", True, dict(_of_the_last_attempt(REPEATED_BY_THE_BROKER)))

TABLES = (SINGLE_ATTEMPT, NATIVE_RETRYING, LIBRDKAFKA, KAFKA_PYTHON, AIOKAFKA, THROUGH_A_BROKER)


def answered(table: ErrorTable, f: str, code: int | str | None, name: str = "") -> Completion:
    """What an error means for an operation of that kind of client; `name` is used where the table has no entry."""
    if code == 0:
        return Completion(OK)
    meaning = table.meaning(code, name.lower().lstrip("_") or f"kafka_error_{code}")
    return Completion(FAIL if f in READS else meaning.type, error=meaning.name)


def single_attempt(f: str, code: int) -> Completion:
    """What an error code in the response to a single request means for the operation."""
    return answered(SINGLE_ATTEMPT, f, code)


def retrying(f: str, code: int, name: str) -> Completion:
    """What an error of librdkafka means; `name` is the library's own."""
    return answered(LIBRDKAFKA, f, code, name)


def raised(table: ErrorTable, f: str, error: BaseException) -> Completion:
    """What an exception of a Python library means: a broker's response has its number in `errno`."""
    number = None if isinstance(error, OSError) else getattr(error, "errno", None)
    code = number if isinstance(number, int) else type(error).__name__
    return answered(table, f, code, exception_name(error))


def refused(reason: str) -> Completion:
    """The client did not hand the operation to the network."""
    return Completion(FAIL, error=reason)


def lost(f: str, reason: str) -> Completion:
    """The connection or the time ended after the request may have been sent."""
    return Completion(FAIL if f in READS else INFO, error=reason)
