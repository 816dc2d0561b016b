"""The replacement of one span of bytes, which operators propose and `operators` turns into mutants."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from squall.harness.simulation.mutation.generation.mutation import Source


@dataclass(frozen=True)
class Edit:
    """Replace the bytes from `begin` to `end` by a text."""

    begin: int
    end: int
    text: str


def replace(source: Source, node: ast.expr | ast.stmt, text: str) -> Edit:
    """Replace a syntax node by a text."""
    begin, end = source.span(node)
    return Edit(begin, end, text)
