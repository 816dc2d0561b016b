"""An entry of the gallery: one published or found bug, in a file of suites/gallery.

The file states what is broken and since when it is fixed, the reference, the mechanism in at most three sentences, the
cluster and the client, the schedule, the twin with the opposite expectation, the expected anomaly, and the smallest
history that shows it. `docs/gallery.md` explains each field. `Entry.arm` returns what one of the two runs consists of.
An entry may have cells: the same schedule over other versions of system and client, each with what is expected of it.
`squall.harness.gallery.entries` reads the files, and refuses what does not fit the family of the entry's system.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from squall.harness.gallery.core.steps import Hold, Step, without
from squall.harness.yaml_source import suggestion
from squall.nemesis.options.base import Options
from squall.results.checkers.anomalies import ANOMALIES

MOST_OPERATIONS = 10
MOST_SENTENCES = 3
ArmName = Literal["broken", "twin"]
Expected = Literal["invalid", "valid"]
BROKEN: Final = "broken"
TWIN: Final = "twin"
PRODUCTS: Final = {"kafka": "Apache Kafka", "nats": "NATS", "etcd": "etcd", "java": "Java producer"}


class System(Options):
    """The system whose nodes run, by its family, in a version that the family has."""

    name: Literal["kafka", "nats", "etcd"] = "kafka"
    version: str

    @property
    def words(self) -> str:
        return f"{PRODUCTS[self.name]} {self.version}"


class Client(Options):
    """The library that sends, its version, and its settings by its own names."""

    name: Literal["librdkafka", "java", "nats.go", "json-gateway"]
    version: str
    settings: Mapping[str, str] = Field(default_factory=dict)

    @property
    def words(self) -> str:
        return f"{PRODUCTS.get(self.name, self.name)} {self.version}"


def _named_version(text: Any) -> Any:
    """`java 4.1.2` as name and version."""
    if not isinstance(text, str):
        return text
    name, _, version = text.partition(" ")
    if not version:
        raise ValueError(f"{text!r} must be a client and its version, such as `java 4.1.2`")
    return {"name": name, "version": version}


class Topic(Options):
    """A topic by the replicas of its topic-partitions, the first of each its leader."""

    replicas: tuple[tuple[int, ...], ...] = Field(min_length=1)
    config: Mapping[str, str] = Field(default_factory=dict)


class Cluster(Options):
    """The nodes on the loopback interface."""

    brokers: int = Field(default=1, ge=1, le=5)
    combined: bool = True
    proxied: tuple[int, ...] = ()
    receive_buffer: int | None = Field(default=None, ge=1024)
    topics: Mapping[str, Topic] = Field(default_factory=dict)
    config: Mapping[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _of_brokers(self) -> Cluster:
        known = set(range(1, self.brokers + 1))
        if stray := set(self.proxied) - known:
            raise ValueError(f"proxied: there is no broker {min(stray)}; brokers are 1 to {self.brokers}")
        for name, topic in self.topics.items():
            if stray := {one for replicas in topic.replicas for one in replicas} - known:
                raise ValueError(f"topics.{name}: there is no broker {min(stray)}; brokers are 1 to {self.brokers}")
        return self


class Operation(Options):
    """One operation of a minimal history; `time` is its beginning and end, in ms, the end `null` if it never ended."""

    f: Literal["send", "poll", "marker", "final_poll", "write", "read"]
    """`write` and `read` are operations on `register_name`; `value` is what is written or found."""
    process: int
    time: tuple[int, int | None]
    topic: str = "events"
    partition: int = 0
    register_name: str | None = Field(default=None, alias="register")
    value: int | None = None
    type: Literal["ok", "fail", "info"] = "ok"
    offset: int | None = None
    records: tuple[tuple[int, int], ...] = ()
    """Offset and value of each record that a poll returned."""

    @model_validator(mode="after")
    def _complete(self) -> Operation:
        if (self.f in ("write", "read")) != (self.register_name is not None):
            raise ValueError("register: is for `write` and `read`, which need it")
        if self.f != "poll" and self.f != "final_poll" and self.value is None:
            raise ValueError(f"value: a {self.f} needs one")
        return self


class Histories(Options):
    """The smallest history that shows the anomaly, and what the twin's is in its place."""

    broken: tuple[Operation, ...] = Field(min_length=1, max_length=MOST_OPERATIONS)
    twin: tuple[Operation, ...] = Field(min_length=1, max_length=MOST_OPERATIONS)


class Twin(Options):
    """What is different in the healthy twin: another client or version, other settings, or a step left out."""

    why: str
    system: System | None = None
    client: Client | None = None
    config: Mapping[str, str] | None = None
    without: tuple[str, ...] = ()


