"""What a night consists of: items, each of which is carried out by one process and ends with one outcome.

scenario     a scenario of a suite on hosts, with one seed
simulation   the same in simulation
campaign     many seeds of a simulated scenario
mutants      the verification that the simulation catches every documented bug
forge        the verification of the checks by forged histories
command      any command; its exit status is the verdict, as for `squall check`
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

Kind = Literal["scenario", "simulation", "campaign", "mutants", "forge", "command"]
Ending = Literal["valid", "invalid", "unknown", "error", "refused"]
"""How an attempt ends. `error`: the testbed failed; `refused`: it cannot be run here at all."""

LONGEST_PROBLEM: Final = 500

OF_STATUS: dict[int, Ending] = {0: "valid", 1: "invalid", 2: "unknown", 254: "refused"}
"""The ending by a command's exit status; any other is an error."""


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One item. `name` is what its past is known by, `id` differs from that of any other item of the night.

    `suite` names the suite as on a command line; `usual_s` is how long it takes if nothing is known of its past.
    """

    id: str
    kind: Kind
    name: str
    suite: str = ""
    system: str = ""
    """The system that the night's command names for it, as on a command line; empty if its suite decides."""
    tested: str = "squall"
    """The name of the system that it tests."""
    seed: int = 0
    seeds: int = 1
    command: str = ""
    expected: Literal["valid", "invalid", "unknown"] = "valid"
    anomalies: tuple[str, ...] = ()
    usual_s: float = 60.0
    repeat: str = ""
    """The command that repeats it."""

    def is_expected(self, ending: Ending, found: tuple[str, ...]) -> bool:
        """Whether the item ended as it should, with at least the anomalies that it names."""
        return ending == self.expected and set(self.anomalies) <= set(found)


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """What the process of a simulated attempt is to do. Its outcome goes to `result`, its run to `keep`."""

    item: Item
    night: str
    result: str
    keep: str
    lake: str | None
    processes: int | None = None


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How one attempt of an item ended.

    `cause` says where the reason of an ending other than valid lies: `finding`, `evidence`, `machine`, `hung`, `crash`,
    `refused`. `directory` is its run, if it has one.
    """

    ending: Ending
    anomalies: tuple[str, ...] = ()
    problem: str = ""
    cause: str = ""
    directory: str = ""


def cause_of(item: Item, ending: str) -> str:
    """Return where the reason of an ending lies that is not the machine's."""
    if ending == item.expected:
        return ""
    return {"unknown": "evidence", "refused": "refused", "error": "crash"}.get(ending, "finding")
