"""The entries of a `nemesis:` list: any fault, or several in sequence, in parallel, or mixed at random."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, cast, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, model_validator

from squall.nemesis.durations import DurationRange
from squall.nemesis.options.base import Length, Timed
from squall.nemesis.options.clock import ClockFault
from squall.nemesis.options.damage import DamageFault
from squall.nemesis.options.disk import DiskFault
from squall.nemesis.options.link import LinkFault
from squall.nemesis.options.network import NetworkFault
from squall.nemesis.options.operation import OperationFault
from squall.nemesis.options.process import ProcessFault
from squall.nemesis.options.rpc import RpcFault

FaultOptions = (
    NetworkFault | ProcessFault | ClockFault | DiskFault | DamageFault | LinkFault | RpcFault | OperationFault
)

AnyFault = Annotated[FaultOptions, Field(discriminator="fault")]


def name_of(options: type[BaseModel]) -> str:
    """The name of a fault in a suite."""
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
    """Rewrite `fault: {isolate: {from: everyone}}` as `fault: isolate, from: everyone`, and combinators as kinds."""
    if not isinstance(entry, Mapping):
        return entry
    for combinator in COMBINATORS:
        if combinator in entry and "fault" not in entry:
            return {"fault": combinator, **entry}
    fault = entry.get("fault")
    if fault is None:
        together = ", ".join(f"`{one}`" for one in COMBINATORS)
        raise ValueError(f"has no `fault`; give one of {', '.join(FAULT_NAMES)}, or {together}")
    if isinstance(fault, Mapping) and len(fault) == 1:
        name, options = next(iter(fault.items()))
        if isinstance(options, Mapping):
            return {**entry, **options, "fault": name}
    return entry


def _is_step(entry: Timed) -> Timed:
    if entry.at is not None or entry.repeat is not None:
        raise ValueError("a step must not have `at` or `repeat`; give them to the entry that contains it")
    return entry


Step = Annotated[Annotated[AnyFault, BeforeValidator(_written_flat)], AfterValidator(_is_step)]


class _Together(Timed):
    """Several faults as one entry, each with its own length."""

    @model_validator(mode="after")
    def _no_duration(self) -> _Together:
        if self.duration is not None or (self.repeat and self.repeat.duration is not None):
            raise ValueError(f"a {getattr(self, 'fault', '')} lasts as long as its steps; give `for` to them")
        return self


class Sequence(_Together):
    """Faults one after the other: each starts `after` that long once the previous one has healed."""

    fault: Literal["sequence"] = "sequence"
    steps: tuple[Step, ...] = Field(alias="sequence", min_length=1)


class Parallel(_Together):
    """Faults side by side: each starts `after` that long once the whole entry has begun."""

    fault: Literal["parallel"] = "parallel"
    steps: tuple[Step, ...] = Field(alias="parallel", min_length=2)


MixStep = Annotated[
    Annotated[FaultOptions | Sequence | Parallel, Field(discriminator="fault")],
    BeforeValidator(_written_flat),
    AfterValidator(_is_step),
]


def _is_unhurried(step: Timed) -> Timed:
    if step.after:
        raise ValueError("a step of a mix must not have `after`; `stable` sets the quiet period before each step")
    return step


class Mix(Timed):
    """Random steps, one after the other, each after a `stable` period without faults.

    It lasts `for` that long, or until the load's faults must have ended.
    """

    fault: Literal["mix"] = "mix"
    steps: tuple[Annotated[MixStep, AfterValidator(_is_unhurried)], ...] = Field(alias="mix", min_length=1)
    stable: Length = DurationRange.model_validate({"from": 1.0, "to": 5.0})

    @model_validator(mode="after")
    def _one_stretch(self) -> Mix:
        if self.repeat is not None:
            raise ValueError("a mix repeats its steps already; remove `repeat`")
        if isinstance(self.duration, DurationRange):
            raise ValueError("a mix needs one fixed duration, such as `for: 60s`, not a range")
        return self


COMBINATORS = tuple(name_of(combinator) for combinator in (Sequence, Parallel, Mix))


def steps_in(entry: Timed) -> Iterator[tuple[tuple[str | int, ...], FaultOptions]]:
    """Every single fault of an entry, with its position in it: the entry itself, or the steps of a combinator."""
    if isinstance(entry, Sequence | Parallel | Mix):
        for number, step in enumerate(entry.steps):
            yield from (((entry.fault, number, *place), fault) for place, fault in steps_in(step))
    else:
        yield (), cast(FaultOptions, entry)


def _is_timed(entry: Timed) -> Timed:
    if entry.at is None and entry.repeat is None and not isinstance(entry, Mix):
        raise ValueError("has no start time: give `at: 35s` or `repeat: {every: 20s, for: 10s}`")
    if entry.after:
        raise ValueError("must not have `after`, which is for steps of a sequence or parallel; use `at`")
    return entry


NemesisEntry = Annotated[
    Annotated[FaultOptions | Sequence | Parallel | Mix, Field(discriminator="fault")],
    BeforeValidator(_written_flat),
    AfterValidator(_is_timed),
]
"""One entry of a suite's `nemesis:` list; a suite model declares `nemesis: list[NemesisEntry] = []`."""


def nearest_fault(name: str) -> str | None:
    """The known fault name that is most similar to a misspelt one."""
    near = difflib.get_close_matches(name, FAULT_NAMES, n=1, cutoff=0.5)
    return near[0] if near else None
