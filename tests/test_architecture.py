"""The house rules of docs/architecture.md, checked: who may import whom, and what a core may not use (HX-15, DA-02)."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts import architecture

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("nodes", "workloads", "nemesis", "results", "harness", "benchmarks")

ROOM_MAY_IMPORT = {
    "nodes": {"nodes"},
    "workloads": {"workloads", "nodes.protocol"},
    "nemesis": {"nemesis"},
    "results": {"results"},
    "harness": {"harness", "nodes", "workloads", "nemesis", "results", "benchmarks"},
    "benchmarks": {"benchmarks", "harness", "nodes", "workloads", "nemesis", "results"},
}

FLOORS: dict[str, set[str]] = {
    "ports": set(),
    "config": {"ports", "mutants"},
    "mutants": set(),
    "buggify": set(),
    "protocol": {"ports", "mutants"},
    "storage": {"ports", "mutants", "buggify", "protocol"},
    "raft": {"ports", "mutants", "buggify", "protocol", "storage"},
    "metadata": {"ports", "mutants", "buggify", "protocol", "storage", "raft"},
    "controller": {"ports", "mutants", "buggify", "protocol", "storage", "raft", "metadata"},
    "replication": {"ports", "mutants", "buggify", "protocol", "storage", "raft", "metadata"},
    "broker": {"ports", "mutants", "buggify", "protocol", "storage", "raft", "metadata", "replication"},
    "zookeeper": {"ports", "mutants", "buggify", "protocol", "storage", "raft", "metadata", "controller"},
}

SHELL_ONLY = {"asyncio", "socket", "os", "time", "threading", "random", "uuid", "secrets", "selectors", "subprocess"}
BANNED_CALLS = {"hash", "open", "print", "id"}


def modules(room: str) -> Iterator[Path]:
    yield from sorted((ROOT / room).rglob("*.py"))


def imports(path: Path) -> Iterator[tuple[str, int]]:
    for item in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(item, ast.Import):
            yield from ((alias.name, item.lineno) for alias in item.names)
        elif isinstance(item, ast.ImportFrom):
            assert item.level == 0, f"{path.relative_to(ROOT)}:{item.lineno}: relative import"
            for alias in item.names:
                yield f"{item.module}.{alias.name}", item.lineno


def place(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_the_rooms_it_may(room: str) -> None:
    wrong = []
    for path in modules(room):
        for name, line in imports(path):
            if name.split(".")[0] in ROOMS:
                wrong.append(f"{place(path, line)}: {name} must be imported as squall.{name}")
            if not name.startswith("squall."):
                continue
            target = name.removeprefix("squall.")
            if not any(target == may or target.startswith(may + ".") for may in ROOM_MAY_IMPORT[room]):
                wrong.append(f"{place(path, line)}: {room} may not import {name}")
    assert not wrong, "\n".join(wrong)


def test_floors_of_nodes_import_only_downwards() -> None:
    wrong = []
    for floor, below in FLOORS.items():
        paths = modules(f"nodes/{floor}") if (ROOT / "nodes" / floor).is_dir() else [ROOT / "nodes" / f"{floor}.py"]
        for path in paths:
            for name, line in imports(path):
                if not name.startswith("squall.nodes."):
                    continue
                target = name.split(".")[2]
                if target != floor and target not in below:
                    wrong.append(f"{place(path, line)}: {floor} may not import nodes.{target}")
    assert not wrong, "\n".join(wrong)


PLANES = {"control": ("controller", "zookeeper"), "data": ("broker", "replication")}
"""What decides over the cluster, and what keeps its records."""
SHARED = {"ports", "config", "mutants", "buggify", "protocol", "storage", "raft", "metadata"}
"""What both stand on: messages and files, the replicated metadata log, and the image it replays to."""


def floors_below(floors: tuple[str, ...]) -> dict[str, str]:
    """Every floor that these reach by imports, however indirectly, with the module that reaches it first."""
    reached: dict[str, str] = {}
    waiting = list(floors)
    while waiting:
        floor = waiting.pop()
        for path in modules(f"nodes/{floor}") if (ROOT / "nodes" / floor).is_dir() else [ROOT / f"nodes/{floor}.py"]:
            for name, line in imports(path):
                if name.startswith("squall.nodes."):
                    target = name.split(".")[2]
                    if target not in reached and target not in floors:
                        reached[target] = place(path, line)
                        waiting.append(target)
    return reached


@pytest.mark.parametrize(("plane", "other"), [("control", "data"), ("data", "control")])
def test_the_planes_share_messages_and_no_code_of_their_own(plane: str, other: str) -> None:
    """DA-02: neither plane reaches the other's code, by whatever way; what they share is the floor beneath both."""
    reached = floors_below(PLANES[plane])
    assert not {floor: by for floor, by in reached.items() if floor in PLANES[other]}
    assert set(reached) <= SHARED, f"the {plane} plane stands on more than was agreed: {reached}"


