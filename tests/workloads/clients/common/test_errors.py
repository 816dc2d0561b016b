"""`fail` is said only where nothing can have happened (HX-03), and every code of the protocol has been judged."""

from __future__ import annotations

from collections import Counter

import pytest
from aiokafka import errors as aiokafka_errors
from confluent_kafka import KafkaError
from kafka import errors as kafka_errors

from squall.nodes.protocol.errors import ErrorCode
from squall.workloads.clients.common.error_codes import GROUPS
from squall.workloads.clients.common.errors import (
    AIOKAFKA,
    KAFKA_PYTHON,
    LIBRDKAFKA,
    NATIVE_RETRYING,
    SINGLE_ATTEMPT,
    TABLES,
    ErrorTable,
    lost,
    raised,
    refused,
    retrying,
    single_attempt,
)
from squall.workloads.core.operation import FAIL, FINAL_POLL, INFO, LIST_OFFSETS, OK, POLL, SEND

RETRYING = [table for table in TABLES if table.retries]

MAY_FOLLOW_AN_APPEND = (
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
    ErrorCode.KAFKA_STORAGE_ERROR,
)

WHAT_A_BROKER_CHECKS_BEFORE_IT_APPENDS = {
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.INVALID_TOPIC_EXCEPTION,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.INVALID_REQUIRED_ACKS,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.UNSUPPORTED_VERSION,
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    ErrorCode.INVALID_RECORD,
}


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.kind)
def test_every_code_of_the_protocol_has_been_judged_with_a_reason(table: ErrorTable) -> None:
    assert set(table.answers) == {int(code) for code in ErrorCode}
    assert all(one.reason and one.name for one in (*table.answers.values(), *table.own.values()))
    assert all(one.type in (OK, FAIL, INFO) for one in (*table.answers.values(), *table.own.values()))


def test_every_code_is_judged_once() -> None:
    times = Counter(code for group in GROUPS for code in group.codes)
    assert [code for code, count in times.items() if count != 1] == []


def test_codes_go_by_kafkas_names() -> None:
    named = {code: name for group in GROUPS for code, name in group.codes.items()}
    assert named == {int(code): code.name.lower().removesuffix("_exception") for code in ErrorCode}


def test_a_single_attempt_fails_only_for_checks_made_before_the_append() -> None:
    definite = {ErrorCode(code) for code, meaning in SINGLE_ATTEMPT.answers.items() if meaning.type == FAIL}
    assert definite == WHAT_A_BROKER_CHECKS_BEFORE_IT_APPENDS
    assert definite.isdisjoint(MAY_FOLLOW_AN_APPEND)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.kind)
def test_only_an_acknowledgement_is_ok(table: ErrorTable) -> None:
    acknowledged = {ErrorCode(code) for code, meaning in table.answers.items() if meaning.type == OK}
    known_as_appended = {ErrorCode.DUPLICATE_SEQUENCE_NUMBER} if table is NATIVE_RETRYING else set()
    assert acknowledged == {ErrorCode.NONE} | known_as_appended


@pytest.mark.parametrize("table", RETRYING, ids=lambda table: table.kind)
def test_no_brokers_answer_is_a_failure_for_a_client_that_retries(table: ErrorTable) -> None:
    assert [code for code in ErrorCode if code != ErrorCode.NONE and table.answers[int(code)].type == FAIL] == []


@pytest.mark.parametrize("code", MAY_FOLLOW_AN_APPEND)
def test_an_answer_that_may_come_after_the_append_is_indeterminate(code: int) -> None:
    assert single_attempt(SEND, code).type == INFO


@pytest.mark.parametrize("code", [2, 10, 19, 45, 47, 87])
def test_a_refusal_before_the_append_is_definite_for_a_single_attempt(code: int) -> None:
    assert single_attempt(SEND, code).type == FAIL


@pytest.mark.parametrize("code", [2, 6, 7, 10, 19, 20, 45, -192, -195, -150])
def test_what_librdkafka_reports_of_a_record_it_has_sent_is_indeterminate(code: int) -> None:
    assert retrying(SEND, code, "_NAME").type == INFO


def test_a_code_that_nobody_has_judged_is_indeterminate() -> None:
    assert single_attempt(SEND, 4711).type == INFO
    assert retrying(SEND, 4711, "_NAME").type == INFO
    assert retrying(SEND, -4711, "_NAME").error == "name"


def test_what_never_left_the_client_certainly_did_not_happen() -> None:
    assert retrying(SEND, -184, "_QUEUE_FULL").type == FAIL
    assert refused("queue_full").type == FAIL


@pytest.mark.parametrize("code", [-151, -152])
def test_what_was_taken_back_may_have_been_sent_before(code: int) -> None:
    assert retrying(SEND, code, "_NAME").type == INFO


@pytest.mark.parametrize("f", [POLL, FINAL_POLL, LIST_OFFSETS])
def test_a_read_that_fails_just_failed(f: str) -> None:
    assert single_attempt(f, 6).type == FAIL
    assert retrying(f, -195, "_TRANSPORT").type == FAIL
    assert lost(f, "disconnected").type == FAIL
    assert lost(SEND, "disconnected").type == INFO


@pytest.mark.parametrize(
    ("table", "error", "name"),
    [
        (KAFKA_PYTHON, kafka_errors.NotEnoughReplicasError(), "not_enough_replicas"),
        (KAFKA_PYTHON, kafka_errors.MessageSizeTooLargeError(), "message_too_large"),
        (KAFKA_PYTHON, kafka_errors.KafkaTimeoutError("expired"), "kafka_timeout"),
        (AIOKAFKA, aiokafka_errors.NotEnoughReplicasError(), "not_enough_replicas"),
        (AIOKAFKA, aiokafka_errors.KafkaConnectionError("gone"), "kafka_connection"),
        (AIOKAFKA, ConnectionResetError(111, "not a code of Kafka's"), "connection_reset"),
    ],
)
def test_a_python_librarys_exception_is_judged_by_its_code_or_name(
    table: ErrorTable, error: Exception, name: str
) -> None:
    assert raised(table, SEND, error).type == INFO
    assert raised(table, SEND, error).error == name


def test_the_words_a_library_has_of_its_own_are_words_it_has() -> None:
    numbers = {getattr(KafkaError, name) for name in dir(KafkaError) if name.startswith("_") and name[1].isupper()}
    assert set(LIBRDKAFKA.own) <= numbers
    assert all(hasattr(kafka_errors, str(name)) for name in KAFKA_PYTHON.own)
    assert all(hasattr(aiokafka_errors, str(name)) for name in AIOKAFKA.own)
