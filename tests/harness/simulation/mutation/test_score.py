"""The arithmetic of the score, and what is taken out of it (HX-17)."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from squall.harness.errors import UsageError
from squall.harness.simulation.mutation.equivalents import Equivalents, load_equivalents
from squall.harness.simulation.mutation.generation.mutation import Mutation
from squall.harness.simulation.mutation.judgement import (
    HISTORY,
    KILLED,
    NOT_REACHED,
    SIMULATION,
    SURVIVED,
    UNIT,
    Judgement,
)
from squall.harness.simulation.mutation.ledger import Campaign, Entry, Ledger
from squall.harness.simulation.mutation.report import print_ledgers, print_score, share, write_score
from squall.harness.simulation.mutation.score import Times, judged_mutants, score_of

NONE = Equivalents({})
CAMPAIGN = Campaign("code", "0123456789abcdef", 1, ("swarm",), 45.0)


def mutant(number: int, package: str = "raft") -> Mutation:
    name = f"{package}.core:run:boundary:{number}"
    return Mutation(name, f"squall.nodes.{package}.core", 7, "boundary", "run", 3, 4, "<", "<=")


def entries(number: int, unit: str, simulation: Judgement, history: Judgement, package: str = "raft") -> list[Entry]:
    one = mutant(number, package)
    return [Entry(one, Judgement(UNIT, unit)), Entry(one, simulation), Entry(one, history)]


def killed(mode: str, by: str, seconds: float = 1.0) -> Judgement:
    return Judgement(mode, KILLED, by=(by,), seconds=seconds, tried=1, differed=1)


def survived(mode: str, differed: int = 0, tried: int = 6) -> Judgement:
    return Judgement(mode, SURVIVED, tried=tried, differed=differed, seconds=45.0)


LEDGER = [
    *entries(1, KILLED, killed(SIMULATION, "ELECT", 3.0), killed(HISTORY, "lost_write")),
    *entries(2, KILLED, killed(SIMULATION, "CRASH", 1.0), killed(HISTORY, "CRASH")),
    *entries(3, SURVIVED, killed(SIMULATION, "ISR", 9.0), survived(HISTORY, 3), "storage"),
    *entries(4, SURVIVED, survived(SIMULATION), survived(HISTORY), "storage"),
    *entries(5, KILLED, survived(SIMULATION, 2), survived(HISTORY, 2), "storage"),
    *entries(6, SURVIVED, Judgement(SIMULATION, NOT_REACHED, skipped=9), Judgement(HISTORY, NOT_REACHED), "storage"),
]


def test_each_way_of_judging_has_its_share() -> None:
    total = score_of(LEDGER, NONE).total
    assert (total.mutants, total.unit, total.simulation, total.history, total.nothing) == (6, 3, 3, 2, 2)
    assert total.not_reached == 1


def test_a_mutant_that_is_not_judged_in_every_mode_yet_is_left_out() -> None:
    assert score_of([*LEDGER, Entry(mutant(7), Judgement(UNIT, KILLED))], NONE).total == score_of(LEDGER, NONE).total


def test_a_crash_is_no_find_of_the_historys_checks() -> None:
    assert score_of(LEDGER, NONE).total.anomalies == 1


def test_packages_and_operators_have_rows() -> None:
    score = score_of(LEDGER, NONE)
    assert [(row.name, row.mutants, row.simulation) for row in score.packages] == [("raft", 2, 2), ("storage", 4, 1)]
    assert [(row.name, row.mutants) for row in score.operators] == [("boundary", 6)]


def test_times_until_the_kill_are_of_kills_only() -> None:
    assert score_of(LEDGER, NONE).times[SIMULATION] == Times(3.0, 9.0)


def test_an_equivalent_mutant_is_taken_out_unless_something_kills_it() -> None:
    known = {(mutant(number, "storage").id, "<", "<="): "no run differs" for number in (4, 5)}
    score = score_of(LEDGER, Equivalents(known))
    assert (score.total.mutants, score.equivalent) == (5, 1)
    changed = {(mutant(4, "storage").id, "<", ">"): "of other code"}
    assert score_of(LEDGER, Equivalents(changed)).equivalent == 0


def test_survivors_say_why_and_those_not_reached_come_first() -> None:
    survivors = score_of(LEDGER, NONE).simulation_survivors
    assert [one.mutation.id[-1] for one in survivors] == ["6", "4", "5"]
    assert survivors[0].survival.startswith("not reached")
    assert "no trace differs" in survivors[1].survival
    assert "2 traces differ" in survivors[2].survival


def test_only_a_survivor_that_changed_no_trace_may_be_equivalent() -> None:
    assert [one.mutation.id[-1] for one in judged_mutants(LEDGER) if one.maybe_equivalent] == ["4"]


def test_a_share_of_nothing_is_empty() -> None:
    assert (share(1, 4), share(0, 0)) == ("(25%)", "")


def test_the_tables_are_printed_and_written(tmp_path: Path) -> None:
    said = StringIO()
    print_score(Console(file=said, width=160), CAMPAIGN, LEDGER)
    assert "SURVIVES   storage.core:run:boundary:6" in said.getvalue()
    write_score(tmp_path / "score.md", CAMPAIGN, LEDGER)
    assert "| all | 6 | 3 (50%) | 3 (50%) | 2 (33%) |" in (tmp_path / "score.md").read_text()
    write_score(tmp_path / "score.json", CAMPAIGN, LEDGER)
    assert json.loads((tmp_path / "score.json").read_text())["total"]["simulation"] == 3
    with pytest.raises(UsageError):
        write_score(tmp_path / "score.txt", CAMPAIGN, LEDGER)


def test_the_trend_has_a_line_for_each_ledger(tmp_path: Path) -> None:
    paths = [tmp_path / "before.jsonl", tmp_path / "after.jsonl"]
    for path, held in zip(paths, (LEDGER[:6], LEDGER), strict=True):
        ledger = Ledger(path, CAMPAIGN)
        for entry in held:
            ledger.append(entry)
        ledger.close()
    said = StringIO()
    assert print_ledgers(Console(file=said, width=160), paths) == 0
    lines = said.getvalue().splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["before.jsonl", "after.jsonl"]
    assert "01234567" in lines[1]


def test_every_known_equivalent_mutant_has_a_reason(tmp_path: Path) -> None:
    load_equivalents()
    bare = tmp_path / "equivalents.yaml"
    bare.write_text("- {id: a, original: b, replacement: c, reason: ''}\n")
    with pytest.raises(ValueError, match="reason"):
        load_equivalents(bare)