def test_only_the_node_puts_the_planes_together() -> None:
    """DA-02, QC-24: a combined node is made of both, and nothing else knows of both."""
    knowing = {
        path.relative_to(ROOT / "nodes").parts[0]
        for path in modules("nodes")
        if {"controller", "broker"}
        <= {name.split(".")[2] for name, _ in imports(path) if name.startswith("squall.nodes.")}
    }
    assert knowing == {"node"}


def core_modules() -> Iterator[Path]:
    for path in modules("nodes"):
        inside = path.relative_to(ROOT / "nodes")
        if inside.parts[0] != "server" and inside.name != "__main__.py":
            yield path


def test_only_the_shell_touches_the_machine() -> None:
    wrong = []
    for path in core_modules():
        for name, line in imports(path):
            if name.split(".")[0] in SHELL_ONLY:
                wrong.append(f"{place(path, line)}: {name} belongs in nodes/server")
        for item in ast.walk(ast.parse(path.read_text())):
            if isinstance(item, ast.Call) and isinstance(item.func, ast.Name) and item.func.id in BANNED_CALLS:
                wrong.append(f"{place(path, item.lineno)}: {item.func.id}() is not deterministic or not pure")
    assert not wrong, "\n".join(wrong)


def test_no_core_iterates_a_set() -> None:
    """Set order depends on hashes and addresses; a seed would no longer replay."""
    wrong = []
    for path in core_modules():
        for item in ast.walk(ast.parse(path.read_text())):
            loops = []
            if isinstance(item, ast.For):
                loops.append(item.iter)
            elif isinstance(item, ast.ListComp | ast.GeneratorExp | ast.DictComp):
                loops.extend(part.iter for part in item.generators)
            for target in loops:
                literal = isinstance(target, ast.Set | ast.SetComp)
                made = (
                    isinstance(target, ast.Call)
                    and isinstance(target.func, ast.Name)
                    and target.func.id in {"set", "frozenset"}
                )
                if literal or made:
                    wrong.append(f"{place(path, item.lineno if hasattr(item, 'lineno') else 0)}: iterates a set")
    assert not wrong, "\n".join(wrong)


def test_kernels_import_only_array_libraries() -> None:
    allowed = {
        "numba",
        "numpy",
        "pyarrow",
        "squall",
        "__future__",
        "dataclasses",
        "typing",
        "collections",
        "functools",
        "importlib",
        "math",
        "enum",
    }
    wrong = [
        f"{place(path, line)}: {name}"
        for path in modules("results/checkers/kernels")
        for name, line in imports(path)
        if name.split(".")[0] not in allowed
    ]
    assert not wrong, "\n".join(wrong)


def test_the_host_agent_needs_only_the_standard_library() -> None:
    """A host has the agent's package from its bundle, and nothing else."""
    import sys

    wrong = [
        f"{place(path, line)}: {name}"
        for path in modules("nemesis/agent")
        for name, line in imports(path)
        if name.split(".")[0] not in sys.stdlib_module_names and not name.startswith("squall.nemesis.agent.")
    ]
    assert not wrong, "\n".join(wrong)


def test_the_type_checker_sees_the_agent_and_every_typed_library() -> None:
    """No type that crosses modules of the agent may be Any because an import was not followed."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]
    ignoring = [one["module"] for one in config["overrides"] if one.get("ignore_missing_imports")]
    strict = [one["module"] for one in config["overrides"] if one.get("disallow_any_unimported")]
    assert "ignore_missing_imports" not in config and "follow_imports" not in config
    assert not [name for names in ignoring for name in names if name.startswith(("squall", "*"))]
    assert strict == ["squall.nemesis.agent.*"]


MODULES_MAX = 20
"""In one folder; `__init__.py`, which says what the folder is, does not count."""
MAY_HOLD_MORE = {
    "nodes/protocol/messages": "one module per API",
}


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports within functions count: to read one module of a circle, one has to read all."""
    assert architecture.cycles(architecture.module_graph()) == []


def test_no_folders_import_each_other_in_a_circle() -> None:
    assert architecture.cycles(architecture.folder_graph()) == []


def test_no_folders_with_all_below_them_import_each_other_in_a_circle() -> None:
    """Of the folders that lie side by side in one; of the rooms, `ROOM_MAY_IMPORT` says more."""
    folders = architecture.folder_graph()
    for above in {parent.as_posix() for folder in folders for parent in Path(folder).parents} - {"."}:
        beside: architecture.Graph = {}
        for folder, near in folders.items():
            inside = {child_of(above, one) for one in near} - {None, child_of(above, folder)}
            if (child := child_of(above, folder)) is not None:
                beside.setdefault(child, set()).update(one for one in inside if one is not None)
        assert architecture.cycles(beside) == [], above


def child_of(above: str, folder: str) -> str | None:
    """The folder in `above` that a folder lies in, `above` itself, or None for one that lies elsewhere."""
    if folder == above:
        return above
    return "/".join(folder.split("/")[: above.count("/") + 2]) if folder.startswith(f"{above}/") else None


