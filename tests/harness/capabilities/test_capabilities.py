"""Capabilities are decided by what a run shows, and an answer that differs from Kafka's is found (DA-01 to DA-08)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from squall.harness.capabilities import checks
from squall.harness.capabilities.imports import reached
from squall.harness.capabilities.scene import Scene, Seen
from squall.harness.cli.main import status_of
from squall.nodes.protocol.messages import ApiKey


@pytest.fixture(scope="module")
def seen() -> Seen:
    return Scene().play()


def test_kafkas_two_kinds_hold_and_the_others_do_not(seen: Seen) -> None:
    """DA-01, DA-02, DA-03, MD-01: (A) and (B), but no segments, pointers, sequencer or proxies."""
    found = [
        check(seen)
        for check in (
            checks.separate_processes, checks.split_protocol, checks.segmented_logs, checks.pointer_logs,
            checks.apart_from_io, checks.leaderless,
        )
    ]  # fmt: skip
    assert [(one.id, one.holds, one.passed) for one in found] == [
        ("A", True, True), ("B", True, True), ("C", False, True), ("D", False, True), ("E", False, True),
        ("F", False, True),
    ]  # fmt: skip


def test_each_plane_reaches_messages_and_nothing_of_the_other() -> None:
    assert "protocol" in reached("control") & reached("data")
    assert not reached("control") & {"broker", "replication"}
    assert "controller" not in reached("data")


def test_an_import_from_plane_to_plane_is_found(tmp_path: Path) -> None:
    (tmp_path / "controller").mkdir()
    (tmp_path / "controller" / "one.py").write_text("from squall.nodes.metadata import image\n")
    (tmp_path / "metadata.py").write_text("import squall.nodes.broker.broker\n")
    (tmp_path / "broker.py").write_text("import asyncio\n")
    assert reached("control", tmp_path) == {"metadata", "broker"}


@pytest.mark.parametrize(
    ("change", "check"),
    [
        ({"roles": {"n1": ("broker", "controller")}}, checks.separate_processes),
        ({"apis": {("controller", "broker"): {ApiKey.METADATA}}}, checks.split_protocol),
        ({"logs": {"b1": (0, 3), "b2": (3, 6)}}, checks.segmented_logs),
        ({"content_at": {"b1", "c1"}}, checks.pointer_logs),
        ({"produce_path": [("client", "c1", "AllocateProducerIds")]}, checks.apart_from_io),
        ({"errors": {"b1": 0, "b2": 0, "b3": 0}}, checks.leaderless),
        ({"quorum_roles": {"c1": "leader", "c2": "leader"}}, checks.paxos_roles),
        ({"actions": {}}, checks.follows_specification),
    ],
)
def test_another_answer_than_kafkas_is_a_failure(seen: Seen, change: dict, check: object) -> None:  # type: ignore[type-arg]
    assert not check(replace(seen, **change)).passed  # type: ignore[operator]


def test_a_switch_of_one_plane_that_shows_in_the_other_is_found(seen: Seen) -> None:
    """DA-05."""
    assert checks.planes_change_separately(seen, lambda config: seen).passed
    other = replace(seen, apis={**seen.apis, ("broker", "broker"): {ApiKey.VOTE}})
    assert not checks.planes_change_separately(seen, lambda config: other).passed


def test_every_replica_has_its_roles_of_paxos(seen: Seen) -> None:
    """DA-07."""
    found = checks.paxos_roles(seen)
    assert found.passed
    assert "b3 learner" in found.evidence and "proposer+acceptor+learner" in found.evidence


def test_the_command_prints_answers_with_evidence(
    seen: Seen, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(checks, "capabilities", lambda: [checks.leaderless(seen)])
    assert status_of(["capabilities"]) == 0
    assert "NOT_LEADER_OR_FOLLOWER" in capsys.readouterr().out
    assert status_of(["capabilities", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["passed"] is True
    monkeypatch.setattr(checks, "capabilities", lambda: [replace(checks.leaderless(seen), holds=True)])
    assert status_of(["capabilities"]) == 1
