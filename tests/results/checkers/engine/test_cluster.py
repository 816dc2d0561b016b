"""What a cluster's workers must have, and what they say if they lack it; what is found out before Spark is started."""

from __future__ import annotations

import dataclasses
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.accumulators import Accumulator, AddingAccumulatorParam
from pyspark.cloudpickle import dumps

from squall.harness.cli.main import status_of
from squall.harness.errors import USAGE_EXIT_STATUS
from squall.results.check import check_run
from squall.results.checkers.engine import cluster
from squall.results.checkers.engine.cluster import (
    Expected,
    SparkTrouble,
    address_towards,
    await_executor,
    carried_out,
    explanation,
    masters,
    require_master,
)
from squall.results.checkers.engine.engines import (
    AnyTask,
    CheckedFurther,
    InProcess,
    decode_outcome,
    decode_task,
    encode_outcome,
    encode_task,
    outcome_of,
)
from squall.results.checkers.engine.spark import _work
from squall.results.checkers.engine.well_formed_task import well_formed_tasks
from squall.results.checkers.further import FurtherTask
from squall.results.history.history import HISTORY_FILE
from squall.results.history.operation_tables import KINDS, REGISTERS
from squall.results.history.parquet_files import seal_path
from squall.results.history.row_groups import row_groups_beside
from squall.results.synthetic.forge import forge_run, healthy
from squall.results.synthetic.forge_catalogue import FAMILIES, LOG
from tests.facts import naming

WITHOUT_SQUALL: Final = """
import pickle, sys

for name in ("squall", "squall.results"):
    sys.modules[name] = None
work, arrived = pickle.load(sys.stdin.buffer)
work([[(7, b"a task")]])
((number, data, lack),) = arrived._value
assert (number, data) == (7, None)
print(lack)
"""


@pytest.fixture
def task(tmp_path: Path) -> AnyTask:
    """Of a run whose tables were made."""
    run = tmp_path / "run"
    FAMILIES[REGISTERS].write(run, 3, 200, None)
    check_run(run, InProcess(), report=False)
    return FurtherTask(0, str(run / KINDS[REGISTERS].file), REGISTERS, {}, "forged-3")


def answers(task: AnyTask, expected: Expected) -> tuple[bool, str]:
    """Whether a worker carried the task out, and what it says it lacks."""
    ((data, lack),) = carried_out([encode_task(task)], expected.code, expected.files)
    return data is not None, lack or ""


def test_a_worker_that_has_what_is_here_carries_tasks_out(task: AnyTask) -> None:
    assert answers(task, Expected.here([task])) == (True, "")


def test_a_worker_with_other_code_does_not_check(task: AnyTask) -> None:
    done, lack = answers(task, dataclasses.replace(Expected.here([task]), code="of another version"))
    assert not done
    assert lack.startswith(f"{socket.gethostname()}: {sys.executable} has another version of Squall")


def test_the_digest_of_the_code_changes_with_any_module_of_the_checker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = cluster.code_digest()
    room = tmp_path / "results"
    shutil.copytree(Path(cluster.__file__).parents[2], room)
    monkeypatch.setattr(cluster, "__file__", str(room / "checkers" / "engine" / "cluster.py"))
    assert cluster.code_digest() == before, "wherever it lies"
    with (room / "checkers" / "kernels" / "log.py").open("a") as module:
        module.write("\n")
    assert cluster.code_digest() != before


def test_a_run_that_a_worker_does_not_see_is_not_a_damaged_one(task: AnyTask) -> None:
    expected = Expected.here([task])
    Path(task.path).unlink()
    done, lack = answers(task, expected)
    assert not done
    assert lack.endswith(
        ": No such file or directory: runs must lie on storage that all workers share, at the same path"
    )
    assert task.path in lack


def test_a_stale_copy_of_a_run_is_not_checked(task: AnyTask) -> None:
    expected = Expected.here([task])
    seal = seal_path(Path(task.path))
    size, _ = seal.read_text().split()
    seal.write_text(f"{size} 00000000\n")
    done, lack = answers(task, expected)
    assert not done
    assert "is another file there" in lack


def test_a_worker_must_have_the_table_of_registers_that_a_check_reads(task: AnyTask) -> None:
    registers = Path(task.path)
    history = registers.with_name(HISTORY_FILE)
    groups = row_groups_beside(history, registers)
    (one, *_) = well_formed_tasks(0, history, groups, registers=registers)
    expected = Expected.here([one])
    assert answers(one, expected) == (True, "")
    seal_path(registers).unlink()
    done, lack = answers(one, expected)
    assert not done and f"{registers}: is another file there" in lack


