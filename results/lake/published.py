"""A copy of a lake at a URL of any file system that Spark's Hadoop layer knows: `s3a://…`, `hdfs://…`, `file://…`.

    URL/v1/TABLE/period=2026-11-24/part-HASH.parquet     a part, named by the hash of its content
    URL/v1/manifests/TIME-HASH.json                      which parts count; the last one by name is in force

A lake is written on a file system of this machine, and *published*: its parts are copied, those that are there already
are not, and the manifest follows when all of them are in place. So a reader sees a whole lake, the one before or this
one, and a publisher that dies leaves the one before. Each file appears whole: it is written under another name and
renamed (an object store copies on a rename, and the copy appears whole as well). Nothing is ever overwritten.

Parts that neither the last manifest nor the one before names are removed once they are `KEPT_SECONDS` old, so that a
reader can finish and a second publisher's parts survive. Of two that publish different lakes at one URL, the last one
is in force; rows of both are in neither.

Spark brings credentials and settings, from its own configuration (`spark.hadoop.fs.s3a.…` in `spark-defaults.conf`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from squall.results.lake.schema import SCHEMA_VERSION, TABLES
from squall.results.lake.store import Lake, LakeTrouble

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEPT_SECONDS: Final = 24 * 3600
URL: Final = re.compile(r"[a-z][a-z0-9+.-]*:/")


class _Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """Which parts count: paths below the version's folder, by table."""

    schema: int = SCHEMA_VERSION
    parts: dict[str, list[str]] = {}


@dataclass(frozen=True)
class Published:
    """What publishing did."""

    copied: int
    kept: int
    removed: int


def is_url(place: str) -> bool:
    """Whether a place is a URL of a file system, and not a path."""
    return URL.match(place) is not None


class PublishedLake:
    """A lake at a URL. Raises LakeTrouble if the file system cannot be used."""

    def __init__(self, url: str, spark: SparkSession) -> None:
        self.url = url.rstrip("/")
        self._jvm: Any = spark._jvm
        self._configuration: Any = spark._jsc.hadoopConfiguration()
        self._root = f"{self.url}/v{SCHEMA_VERSION}"
        with _explained(self.url):
            self._files: Any = self._path("").getFileSystem(self._configuration)

    # -- writing ------------------------------------------------------------------------------------------------------

    def publish(self, lake: Lake, now: datetime | None = None) -> Published:
        """Compact a lake and copy it here. Raises LakeTrouble."""
        lake.compact()
        before = self._manifests()[-1:]
        with _explained(self.url):
            parts: dict[str, list[str]] = {}
            copied = kept = 0
            for table, paths in lake.parts().items():
                for path in paths:
                    name = f"{table}/{path.parent.name}/part-{_hash_of(path)}.parquet"
                    parts.setdefault(table, []).append(name)
                    if self._files.exists(self._path(name)):
                        kept += 1
                    else:
                        self._copy(path, name)
                        copied += 1
            self._write_manifest(_Manifest(parts=parts), now or datetime.now(UTC))
            needed = {name for names in parts.values() for name in names}
            for one in before:
                needed |= {name for names in self._load(one).parts.values() for name in names}
            return Published(copied, kept, self._remove_all_but(needed))

    def _copy(self, source: Path, name: str) -> None:
        target = self._path(name)
        draft = self._path(f"{name}.{datetime.now(UTC):%H%M%S%f}.new")
        self._files.copyFromLocalFile(
            False, True, self._jvm.org.apache.hadoop.fs.Path(f"file://{source.resolve()}"), draft
        )
        self._rename(draft, target)

    def _write_manifest(self, manifest: _Manifest, now: datetime) -> None:
        content = msgspec.json.encode(manifest)
        name = f"manifests/{now:%Y%m%dT%H%M%S%f}-{hashlib.sha256(content).hexdigest()[:12]}.json"
        draft = self._path(f"{name}.new")
        stream = self._files.create(draft, True)
        try:
            stream.write(content)
        finally:
            stream.close()
        self._rename(draft, self._path(name))

    def _rename(self, draft: Any, target: Any) -> None:
        if not self._files.rename(draft, target) and not self._files.exists(target):
            raise LakeTrouble(f"{target.toString()}: cannot be put in place")
        self._files.delete(draft, False)  # of two that write the same content, one finds it there

    def _remove_all_but(self, needed: set[str]) -> int:
        """Remove old parts and manifests that no reader needs; return how many."""
        manifests = self._manifests()
        oldest = self._now() - KEPT_SECONDS * 1000
        removed = 0
        for name, modified in self._listed():
            superseded = name.startswith("manifests/") and name not in manifests[-2:]
            unneeded = not name.startswith("manifests/") and name not in needed
            if (superseded or unneeded) and modified < oldest:
                removed += bool(self._files.delete(self._path(name), False))
        return removed

    def _now(self) -> int:
        return int(datetime.now(UTC).timestamp() * 1000)

    # -- reading ------------------------------------------------------------------------------------------------------

    def parts(self) -> dict[str, list[str]]:
        """Return the URLs of the Parquet files of each table. Raises LakeTrouble if nothing is published here."""
        manifests = self._manifests()
        if not manifests:
            raise LakeTrouble(f"{self.url}: no lake is published there; squall lake publish {self.url} does so")
        with _explained(self.url):
            manifest = self._load(manifests[-1])
        return {name: [f"{self._root}/{path}" for path in manifest.parts.get(name, [])] for name in TABLES}

    def _manifests(self) -> list[str]:
        with _explained(self.url):
            if not self._files.exists(self._path("manifests")):
                return []
            names = [one.getPath().getName() for one in self._files.listStatus(self._path("manifests"))]
        return sorted(f"manifests/{name}" for name in names if name.endswith(".json"))

    def _load(self, name: str) -> _Manifest:
        length = self._files.getFileStatus(self._path(name)).getLen()
        stream = self._files.open(self._path(name))
        try:
            content = bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream, length))
        finally:
            stream.close()
        try:
            manifest = msgspec.json.decode(content, type=_Manifest)
        except msgspec.DecodeError as trouble:
            raise LakeTrouble(f"{self._root}/{name}: cannot be read: {trouble}; publish the lake again") from trouble
        if manifest.schema != SCHEMA_VERSION:
            problem = f"has schema {manifest.schema}, this Squall reads {SCHEMA_VERSION}"
            raise LakeTrouble(f"{self._root}/{name}: {problem}")
        return manifest

    def _listed(self) -> Iterator[tuple[str, int]]:
        """Yield every file with the time of its last change, in milliseconds."""
        files = self._files.listFiles(self._path(""), True)
        while files.hasNext():
            one = files.next()
            name = one.getPath().toString()
            yield name[name.index(f"/v{SCHEMA_VERSION}/") + len(f"/v{SCHEMA_VERSION}/") :], one.getModificationTime()

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._root}/{name}" if name else self._root)


def _hash_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:32]


@contextmanager
def _explained(url: str) -> Iterator[None]:
    """Turn an exception of Hadoop into LakeTrouble with its first line."""
    from py4j.protocol import Py4JJavaError

    try:
        yield
    except Py4JJavaError as error:
        first = str(error.java_exception.toString()).splitlines()[0]
        raise LakeTrouble(f"{url}: {first}. Spark's configuration says how to reach it") from error
