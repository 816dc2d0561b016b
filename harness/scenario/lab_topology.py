"""The shape of a local lab: how many hosts of each kind, in how many racks, with which links between racks.

    lab: {controllers: 3, brokers: 3, racks: 3, between_racks: 2ms, links: {r1-r3: {latency: 20ms, loss: 0.001}}}

Hosts are distributed over the racks in turn, each kind separately, so that controllers are spread, and brokers, and
client hosts. A link profile is a property of the lab and no fault: it holds from the first packet on, healing does not
end it, and faults add to it. It is written as a latency (`2ms`), as one of the named profiles (`zones`), or with all
its fields, on a command line as `latency=2ms,jitter=0.5ms`.

Latency is one way, as everywhere else in Squall: a round trip takes it twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from squall.nemesis.core.durations import Seconds, write_seconds
from squall.nemesis.core.rates import ByteRate, write_rate

MOST_LAB_HOSTS = 200
MOST_RACKS = 50
LONGEST_LATENCY_SECONDS = 10.0

NAMED_PROFILES: Mapping[str, Mapping[str, str]] = {
    "zones": {"latency": "0.5ms", "jitter": "0.2ms"},
    "regions": {"latency": "15ms", "jitter": "2ms"},
    "continents": {"latency": "75ms", "jitter": "10ms", "loss": "0.001"},
}
"""Availability zones of one region, regions of one continent, and farther: orders of magnitude, no promise."""

_RACK = re.compile(r"r[1-9]\d*")


class LinkProfile(BaseModel):
    """What a link between two racks does to packets, each direction separately. All their hosts share its bandwidth."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    latency: Seconds = Field(default=0.0, ge=0, le=LONGEST_LATENCY_SECONDS)
    jitter: Seconds = Field(default=0.0, ge=0, le=LONGEST_LATENCY_SECONDS)
    distribution: Literal["uniform", "normal", "pareto"] = "uniform"
    loss: float = Field(default=0.0, ge=0, lt=1)
    bandwidth: ByteRate | None = None

    @model_validator(mode="after")
    def _changes_something(self) -> LinkProfile:
        if not (self.latency or self.jitter or self.loss or self.bandwidth):
            raise ValueError("without latency, jitter, loss and bandwidth racks are as near as one; leave it out")
        return self

    @property
    def round_trip(self) -> float:
        """Seconds added to a round trip in the mean: jitter is half of its width each way."""
        return 2 * self.latency + self.jitter

    def described(self) -> str:
        """Return `2ms, jitter 0.5ms, 0.001 lost, 10MiB/s`."""
        parts = [write_seconds(self.latency)]
        if self.jitter:
            shape = "" if self.distribution == "uniform" else f" ({self.distribution})"
            parts.append(f"jitter {write_seconds(self.jitter)}{shape}")
        if self.loss:
            parts.append(f"{self.loss:.3g} lost")
        if self.bandwidth:
            parts.append(str(write_rate(self.bandwidth)))
        return ", ".join(parts)


def parse_profile(value: object) -> object:
    """Convert a latency, a name, or `key=value,…` to the mapping of a profile. Raises ValueError."""
    if not isinstance(value, str):
        return {"latency": value} if isinstance(value, int | float) and not isinstance(value, bool) else value
    if value in NAMED_PROFILES:
        return dict(NAMED_PROFILES[value])
    if "=" not in value:
        if not re.match(r"[\d.]", value):
            raise ValueError(f"must be a latency such as 2ms, or one of {', '.join(NAMED_PROFILES)}")
        return {"latency": value}
    pairs = [part.partition("=") for part in value.split(",")]
    return {name.strip(): text.strip() for name, _, text in pairs}


Profile = Annotated[LinkProfile, BeforeValidator(parse_profile)]


def check_racks(count: int, any_between: bool, links: Iterable[str]) -> None:
    """Raise ValueError where a link is not between two existing racks, or a link is given twice."""
    if (any_between or links) and count < 2:
        raise ValueError("between_racks and links need at least two racks; give `racks: 2` or more")
    seen: list[set[str]] = []
    for name in links:
        ends = name.split("-")
        if len(ends) != 2 or ends[0] == ends[1]:
            raise ValueError(f"links: {name} must name two racks, as r1-r2 does")
        for end in ends:
            if not _RACK.fullmatch(end) or int(end[1:]) > count:
                raise ValueError(f"links: {name}: there is no rack {end}; racks are r1 to r{count}")
        if set(ends) in seen:
            raise ValueError(f"links: {name}: the way between these two racks is given twice")
        seen.append(set(ends))


class Racks(BaseModel):
    """The racks of a lab and the links between them. No racks mean one switch for all hosts."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    count: int = Field(default=0, ge=0, le=MOST_RACKS)
    between: Profile | None = None
    links: Mapping[str, Profile] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _are_there(self) -> Racks:
        check_racks(self.count, self.between is not None, self.links)
        return self

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"r{number}" for number in range(1, self.count + 1))

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield every two racks, once."""
        for index, one in enumerate(self.names):
            for other in self.names[index + 1 :]:
                yield one, other

    def profile(self, one: str, other: str) -> LinkProfile | None:
        """Return the link between two racks; None where they are as near as hosts of one rack."""
        if one == other:
            return None
        for name, profile in self.links.items():
            if set(name.split("-")) == {one, other}:
                return profile
        return self.between

    def dealt(self, place: int) -> str | None:
        """Return the rack of a host that is the `place`-th of its kind, from 0."""
        return self.names[place % self.count] if self.count else None


NO_RACKS = Racks()


class LabTopology(BaseModel):
    """How many hosts of each kind a local lab has, and how they are spread."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    controllers: int = Field(3, ge=0, le=MOST_LAB_HOSTS)
    brokers: int = Field(3, ge=1, le=MOST_LAB_HOSTS)
    zookeeper: int = Field(0, ge=0, le=MOST_LAB_HOSTS)
    clients: int = Field(0, ge=0, le=MOST_LAB_HOSTS)
    racks: int = Field(0, ge=0, le=MOST_RACKS)
    between_racks: Profile | None = None
    links: Mapping[str, Profile] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _an_ensemble_needs_no_controllers(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("zookeeper") and "controllers" not in given:
            return {**given, "controllers": 0}
        return given

    @model_validator(mode="after")
    def _racks_fit(self) -> LabTopology:
        check_racks(self.racks, self.between_racks is not None, self.links)
        return self

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """The number of hosts of each kind."""
        return self.controllers, self.brokers, self.zookeeper, self.clients

    def names(self) -> list[tuple[str, str]]:
        """Return (host name, group), in the order of their addresses."""
        counted = (
            ("c", "controllers", self.controllers),
            ("b", "brokers", self.brokers),
            ("z", "zookeeper", self.zookeeper),
            ("load", "clients", self.clients),
        )
        return [(f"{letter}{number}", group) for letter, group, count in counted for number in range(1, count + 1)]

    def in_racks(self) -> Racks:
        return Racks(count=self.racks, between=self.between_racks, links=self.links)
