"""The committed lists of jars: `jars/NAME.yaml` holds every jar that one version of a system needs, with its SHA-256.

    org.apache.zookeeper:zookeeper:3.8.4: 1f2a…    # group:artifact:version, or with a classifier as the fourth part

A list is complete: nothing resolves dependencies at run time, so that what runs is what was reviewed.
`scripts/pin_jars.py` makes one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from squall.harness.errors import UsageError
from squall.harness.yaml_source import YamlSource, load_yaml, suggestion

LISTS = Path(__file__).parent / "jars"
_PART = re.compile(r"[A-Za-z0-9_.\-]+")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Coordinates:
    """What names a jar in every Maven repository."""

    group: str
    artifact: str
    version: str
    classifier: str = ""

    @classmethod
    def parsed(cls, text: str) -> Coordinates | None:
        """Return the coordinates in `group:artifact:version[:classifier]`; None if the text is something else."""
        parts = text.split(":")
        if len(parts) not in (3, 4) or not all(_PART.fullmatch(part) and part.strip(".") for part in parts):
            return None
        return cls(*parts)

    @property
    def file_name(self) -> str:
        return f"{self.artifact}-{self.version}{self.classifier and '-' + self.classifier}.jar"

    @property
    def path(self) -> Path:
        """Where the jar is in a directory that is laid out as a Maven repository."""
        return Path(*self.group.split("."), self.artifact, self.version, self.file_name)

    def __str__(self) -> str:
        return ":".join(part for part in (self.group, self.artifact, self.version, self.classifier) if part)


@dataclass(frozen=True)
class PinnedJar:
    """A jar, and the only content that is accepted as it."""

    coordinates: Coordinates
    sha256: str


def names(directory: Path = LISTS) -> list[str]:
    """Return the names of all lists, such as `kafka-3.9.2`."""
    return sorted(path.stem for path in directory.glob("*.yaml"))


def pinned_jars(name: str, directory: Path = LISTS) -> tuple[PinnedJar, ...]:
    """Return the jars of a list. Raises UsageError for an unknown name, and for a line that pins nothing."""
    if name not in names(directory):
        raise UsageError(f"no list of jars {name!r}{suggestion(name, names(directory))}", remedy=_choice(directory))
    source = load_yaml(directory / f"{name}.yaml")
    if not isinstance(source.data, dict) or not source.data:
        raise source.error((), "must be a mapping of group:artifact:version to SHA-256")
    return tuple(_pinned(source, key, value) for key, value in source.data.items())


def _pinned(source: YamlSource, key: object, value: object) -> PinnedJar:
    coordinates = Coordinates.parsed(str(key))
    if coordinates is None:
        raise source.error((str(key),), "is not group:artifact:version or group:artifact:version:classifier")
    if not isinstance(value, str) or not _SHA256.fullmatch(value):
        raise source.error((str(key),), f"{value!r} is not a SHA-256: 64 hexadecimal digits in lower case")
    return PinnedJar(coordinates, value)


def _choice(directory: Path) -> str:
    return f"there are: {', '.join(names(directory))}"
