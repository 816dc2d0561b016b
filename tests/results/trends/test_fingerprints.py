"""Fingerprints: equal for the same finding in different runs, different for different findings."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from squall.results.trends.fingerprints import Finding, fingerprint, normalised

FINDING = Finding(
    "kills", "lost_write", "SN-03", ("kill", "isolate"), "events-0: offset 12 of epoch 3 is missing on b2"
)


@pytest.mark.parametrize(
    "changed",
    [
        {"scenario": "cuts"},
        {"anomaly": "duplicate"},
        {"suspect": "SN-04"},
        {"faults": ("kill",)},
        {"error": "events-0: offset 12 of epoch 3 is torn on b2"},
    ],
)
def test_each_part_of_a_finding_counts(changed: dict[str, object]) -> None:
    assert fingerprint(replace(FINDING, **changed)) != fingerprint(FINDING)  # type: ignore[arg-type]


def test_offsets_epochs_and_nodes_do_not_count() -> None:
    other = replace(FINDING, error="events-7: offset 4 512 of epoch 17 is missing on b3")
    assert fingerprint(other) == fingerprint(FINDING)


def test_the_order_and_number_of_faults_do_not_count() -> None:
    assert fingerprint(replace(FINDING, faults=("isolate", "kill", "kill"))) == fingerprint(FINDING)


def test_parts_cannot_be_taken_for_each_other() -> None:
    pairs = [("ab", "c"), ("a", "bc"), ("abc", ""), ("", "abc"), ("2:ab", "c")]
    assert len({fingerprint(Finding(*pair)) for pair in pairs}) == len(pairs)
    assert fingerprint(Finding("s", "a", faults=("x", "y"))) != fingerprint(Finding("s", "a", faults=("x2:y",)))
    assert fingerprint(Finding("s", "a", "", ("x",))) != fingerprint(Finding("s", "a", "x"))


def test_a_fingerprint_is_the_same_in_every_process() -> None:
    """It is stored: this value may change only together with the version of the tables that keep it."""
    program = (
        "from squall.results.trends.fingerprints import Finding, fingerprint;"
        f"print(fingerprint({FINDING!r}))"  # a dataclass prints itself as the call that makes it
    )
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert output.stdout.strip() == fingerprint(FINDING) == "811d856f84f82749"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("timed out after 1.5 s", "timed out after <duration>"),
        ("timed out after 250ms", "timed out after <duration>"),
        ("9 041 acknowledged records, first at offset 2 504", "# acknowledged records, first at offset #"),
        ("value 0·250 of process 3", "value # of process #"),
        ("connect 10.0.0.12:9092", "connect <host>"),
        ("connect [fe80::1:2:3:4]:9092", "connect <host>"),
        ("at 2026-11-24T02:22:21.123Z", "at <time>"),
        ("at 02:22:21", "at <time>"),
        ("object at 0x7ffe12ab", "object at <address>"),
        ("topic 4nX-sN2HTcGkYl4d1cQ4rA", "topic <id>"),
        ("run 123e4567-e89b-12d3-a456-426614174000", "run <id>"),
        ("commit 15c962c0aa1b2", "commit <id>"),
        ("cannot read /tmp/squall/node-101/x.log", "cannot read <path>"),
        ("events-3 on b2 and node-101", "events# on b# and node#"),
        ("  two\n lines ", "two lines"),
    ],
)
def test_what_varies_from_run_to_run_is_replaced(text: str, expected: str) -> None:
    assert normalised(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "QC-08: a voter voted twice",
        "KIP-966 is off",
        "p99 above its bar",
        "INVALID_PRODUCER_EPOCH with acks=all",
        "a well-known-long-word-of-letters",
        "and/or",
    ],
)
def test_names_and_words_stay(text: str) -> None:
    assert normalised(text) == text


def test_names_with_other_numbers_are_other_findings() -> None:
    assert normalised("QC-08 broken") != normalised("QC-09 broken")
    assert normalised("p99 above") != normalised("p50 above")


NUMBER = st.integers(0, 10**9)
WORDS = st.sampled_from(["lost", "offset", "epoch", "is missing", "leader", "was fenced", "in the log of"])


@given(st.lists(WORDS, min_size=1, max_size=6), st.data())
def test_one_template_has_one_normal_form(words: list[str], data: st.DataObject) -> None:
    def filled() -> str:
        number = data.draw(NUMBER)
        host = ".".join(str(data.draw(st.integers(0, 255))) for _ in range(4))
        identity = UUID(int=data.draw(st.integers(0, 2**128 - 1)))
        seconds = data.draw(st.floats(0, 1e4).map(lambda one: f"{one:.3f}"))
        return f"{f' {number} '.join(words)} {number} at {host}:{number % 65536} for {identity} after {seconds} s"

    assert normalised(filled()) == normalised(filled())


@given(st.lists(WORDS, min_size=1, max_size=4), st.lists(WORDS, min_size=1, max_size=4), NUMBER)
def test_other_words_are_other_findings(first: list[str], second: list[str], number: int) -> None:
    one, other = (f" {number} ".join(words) for words in (first, second))
    assert (normalised(one) == normalised(other)) == (first == second)


def test_a_long_text_is_normalised_in_little_time() -> None:
    """No pattern may need more than about linear time: errors may quote megabytes."""
    for text in ("1" * 50_000 + "x", "a1" * 25_000, "/a" * 25_000, "1:" * 25_000, "1 " * 25_000, "aB1-" * 12_000):
        normalised(text)
