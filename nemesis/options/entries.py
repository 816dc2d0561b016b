"""The entries of a suite's `nemesis:` list: any fault, or a sequence of them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, model_validator

from squall.nemesis.options.base import Timed
from squall.nemesis.options.clock import ClockFault
from squall.nemesis.options.disk import DiskFault
from squall.nemesis.options.link import LinkFault
from squall.nemesis.options.network import NetworkFault
from squall.nemesis.options.operation import OperationFault
from squall.nemesis.options.process import ProcessFault
from squall.nemesis.options.rpc import RpcFault

FaultOptions = NetworkFault | ProcessFault | ClockFault | DiskFault | LinkFault | RpcFault | OperationFault

AnyFault = Annotated[FaultOptions, Field(discriminator="fault")]


def name_of(options: type[BaseModel]) -> str:
    """What a fault is called in a suite."""
    (name,) = get_args(options.model_fields["fault"].annotation)
    return name


FAULT_NAMES = tuple(name_of(options) for options in get_args(FaultOptions))


def targets_of(options: BaseModel) -> dict[str, str]:
    """Every selector of a fault, by the name it has in the suite: `target`, `from`, `to`."""
    fields = (
        *(("target", "target"), ("from", "senders"), ("from", "cut_from")),
        *(("to", "receivers"), ("to", "peers"), ("to", "hosts")),
    )
    written = ((name, getattr(options, field, None)) for name, field in fields)
    return {name: text for name, text in written if text is not None and text not in ("peers", "everyone")}


def _written_flat(entry: Any) -> Any:
    """`fault: {isolate: {from: everyone}}` as `fault: isolate, from: everyone`; `sequence` as a kind of its own."""
    if not isinstance(entry, Mapping):
        return entry
    if "sequence" in entry and "fault" not in entry:
        return {"fault": "sequence", **entry}
    fault = entry.get("fault")
    if fault is None:
        raise ValueError(f"names no `fault`; known are {', '.join(FAULT_NAMES)}, and `sequence`")
    if isinstance(fault, Mapping) and len(fault) == 1:
        name, options = next(iter(fault.items()))
        if isinstance(options, Mapping):
            return {**entry, **options, "fault": name}
    return entry


def _is_step(entry: Timed) -> Timed:
    if entry.at is not None or entry.repeat is not None:
        raise ValueError("a step of a sequence has no `at` or `repeat` of its own; give them to the sequence")
    return entry


Step = Annotated[Annotated[AnyFault, BeforeValidator(_written_flat)], AfterValidator(_is_step)]


class Sequence(Timed):
    """Faults one after the other: each starts `after` that long once the one before has healed."""

    fault: Literal["sequence"] = "sequence"
    steps: tuple[Step, ...] = Field(alias="sequence", min_length=1)

    @model_validator(mode="after")
    def _no_duration(self) -> Sequence:
        if self.duration is not None or (self.repeat and self.repeat.duration is not None):
            raise ValueError("a sequence lasts as long as its steps; give `for` to them")
        return self


def _is_timed(entry: Timed) -> Timed:
    if entry.at is None and entry.repeat is None:
        raise ValueError("says not when: give `at: 35s` or `repeat: {every: 20s, for: 10s}`")
    if entry.after:
        raise ValueError("has `after`, which only steps of a sequence have; use `at`")
    return entry


NemesisEntry = Annotated[
    Annotated[FaultOptions | Sequence, Field(discriminator="fault")],
    BeforeValidator(_written_flat),
    AfterValidator(_is_timed),
]
"""One entry of a suite's `nemesis:` list; a suite model declares `nemesis: list[NemesisEntry] = []`."""


def nearest_fault(name: str) -> str | None:
    """The known fault name nearest to a misspelt one."""
    near = difflib.get_close_matches(name, FAULT_NAMES, n=1, cutoff=0.5)
    return near[0] if near else None
