"""A kind of fault as the catalogue has it: its options, how it is made, what hosts must offer, and what people read.

`docs/faults.md` and `squall faults` are made of these, so that what is written about a fault stands beside its code.
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
    """One `fault:` of a suite."""

    options: type[BaseModel]
    make: Callable[[Any, FaultContext], Fault]
    verbs: tuple[str, ...]
    """What it asks of hosts; empty where it asks the cluster instead."""
    on_hosts: str
    """How it is brought about, in a line."""
    proof: str
    """What shows that it took hold, and is none of the injection's own doing."""
    limits: str = ""
    """What it does not do, or not everywhere; empty if there is nothing to say."""

    @property
    def name(self) -> str:
        return name_of(self.options)

    @property
    def what(self) -> str:
        """What it does, as the options say."""
        return " ".join((self.options.__doc__ or "").split("\n\n")[0].split())