def test_on_this_host_nothing_is_asked(task: AnyTask) -> None:
    ((data, lack),) = carried_out([encode_task(task)], None, {})
    assert data is not None and lack is None


def test_a_worker_without_squall_can_still_say_so(task: AnyTask) -> None:
    arrived: Accumulator[Any] = Accumulator(1, [], AddingAccumulatorParam([]))
    work = _work(Expected.here([task]), arrived)
    answer = subprocess.run(
        [sys.executable, "-c", WITHOUT_SQUALL], input=dumps((work, arrived)), capture_output=True, check=True
    )
    said = answer.stdout.decode()
    assert said.startswith(f"{socket.gethostname()}: ")
    assert "cannot import Squall" in said and said.endswith("install it there\n")


@pytest.mark.parametrize("kind", [name for name in FAMILIES if name != LOG])
def test_tasks_of_every_kind_and_what_they_find_travel_whole(tmp_path: Path, kind: str) -> None:
    family = FAMILIES[kind]
    for number, case in enumerate((None, *family.injections)):
        run = tmp_path / str(number)
        family.write(run, number, 300, case)
        check_run(run, InProcess(), report=False)  # makes the tables of the segments
        workload = {"model": "serializable", "keys": [1, None, "a"]}
        task = FurtherTask(7, str(run / KINDS[kind].file), kind, workload, f"forged-{number}")
        assert decode_task(encode_task(task)) == task
        outcome = outcome_of(task)
        assert isinstance(outcome, CheckedFurther)
        assert decode_outcome(encode_outcome(outcome)) == outcome


def test_a_master_that_is_not_there_is_found_out_before_spark_is_started(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = forge_run(tmp_path, healthy(1))
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        require_master(f"spark://127.0.0.1:1,127.0.0.1:{port}")
    assert status_of(["check", "--spark-master", f"spark://127.0.0.1:{port}", str(run)]) == USAGE_EXIT_STATUS
    assert f"no Spark master answers at spark://127.0.0.1:{port} (127.0.0.1:{port}: " in capsys.readouterr().err
    assert not (run / "verdict.json").exists()


def test_masters_are_read_from_the_url() -> None:
    assert masters("spark://a:7077,b:7078") == [("a", 7077), ("b", 7078)]
    assert masters("spark://a") == [("a", 7077)]
    assert masters("spark://[::1]:7077") == [("::1", 7077)]
    assert masters("local[2]") == masters("yarn") == []
    with pytest.raises(SparkTrouble, match=naming("'a:x'", "HOST:PORT")):
        masters("spark://a:x")


def test_executors_reach_this_host_by_its_address_on_the_way_to_the_master() -> None:
    assert address_towards("spark://127.0.0.1:7077") == "127.0.0.1"
    assert address_towards("yarn") is None


def test_a_cluster_that_gives_no_executor_is_not_waited_for_for_ever() -> None:
    counts = iter([0, 0, 1])
    await_executor(lambda: next(counts), "spark://a:7077", "512m")
    with pytest.raises(SparkTrouble, match=r"spark://a:7077 gave no executor within 0\.01 s"):
        await_executor(lambda: 0, "spark://a:7077", "512m", 0.01)


@pytest.mark.parametrize(
    ("trouble", "told"),
    [
        ('java.io.IOException: Cannot run program "/opt/python": error=2', "a worker has no /opt/python."),
        ("[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9", "is not of this one's version"),
        ("ModuleNotFoundError: No module named 'pyarrow'", "the workers' Python lacks pyarrow"),
        ("PyArrow >= 15.0.0 must be installed; however, it was not found.", "the workers' Python lacks PyArrow"),
        ("Job 0 cancelled because SparkContext was shut down", "the cluster gave up or was stopped"),
    ],
)
def test_what_keeps_workers_from_beginning_is_put_into_words(trouble: str, told: str) -> None:
    assert told in (explanation(trouble) or "")


def test_a_mistake_in_a_check_is_not_blamed_on_the_cluster() -> None:
    assert explanation('File "squall/results/checkers/kernels/log.py", line 3\nKeyError: 4') is None
    assert explanation("File \"squall/results/checkers/further.py\", line 3\nNo module named 'numba'") is None
