"""The teardown hook runs exactly once, whatever ends first: the night, the guard, or its deadline."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from squall.harness.errors import UsageError
from squall.harness.hosts.network import process_started
from squall.harness.nightly import guard
from squall.harness.nightly.hooks import Guard, missing_program, rounds_of, run_hook, torn_down
from squall.harness.nightly.plan.night_file import Hooks


def await_true(what: Callable[[], object], seconds: float = 30.0) -> None:
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "it did not become true"
        time.sleep(0.01)


def calls(directory: Path) -> int:
    return (directory / "calls").read_text().count("down") if (directory / "calls").exists() else 0


def hooks(directory: Path, before: str = "", timeout_s: float = 30.0) -> Hooks:
    return Hooks(teardown=f"{before} echo down >> {directory}/calls", timeout_s=timeout_s)


def order(directory: Path, command: str = "true", timeout_s: float = 5.0) -> Path:
    folder = directory / "round-1"
    folder.mkdir()
    given = {"command": command, "environment": {}, "cwd": str(directory), "timeout_s": timeout_s}
    (folder / guard.ORDER).write_text(json.dumps(given))
    return folder


def test_at_the_end_of_a_night_the_guard_tears_down_once(tmp_path: Path) -> None:
    armed = Guard.arm(tmp_path, 1, hooks(tmp_path, 'test "$MARK" = x &&'), {"MARK": "x"}, None)
    ended = armed.end()
    assert (ended.round, ended.problem, calls(tmp_path)) == (1, "", 1)
    assert torn_down(rounds_of(tmp_path)[0]).problem == "" and calls(tmp_path) == 1


def test_a_guard_that_was_killed_is_stood_in_for(tmp_path: Path) -> None:
    armed = Guard.arm(tmp_path, 1, hooks(tmp_path), {}, None)
    os.kill(int((tmp_path / "round-1" / guard.ARMED).read_text()), signal.SIGKILL)
    assert armed.end().problem == "" and calls(tmp_path) == 1


def test_a_guard_outlives_signals_of_a_terminal_and_of_a_shutdown(tmp_path: Path) -> None:
    armed = Guard.arm(tmp_path, 1, hooks(tmp_path), {}, None)
    process = int((tmp_path / "round-1" / guard.ARMED).read_text())
    assert os.getsid(process) == process, "it leads a session of its own"
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        os.kill(process, number)
    assert armed.end().problem == "" and calls(tmp_path) == 1


def test_a_hook_that_fails_or_hangs_is_a_problem_that_is_named(tmp_path: Path) -> None:
    failed = Guard.arm(tmp_path, 1, Hooks(teardown="echo no credit; exit 3", timeout_s=9.0), {}, None).end()
    assert (
        failed.problem.startswith("the teardown hook ended with 3: see")
        and "no credit" in (tmp_path / "round-1" / guard.LOG).read_text()
    )
    hung = Guard.arm(tmp_path, 2, Hooks(teardown="sleep 600", timeout_s=0.2), {}, None).end()
    assert "timeout" in hung.problem


def test_a_hook_that_was_killed_with_its_machine_is_run_again(tmp_path: Path) -> None:
    folder = order(tmp_path, f"echo down >> {tmp_path}/calls")
    (folder / guard.CLAIM).write_text(json.dumps({"pid": 2**22 + 7, "pid_started": 1}))
    assert "run again" in torn_down(folder).problem and calls(tmp_path) == 1


def test_of_many_that_would_tear_down_one_does(tmp_path: Path) -> None:
    folder = order(tmp_path, f"sleep 0.05; echo down >> {tmp_path}/calls")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: guard.tear_down(folder), range(8)))
    assert calls(tmp_path) == 1


NIGHT = """
import sys, time
from pathlib import Path
from squall.harness.nightly.hooks import Guard
from squall.harness.nightly.plan.night_file import Hooks
here = Path(sys.argv[1])
Guard.arm(here, 1, Hooks(teardown=f"echo down >> {here}/calls", timeout_s=30.0), {}, float(sys.argv[2]))
print("armed", flush=True)
time.sleep(600)
"""


def test_after_its_deadline_the_guard_ends_the_night_and_tears_down(tmp_path: Path) -> None:
    night = subprocess.Popen([sys.executable, "-c", NIGHT, str(tmp_path), "0.2"], stdout=subprocess.DEVNULL)
    try:
        assert night.wait(30) == -signal.SIGTERM
        await_true((tmp_path / "round-1" / guard.DONE).exists)
    finally:
        night.kill()
    assert calls(tmp_path) == 1


def test_the_guard_of_a_killed_night_ends_its_attempts_before_it_tears_down(tmp_path: Path) -> None:
    night = subprocess.Popen([sys.executable, "-c", NIGHT, str(tmp_path), "600"], stdout=subprocess.PIPE)
    attempt = subprocess.Popen(["/bin/sh", "-c", "sleep 600 & wait"], start_new_session=True)
    try:
        assert night.stdout is not None and night.stdout.readline() == b"armed\n"
        event = {
            "event": "begun",
            "item": "a",
            "attempt": 1,
            "pid": attempt.pid,
            "pid_started": process_started(attempt.pid),
        }
        (tmp_path / "ledger.jsonl").write_text(json.dumps(event) + "\nhalf a li")
        night.kill()
        assert attempt.wait(30) == -signal.SIGTERM
        await_true((tmp_path / "round-1" / guard.DONE).exists)
    finally:
        night.kill()
        night.wait()
        attempt.kill()
    assert calls(tmp_path) == 1


def test_a_process_that_has_taken_a_pid_over_is_left_alone() -> None:
    other = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        guard.end_process(other.pid, (process_started(other.pid) or 0) - 1, group=True)
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_a_provision_hook_returns_what_it_printed_and_names_its_failure(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert (
        run_hook(
            "--provision", "cat; echo $K; echo aside >&2", environment={"K": "v"}, timeout_s=9, given="in ", log=log
        )
        == "in v\n"
    )
    assert log.read_text() == "aside\n"
    with pytest.raises(UsageError, match=r"(?s)exit status 4: .*no quota"):
        run_hook("--provision", "echo no quota >&2; exit 4", environment={}, timeout_s=9, log=log)
    with pytest.raises(UsageError, match="did not end within 0 s"):
        run_hook("--provision", "sleep 600", environment={}, timeout_s=0.1, log=log)


@pytest.mark.parametrize(
    ("command", "missing"),
    [("true", ""), ("A=1 ls -l", ""), ("no-such-program --x", "no-such-program"), ("/no/such/file", "/no/such/file")],
)
def test_a_hook_whose_program_is_missing_is_found_before_the_night(command: str, missing: str) -> None:
    assert missing_program(command) == missing
