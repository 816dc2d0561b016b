"""A fault of the user's own: injected once, healed until it succeeds, checked by a command of theirs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.facts import naming
from tests.nemesis.agent.conftest import Refused, RunningAgent
from tests.waiting import wait_until


def suffer(agent: RunningAgent, sign: Path, id: str = "f1", ttl: float = 60, **more: Any) -> dict[str, Any]:
    asked = {"inject": f"echo x >> {sign}", "heal": f"rm -f {sign}", **more}
    return agent.call("host.command", id=id, ttl=ttl, **asked)


def check(agent: RunningAgent, sign: Path, **more: Any) -> dict[str, Any]:
    return agent.call("probe.command", **{"id": "f1", "check": f"test -e {sign}", **more})


@pytest.fixture
def sign(tmp_path: Path) -> Path:
    """What shows that the command was carried out: one line for each time."""
    return tmp_path / "sign"


def test_a_command_injects_another_heals_and_a_third_tells(agent: RunningAgent, sign: Path) -> None:
    assert check(agent, sign) == {"open": False, "status": 1, "said": ""}
    suffer(agent, sign)
    assert check(agent, sign) == {"open": True, "status": 0, "said": ""}
    agent.call("heal", id="f1")
    assert check(agent, sign) == {"open": False, "status": 1, "said": ""}


def test_injected_again_it_only_renews_its_time(agent: RunningAgent, sign: Path) -> None:
    suffer(agent, sign, ttl=5)
    suffer(agent, sign, ttl=60)
    assert sign.read_text() == "x\n"
    assert agent.call("journal")["entries"][0]["left_s"] > 50


def test_after_a_heal_the_same_fault_may_be_injected_anew(agent: RunningAgent, sign: Path) -> None:
    for _ in range(2):
        suffer(agent, sign)
        assert sign.read_text() == "x\n"
        agent.call("heal", id="f1")


def test_the_keeper_heals_it_when_its_time_is_up(agent: RunningAgent, sign: Path) -> None:
    suffer(agent, sign, ttl=1)
    agent.kill()
    assert sign.exists()
    wait_until(lambda: not sign.exists(), "the keeper runs the heal command")


def test_a_command_that_fails_is_healed_and_leaves_no_fault(agent: RunningAgent, sign: Path) -> None:
    with pytest.raises(Refused, match=naming("inject", "3", "no such luck")):
        suffer(agent, sign, inject=f"touch {sign}; echo no such luck; exit 3")
    assert not sign.exists()
    assert agent.call("journal")["entries"] == []


def test_a_heal_that_fails_is_tried_again(agent: RunningAgent, sign: Path, tmp_path: Path) -> None:
    obstacle = tmp_path / "obstacle"
    obstacle.touch()
    suffer(agent, sign, ttl=1, heal=f"test ! -e {obstacle} && rm -f {sign}")
    with pytest.raises(Refused, match=naming("heal", "1")):
        agent.call("heal", id="f1")
    assert [entry["id"] for entry in agent.call("journal")["entries"]] == ["f1"]
    obstacle.unlink()
    wait_until(lambda: not sign.exists(), "the keeper tries again")


def test_a_command_that_takes_too_long_is_killed_with_what_it_started(
    agent: RunningAgent, sign: Path, tmp_path: Path
) -> None:
    began = time.monotonic()
    started = tmp_path / "started"
    background = f"echo $$ >{started}; sleep 10; touch {sign}"
    with pytest.raises(Refused, match=r"took more than 0\.5 s"):
        suffer(agent, sign, inject=f"sh -c '{background}' & wait", timeout=0.5)
    assert time.monotonic() - began < 1.7
    pid = int(started.read_text())
    wait_until(lambda: is_gone(pid), "what it started has ended", timeout=1)
    assert not sign.exists()


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_what_it_leaves_in_the_background_keeps_nobody_waiting(agent: RunningAgent, sign: Path) -> None:
    began = time.monotonic()
    suffer(agent, sign, inject=f"sleep 3 & echo $! > {sign}", heal=f"kill $(cat {sign}); rm -f {sign}")
    agent.call("heal", id="f1")
    assert time.monotonic() - began < 2


def test_commands_know_their_fault_and_host(agent: RunningAgent, sign: Path) -> None:
    suffer(agent, sign, inject=f'echo "$SQUALL_FAULT on $SQUALL_HOST" > {sign}')
    assert sign.read_text() == "f1 on h1\n"


@pytest.mark.parametrize("wrong", [{"inject": ""}, {"heal": None}, {"timeout": 0}, {"timeout": 61}])
def test_what_is_missing_is_refused(agent: RunningAgent, sign: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(Refused):
        suffer(agent, sign, **wrong)
    assert agent.call("journal")["entries"] == []
