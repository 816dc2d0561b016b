"""Hosts of a reduced lab offer what is about one process or its files; all else they refuse, and say so beforehand."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from squall.nemesis.agent.core.reduced import NO_NETWORK, OFFERED, SHARED, not_offered
from squall.nemesis.registry import ON_HOSTS
from tests.nemesis.agent.conftest import next_address


class ReducedAgent:
    """An agent as a reduced lab starts it."""

    def __init__(self, state: Path) -> None:
        self.address = next_address()
        command = [
            sys.executable,
            "-u",
            "-m",
            "squall.nemesis.agent",
            "--state",
            str(state),
            "--name",
            "b1",
            "--reduced",
            self.address,
        ]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def answer(self, verb: str, **arguments: Any) -> dict[str, Any]:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps({"op": 1, "verb": verb, "args": arguments}) + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReducedAgent]:
    one = ReducedAgent(tmp_path_factory.mktemp("reduced"))
    yield one
    assert one.process.stdin
    one.process.stdin.close()  # with the agent goes its keeper, no fault being open
    one.process.wait(20)


def test_what_it_offers_are_verbs_that_there_are() -> None:
    assert set(OFFERED) < set(ON_HOSTS)


def test_nothing_is_offered_that_reaches_beyond_a_process_and_its_files() -> None:
    refused = not_offered(ON_HOSTS)
    assert set(refused) == set(ON_HOSTS) - set(OFFERED)
    assert {verb for verb in ON_HOSTS if verb.startswith(("net.", "rpc.", "host."))} <= set(refused)
    assert refused["net.drop"] == refused["rpc.hold"] == NO_NETWORK
    assert refused["disk.load"] == refused["host.command"] == SHARED


def test_a_verb_that_nobody_has_thought_about_is_refused() -> None:
    assert not_offered(["disk.melt", "proc.kill"]) == {"disk.melt": SHARED}


def test_the_agent_says_beforehand_what_it_refuses(agent: ReducedAgent) -> None:
    info = agent.answer("info")["result"]
    assert info["lab"] is True and info["probe"] == f"{agent.address}:7465"
    assert set(not_offered(ON_HOSTS)) <= set(info["unable"])
    assert not {"proc.kill", "proc.pause", "clock.set", "disk.wipe"} & set(info["unable"])
    assert info["unable"]["net.drop"] == NO_NETWORK


@pytest.mark.parametrize("verb", sorted(not_offered(ON_HOSTS)))
def test_asked_all_the_same_it_refuses_and_nothing_is_open(agent: ReducedAgent, verb: str) -> None:
    """Whatever rights it has: this one is root as often as not."""
    said = agent.answer(verb, id="f1", ttl=5, sources=["10.0.0.1"], name="node", command="true")
    assert (said["ok"], said["kind"]) == (False, "unsupported"), said
    assert "reduced lab" in said["error"]
    assert agent.answer("journal")["result"]["entries"] == []


def test_what_it_offers_it_carries_out_and_heals(agent: ReducedAgent, tmp_path: Path) -> None:
    agent.answer("proc.define", name="node", argv=["sleep", "1000"], log=str(tmp_path / "log"))
    agent.answer("proc.start", name="node")
    assert agent.answer("proc.pause", id="p1", ttl=30, name="node")["ok"]
    assert agent.answer("proc.status", name="node")["result"]["state"] == "stopped"
    assert agent.answer("heal")["result"]["healed"] == ["p1"]
    assert agent.answer("proc.status", name="node")["result"]["state"] == "running"
    agent.answer("proc.stop", name="node")
