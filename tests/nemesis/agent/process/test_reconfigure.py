"""Settings of a process changed in its file, by real agents: undone in any order, and at the latest in time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.nemesis.agent.conftest import Refused, RunningAgent
from tests.waiting import wait_until

ORIGINAL = "a=1\nb=2\n"
NODE = ["/bin/sh", "-c", 'cp "$0" "$1"; exec sleep 600']
"""A process that shows by which configuration it runs."""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "node.properties"
    path.write_text(ORIGINAL)
    return path


@pytest.fixture
def seen(tmp_path: Path) -> Path:
    return tmp_path / "seen"


@pytest.fixture
def node(agent: RunningAgent, config: Path, seen: Path) -> RunningAgent:
    agent.define([*NODE, str(config), str(seen)], config=str(config))
    start(agent, seen)
    return agent


def start(agent: RunningAgent, seen: Path) -> int:
    seen.unlink(missing_ok=True)
    pid = agent.call("proc.start", name="node")["pid"]
    wait_until(lambda: seen.exists() and seen.read_text() != "", "the node has read its configuration")
    return int(pid)


def reconfigure(agent: RunningAgent, id: str, ttl: float = 60, **settings: str) -> None:
    agent.call("proc.reconfigure", id=id, name="node", settings=settings, ttl=ttl)


def test_the_next_start_has_the_settings_and_the_running_process_goes_on(
    node: RunningAgent, config: Path, seen: Path
) -> None:
    before = node.call("proc.status", name="node")
    reconfigure(node, "f1", b="3", c="x=y z")
    assert node.call("proc.status", name="node") == before
    assert seen.read_text() == ORIGINAL
    node.call("proc.stop", name="node")
    start(node, seen)
    assert seen.read_text().endswith("b=3\nc=x=y z\n")
    assert seen.read_text().startswith(ORIGINAL)


def test_a_process_that_stopped_cleanly_before_starts_by_what_was(node: RunningAgent, config: Path, seen: Path) -> None:
    reconfigure(node, "f1", b="3")
    node.call("proc.stop", name="node")
    start(node, seen)
    node.call("proc.stop", name="node")
    assert node.call("heal", id="f1") == {"healed": ["f1"]}
    assert node.state_of() == "absent" and config.read_text() == ORIGINAL


def test_a_process_that_runs_by_settings_that_are_gone_is_started_again(
    node: RunningAgent, config: Path, seen: Path
) -> None:
    reconfigure(node, "f1", b="3")
    node.call("proc.stop", name="node")
    pid = start(node, seen)
    node.call("heal", id="f1")
    wait_until(lambda: seen.read_text() == ORIGINAL, "it has read the original")
    assert config.read_text() == ORIGINAL and node.call("proc.status", name="node")["pid"] != pid


def test_a_process_that_never_ran_by_them_goes_on(node: RunningAgent, config: Path) -> None:
    before = node.call("proc.status", name="node")
    reconfigure(node, "f1", b="3")
    node.call("heal", id="f1")
    assert node.call("proc.status", name="node") == before and config.read_text() == ORIGINAL


@pytest.mark.parametrize(("first", "left"), [("f1", "b=4\n"), ("f2", "b=3\nc=5\n")])
def test_two_end_in_either_order(node: RunningAgent, config: Path, first: str, left: str) -> None:
    reconfigure(node, "f1", b="3", c="5")
    reconfigure(node, "f2", b="4")
    assert config.read_text().endswith("b=3\nc=5\nb=4\n"), "the later one applies"
    node.call("heal", id=first)
    assert config.read_text().startswith(ORIGINAL) and config.read_text().endswith(f"\n{left}")
    node.call("heal")
    assert config.read_text() == ORIGINAL


def test_without_a_control_process_the_host_ends_it_in_time(node: RunningAgent, config: Path, seen: Path) -> None:
    reconfigure(node, "f1", ttl=1.0, b="3")
    node.call("proc.stop", name="node")
    start(node, seen)
    wait_until(lambda: seen.read_text() == ORIGINAL, "the keeper has started it by the original")
    wait_until(lambda: not node.has_open("f1"), "the keeper has noted that the fault ended")
    assert config.read_text() == ORIGINAL


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"b": "one\ntwo"}, "printable"),
        ({"b": "c:\\d"}, "backslash"),
        ({"b c": "1"}, "'b c' is no name"),
        ({"b": 1}, "must be a printable text"),
        ({}, "none is given"),
    ],
)
def test_what_would_be_more_than_a_line_is_refused(
    node: RunningAgent, config: Path, settings: dict[str, object], problem: str
) -> None:
    with pytest.raises(Refused, match=problem):
        node.call("proc.reconfigure", id="f1", name="node", settings=settings, ttl=10)
    assert config.read_text() == ORIGINAL


def test_a_process_without_a_file_is_refused(agent: RunningAgent) -> None:
    agent.define(["sleep", "600"])
    with pytest.raises(Refused, match="defined without `config`"):
        reconfigure(agent, "f1", b="3")


def test_a_damaged_entry_is_healed_by_what_is_known(node: RunningAgent, config: Path, seen: Path) -> None:
    """Only the id of such an entry is known: every file becomes what the readable ones require."""
    reconfigure(node, "f1", b="3")
    node.call("proc.stop", name="node")
    start(node, seen)
    for directory in ("journal", "journal.copy"):
        (node.state / directory / "f1.json").write_text("{")
    wait_until(lambda: config.read_text() == ORIGINAL, "the keeper has written the original")
    wait_until(lambda: seen.read_text() == ORIGINAL, "and started the node by it")
