"""Which statements of the nodes a run executes.

A seed that never executes the mutated statement cannot catch the mutant, so it is skipped, and a mutant that no seed
reaches is the first item of the work list. Modules are loaded with a probe before each statement of each function,
which sets a byte: about a tenth of a run, a fraction of what a line tracer costs in Python 3.11, and exact to the
statement. The probes do not change what nodes do, so a probed run has the trace of the healthy one.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import lru_cache

from squall.harness.simulation.mutation.generation.mutation import METRICS_ONLY, PACKAGES, ROOT, Mutation, Source
from squall.harness.simulation.mutation.loading import load_changed

PROBE = "__squall_reached__"


def is_probed(module: str) -> bool:
    """Whether a module is one of those that are mutated."""
    parts = module.split(".")
    return module.startswith(ROOT + ".") and len(parts) > 3 and parts[2] in PACKAGES and parts[-1] not in METRICS_ONLY


@dataclass
class Reached:
    """One byte for each line of each probed module, set if a statement there was executed."""

    lines: dict[str, bytearray] = field(default_factory=dict)

    def install(self) -> None:
        """Load all mutated modules with probes from now on."""
        load_changed(is_probed, self._probed)

    def _probed(self, name: str, source: str) -> ast.Module:
        self.lines[name] = bytearray(source.count("\n") + 2)
        tree = ast.parse(source)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                _probe_function(node)
        _REGISTERED[name] = self.lines[name]
        first = _after_imports(tree)
        tree.body[first:first] = _handle(name)
        return ast.fix_missing_locations(tree)

    def take(self) -> dict[str, str]:
        """Return what was executed since the last call, as a bitmap in hexadecimal for each module, and forget it."""
        taken = {}
        for name, marks in self.lines.items():
            if any(marks):
                taken[name.removeprefix(ROOT + ".")] = as_hex(marks)
                marks[:] = bytes(len(marks))
        return taken


_REGISTERED: dict[str, bytearray] = {}


def marks_of(name: str) -> bytearray:
    """Return the marks of a probed module; called by the module itself."""
    return _REGISTERED[name]


def _handle(name: str) -> list[ast.stmt]:
    """Return the statements by which a probed module gets its marks."""
    return ast.parse(f"from {__name__} import marks_of as {PROBE}; {PROBE} = {PROBE}({name!r})").body


def _after_imports(tree: ast.Module) -> int:
    """The index after docstring and `from __future__`, which must stay first."""
    index = 0
    for at, node in enumerate(tree.body[:3]):
        future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        if future or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            index = at + 1
    return index


def _probe_function(function: ast.FunctionDef) -> None:
    function.body = _with_probes(function.body)
    for node in ast.walk(function):
        if node is function or isinstance(node, ast.FunctionDef | ast.ClassDef):
            continue
        for name in ("body", "orelse", "finalbody"):
            held = getattr(node, name, None)
            if isinstance(held, list) and held and isinstance(held[0], ast.stmt):
                setattr(node, name, _with_probes(held))


def _with_probes(block: list[ast.stmt]) -> list[ast.stmt]:
    probed: list[ast.stmt] = []
    for statement in block:
        if not _is_probe(statement) and not (probed and _is_probe(probed[-1], statement.lineno)):
            probed.append(_probe(statement.lineno))
        probed.append(statement)
    return probed


def _probe(line: int) -> ast.stmt:
    target = ast.Subscript(ast.Name(PROBE, ast.Load()), ast.Constant(line), ast.Store())
    return ast.Assign([target], ast.Constant(1), lineno=line)


def _is_probe(statement: ast.stmt, line: int | None = None) -> bool:
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Subscript):
        return False
    held = statement.targets[0]
    named = isinstance(held.value, ast.Name) and held.value.id == PROBE
    return named and (line is None or (isinstance(held.slice, ast.Constant) and held.slice.value == line))


def as_hex(marks: bytearray) -> str:
    """Return the marks as a bitmap: one bit a line."""
    bits = 0
    for line, mark in enumerate(marks):
        if mark:
            bits |= 1 << line
    return f"{bits:x}"


def has_line(bitmap: str, line: int) -> bool:
    """Whether a bitmap has this line."""
    return bool(int(bitmap or "0", 16) >> line & 1)


@lru_cache(maxsize=256)
def _statements(module: str, text: str) -> tuple[tuple[int, int, int, bool], ...]:
    """(first byte, last byte, line, whether in a function) of every statement, outermost first."""
    source = Source(module, text)
    found: list[tuple[int, int, int, bool]] = []

    def walk(node: ast.AST, inside: bool) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt):
                found.append((*source.span(child), child.lineno, inside))
            walk(child, inside or isinstance(child, ast.FunctionDef))

    walk(source.tree, False)
    return tuple(found)


def statement_line(mutation: Mutation, text: str) -> int | None:
    """Return the line of the innermost statement that holds the mutant; None outside functions: always reached."""
    holding = [one for one in _statements(mutation.module, text) if one[0] <= mutation.begin and mutation.end <= one[1]]
    return holding[-1][2] if holding and holding[-1][3] else None


def reaches(reached: dict[str, str], mutation: Mutation, line: int | None) -> bool:
    """Whether a run that executed these lines executed the mutated statement."""
    return line is None or has_line(reached.get(mutation.module.removeprefix(ROOT + "."), ""), line)
