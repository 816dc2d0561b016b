"""Walk a module's syntax tree and yield the places that operators may change.

Places that no promise depends on are left out: docstrings, annotations, assertions, texts of errors, traces, notices,
descriptions, metrics, and whatever mentions the documented mutants (`nodes.mutants`), whose branches are off.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from squall.harness.simulation.mutation.generation.mutation import Source

REPORTING_FUNCTIONS = ("__repr__", "__str__", "described", "describe", "_described", "_describe", "metrics")
REPORTING_WORDS = (
    "trace",
    "_trace",
    "_event",
    "_trace_append",
    "notices",
    "metrics",
    "_metrics",
    "mutants",
    "_mutants",
    "stopwatch",
)
"""A statement or condition that contains one of these names reports, or belongs to a documented mutant."""


@dataclass(frozen=True)
class Site:
    """One syntax node that may be changed, with its parents, outermost first."""

    source: Source
    node: ast.AST
    parents: tuple[ast.AST, ...]

    @property
    def parent(self) -> ast.AST:
        return self.parents[-1]

    @property
    def function(self) -> ast.FunctionDef | None:
        """The innermost function around the node."""
        return next((one for one in reversed(self.parents) if isinstance(one, ast.FunctionDef)), None)

    @property
    def qualified_name(self) -> str:
        """Classes and functions around the node, as in `Log.append`; empty at the level of the module."""
        scopes = (ast.FunctionDef, ast.ClassDef)
        return ".".join(one.name for one in self.parents if isinstance(one, scopes))

    @property
    def block(self) -> list[ast.stmt]:
        """The statements among which this statement stands."""
        for name in ("body", "orelse", "finalbody", "handlers"):
            held = getattr(self.parent, name, None)
            if isinstance(held, list) and self.node in held:
                return held
        return []


def sites(source: Source) -> Iterator[Site]:
    """Yield every place that may be changed, in the order of the source."""
    yield from _walk(source, source.tree, ())


def _walk(source: Source, node: ast.AST, parents: tuple[ast.AST, ...]) -> Iterator[Site]:
    for child in _children(node):
        if _is_left_out(child):
            continue
        if isinstance(child, ast.expr | ast.stmt):
            yield Site(source, child, (*parents, node))
        yield from _walk(source, child, (*parents, node))


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a node that may be changed."""
    left_out: list[ast.AST | None] = []
    if isinstance(node, ast.FunctionDef):
        left_out = [*node.decorator_list, node.returns, node.args]
    elif isinstance(node, ast.ClassDef):
        left_out = [*node.decorator_list, *node.bases, *node.keywords]
    elif isinstance(node, ast.AnnAssign):
        left_out = [node.annotation]
    elif isinstance(node, ast.Raise):  # what an error says
        left_out = [node.exc, node.cause]
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        left_out = [node.slice]
    for child in ast.iter_child_nodes(node):
        if not any(child is one for one in left_out):
            yield child


def _is_left_out(node: ast.AST) -> bool:
    if isinstance(node, ast.Import | ast.ImportFrom | ast.Assert | ast.JoinedStr | ast.Lambda | ast.Global):
        return True
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return isinstance(node, ast.FunctionDef) and node.name in REPORTING_FUNCTIONS
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True
    if isinstance(node, ast.If) and mentions(node.test, ("TYPE_CHECKING", *REPORTING_WORDS)):
        return True
    if isinstance(node, ast.stmt) and not hasattr(node, "body"):
        return mentions(node, REPORTING_WORDS)
    return isinstance(node, ast.expr) and isinstance(node, ast.IfExp | ast.BoolOp) and mentions(node, REPORTING_WORDS)


def mentions(node: ast.AST, names: tuple[str, ...]) -> bool:
    """Whether a name or attribute of these occurs anywhere in the node."""
    return any(identifier(one) in names for one in ast.walk(node))


def mentions_word(node: ast.AST, word: str) -> bool:
    """Whether a name or attribute in the node has this word among those that underscores separate."""
    return any(word in identifier(one).split("_") for one in ast.walk(node))


def identifier(node: ast.AST) -> str:
    """Return the name of a Name or the last part of an Attribute; else an empty text."""
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


def bound_names(function: ast.FunctionDef) -> frozenset[str]:
    """Return the arguments and local names of a function."""
    names = {one.arg for one in (*function.args.args, *function.args.kwonlyargs, *function.args.posonlyargs)}
    names |= {one.id for one in ast.walk(function) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    return frozenset(names)
