"""A ledger goes on after an interruption, and takes one campaign at a time (HX-17)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from squall.harness.errors import UsageError
from squall.harness.simulation.mutation.generation.mutation import Mutation
from squall.harness.simulation.mutation.judgement import KILLED, SIMULATION, UNIT, Judgement
from squall.harness.simulation.mutation.ledger import Campaign, Entry, Ledger, read_ledger

CAMPAIGN = Campaign("code", "commit", 1, ("swarm",), 45.0)
MUTATION = Mutation("raft.core:run:boundary:1", "squall.nodes.raft.core", 7, "boundary", "run", 3, 4, "<", "<=")
ENTRY = Entry(MUTATION, Judgement(SIMULATION, KILLED, by=("ELECT",), scenario="swarm", seed=3, seconds=4.5), "now")


def test_a_ledger_that_is_opened_again_knows_what_has_been_judged(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    first = Ledger(path, CAMPAIGN)
    first.append(ENTRY)
    first.close()
    again = Ledger(path, replace(CAMPAIGN, commit="a later one that changes no code of a run"))
    assert again.has(MUTATION, SIMULATION)
    assert not again.has(MUTATION, UNIT)
    assert again.entries == [ENTRY]
    again.close()
    assert read_ledger(path) == (CAMPAIGN, [ENTRY])


def test_a_line_that_a_kill_cut_short_is_judged_again(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger(path, CAMPAIGN)
    ledger.append(ENTRY)
    ledger.close()
    path.write_text(path.read_text()[:-20])
    again = Ledger(path, CAMPAIGN)
    assert not again.has(MUTATION, SIMULATION)
    again.append(ENTRY)
    again.close()
    assert read_ledger(path)[1] == [ENTRY]


def test_two_campaigns_at_once_are_refused(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl", CAMPAIGN)
    with pytest.raises(UsageError, match="in use"):
        Ledger(tmp_path / "ledger.jsonl", CAMPAIGN)
    ledger.close()
    Ledger(tmp_path / "ledger.jsonl", CAMPAIGN).close()


@pytest.mark.parametrize("other", [replace(CAMPAIGN, fingerprint="other"), replace(CAMPAIGN, budget_s=60.0)])
def test_a_ledger_of_other_code_or_settings_is_refused(tmp_path: Path, other: Campaign) -> None:
    Ledger(tmp_path / "ledger.jsonl", CAMPAIGN).close()
    with pytest.raises(UsageError, match="another campaign"):
        Ledger(tmp_path / "ledger.jsonl", other)
    Ledger(tmp_path / "ledger.jsonl", CAMPAIGN).close()


def test_a_file_that_is_no_ledger_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.jsonl").write_text('{"something": "else"}\n')
    with pytest.raises(UsageError, match="no ledger"):
        read_ledger(tmp_path / "other.jsonl")
