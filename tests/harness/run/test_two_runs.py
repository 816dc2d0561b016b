"""Two runs on one lab, as their users start them: the second is refused or waits, and none judges the other's records.

Without locks the second run ends the first one's nodes and starts its own at their addresses; both histories then
tell of one log what was true of two, and the verdict is a false INVALID (lost writes, phantoms).
"""

from __future__ import annotations

import asyncio
import getpass
import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from squall.harness.hosts.host_locks import HostLocks, owners_of
from squall.harness.lab.lab import Lab, find_lab, lab_down, lab_up
from squall.results.checkers.common.text import grouped, quantile_words
from tests.harness.run.test_interruption import await_true
from tests.labs import need_lab

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("two-runs")]

NAME = f"two-runs-{os.getpid()}"
SUITE = """
scenario: {name}
cluster:
  controllers: 1
  brokers: 2
  topics: {{events: {{partitions: 2, replication_factor: 2, min_insync_replicas: 1}}}}
  config: {{broker.session.timeout.ms: 2000, broker.heartbeat.interval.ms: 300, replica.lag.time.max.ms: 1500}}
workload: {{name: log, producers: 2, consumers: 1, rate: 200/s, acks: all}}
{nemesis}
time: {{load: {load}s, settle: 10s}}
min_acknowledged: 50
expect: valid
"""
QUIET = "fault_free: true"
CUT_OFF = "nemesis: [{fault: isolate, target: leader of events/0, at: 1s, for: 80s}]"


@pytest.fixture
def lab() -> Iterator[Lab]:
    need_lab()
    try:
        yield lab_up(1, 2, name=NAME, owner=os.getpid())
    finally:
        lab_down(NAME)


def begin(squall: Any, name: str, load: int, nemesis: str = QUIET, *options: str) -> subprocess.Popen[str]:
    """A run on the lab, in a directory of its own."""
    place = squall.directory / name
    place.mkdir()
    (place / "suite.yaml").write_text(SUITE.format(name=name, load=load, nemesis=nemesis))
    with (place / "said.txt").open("w") as said:
        return subprocess.Popen(
            squall.argv("run", "suite.yaml", "--lab", NAME, "--in-process", "--seed", "1", *options),
            cwd=place,
            env=squall._environment(),
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            text=True,
        )


def said_by(squall: Any, name: str) -> str:
    return str((squall.directory / name / "said.txt").read_text())


def has_begun_to_load(squall: Any, name: str) -> bool:
    found = list(squall.directory.glob(f"{name}/runs/*/*/run.json"))
    return bool(found) and json.loads(found[0].read_text())["load_started"] is not None


def test_two_runs_on_one_lab_are_refused_or_wait_and_both_are_valid(lab: Lab, squall: Any) -> None:
    first = begin(squall, "first", 24)
    await_true(lambda: has_begun_to_load(squall, "first"), "the first run loads", first)
    waits = begin(squall, "waits", 2, QUIET, "--wait")
    refused = begin(squall, "refused", 2)
    assert refused.wait(60) == 254, said_by(squall, "refused")
    message = said_by(squall, "refused")
    assert re.search(rf"c1 \(10\.77\.0\.11\): in use by \S+@\S+, pid {first.pid}, since 20\d\d-", message)
    assert "wait for it: --wait" in message and "Traceback" not in message
    assert [one.name for one in (squall.directory / "refused" / "runs").iterdir()] == ["suite.json"], "no run"

    down = squall("lab", "down", "--name", NAME)
    assert down.status == 254 and f"kill -TERM {first.pid}" in down.err and "--force" in down.err
    assert find_lab(NAME) is not None
    held_by = owners(lab)
    healed = squall("heal", "--lab", NAME)
    held_by += owners(lab)  # on a slow machine the first run may have ended meanwhile, and the one that waits began
    assert healed.status == 0
    out = healed.out.replace("\n", "")
    assert any(f"is in use: faults of that run end, too: {one}" in out for one in held_by)

    assert first.wait(120) == 0, said_by(squall, "first")
    assert waits.wait(120) == 0, said_by(squall, "waits")
    assert f"in use by {owner_text(first.pid)}" in said_by(squall, "waits")
    assert owners_of(lab.inventory(), lab.network) == []
    for name in ("first", "waits"):
        assert_one_latency(said_by(squall, name), next(squall.directory.glob(f"{name}/runs/{name}/*")))


def assert_one_latency(said: str, run: Path) -> None:
    """The last line of the load, counted by workers, states what the verdict found in the history."""
    found = json.loads((run / "verdict.json").read_text())["send_latency"]
    words = quantile_words(found["p50_ns"], found["p99_ns"], found["p999_ns"])
    last = [line for line in said.splitlines() if line.startswith("load ")][-1]
    assert last.endswith(f"   whole run: {words}"), (last, found)
    assert f"sends {grouped(found['acknowledged'])} ok" in last
    assert f"latency, whole run: {words} (" in said
    assert words in (run / "report.html").read_text()


def test_after_kill_9_the_next_run_takes_over_and_finds_no_fault(lab: Lab, squall: Any) -> None:
    first = begin(squall, "first", 90, CUT_OFF)
    await_true(lambda: fault_took(squall.directory / "first"), "the fault took hold", first)
    first.send_signal(signal.SIGKILL)
    first.wait()
    second = begin(squall, "second", 3)
    assert second.wait(120) == 0, said_by(squall, "second")
    assert f"pid {first.pid}" in said_by(squall, "second") and "that process is gone" in said_by(squall, "second")


def test_a_lab_is_taken_down_beneath_its_owner_only_if_forced(lab: Lab, squall: Any) -> None:
    with HostLocks("squall run elsewhere.yaml", wait=None, say=lambda text: None) as locks:
        asyncio.run(locks.take(lab.inventory(), lab.network, "r"))
        assert squall("lab", "down", "--name", NAME).status == 254
        down = squall("lab", "down", "--name", NAME, "--force")
    assert (down.status, find_lab(NAME)) == (0, None), down.all


def owners(lab: Lab) -> list[str]:
    return [str(one).partition(", since")[0] for one in owners_of(lab.inventory(), lab.network)]


def owner_text(pid: int) -> str:
    return f"{getpass.getuser()}@{os.uname().nodename}, pid {pid}"


def fault_took(directory: Path) -> bool:
    lines = [line for file in directory.glob("runs/*/*/faults.jsonl") for line in file.read_text().splitlines()]
    return bool(lines) and json.loads(lines[-1]).get("took") is True
