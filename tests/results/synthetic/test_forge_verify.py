"""Rows that are computed by several processes end at once when they are no longer wanted."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator

import pytest

from squall.results.synthetic import forge_verify
from squall.results.synthetic.forge_verify import CaseResult, Question, verified

LONG_S = 30.0
SOON_S = 10.0


def slow(question: Question) -> CaseResult:
    """Answer the first question at once, and any other much later."""
    if question.first:
        time.sleep(LONG_S)  # the work that is given up
    return CaseResult(question.kind, "clean", None, 1, 1)


@pytest.fixture
def errors_of_threads(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    found: list[object] = []
    monkeypatch.setattr(threading, "excepthook", found.append)
    return found


@pytest.fixture
def as_a_command() -> Iterator[None]:
    """SIGTERM raises KeyboardInterrupt, as in a command; processes of a pool inherit it."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.timeout(120)
@pytest.mark.usefixtures("as_a_command")
def test_busy_processes_end_when_the_rows_are_given_up(
    monkeypatch: pytest.MonkeyPatch, errors_of_threads: list[object]
) -> None:
    """They took the signal for an error of their row, and went on with the next."""
    monkeypatch.setattr(forge_verify, "answered", slow)
    rows = verified([Question("log", None, 1, first) for first in range(8)], processes=2)
    next(rows)
    began = time.monotonic()
    rows.close()  # type: ignore[attr-defined]
    assert time.monotonic() - began < SOON_S
    assert errors_of_threads == []
