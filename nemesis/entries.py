"""The entries of a `nemesis:` list: any fault, or several in sequence, in parallel, or mixed at random.

The faults are those of the registry. A fault of an installed package is validated by the package's own options, which
are imported when an entry names it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticKnownError, core_schema

from squall.nemesis import registry
from squall.nemesis.core.durations import DurationRange
from squall.nemesis.options.base import FaultOptions, Length, Timed, name_of

TAG = "fault"
OURS = tuple(registry.FAULTS)


@dataclass(frozen=True)
class _ByName:
    """Validates an entry by the options of the fault that it names.

    These are compiled when an entry first names them. To compile those of all faults would cost each command 0.3 s.
    """

    combinators: tuple[type[BaseModel], ...] = ()
    """The options that are allowed beside those of faults."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._validated)

    def _validated(self, entry: Any) -> Any:
        if isinstance(entry, (FaultOptions, *self.combinators)):
            return entry
        name = entry.get(TAG) if isinstance(entry, Mapping) else None
        if name in registry.plugins().names:
            return _adapter(registry.plugin_kind(str(name)).options).validate_python(entry)
        options = next((one for one in self._options() if name_of(one) == name), None)
        if options is not None:
            return _adapter(options).validate_python(entry)
        try:
            return _union(self._options()).validate_python(entry)  # refuses what names none of these, and lists them
        except ValidationError as invalid:
            raise _with_plugins_listed(invalid) from None

    def models(self) -> Iterator[type[BaseModel]]:
        """The options that are allowed here, and those of plugins that were used."""
        yield from self._options()
        yield from registry.loaded_options()

    def _options(self) -> tuple[type[BaseModel], ...]:
        return (*OURS, *self.combinators)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        choices = {name_of(options): options for options in self._options()}
        for name in registry.plugins().names:
            try:
                choices[name] = registry.plugin_kind(name).options
            except ValueError:
                continue
        described = {name: handler(TypeAdapter(options).core_schema) for name, options in choices.items()}
        mapping = {name: one["$ref"] for name, one in described.items() if "$ref" in one}
        discriminator = {"mapping": mapping, "propertyName": TAG}
        return {"discriminator": discriminator, "oneOf": list(described.values())}


@cache
def _union(options: tuple[type[BaseModel], ...]) -> TypeAdapter[Any]:
    either: Any = Annotated[Union[options], Field(discriminator=TAG)]  # noqa: UP007
    return TypeAdapter(either)


def _adapter(options: type[BaseModel]) -> TypeAdapter[Any]:
    """Validates by these options, with errors located as by a union of many."""
    return _union((options, OURS[0] if options is not OURS[0] else OURS[1]))


def _with_plugins_listed(invalid: ValidationError) -> Exception:
    """The same error; one about an unknown name lists the plugins among the known ones."""
    (first, *more) = invalid.errors(include_url=False)
    names = registry.plugins().names
    if more or first["type"] != "union_tag_invalid" or first["loc"] or not names:
        return invalid
    context = first["ctx"]
    known = ", ".join((context["expected_tags"], *(f"'{name}'" for name in names)))
    return PydanticKnownError("union_tag_invalid", {**context, "expected_tags": known})


if TYPE_CHECKING:
    AnyFault = FaultOptions
else:
    AnyFault = Annotated[Any, _ByName()]


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
        raise ValueError(f"has no `fault`; give one of {', '.join(registry.known_names())}, or {together}")
    if isinstance(fault, Mapping) and len(fault) == 1:
        name, options = next(iter(fault.items()))
        if isinstance(options, Mapping):
            return {**entry, **options, "fault": name}
    return entry


def _is_step(entry: Timed) -> Timed:
    if entry.at is not None or entry.repeat is not None:
        raise ValueError("a step must not have `at` or `repeat`; give them to the entry that contains it")
    return entry


if TYPE_CHECKING:
    Step = FaultOptions
else:
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


if TYPE_CHECKING:
    MixStep = FaultOptions | Sequence | Parallel
else:
    MixStep = Annotated[
        Annotated[Any, _ByName((Sequence, Parallel))],
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


if TYPE_CHECKING:
    NemesisEntry = FaultOptions | Sequence | Parallel | Mix
else:
    NemesisEntry = Annotated[
        Annotated[Any, _ByName((Sequence, Parallel, Mix))],
        BeforeValidator(_written_flat),
        AfterValidator(_is_timed),
    ]
"""One entry of a suite's `nemesis:` list; a suite model declares `nemesis: list[NemesisEntry] = []`."""


def nearest_fault(name: str) -> str | None:
    """The known fault name that is most similar to a misspelt one."""
    near = difflib.get_close_matches(name, registry.known_names(), n=1, cutoff=0.5)
    return near[0] if near else None
