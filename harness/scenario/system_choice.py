"""Which system a scenario deploys: its name, or the name with a version and options.

system: kafka
system: {name: kafka, version: 4.4.0, jvm: -Xmx1g}

On the command line: `--system kafka`, `--system kafka:3.9.2`.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_serializer,
    model_validator,
)

from squall.harness.errors import UsageError
from squall.harness.plugins.system_limits import SystemLimits
from squall.harness.plugins.system_plugins import OURS, known_system, limits_of_system
from squall.harness.yaml_source import shown


class SystemChoice(BaseModel):
    """A system under test, as a suite names it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, AfterValidator(known_system)] = Field(
        default=OURS, description="our nodes, another system of Squall's, or one of an installed package"
    )
    version: str = Field(default="", description="one of the system's versions; the newest unless given")
    jvm: str = Field(default="", description="options of the Java virtual machine, instead of the usual ones for a lab")

    bootstrap: str = Field(default="", description="of the system `cluster`: addresses of brokers, host:port,…")
    properties: str = Field(
        default="", description="of the system `cluster`: a file of client properties, for TLS and SASL"
    )

    @model_validator(mode="after")
    def _that_exists(self) -> SystemChoice:
        limits = self.limits
        if self.version and self.version not in limits.versions:
            known = f"; known are {', '.join(limits.versions)}" if limits.versions else "; there is only one"
            raise ValueError(f"version: {self.name} has no version {self.version}{known}")
        if self.jvm and not limits.jvm:
            raise ValueError(f"jvm: nodes of {self.name} are no Java processes")
        if (self.bootstrap or self.properties) and not limits.reached:
            raise ValueError(f"bootstrap and properties are for the system `cluster`; {self.name} is deployed")
        return self

    @model_serializer
    def _as_written(self) -> str | dict[str, str]:
        """The name alone if it says all."""
        return {"name": self.name, **self.options} if self.options else self.name

    @property
    def options(self) -> dict[str, str]:
        """What is given beside the name: the arguments that make the system."""
        given = (("version", self.version), ("jvm", self.jvm), ("bootstrap", self.bootstrap))
        return {key: value for key, value in (*given, ("properties", self.properties)) if value}

    @property
    def ours(self) -> bool:
        return self.name == OURS

    @property
    def limits(self) -> SystemLimits:
        return limits_of_system(self.name)

    @property
    def deployed_version(self) -> str:
        """The version that is named, else the newest; empty if the system has no versions."""
        return self.version or next(iter(self.limits.versions), "")

    @property
    def why_not_on_zookeeper(self) -> str | None:
        """Why ZooKeeper cannot keep its metadata; None if it can."""
        known = self.limits.on_zookeeper
        if self.ours or self.deployed_version in known:
            return None
        if not known:
            return f"{self} cannot have its metadata in ZooKeeper; leave it out"
        return f"{self} cannot have its metadata in ZooKeeper; {self.name} {', '.join(known)} can"

    def __str__(self) -> str:
        """The name and the version that is deployed: `kafka 4.4.0`."""
        return f"{self.name} {self.deployed_version}".strip()


def _by_name(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


def chosen_system(text: str, properties: str = "") -> SystemChoice:
    """Return the choice of a command line: `NAME`, `NAME:VERSION` or `cluster:HOST:PORT,…`. Raises UsageError."""
    name, _, rest = text.partition(":")
    try:
        reached = limits_of_system(known_system(name)).reached
        return SystemChoice(name=name, properties=properties, **{"bootstrap" if reached else "version": rest})
    except ValidationError as wrong:
        problem = wrong.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")
        raise UsageError(f"--system: {shown(text)}: {problem.removeprefix('version: ')}") from None
    except ValueError as wrong:
        raise UsageError(f"--system: {shown(text)} {wrong}") from None


SystemOption = Annotated[SystemChoice, BeforeValidator(_by_name, json_schema_input_type=str | SystemChoice)]
