"""Describe a kind of fault as data for tables: options with values and defaults, an example, its rows."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator
from pydantic.fields import FieldInfo

from squall.harness.catalogue.trials import flat
from squall.harness.plugins.fault_plugins import plugin_kinds
from squall.nemesis.catalogue import ROWS, CatalogueRow
from squall.nemesis.faults.kind import Kind
from squall.nemesis.options import Timed
from squall.nemesis.registry import KINDS, why_not_simulated

COMMON = tuple(Timed.model_fields)
VALIDATED_AS = {
    "_selector": "selector",
    "_cut_from": "`peers`, `everyone` or a selector",
    "_topic_partition": "topic-partition",
    "known_api": "request's name",
    "parse_duration": "duration",
    "parse_seconds": "duration, also 0 or negative",
    "parse_rate": "bytes per second",
}
LIKELY: Mapping[str, Any] = {
    "topic-partition": "events/0",
    "selector": "one broker",
    "request's name": "Fetch",
    "whole number": "1",
    "mapping": {"replica.lag.time.max.ms": 20000},
}
PLAIN = {bool: "`true` or `false`", int: "whole number", float: "number", str: "text"}


@dataclass(frozen=True)
class Option:
    """A field of a fault, as written in a suite."""

    name: str
    values: str
    default: str
    """The default as written in a suite; empty if the option is required."""

    @property
    def required(self) -> bool:
        return not self.default

    def __str__(self) -> str:
        """Format as `errno: EIO` or `target`."""
        return self.name if self.required else f"{self.name}: {self.default}"


def options_of(options: type[BaseModel]) -> tuple[Option, ...]:
    """Return the options of a fault, without those for when and how long."""
    written = _defaults(options)
    return tuple(
        Option(name, _values(field), "" if field.is_required() else written.get(name, "nothing"))
        for key, field in options.model_fields.items()
        if key not in COMMON and key != "fault"
        for name in (field.alias or key,)
    )


def _defaults(options: type[BaseModel]) -> dict[str, str]:
    """Return defaults as a suite would have them: durations with their units."""
    bare = options.model_construct()
    required = {key for key, field in options.model_fields.items() if field.is_required()}
    data = bare.model_dump(mode="json", by_alias=True, exclude=required, exclude_none=True, warnings=False)
    return {name: _written(value) for name, value in data.items()}


def _written(value: Any) -> str:
    return yaml.safe_dump(value, default_flow_style=True, width=1000, sort_keys=False).removesuffix("...\n").strip()


def _values(field: FieldInfo) -> str:
    """Describe the permitted values."""
    return _in_words(Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation)


def _in_words(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _validated(arguments[1:]) or _in_words(arguments[0])
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(_in_words(one) for one in arguments if one is not type(None)))
    if origin in (tuple, list):
        return f"list of {_in_words(arguments[0])}"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return "mapping"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return f"mapping of {', '.join(field.alias or key for key, field in annotation.model_fields.items())}"
    return PLAIN.get(annotation, getattr(annotation, "__name__", str(annotation)))


def _validated(metadata: tuple[Any, ...]) -> str:
    """Describe what a validator accepts, if it is a known one that is more exact than the type."""
    functions = (one.func for one in metadata if isinstance(one, AfterValidator | BeforeValidator))
    return next((VALIDATED_AS[name] for one in functions if (name := getattr(one, "__name__", "")) in VALIDATED_AS), "")


def rows_of(kind: Kind) -> tuple[CatalogueRow, ...]:
    """Return the rows of the catalogue whose trial contains this fault."""
    return tuple(row for row in ROWS if any(fault["fault"] == kind.name for fault in flat(row.trial)))


def example_of(kind: Kind) -> str:
    """Return an entry of a suite: the trial of a row, or only the required options."""
    shown = next(
        (dict(fault) for row in rows_of(kind) for fault in flat(row.trial) if fault["fault"] == kind.name), None
    )
    if shown is None:
        shown = {"fault": kind.name, **dict(_least(kind))}
    shown = {"fault": kind.name, **{key: value for key, value in shown.items() if key != "fault"}}
    return _written({**shown, "at": "10s", "for": "5s", **{k: v for k, v in shown.items() if k == "for"}})


def _least(kind: Kind) -> Iterator[tuple[str, Any]]:
    """Yield the required options, each with a readable value."""
    for option in options_of(kind.options):
        if option.required:
            yield option.name, LIKELY.get(option.values, "…")


def in_simulation(kind: Kind) -> bool:
    """Return whether simulated hosts support it, too."""
    return not why_not_simulated(kind)


def kinds_by_name() -> dict[str, Kind]:
    """Our kinds of faults, and those of installed packages that can be used."""
    return {kind.name: kind for kind in (*KINDS, *(kind for _, kind, _ in plugin_kinds() if kind is not None))}
