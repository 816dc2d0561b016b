"""`fail` is said only where nothing can have happened."""

from __future__ import annotations

import pytest

from squall.workloads.clients.errors import LIBRDKAFKA, SINGLE_ATTEMPT, lost, refused, retrying, single_attempt
from squall.workloads.operation import FAIL, FINAL_POLL, INFO, LIST_OFFSETS, POLL, SEND


@pytest.mark.parametrize("code", [3, 6, 7, 20, 46, 56, 4711])
def test_an_answer_that_may_come_after_the_append_is_indeterminate(code: int) -> None:
    assert single_attempt(SEND, code).type == INFO


@pytest.mark.parametrize("code", [2, 10, 19, 45, 47, 87])
def test_a_refusal_before_the_append_is_definite_for_a_single_attempt(code: int) -> None:
    assert single_attempt(SEND, code).type == FAIL


@pytest.mark.parametrize("code", [2, 6, 7, 10, 19, 20, 45, -192, -195, -150])
def test_no_brokers_answer_is_definite_for_a_client_that_retries_by_itself(code: int) -> None:
    assert retrying(SEND, code, "_NAME").type == INFO


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


def test_every_entry_gives_its_reason() -> None:
    for table in (SINGLE_ATTEMPT, LIBRDKAFKA):
        assert all(meaning.reason and meaning.name for meaning in table.values())
