"""Decisions about change points: appended, the newest counts, and a point that moves a little keeps its own."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from squall.results.lake.triage import TRIAGE_FILE, State, Triage, append, decided, decisions


def decision(night: str = "2026-11-10", state: State = "acknowledged", note: str = "") -> Triage:
    at = "2026-11-24T08:00:00+00:00"
    return Triage(
        point="5f0c1a2b", scenario="kills", metric="p99", night=night, state=state, note=note, who="ann", at=at
    )


def read(root: Path) -> list[Triage]:
    said: list[str] = []
    found = decisions(root, said.append)
    assert said == []
    return found


def test_decisions_are_kept_in_their_order(tmp_path: Path) -> None:
    assert read(tmp_path) == []
    for state in ("acknowledged", "fixed"):
        append(tmp_path, decision(state=state, note="überall\nneu"))
    found = read(tmp_path)
    assert [one.state for one in found] == ["acknowledged", "fixed"]
    assert decided(found, "kills", "p99", "2026-11-10") == found[1]


def test_a_point_keeps_its_decision_if_it_moves_by_two_nights() -> None:
    known = [decision()]
    assert decided(known, "kills", "p99", "2026-11-12") is not None
    assert decided(known, "kills", "p99", "2026-11-13") is None
    assert decided(known, "kills", "p50", "2026-11-10") is None
    assert decided(known, "pauses", "p99", "2026-11-10") is None


def test_a_torn_line_is_named_and_the_next_decision_stands_on_its_own(tmp_path: Path) -> None:
    append(tmp_path, decision())
    with (tmp_path / TRIAGE_FILE).open("ab") as file:
        file.write(b'{"point": "5f')
    append(tmp_path, decision(state="hidden"))
    said: list[str] = []
    assert [one.state for one in decisions(tmp_path, said.append)] == ["acknowledged", "hidden"]
    assert len(said) == 1 and f"{TRIAGE_FILE}:2: left out" in said[0]


def test_several_writers_lose_nothing(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: append(tmp_path, decision(note=str(number))), range(40)))
    assert sorted(int(one.note) for one in read(tmp_path)) == list(range(40))
