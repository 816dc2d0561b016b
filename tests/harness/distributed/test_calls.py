"""Calls in a process beside Spark's worker: answers, deaths, Squall from an archive, shares, lost workers."""

from __future__ import annotations

import math
import operator
import os
import pickle
import signal
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from squall.harness.distributed import archive, call_runner
from squall.harness.distributed.archive import package_files, write_archive
from squall.harness.distributed.call_process import LACK, RAISED, VALUE
from squall.harness.distributed.call_runner import DIED, CallRunner
from squall.harness.distributed.calls import ALONE_SECONDS, MOST_SHARES, _Watch, shares
from squall.results.checkers.engine.cluster import SparkTrouble
from tests.waiting import wait_until


@pytest.fixture
def runner() -> Iterator[CallRunner]:
    made = CallRunner(None)
    yield made
    made.close()


def answers(runner: CallRunner, function: Any, *items: Any, common: tuple[Any, ...] = ()) -> list[tuple[str, Any]]:
    given = shares(pickle.dumps((function, common)), [pickle.dumps(item) for item in items])
    found = [answer for share in given for answer in runner.answers(share)]
    assert [number for number, _ in found] == list(range(len(items)))
    return [pickle.loads(answer) for _, answer in found]


def test_calls_return_values_from_one_process(runner: CallRunner) -> None:
    assert answers(runner, operator.add, 1, 2, common=(40,)) == [(VALUE, 41), (VALUE, 42)]
    first, second = answers(runner, eval, "__import__('os').getpid()", "__import__('os').getpid()")
    assert first == second and first[1] != os.getpid()


def test_an_exception_or_a_death_costs_its_own_call_only(runner: CallRunner) -> None:
    said = answers(runner, math.sqrt, 4.0, -1.0, 9.0)
    assert said[0] == (VALUE, 2.0) and said[2] == (VALUE, 3.0)
    assert said[1][0] == RAISED and "ValueError" in said[1][1]
    died, alive = answers(runner, signal.raise_signal, signal.SIGKILL, signal.SIGCHLD)
    assert died[0] == DIED and "was killed by SIGKILL" in died[1]
    assert alive == (VALUE, None)
    ((kind, words),) = answers(runner, os._exit, 3)
    assert (kind, "ended with exit status 3" in words) == (DIED, True)


def test_a_death_is_told_with_its_last_words(runner: CallRunner) -> None:
    ((kind, words),) = answers(runner, eval, "__import__('os').write(2, b'no memory') and __import__('os').abort()")
    assert kind == DIED and words.endswith("was killed by SIGABRT: no memory")


def test_what_a_call_prints_does_not_get_between_answers(runner: CallRunner) -> None:
    assert answers(runner, print, "hello", "again") == [(VALUE, None)] * 2


def test_a_missing_library_is_a_lack_of_the_worker(runner: CallRunner) -> None:
    missing = pickle.dumps((math.sqrt, ())).replace(b"math", b"mush")
    ((_, answer),) = runner.answers((missing, [(0, pickle.dumps(1))]))
    kind, words = pickle.loads(answer)
    assert kind == LACK and "No module named 'mush'" in words and sys.executable in words


def test_the_process_is_replaced_after_some_calls(runner: CallRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_runner, "CALLS_PER_PROCESS", 2)
    pids = [pid for _, pid in answers(runner, eval, *["__import__('os').getpid()"] * 4)]
    assert pids[0] == pids[1] != pids[2] == pids[3]


def test_the_process_ends_with_its_owner_in_the_middle_of_a_call(runner: CallRunner) -> None:
    ((_, pid),) = answers(runner, eval, "__import__('os').getpid()")
    process = psutil.Process(pid)
    running = runner._running()
    assert running.stdin is not None
    call = pickle.dumps((pickle.dumps((eval, ())), pickle.dumps("__import__('time').sleep(300)")))
    running.stdin.write(len(call).to_bytes(8, "big") + call)
    running.stdin.close()
    wait_until(lambda: running.poll() is not None, "it ended", 20)
    assert not process.is_running()


def test_the_archive_holds_every_module_and_is_named_by_its_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = dict(package_files())
    for wanted in ("harness/cli/main.py", "suites/swarm.yaml", "nodes/node/node.py", "harness/distributed/archive.py"):
        assert f"squall/{wanted}" in names
    assert not [name for name in names if name.endswith((".pyc", ".nbi"))]
    some = [(name, path) for name, path in names.items() if "/distributed/" in name or name.count("/") == 2]
    monkeypatch.setattr(archive, "package_files", lambda: iter(some))
    first = write_archive(tmp_path)
    content = first.read_bytes()
    assert write_archive(tmp_path) == first and first.read_bytes() == content
    monkeypatch.setattr(archive, "package_files", lambda: iter(some[1:]))
    assert write_archive(tmp_path) != first


def test_calls_use_the_archive_and_not_what_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    some = [(name, path) for name, path in package_files() if name.startswith("squall/harness/")]
    monkeypatch.setattr(archive, "package_files", lambda: iter(some))
    with zipfile.ZipFile(write_archive(tmp_path)) as packed:
        packed.extractall(tmp_path / "unpacked")
    runner = CallRunner(tmp_path / "unpacked")
    try:
        ((kind, path),) = answers(runner, eval, "__import__('squall.harness.errors').harness.errors.__file__")
    finally:
        runner.close()
    assert kind == VALUE and path.startswith(str(tmp_path / "unpacked/squall/harness"))


@pytest.mark.parametrize(("items", "size"), [(1, 1), (MOST_SHARES, 1), (MOST_SHARES + 1, 2), (100_000, 50)])
def test_shares_are_bounded_in_number_and_hold_every_call_once(items: int, size: int) -> None:
    made = shares(b"function", [b""] * items)
    assert len(made) <= MOST_SHARES and {len(one) for _, one in made[:-1]} <= {size}
    assert [number for _, one in made for number, _ in one] == list(range(items))


def test_lost_workers_are_reported_and_their_absence_ends_the_job() -> None:
    said: list[str] = []
    now, there = [0.0], [2]
    watch = _Watch(lambda: there[0], said.append, lambda: now[0])
    watch()
    there[0] = 1
    watch()
    assert said == ["1 executor lost: what was unfinished there is done again"]
    there[0] = 0
    watch()
    now[0] = ALONE_SECONDS + 1
    with pytest.raises(SparkTrouble, match="has had no executor for 60 s"):
        watch()