def test_no_folder_holds_more_modules_than_a_reader_can_survey() -> None:
    held: dict[str, int] = {}
    for room in (*ROOMS, "tests"):
        for path in modules(room):
            folder = path.parent.relative_to(ROOT).as_posix()
            held[folder] = held.get(folder, 0) + (path.name != "__init__.py")
    full = {folder for folder, number in held.items() if number > MODULES_MAX}
    assert full - set(MAY_HOLD_MORE) == set(), "split these folders"
    assert set(MAY_HOLD_MORE) - full == set(), "these need no exemption any more"


def test_the_drawing_of_the_folders_is_that_of_today() -> None:
    drawn = architecture.drawing(architecture.folder_graph())
    assert architecture.DRAWING.read_text(encoding="utf-8") == drawn, "make architecture"


@pytest.mark.parametrize("room", ROOMS)
def test_every_module_says_what_it_is(room: str) -> None:
    silent = [
        str(path.relative_to(ROOT)) for path in modules(room) if not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert not silent, f"modules without a docstring: {silent}"


LONGEST_UNEXPLAINED_SLEEP_S = 0.02
"""Sleeps up to this are taken for the interval of a poll."""


REASON = re.compile(r"  # (?!noqa|type: ignore)")
VIRTUAL_TIME = re.compile(r"^from squall\.harness\.simulation\.\S+ import .*\bKernel\b", re.MULTILINE)
"""In a module with this import, coroutines run on the simulation's event loop, where no sleep takes time."""


def unexplained_sleeps(source: str) -> Iterator[int]:
    """The lines of sleeps in real time that are longer and have no comment beside or directly above them.

    Each call of `time.sleep` and `asyncio.sleep` counts whose argument is not a constant that small. In a polling loop
    that a `while` with an `assert`, a `raise` or a `return` ends, a constant may be up to a tenth of a second.
    """
    tree, lines = ast.parse(source), source.splitlines()
    sleeps = {"time.sleep", "sleep"} if VIRTUAL_TIME.search(source) else {"time.sleep", "sleep", "asyncio.sleep"}
    polled = {
        id(call)
        for loop in ast.walk(tree)
        if isinstance(loop, ast.While)
        if any(isinstance(item, ast.Assert | ast.Raise | ast.Return) for item in ast.walk(loop))
        for call in ast.walk(loop)
    }
    for call in ast.walk(tree):
        if not (isinstance(call, ast.Call) and ast.unparse(call.func) in sleeps):
            continue
        longest = 0.1 if id(call) in polled else LONGEST_UNEXPLAINED_SLEEP_S
        seconds = call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else None
        if isinstance(seconds, int | float) and seconds <= longest:
            continue
        above = lines[call.lineno - 2].strip() if call.lineno > 1 else ""
        beside = "\n".join(lines[call.lineno - 1 : call.end_lineno])
        if not (above.startswith("#") or REASON.search(beside)):
            yield call.lineno


def test_tests_wait_for_conditions_and_give_reasons_for_times() -> None:
    """CONTRIBUTING.md: a test that waits for a time says why. `tests.waiting` waits for conditions."""
    paths = sorted((ROOT / "tests").rglob("*.py"))
    wrong = [place(path, line) for path in paths for line in unexplained_sleeps(path.read_text())]
    assert not wrong, "a wait for a time and no comment that says why: " + ", ".join(wrong)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("time.sleep(0.5)", [1]),
        ("def f():\n    await asyncio.sleep(PAUSE_S)", [2]),
        ("time.sleep(rng.random())", [1]),
        ("x = 1  # a remark on something else\ntime.sleep(1)", [2]),
        ("while True:\n    time.sleep(0.5)\n    assert not late()", [2]),
        ("while True:\n    time.sleep(0.1)\n    assert not late()", []),
        ("# The rate is measured over this time.\ntime.sleep(1)", []),
        ("time.sleep(1)  # the rate is measured", []),
        ("time.sleep(1)  # noqa: X1", [1]),
        ("from squall.harness.simulation.world.kernel import Kernel\nasyncio.sleep(9)\ntime.sleep(9)", [3]),
        ("await_sleep(); asyncio.sleep(0); time.sleep(0.01); world.time.sleep(8)", []),
    ],
)
def test_an_unexplained_sleep_is_found_and_its_neighbours_are_not(source: str, found: list[int]) -> None:
    assert list(unexplained_sleeps(source)) == found


def test_requirement_ids_quoted_in_the_code_are_explained() -> None:
    known = set(re.findall(r"\b[A-Z]{2}-\d{2}\b", (ROOT / "docs" / "requirements.md").read_text()))
    quoted: dict[str, str] = {}
    for room in ROOMS:
        for path in modules(room):
            for found in re.findall(
                r"\b(?:DP|QC|SN|MD|BL|FD|CS|IS|EP|RA|EL|CL|ZK|FM|PP|DA|HX)-\d{2}\b", path.read_text()
            ):
                quoted.setdefault(found, str(path.relative_to(ROOT)))
    unknown = {name: where for name, where in quoted.items() if name not in known}
    assert not unknown, f"not in docs/requirements.md: {unknown}"
