"""Define the declaration of a check, and what a check returns.

A check is declared once: an object with its statement, its function and its anomalies. Ours (`TableCheck`) are declared
in the folder of their rules, in `declaration.py`, and listed in `registry.py`; installed packages declare a `Check`
(`check_plugins.py`). Both return an `Outcome`. Everything else follows from the declarations: what a suite may list
under `checks`, the tasks of a run, the registry of anomalies, and the statements of a verdict.

They differ in what they take. A check of ours takes the table of one kind of operations, so that it can run on any
machine that reads this table; a check of a package takes the whole history, in the control process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import msgspec

from squall.results.checkers.common.anomaly import Anomaly

if TYPE_CHECKING:
    import pyarrow as pa

    from squall.results.history.history import History
    from squall.results.history.manifest import Manifest

Facts = Mapping[str, Any]
"""The facts of a workload, as a manifest states them."""


class Instance(Protocol):
    """One instance of an anomaly: the facts that prove it, as plain values, or words."""

    @property
    def anomaly(self) -> str: ...


class Proof(msgspec.Struct, frozen=True):
    """One instance of an anomaly, in words: a title, and lines of a subject and a text."""

    anomaly: str
    title: str
    lines: tuple[tuple[str, str], ...] = ()


P = TypeVar("P", bound=Instance, covariant=True)


@dataclass(frozen=True)
class Outcome(Generic[P]):
    """The result of a check.

    `checked` operations were checked; nothing checked is no success, but unknown. `anomalies` counts violations by
    name, `proofs` describes a few of them. `undecided` are sentences: each makes the verdict unknown. `counts` says how
    much was looked at, `noted` what is interesting but no violation.
    """

    checked: int
    anomalies: Mapping[str, int] = field(default_factory=dict)
    proofs: tuple[P, ...] = ()
    undecided: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    noted: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Check:
    """The declaration of a check by an installed package.

    `statement` is what holds if nothing is wrong, in a few words. `look` takes the history, the facts of the run, and
    the seconds available.
    """

    statement: str
    look: Callable[[History, Manifest, float], Outcome[Proof]]
    anomalies: tuple[Anomaly, ...]


@dataclass(frozen=True)
class TableCheck:
    """The declaration of a check of ours: of one kind of operations (`results/history/operation_kinds.py`).

    `look` takes the table of the kind, the facts of the workload, and the seconds available. It imports its rules when
    it is called: validating a suite reads the declarations and needs no arrays. `anomalies` are all that
    it can report, those that it shares with other checks included.
    """

    name: str
    """Of the kind and of the check."""
    statement: str
    look: Callable[[pa.Table, Facts, float], Outcome[Instance]]
    anomalies: tuple[Anomaly, ...]
    proof: str = "plugin"
    """The field of `FurtherWitness` for its proofs (`checkers/further.py`); the default is that of words (`Proof`)."""
