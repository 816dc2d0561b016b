"""A kind of fault: its options, its constructor, the verbs it needs, and its description.

`docs/faults.md` and `squall faults` are generated from these, so that the description of a fault stands beside its
code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from squall.nemesis.fault import Fault, FaultContext
from squall.nemesis.options import name_of


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

    @property
    def name(self) -> str:
        return name_of(self.options)

    @property
    def what(self) -> str:
        """What it does, from the docstring of its options."""
        return " ".join((self.options.__doc__ or "").split("\n\n")[0].split())
