"""Walk a module's syntax tree and yield the places that operators may change.

Places that no promise depends on are left out: docstrings, annotations, texts of errors, traces, notices, descriptions,
metrics, whatever mentions the documented mutants (`nodes.mutants`), whose branches are off, and what `nodes.buggify`
lets happen, which is as legal as what happens else. Assertions are left out, whether `assert`, a call of a function
named in `ASSERTING_FUNCTIONS`, or a branch that raises `InvariantViolation`: they say what is impossible in healthy
nodes, so that no run of such nodes differs without them.
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
"""A statement or condition that contains one of these names reports, or asks for a documented mutant."""
ASSERTING_FUNCTIONS = ("_require",)
ASSERTING_ERRORS = ("InvariantViolation",)


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
    yield from _walk(source, source.tree, (), flags_of_mutants(source.tree))


def flags_of_mutants(tree: ast.Module) -> dict[str, bool]:
    """Return the attributes that say whether a documented mutant is on, with their value in healthy nodes."""
    flags: dict[str, bool] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute) and _asks_for_mutant(node.value):
            flags[node.targets[0].attr] = isinstance(node.value, ast.UnaryOp)  # `not mutants.has(…)`
    return flags


def _asks_for_mutant(node: ast.AST) -> bool:
    return any(
        isinstance(one, ast.Call) and identifier(one.func) == "has" and mentions(one.func, ("mutants", "_mutants"))
        for one in ast.walk(node)
    )


def _asks_buggify(node: ast.AST) -> bool:
    """Whether an expression has the same value as long as nothing rare happens: it asks for that, alone or by `and`."""
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        return any(_asks_buggify(one) and not isinstance(one, ast.UnaryOp) for one in node.values)
    node = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(node, ast.Call) and identifier(node.func) == "happens"


def _is_assertion(node: ast.AST) -> bool:
    if isinstance(node, ast.If):
        (only, *more) = node.body
        return not more and not node.orelse and isinstance(only, ast.Raise) and _asserts(only.exc, ASSERTING_ERRORS)
    return isinstance(node, ast.Assert) or (isinstance(node, ast.Expr) and _asserts(node.value, ASSERTING_FUNCTIONS))


def _asserts(node: ast.AST | None, names: tuple[str, ...]) -> bool:
    return isinstance(node, ast.Call) and identifier(node.func) in names


def _is_for_mutant(node: ast.AST, flags: dict[str, bool]) -> bool:
    """Whether a branch depends on a documented mutant."""
    return isinstance(node, ast.If) and (_asks_for_mutant(node.test) or mentions(node.test, tuple(flags)))


def _healthy(test: ast.expr, flags: dict[str, bool]) -> bool | None:
    """Return what a test for a documented mutant says in healthy nodes; None if something else decides, too."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        said = _healthy(test.operand, flags)
        return None if said is None else not said
    if isinstance(test, ast.Call) and _asks_for_mutant(test):
        return False
    return flags.get(identifier(test))


def _walk(source: Source, node: ast.AST, parents: tuple[ast.AST, ...], flags: dict[str, bool]) -> Iterator[Site]:
    for child in _children(node, flags):
        if _is_left_out(child, flags):
            continue
        turns = isinstance(child, ast.If | ast.IfExp) and _asks_buggify(child.test)
        if isinstance(child, ast.expr | ast.stmt) and not turns and not _is_for_mutant(child, flags):
            yield Site(source, child, (*parents, node))
        yield from _walk(source, child, (*parents, node), flags)


def _children(node: ast.AST, flags: dict[str, bool]) -> Iterator[ast.AST]:
    """Yield the parts of a node that may be changed. Of a branch for a documented mutant, only the healthy side."""
    left_out: list[ast.AST | None] = []
    if isinstance(node, ast.If | ast.IfExp) and _asks_buggify(node.test):
        usual = node.body if isinstance(node.test, ast.UnaryOp) else node.orelse
        yield from usual if isinstance(usual, list) else [usual]
        return
    if isinstance(node, ast.If) and _is_for_mutant(node, flags):
        said = _healthy(node.test, flags)
        left_out = [node.test, *(node.body if said is False else []), *(node.orelse if said is True else [])]
    elif isinstance(node, ast.FunctionDef):
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


def _is_left_out(node: ast.AST, flags: dict[str, bool]) -> bool:
    names = (*REPORTING_WORDS, *flags)
    if _asks_buggify(node) or _is_assertion(node):
        return True
    if isinstance(node, ast.Import | ast.ImportFrom | ast.JoinedStr | ast.Lambda | ast.Global):
        return True
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return isinstance(node, ast.FunctionDef) and node.name in REPORTING_FUNCTIONS
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True
    if isinstance(node, ast.If):
        return mentions(node.test, ("TYPE_CHECKING", *REPORTING_WORDS)) and not _asks_for_mutant(node.test)
    if isinstance(node, ast.stmt) and not hasattr(node, "body"):
        return mentions(node, names)
    return isinstance(node, ast.IfExp | ast.BoolOp) and mentions(node, names)


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