class Rate(Options):
    """How often the broken version showed the anomaly when this was last measured."""

    seen: int = Field(ge=1)
    of: int = Field(ge=1)

    @model_validator(mode="after")
    def _possible(self) -> Rate:
        if self.seen > self.of:
            raise ValueError(f"seen: {self.seen} must be at most {self.of}, the number of runs")
        return self

    @property
    def words(self) -> str:
        return f"{self.seen} of {self.of}"


class Cell(Options):
    """The schedule over one version of the system and one client, and whether the bug is expected there.

    The client has the settings of the entry's or the twin's client of the same name.
    """

    version: str
    client: Annotated[Client, BeforeValidator(_named_version)]
    expects: Literal["bug", "ok"]
    rate: Rate
    """How often that came out when it was last measured."""


class Entry(Options):
    """One bug; see the module."""

    name: str = Field(pattern=r"^[A-Z][0-9]+[a-z]?$")
    title: str
    broken: str
    """Product and versions that have it, in words."""
    fixed: str | None
    """The first version without it; null while it is live."""
    references: tuple[str, ...] = Field(min_length=1)
    mechanism: str
    anomaly: str
    rate: Rate
    reproduced: datetime.date
    system: System
    client: Client
    cluster: Cluster
    schedule: tuple[Step, ...] = Field(min_length=1)
    idempotent: bool = True
    """Whether the client promises that no record stands twice."""
    twin: Twin
    minimal: Histories
    cells: tuple[Cell, ...] = ()

    @field_validator("anomaly")
    @classmethod
    def _known(cls, anomaly: str) -> str:
        if anomaly not in ANOMALIES:
            raise ValueError(f"is no anomaly of any check{suggestion(anomaly, list(ANOMALIES))}")
        return anomaly

    @field_validator("mechanism")
    @classmethod
    def _short(cls, mechanism: str) -> str:
        sentences = len(re.findall(r"[.!?](?=\s|$)", mechanism.strip()))
        if sentences > MOST_SENTENCES:
            raise ValueError(f"has {sentences} sentences; say it in {MOST_SENTENCES}")
        return mechanism

    @property
    def is_live(self) -> bool:
        return self.fixed is None

    def arm(self, name: ArmName) -> Arm:
        """What the run of the broken version or of its twin consists of."""
        if name == BROKEN:
            return Arm(self, BROKEN, "invalid", self.system, self.client, self.cluster, self.schedule)
        twin = self.twin
        config = {**self.cluster.config, **(twin.config or {})}
        return Arm(
            self,
            TWIN,
            "valid",
            twin.system or self.system,
            twin.client or self.client,
            self.cluster.model_copy(update={"config": config}),
            without(self.schedule, twin.without),
            twin.without,
        )

    def cell_arm(self, cell: Cell) -> Arm:
        """What the run of a cell consists of. Raises KeyError for a client that neither arm has."""
        client = cell.client.model_copy(update={"settings": self._settings_of(cell.client.name)})
        system = self.system.model_copy(update={"version": cell.version})
        name = f"{system.name}-{system.version}-{client.name}-{client.version}"
        expects: Expected = "invalid" if cell.expects == "bug" else "valid"
        return Arm(self, name, expects, system, client, self.cluster, self.schedule)

    def _settings_of(self, client: str) -> Mapping[str, str]:
        known: dict[str, Mapping[str, str]] = {
            one.name: one.settings for one in (self.twin.client, self.client) if one is not None
        }
        return known[client]


@dataclass(frozen=True)
class Arm:
    """One run of an entry: the broken version, its twin, or a cell."""

    entry: Entry
    name: str
    expects: Expected
    system: System
    client: Client
    cluster: Cluster
    schedule: tuple[Step, ...]
    left_out: tuple[str, ...] = ()
    """The steps of the entry's schedule that this one lacks."""

    @property
    def is_cell(self) -> bool:
        return self.name not in (BROKEN, TWIN)

    @property
    def words(self) -> str:
        """What runs."""
        told = [self.system.words, self.client.words]
        config = self.cluster.config
        told += [f"{key}={config[key]}" for key in self.entry.twin.config or () if key in config]
        if self.left_out:
            told.append(f"without {', '.join(self.left_out)}")
        return ", ".join(told)

    def runs_as(self, other: Arm) -> bool:
        """Whether both runs consist of the same."""
        parts = ((one.system, one.client, one.cluster, one.schedule) for one in (self, other))
        return next(parts) == next(parts)

    @property
    def holds(self) -> tuple[Hold, ...]:
        return tuple(step for step in self.schedule if isinstance(step, Hold))
