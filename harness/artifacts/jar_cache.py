"""Jars on this machine: `~/.cache/squall/jars`, laid out as a Maven repository, each jar checked against its pin.

    jars("kafka-3.9.2")         # the files, in the order of the list; fetched by Maven where the cache lacks them

A jar enters the cache only with the pinned checksum, by an atomic rename, so two commands may fetch at once. Its
checksum is read again on each use: a jar that was changed or cut short since is refused, and fetched again.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from squall.harness.artifacts import maven
from squall.harness.artifacts.jar_lists import LISTS, Coordinates, PinnedJar, pinned_jars
from squall.harness.errors import UsageError

Fetch = Callable[[Sequence[Coordinates], Path], None]


def cache_directory() -> Path:
    """The directory of this user's cached jars."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "squall" / "jars"


def jars(name: str, *, cache: Path | None = None, lists: Path = LISTS, fetch: Fetch = maven.fetch) -> tuple[Path, ...]:
    """Return the jars of the list `name` as files. Raises UsageError if one cannot be had or is another file."""
    cache = cache or cache_directory()
    pinned = pinned_jars(name, lists)
    missing = [one for one in pinned if not _is_cached(cache, one)]
    if missing:
        _add(cache, missing, fetch)
    return tuple(cache / one.coordinates.path for one in pinned)


def sha256(path: Path) -> str:
    """Return a file's SHA-256 in hexadecimal digits."""
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _is_cached(cache: Path, one: PinnedJar) -> bool:
    path = cache / one.coordinates.path
    return path.is_file() and sha256(path) == one.sha256


def _add(cache: Path, missing: Sequence[PinnedJar], fetch: Fetch) -> None:
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=cache) as staged:
        fetch([one.coordinates for one in missing], Path(staged))
        for one in missing:
            _check(Path(staged) / one.coordinates.path, one)
        for one in missing:
            path = cache / one.coordinates.path
            path.parent.mkdir(parents=True, exist_ok=True)
            (Path(staged) / one.coordinates.path).replace(path)


def _check(path: Path, one: PinnedJar) -> None:
    if not path.is_file():
        raise UsageError(f"{one.coordinates}: the repository returned no such jar")
    found = sha256(path)
    if found != one.sha256:
        raise UsageError(
            f"{one.coordinates}: its SHA-256 is {found}, and {one.sha256} is pinned; the jar is not used",
            remedy="find what serves another file under this name: a mirror in ~/.m2/settings.xml, or ~/.m2/repository",
        )
