"""Public histories with known verdicts: all verdicts agree, none is unknown, and the etcd logs take less than a second.

The histories are not part of this project: `corpora.py` says where they come from. Without them only the readers are
tested, on a few lines of our own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from squall.results.checkers.registers.check import check_registers
from squall.results.checkers.registers.operations import ABSENT, RegisterOperation, register_table
from squall.results.checkers.registers.result import RegisterResult
from tests.results.checkers.registers.corpora import etcd_corpus, etcd_log, knossos_corpus, knossos_history

Corpus = Callable[[Path], Iterator[tuple[str, list[RegisterOperation], bool]]]
MOST_SECONDS = 1.0


PORCUPINE = "github.com/anishathalye/porcupine@v1.3.1"


@pytest.fixture
def porcupine(tmp_path: Path) -> Path:
    folder = os.environ.get("SQUALL_CORPORA")
    return Path(folder) / "porcupine" if folder else go_module(PORCUPINE, tmp_path)


@pytest.fixture
def knossos() -> Path:
    folder = os.environ.get("SQUALL_CORPORA")
    if not folder:
        pytest.skip("SQUALL_CORPORA does not name a folder with checkouts of porcupine and knossos")
    return Path(folder) / "knossos"


def go_module(name: str, directory: Path) -> Path:
    """What is in a Go module, fetched by the Go tool; the test is skipped where there is none, or no way out."""
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        pytest.skip("there is no Go tool to fetch porcupine, and SQUALL_CORPORA names no checkout")
    settings = {"GOMODCACHE": str(directory), "GOFLAGS": "-modcacherw", "HOME": str(directory)}
    command = [go, "mod", "download", "-json", name]
    told = subprocess.run(command, env=os.environ | settings, cwd=directory, capture_output=True, timeout=60)
    if told.returncode:
        pytest.skip(f"porcupine cannot be fetched: {told.stdout.decode()} {told.stderr.decode()}")
    return Path(json.loads(told.stdout)["Dir"])


def judged(corpus: Corpus, folder: Path, initial: int) -> tuple[dict[str, tuple[bool, RegisterResult]], float]:
    """Each history's known verdict and our result; and the seconds of processor time that the checks took."""
    known = [(name, register_table(history), valid) for name, history, valid in corpus(folder)]
    began = time.process_time()
    results = [check_registers(table, initial=initial) for _, table, _ in known]
    seconds = time.process_time() - began
    return {name: (valid, result) for (name, _, valid), result in zip(known, results, strict=True)}, seconds


def test_the_etcd_logs_of_porcupine_have_their_known_verdicts(porcupine: Path) -> None:
    results, seconds = judged(etcd_corpus, porcupine, ABSENT)
    wrong = {name: result.verdict for name, (valid, result) in results.items() if result.verdict != _name(valid)}
    assert not wrong
    assert {f"etcd_{number:03d}.log" for number in range(50)} <= set(results)
    assert seconds < MOST_SECONDS, f"{seconds:.2f} s for {len(results)} logs"


def test_the_register_histories_of_knossos_have_their_known_verdicts(knossos: Path) -> None:
    """Four of them hold nothing but failures: they are not wrong, and say nothing."""
    results, _ = judged(knossos_corpus, knossos, 0)
    silent = {name for name, (_, result) in results.items() if not result.checked}
    wrong = {
        name: result.verdict
        for name, (valid, result) in results.items()
        if name not in silent and result.verdict != _name(valid)
    }
    assert not wrong
    assert len(silent) == 4 and all(results[name][0] and not results[name][1].undecided_count for name in silent)
    assert len(results) == 120


def _name(valid: bool) -> str:
    return "valid" if valid else "invalid"


def test_the_reader_of_etcd_logs() -> None:
    history = etcd_log(
        "INFO  jepsen.util - 0\t:invoke\t:read\tnil\n"
        "INFO  jepsen.util - 1   :invoke :write  3\n"
        "INFO  jepsen.util - 0\t:ok\t:read\tnil\n"
        "INFO  jepsen.util - 2\t:invoke\t:cas\t[3 4]\n"
        "a line of something else\n"
        "INFO  jepsen.util - 1   :info   :write  :timed-out\n"
        "INFO  jepsen.util - 2\t:fail\t:cas\t[3 4]\n"
        "INFO  jepsen.util - 3\t:invoke\t:read\tnil\n"
        "INFO  jepsen.util - 3\t:fail\t:read\t:timed-out\n"
    )
    assert history == [
        RegisterOperation("read", 0, 0, 2, found=ABSENT),
        RegisterOperation("write", 1, 1, None, "info", value=3),
        RegisterOperation("cas", 2, 3, 5, "fail", expected=3, value=4, refused=True),
        RegisterOperation("read", 3, 6, 7, "fail"),
    ]


def test_the_reader_of_knossos_histories() -> None:
    history = knossos_history(
        "[{:process 4, :type :invoke, :f :read, :value nil} ; a comment {:process 9}\n"
        ' {:type :invoke, :f :cas, :value [0 2], :process 5, :error "lost {:t 18} contact"}\n'
        " {:process :nemesis, :type :info, :f :kill, :value nil}\n"
        " {:process 5, :type :fail, :f :cas, :value [0 2]}\n"
        " {:process 4, :type :ok, :f :read, :value nil}\n"
        " {:process 6, :type :invoke, :f :write, :value 1}]"
    )
    assert history == [
        RegisterOperation("read", 0, 0, 3),
        RegisterOperation("cas", 1, 1, 2, "fail", expected=0, value=2),
        RegisterOperation("write", 2, 4, None, "info", value=1),
    ]
