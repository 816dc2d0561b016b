"""One generated mutant: the replacement of one span of one module's source.

A mutant is data, so that it can be named, kept in a ledger, applied in memory and shown as a diff. Its id is module,
qualified function, operator and ordinal within that function, so that edits elsewhere do not rename it. Leans on
nothing but the standard library: it is used in processes that have not imported any node yet.
"""

from __future__ import annotations

import ast
import difflib
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

PACKAGES = ("raft", "replication", "storage", "broker", "controller", "metadata", "node")
"""The packages of `squall.nodes` whose modules are mutated."""
METRICS_ONLY = (
    "broker_metrics", "collector", "controller_metrics", "metric_names", "samples", "notice_limit", "timings",
)  # fmt: skip
"""Modules that only report: no promise to clients depends on them."""
ROOT = "squall.nodes"


@dataclass(frozen=True)
class Mutation:
    """One replacement. `begin` and `end` are byte offsets in the module's UTF-8 source."""

    id: str
    module: str
    line: int
    operator: str
    function: str
    begin: int
    end: int
    original: str
    replacement: str

    @property
    def package(self) -> str:
        """The package of nodes that holds the module, such as `raft`."""
        return package_of(self.module)

    @property
    def change(self) -> tuple[str, str, str]:
        """What identifies the change, wherever it is in the file by now."""
        return self.id, self.original, self.replacement

    def apply(self, source: str) -> str:
        """Return the source with this span replaced. Raises ValueError if the source is not the one it was made of."""
        data = source.encode()
        if data[self.begin : self.end].decode(errors="replace") != self.original:
            raise ValueError(f"{self.id}: the source of {self.module} has changed since the mutant was generated")
        return (data[: self.begin] + self.replacement.encode() + data[self.end :]).decode()

    def diff(self, source: str) -> str:
        """Return the mutant as a unified diff."""
        name = self.module.removeprefix("squall.").replace(".", "/") + ".py"
        lines = difflib.unified_diff(
            source.splitlines(keepends=True),
            self.apply(source).splitlines(keepends=True),
            f"a/{name}",
            f"b/{name}",
            n=2,
        )
        return "".join(lines)


@dataclass(frozen=True)
class Source:
    """The source of one module, and the byte offsets of its syntax nodes."""

    module: str
    text: str

    @cached_property
    def data(self) -> bytes:
        return self.text.encode()

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def _lines(self) -> list[int]:
        starts = [0]
        for line in self.data.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        return starts

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Return the bytes that a syntax node covers."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self._lines[node.lineno - 1] + node.col_offset, self._lines[node.end_lineno - 1] + node.end_col_offset

    def text_of(self, node: ast.expr | ast.stmt) -> str:
        begin, end = self.span(node)
        return self.cut(begin, end)

    def cut(self, begin: int, end: int) -> str:
        return self.data[begin:end].decode()


def package_of(module: str) -> str:
    """Return `raft` for `squall.nodes.raft.core`."""
    return module.removeprefix(ROOT + ".").split(".")[0]


def module_path(module: str) -> Path:
    """Return the file of a module, without importing it."""
    inside = module.removeprefix("squall.").split(".")
    return squall_root().joinpath(*inside).with_suffix(".py")


def squall_root() -> Path:
    """Return the directory that holds the rooms of squall."""
    found = importlib.util.find_spec("squall")
    assert found is not None and found.submodule_search_locations
    return Path(next(iter(found.submodule_search_locations)))


def mutated_modules() -> Iterator[Source]:
    """Yield every module that is mutated, in order of its name."""
    nodes = squall_root() / "nodes"
    for package in PACKAGES:
        for path in sorted((nodes / package).rglob("*.py")):
            if path.stem == "__init__" or path.stem in METRICS_ONLY:
                continue
            inside = ".".join(path.relative_to(nodes).with_suffix("").parts)
            yield Source(f"{ROOT}.{inside}", path.read_text(encoding="utf-8"))
