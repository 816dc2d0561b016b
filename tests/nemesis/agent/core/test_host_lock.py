"""The lock of a host: one owner at a time, whoever wants it when, and no owner for good that is not there (FD-01)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from squall.nemesis.agent.core.host_lock import OF_A_USER, HostLock
from tests.nemesis.agent.conftest import AGENT_DIRECTORY, RunningAgent

LEASE = 60.0
RACERS, ROUNDS = 4, 150


class Host:
    """A lock whose time and boots the test decides."""

    def __init__(self, directory: Path) -> None:
        self.now = 1000.0
        self.boot = "first"
        self.lock = HostLock(directory / "lock", monotonic=lambda: self.now, boot=lambda: self.boot)

    def take(self, token: str, instead_of: str | None = None) -> bool:
        return bool(self.lock.take({"token": token}, LEASE, instead_of)["taken"])

    def renew(self, token: str, boot: str = "first") -> bool:
        return bool(self.lock.renew({"token": token}, LEASE, boot)["held"])


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_a_second_owner_learns_who_the_first_is(host: Host) -> None:
    record = {"token": "a", "owner": "ann@laptop", "pid": 4711, "run": "r1"}
    assert host.lock.take(record, LEASE)["taken"]
    host.now += 12
    said = host.lock.take({"token": "b"}, LEASE)
    assert not said["taken"]
    assert (said["holder"]["owner"], said["holder"]["pid"], said["holder"]["run"]) == ("ann@laptop", 4711, "r1")
    assert (said["holder"]["age"], said["holder"]["left"]) == (12, LEASE - 12)


def test_taking_twice_with_one_token_is_taking_once(host: Host) -> None:
    assert host.take("a") and host.take("a")
    assert not host.take("b")


def test_a_renewed_lease_keeps_others_away(host: Host) -> None:
    host.take("a")
    for _ in range(10):
        host.now += LEASE - 1
        assert host.renew("a")
    assert not host.take("b")


def test_a_lease_that_ended_is_replaced_and_its_owner_hears_of_it(host: Host) -> None:
    host.take("a")
    host.now += LEASE
    said = host.lock.take({"token": "b"}, LEASE)
    assert said["taken"] and said["instead_of"]["token"] == "a"
    assert not host.renew("a")
    assert not host.lock.is_held_by("a") and host.lock.is_held_by("b")


def test_a_lease_that_ended_is_renewed_if_nobody_had_the_lock_since(host: Host) -> None:
    host.take("a")
    host.now += 10 * LEASE
    assert host.renew("a")
    assert not host.take("b")


def test_a_lock_that_another_had_meanwhile_is_lost_though_it_is_free_again(host: Host) -> None:
    host.take("a")
    host.now += LEASE
    host.take("b")
    host.lock.release("b")
    assert not host.renew("a")
    assert host.lock.look() is None


def test_only_the_owner_that_was_seen_is_replaced(host: Host) -> None:
    host.take("a")
    assert not host.take("c", instead_of="b")
    assert host.take("c", instead_of="a")


def test_release_is_of_ones_own_lock_only(host: Host) -> None:
    host.take("a")
    assert not host.lock.release("b")["released"]
    assert host.lock.release("a")["released"]
    assert host.take("b")


def test_a_reboot_ends_every_lease_and_the_owner_takes_the_lock_anew(host: Host) -> None:
    host.take("a")
    host.boot, host.now = "second", 5.0
    assert host.renew("a")
    assert not host.take("b")
    host.boot = "third"
    assert host.take("b")
    assert not host.renew("a", boot="second")


@pytest.mark.parametrize("content", ["", "{", "[]", '{"token": 3}', '{"token": "a"}'])
def test_a_file_that_no_owner_wrote_is_no_lock(host: Host, content: str) -> None:
    host.take("a")
    next(iter(host.lock._directory.glob("lock"))).write_text(content)
    assert host.lock.look() is None
    assert host.take("b")


def test_a_user_without_root_respects_the_lock_of_root(tmp_path: Path) -> None:
    assert HostLock(tmp_path / "root").take({"token": "a"}, LEASE)["taken"]
    user = HostLock(tmp_path / "user", above=tmp_path / "root")
    assert not user.take({"token": "b"}, LEASE)["taken"]
    HostLock(tmp_path / "root").release("a")
    assert user.take({"token": "b"}, LEASE)["taken"]


# --- Processes -----------------------------------------------------------------------------------------------------


class Racer:
    """The program as it runs on a host, for one control process."""

    def __init__(self, home: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-u", "-c", (AGENT_DIRECTORY / "core" / "host_lock.py").read_text(), "--reduced"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"HOME": str(home)},
        )

    def say(self, **request: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"op": 1, **request}) + "\n")
        self.process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer


@pytest.fixture
def racers(tmp_path: Path) -> Iterator[list[Racer]]:
    started = [Racer(tmp_path) for _ in range(RACERS)]
    yield started
    for one in started:
        one.process.kill()
        one.process.communicate()


def test_of_processes_that_race_exactly_one_wins_every_round(racers: list[Racer]) -> None:
    winners = set()
    for number in range(ROUNDS):
        for who, racer in enumerate(racers):
            racer.say(do="take", record={"token": f"{number}-{who}"}, lease=LEASE)
        said = [racer.hear() for racer in racers]
        won = [who for who, answer in enumerate(said) if answer["taken"]]
        assert len(won) == 1, f"round {number}: {said}"
        assert {answer["holder"]["token"] for answer in said if not answer["taken"]} == {f"{number}-{won[0]}"}
        winners |= set(won)
        racers[won[0]].say(do="release", token=f"{number}-{won[0]}")
        assert racers[won[0]].hear()["released"]
    assert len(winners) > 1, "there was no race"


def test_the_lock_outlives_the_program_that_took_it(racers: list[Racer], tmp_path: Path) -> None:
    racers[0].say(do="take", record={"token": "a"}, lease=LEASE)
    assert racers[0].hear()["taken"]
    racers[0].process.communicate()
    racers[1].say(do="look")
    assert racers[1].hear()["holder"]["token"] == "a"


def test_an_agent_changes_nothing_for_an_owner_that_lost_the_host(
    start_agent: Callable[..., RunningAgent], refused: type[Any], tmp_path: Path
) -> None:
    lock = HostLock(tmp_path / OF_A_USER)
    lock.take({"token": "ours"}, LEASE)
    reduced = ("--reduced", "127.99.1.1", "--lock", "ours")
    agent = start_agent(prefix=("env", f"HOME={tmp_path}"), options=reduced)
    agent.define(["sleep", "60"])
    agent.call("proc.start", name="node")
    lock.take({"token": "theirs"}, LEASE, instead_of="ours")
    for verb, arguments in {
        "proc.stop": {"name": "node"},
        "heal": {},
        "proc.kill": {"id": "f1", "name": "node", "ttl": 5},
        "proc.define": {"name": "node", "argv": ["true"]},
    }.items():
        with pytest.raises(refused) as trouble:
            agent.call(verb, **arguments)
        assert trouble.value.kind == "lock_lost"  # type: ignore[attr-defined]
    assert agent.state_of() == "running"
    assert agent.call("journal")["entries"] == []
