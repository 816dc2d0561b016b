"""A kind of fault: its options, its constructor, the verbs it needs, and its description.

This is the one place in which a fault is declared. `registry.py` lists the declarations, and everything else follows
from them: what a suite's `nemesis:` may hold, the names in error messages, `squall faults` and the tables of
`docs/faults.md`, and which verbs hosts and simulation offer. A package of a user declares its faults in the same way
(docs/writing-a-fault.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import BaseModel

from squall.nemesis.core.fault import Fault, FaultContext
from squall.nemesis.options.base import FaultOptions, name_of


@dataclass(frozen=True)
class Kind:
    """One value of `fault:` in a suite."""

    options: type[BaseModel]
    make: Callable[[Any, FaultContext], Fault]
    verbs: tuple[str, ...]
    """The verbs it needs of hosts; empty if it acts on the cluster instead."""
    on_hosts: str
    """How it is carried out, in one line."""
    proof: str
    """The evidence that it took hold, independent of the injection."""
    limits: str = ""
    """What it does not do, or not everywhere; empty if there is nothing to say."""
    simulation: bool = True
    """Whether simulated hosts can carry it out."""

    @property
    def name(self) -> str:
        return name_of(self.options)

    @property
    def what(self) -> str:
        """What it does, from the docstring of its options."""
        return " ".join((self.options.__doc__ or "").split("\n\n")[0].split())


def wrong_with_kind(name: str, made: Any) -> str | None:
    """Why an object is not the declaration of a fault of this name; None if it is."""
    if not isinstance(made, Kind):
        return f"names {made!r}, which is no Kind"
    if not (isinstance(made.options, type) and issubclass(made.options, FaultOptions)):
        return f"names a Kind whose options, {made.options!r}, are no subclass of FaultOptions"
    fault = made.options.model_fields.get("fault")
    if fault is None or get_args(fault.annotation) != (name,):
        return f"names a Kind whose options do not have the field `fault: Literal[{name!r}]`"
    return None
