"""Libraries: the programs of a system that were fetched once, as a directory that hosts see or get a copy of.

A library may be large (the jars of Apache Kafka are 43 MB), so it is no part of a bundle. It lies in the user's cache
on the control node, under a name that says its content. Hosts of a lab see that directory, read-only; every other host
gets a copy beside its bundles, once. All files have the same times everywhere.

    library = make_library("kafka-4.4.0-1f2a", fill)          # `fill` puts the files into a new directory
    paths = on_all(remotes, lambda remote: place_library(remote, home, library))
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from squall.harness.hosts.deploy import BASE, UNPACK, Probe, default_cache
from squall.harness.hosts.ssh import Remote

COPY_SECONDS: Final = 600.0
COMPLETE: Final = ".complete"
"""A file in every library whose other files are all there."""


@dataclass(frozen=True)
class Library:
    """A directory of programs on the control node."""

    name: str
    directory: Path


def libraries_root() -> Path:
    """Return the directory of this user's libraries, made if need be."""
    root = default_cache().parent / "libraries"
    root.mkdir(parents=True, exist_ok=True)
    return root


def make_library(name: str, fill: Callable[[Path], None], *, root: Path | None = None) -> Library:
    """Return the library of this name, filled if the cache has none. Two commands may make it at once."""
    root = root or libraries_root()
    root.mkdir(parents=True, exist_ok=True)
    directory = root / name
    if not (directory / COMPLETE).is_file():
        with tempfile.TemporaryDirectory(prefix=".make-", dir=root) as draft:
            content = Path(draft, name)
            content.mkdir()
            fill(content)
            (content / COMPLETE).touch()
            _without_times(content)
            shutil.rmtree(directory, ignore_errors=True)  # what a removal by hand has left
            try:
                content.rename(directory)
            except OSError:
                if not (directory / COMPLETE).is_file():
                    raise
    return Library(name, directory)


def place_library(remote: Remote, found: Probe, library: Library) -> str:
    """Return where the library lies on a host: where the control node has it, or a copy. Raises SshError."""
    copy = f"{found.home}/{BASE}/bundles/{library.name}"
    for place in (str(library.directory), copy):
        if remote.run(["test", "-f", f"{place}/{COMPLETE}"]).ok:
            return place
    with tempfile.TemporaryFile() as archive:
        with tarfile.open(fileobj=archive, mode="w") as tar:
            tar.add(library.directory, ".", filter=_of_nobody)
        archive.seek(0)
        content = archive.read()
    argv = [found.executable, "-c", UNPACK, copy, hashlib.sha256(content).hexdigest()]
    remote.run(shlex.join(argv), stdin=content, timeout=COPY_SECONDS, check=True)
    return copy


def _of_nobody(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = 0
    return entry


def _without_times(directory: Path) -> None:
    """Give all files the time 0, as copies on hosts have it: archives of shared classes hold for that time only."""
    for path in directory.rglob("*"):
        os.utime(path, (0, 0))
