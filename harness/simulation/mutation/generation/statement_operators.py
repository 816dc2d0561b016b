"""Operators that leave out a statement: a call, an assignment, an early return, an error.

A statement is left out only where the function goes on without it: the first binding of a local name stays, and so
does the last return of a function, whose loss Python reports at once.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from squall.harness.simulation.mutation.generation.edit import Edit, replace
from squall.harness.simulation.mutation.generation.syntax import Site

CONSTRUCTORS = ("__init__", "__post_init__", "__new__")


def call_dropped(site: Site) -> Iterator[Edit]:
    """Leave out a call whose result is not used."""
    if isinstance(site.node, ast.Expr) and isinstance(site.node.value, ast.Call):
        yield replace(site.source, site.node, "pass")


def assignment_dropped(site: Site) -> Iterator[Edit]:
    """Leave out an assignment to an attribute, an element, or a local name that is bound already."""
    node = site.node
    if not isinstance(node, ast.Assign | ast.AugAssign | ast.Delete) or site.function is None:
        return
    if site.function.name in CONSTRUCTORS:
        return
    targets = [node.target] if isinstance(node, ast.AugAssign) else node.targets
    if isinstance(node, ast.Delete) or all(_is_bound_before(site, one) for one in targets):
        yield replace(site.source, node, "pass")


def _is_bound_before(site: Site, target: ast.expr) -> bool:
    if isinstance(target, ast.Tuple):
        return all(_is_bound_before(site, one) for one in target.elts)
    if not isinstance(target, ast.Name):
        return True
    function = site.function
    assert function is not None
    if target.id in {one.arg for one in (*function.args.args, *function.args.kwonlyargs)}:
        return True
    return any(
        isinstance(one, ast.Name) and one.id == target.id and one.lineno < target.lineno
        for statement in function.body
        for one in ast.walk(statement)
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
    )


def return_dropped(site: Site) -> Iterator[Edit]:
    """Leave out a return, `continue` or `del` that ends a branch early."""
    node = site.node
    if not isinstance(node, ast.Return | ast.Continue) or site.function is None:
        return
    if isinstance(site.parent, ast.If) and not _ends_the_function(site):
        yield replace(site.source, node, "pass")


def _ends_the_function(site: Site) -> bool:
    """Whether nothing of the function is left after the `if` that holds the statement."""
    function = site.function
    assert function is not None
    return isinstance(site.node, ast.Return) and function.body[-1] is site.parent


def raise_dropped(site: Site) -> Iterator[Edit]:
    """Leave out an error."""
    if isinstance(site.node, ast.Raise) and site.function is not None and len(site.function.body) > 1:
        yield replace(site.source, site.node, "pass")
