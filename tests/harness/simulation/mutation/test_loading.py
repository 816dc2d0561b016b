"""A mutant replaces exactly one module, in one process, and leaves no byte code behind (HX-17)."""

from __future__ import annotations

import subprocess
import sys

from squall.harness.simulation.mutation.generation.mutation import Mutation, module_path, mutated_modules
from squall.harness.simulation.mutation.generation.operators import mutations_of
from squall.harness.simulation.mutation.reach import reaches, statement_line

RETENTION = "squall.nodes.storage.retention"


def run_apart(program: str) -> str:
    """Run a program in an interpreter of its own; return what it prints."""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120)
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_exactly_one_module_is_replaced() -> None:
    said = run_apart(
        "from squall.harness.simulation.mutation.loading import load_mutant\n"
        f"load_mutant({RETENTION!r}, 'retention_start = \"replaced\"')\n"
        "import squall.nodes.storage.log as log, squall.nodes.storage.retention as retention\n"
        "import squall.nodes.storage.epochs as epochs\n"
        "print(retention.retention_start, log.retention_start, epochs.LeaderEpochCache.__name__)"
    )
    assert said.split() == ["replaced", "replaced", "LeaderEpochCache"]
    assert "replaced" not in run_apart(f"import {RETENTION} as one; print(one.retention_start)")


def test_no_byte_code_of_a_mutant_is_kept() -> None:
    cached = sorted((module_path(RETENTION).parent / "__pycache__").glob("retention.*.pyc"))
    before = [path.read_bytes() for path in cached]
    run_apart(
        "from squall.harness.simulation.mutation.loading import load_mutant\n"
        f"load_mutant({RETENTION!r}, 'retention_start = 5')\nimport {RETENTION}"
    )
    after = sorted((module_path(RETENTION).parent / "__pycache__").glob("retention.*.pyc"))
    assert [path.read_bytes() for path in after] == before


def test_a_mutant_that_comes_too_late_is_refused() -> None:
    said = run_apart(
        f"import {RETENTION}\n"
        "from squall.harness.simulation.mutation.loading import load_mutant\n"
        f"try:\n    load_mutant({RETENTION!r}, '')\nexcept RuntimeError as late:\n    print(late)"
    )
    assert RETENTION in said


def test_the_worker_imports_no_node_before_the_mutant_is_installed() -> None:
    said = run_apart(
        "import sys, squall.harness.simulation.mutation.worker, squall.harness.simulation.mutation.pytest_plugin\n"
        "print([name for name in sys.modules if name.startswith('squall.nodes.')])"
    )
    assert said.strip() == "[]"


def epochs_mutants() -> tuple[str, list[Mutation]]:
    source = next(one for one in mutated_modules() if one.module == "squall.nodes.storage.epochs")
    return source.text, mutations_of(source)


def test_probes_in_the_nodes_are_set_by_what_runs() -> None:
    said = run_apart(
        "from squall.harness.simulation.mutation.reach import Reached\n"
        "reached = Reached(); reached.install()\n"
        "from squall.nodes.raft.roles import peers_of\n"
        "reached.take()\nprint(list(peers_of([1])), list(reached.take()), reached.take())"
    )
    assert said.strip() == "[1] ['raft.roles'] {}"


def test_a_mutant_is_reached_where_its_innermost_statement_ran() -> None:
    text, mutants = epochs_mutants()
    lines = [line for one in mutants if (line := statement_line(one, text)) is not None]
    reached = {"storage.epochs": f"{1 << lines[0]:x}"}
    here = [line for one in mutants if reaches(reached, one, line := statement_line(one, text)) and line is not None]
    assert here and set(here) == {lines[0]} and len(set(lines)) > 20
    assert not reaches({}, mutants[-1], lines[-1])


def test_a_condition_is_reached_though_its_branch_is_not() -> None:
    said = run_apart(
        "import ast\nfrom squall.harness.simulation.mutation import reach\n"
        "text = '''def run(x):\n    if x > 5:\n        return 1\n    elif x > 3:\n        return 2\n    return 3\n'''\n"
        "reached = reach.Reached()\n"
        "code = compile(reached._probed('squall.nodes.raft.core', text), 'x', 'exec')\n"
        "space = {}\nexec(code, space)\nspace['run'](1)\n"
        "print(reached.take())"
    )
    assert said.strip() == str({"raft.core": f"{1 << 2 | 1 << 4 | 1 << 6:x}"})
