"""What a specification raises for a step that it does not allow."""

from __future__ import annotations


class SpecificationBroken(AssertionError):
    """An action was taken whose condition did not hold. The message names action, node and condition."""


def require(condition: bool, action: str, node: int, problem: str) -> None:
    """Raise SpecificationBroken unless the condition holds."""
    if not condition:
        raise SpecificationBroken(f"{action}({node}): {problem}")
