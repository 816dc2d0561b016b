"""The common part of a suite's faults: when and how long, selectors, and the types of their fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

from squall.nemesis.core.apis import known_api
from squall.nemesis.core.durations import Duration, DurationRange, Seconds
from squall.nemesis.core.selector import parse_selector, parse_topic_partition

DEFAULT_DURATION = 10.0


def _selector(text: str) -> str:
    parse_selector(text)
    return text


def _topic_partition(text: str) -> str:
    parse_topic_partition(text)
    return text


def _cut_from(text: str) -> str:
    if text not in ("peers", "everyone"):
        try:
            parse_selector(text)
        except ValueError as wrong:
            raise ValueError(f"must be `peers`, `everyone` or a selector: {wrong}") from None
    return text


Target = Annotated[str, AfterValidator(_selector)]
CutFrom = Annotated[str, AfterValidator(_cut_from)]
TopicPartitionTarget = Annotated[str, AfterValidator(_topic_partition)]
Group = Literal["nodes", "brokers", "controllers"]
Api = Annotated[str, AfterValidator(known_api)]
Label = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]*$")]
DiskCall = Literal["read", "write", "truncate", "fsync", "create", "rename", "remove", "fsync-directory"]
Probability = Annotated[float, Field(gt=0, le=1)]


def _length_form(value: Any) -> str:
    return "range" if isinstance(value, Mapping | DurationRange) else "duration"


Length = Annotated[
    Annotated[Duration, Tag("duration")] | Annotated[DurationRange, Tag("range")], Discriminator(_length_form)
]


class Options(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, defer_build=True)


class Repeat(Options):
    """Repeats while the load lasts; each window lies at the end of its period, so quiet comes first."""

    every: Duration
    duration: Length | None = Field(default=None, alias="for")
    times: int | None = Field(default=None, ge=1)


class Timed(Options):
    """When: once (`at`) or repeatedly (`repeat`), and for how long. A step of a sequence has `after` instead.

    `as` gives the fault a name, by which later faults may aim at the same hosts (`target: same as NAME`). `lot` seeds
    random choices; it is derived from the run's seed and the fault's position, unless a schedule sets it.
    """

    at: Seconds | None = Field(default=None, ge=0)
    duration: Length | None = Field(default=None, alias="for")
    repeat: Repeat | None = None
    after: Seconds = Field(default=0.0, ge=0)
    label: Label | None = Field(default=None, alias="as")
    lot: str | None = None

    @model_validator(mode="after")
    def _one_duration(self) -> Timed:
        if self.repeat and self.repeat.duration is not None and self.duration is not None:
            raise ValueError("`for` is given twice, here and in `repeat`; keep one")
        return self

    def length(self) -> float | DurationRange:
        """How long each occurrence lasts."""
        for given in (self.duration, self.repeat.duration if self.repeat else None):
            if given is not None:
                return given
        return DEFAULT_DURATION


class FaultOptions(Timed):
    """Options of one fault. A subclass names it by `fault: Literal["kill"]`, and says what it does in its docstring."""

    if TYPE_CHECKING:
        fault: str


def name_of(options: type[BaseModel]) -> str:
    """The name of a fault in a suite."""
    (name,) = get_args(options.model_fields["fault"].annotation)
    return str(name)
