"""The golden files of `witnesses/`: what is told first of every mutant on seed 1 of its scenario.

Whether they are what a run tells today is held in test_matrix.py, beside the catch itself. Here it is held that each
tells enough: an offset or an epoch, an operation or an event, and a fault at the time or that there was none.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from squall.harness.simulation.observer.failure_context import NO_FAULT, UNDER_FAULT
from squall.harness.simulation.run.matrix import TRIALS, Trial
from tests.docs.transcripts import blocks_of

WITNESSES = Path(__file__).parent / "witnesses"
PAGE = Path(__file__).resolve().parents[3] / "docs" / "reading-a-report.md"
BY_NAME = [pytest.param(trial, id=trial.name) for trial in TRIALS]
OFFSET_OR_EPOCH = re.compile(r"\b(?:offset|epoch|high watermark|log end|log start|ends at)s? \d")
ADMIN = "create_topic|create_partitions|delete_topic"
OPERATION = re.compile(rf"^    process \d+ +(?:send|poll|marker|final_poll|list_offsets|{ADMIN})\b", re.MULTILINE)
EVENT = re.compile(r"^  broken by event [\d,]+ at \d+\.\d+ s, [\w ]+: \S", re.MULTILINE)
SEEN_IN_THE_ENSEMBLE = re.compile(r"^    the breach +was seen and ended the run +\d+\.\d+ s$", re.MULTILINE)
"""A breach by a write to the ensemble is seen there, between the events of nodes."""
BEFORE_THE_LOAD = re.compile(r"^    the breach +was seen and ended the run +0\.000 s$", re.MULTILINE)
"""No operation has begun yet."""
FAULT = re.compile(rf"^    {UNDER_FAULT} +\S+ .*\b[bc]\d|^    {NO_FAULT.subject} +{NO_FAULT.text}$", re.MULTILINE)


def lacking(text: str) -> list[str]:
    """What a reader would have to look for elsewhere."""
    problem, _, circumstances = text.partition("\n    ")
    found = {
        "an offset or epoch": OFFSET_OR_EPOCH.search(text),
        "an operation": OPERATION.search(f"\n    {circumstances}") or BEFORE_THE_LOAD.search(f"\n    {circumstances}"),
        "an event, or a checker's sentence": EVENT.search(problem)
        or re.search(r"at offset \d", problem)
        or SEEN_IN_THE_ENSEMBLE.search(circumstances),
        "a fault, or that none held": FAULT.search(f"\n    {circumstances}"),
    }
    return [what for what, match in found.items() if match is None]


def test_there_is_one_file_for_each_trial_and_none_besides() -> None:
    assert sorted(path.stem for path in WITNESSES.iterdir()) == sorted(trial.name for trial in TRIALS)


@pytest.mark.parametrize("trial", BY_NAME)
def test_a_witness_names_offset_or_epoch_operation_event_and_fault(trial: Trial) -> None:
    text = (WITNESSES / f"{trial.name}.txt").read_text(encoding="utf-8")
    assert not lacking(text), f"{trial.name} does not name {', '.join(lacking(text))}:\n{text}"
    assert text.startswith(f"{trial.name}: ")
    assert re.search(rf"^INVALID  seed 1: .*\b({'|'.join(map(re.escape, trial.expected))})\b", text, re.MULTILINE)


COMPLETE = """\
some-bug: what it breaks
$ squall simulate some-scenario --seed 1 --mutant some-bug
INVALID  seed 1: ISR
  ISR: events-0: b2 is in the committed ISR and ends at 250
  broken by event 16,749 at 9.665104 s, b2: timer
    process 2    send of value 2·250 acknowledged at offset 250, leader epoch 0, begun at 5.000 s     5.001 s
    under fault  kill -9 b1 (leader of events/0): process gone                                        5.005 s
"""


def test_a_witness_that_names_all_lacks_nothing() -> None:
    assert lacking(COMPLETE) == []
    no_fault = f"    {NO_FAULT.subject}       {NO_FAULT.text}"
    assert lacking("\n".join([*COMPLETE.splitlines()[:-1], no_fault])) == []


def test_a_fault_that_is_over_is_none_at_the_time() -> None:
    assert lacking(COMPLETE.replace("under fault", "after fault")) == ["a fault, or that none held"]


@pytest.mark.parametrize(
    ("line", "missing"),
    [(4, "an event, or a checker's sentence"), (5, "an operation"), (6, "a fault, or that none held")],
)
def test_a_witness_without_one_of_them_is_found_out(line: int, missing: str) -> None:
    lines = COMPLETE.splitlines()
    assert lacking("\n".join(lines[:line] + lines[line + 1 :])) == [missing]


def test_the_page_on_reports_shows_some_of_them_word_for_word() -> None:
    shown = [
        block.text for block in blocks_of(PAGE, "text") if re.search(r"^INVALID  seed 1", block.text, re.MULTILINE)
    ]
    assert len(shown) >= 3
    files = {path.stem: path.read_text(encoding="utf-8") for path in WITNESSES.iterdir()}
    for text in shown:
        assert text == files.get(text.partition(":")[0]), f"not what the golden file says:\n{text}"
