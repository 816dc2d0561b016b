"""Put a run into one archive that somebody else can check, repeat and read.

    NAME/README.txt       what is in it, and the commands
    NAME/run.json …       manifest, schedule, history, verdict, tables, report, evidence, as they are
    NAME/nodes/ …         logs and configuration of nodes; long files keep their beginning and their end
    NAME/scenario.yaml    the scenario, if its suite is still what it was
    NAME/packages.txt     the versions of all installed packages

Values that look like secrets are replaced in text files. Everything that is left out, shortened or replaced is listed
in README.txt and returned.
"""

from __future__ import annotations

import io
import re
import tarfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

import yaml

from squall.harness.errors import UsageError
from squall.harness.run.run_manifest import scenario_hash
from squall.harness.scenario.suites import load_named
from squall.results.history.manifest import Manifest

LOG_BYTES: Final = 512 * 1024
"""Of a longer log, so much of its beginning and so much of its end are kept."""
LOGS: Final = (".log", ".txt", ".out", ".trace")
LEFT_OUT: Final = (".pcap",)
"""Captured packets hold all that clients sent, and are large."""
TEXTS: Final = (*LOGS, ".json", ".jsonl", ".properties", ".yaml", ".html", ".md")
_SECRET: Final = re.compile(
    rb"(?i)(\b[\w.-]*(?:password|passwd|secret|token|api[_-]?key|credential)[\w.-]*[\"']?\s*[=:]\s*[\"']?)([^\s\"',;&]{4,})"
)
_PRIVATE_KEY: Final = re.compile(
    rb"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
)
REPLACED: Final = b"(removed)"
_README: Final = "README.txt"


@dataclass(frozen=True)
class Archived:
    """What was archived, and what of it is not as it was."""

    path: Path
    files: int
    remarks: tuple[str, ...]


def archive_run(run: Path, target: Path) -> Archived:
    """Write the archive. Raises IllFormedHistory if the run has no manifest, OSError."""
    manifest = Manifest.load(run)
    name = f"{manifest.scenario}-seed-{manifest.seed}-{manifest.run_id[:8]}"
    remarks: list[str] = []
    files = 0
    draft = target.with_name(f".{target.name}.draft")
    try:
        with tarfile.open(draft, "w:gz", compresslevel=6) as archive:
            for path in sorted(run.rglob("*")):
                inside = path.relative_to(run)
                if path.is_symlink() or not path.is_file():
                    continue
                if path.suffix in LEFT_OUT:
                    remarks.append(f"left out: {inside} ({path.stat().st_size / 2**20:.1f} MB of packets)")
                    continue
                files += 1
                if path.suffix in TEXTS:
                    content = b"".join(_content(path, inside, remarks))
                    _add(archive, f"{name}/{inside}", content, int(path.stat().st_mtime))
                else:
                    archive.add(path, f"{name}/{inside}", recursive=False, filter=_nameless)
            for made, text in _made(manifest, remarks):
                files += 1
                _add(archive, f"{name}/{made}", text.encode(), int(time.time()))
            _add(archive, f"{name}/{_README}", _readme(name, manifest, remarks).encode(), int(time.time()))
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
    return Archived(target, files + 1, tuple(remarks))


def _nameless(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Return a member without the names of this machine's user and group."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def _add(archive: tarfile.TarFile, name: str, content: bytes, changed: int) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    member.mtime = changed
    archive.addfile(member, io.BytesIO(content))


def _content(path: Path, inside: Path, remarks: list[str]) -> Iterator[bytes]:
    """Yield a text file: shortened if it is a long log, without secrets. Histories are as they were."""
    size = path.stat().st_size
    if inside.parts[0] == "history":
        yield path.read_bytes()
        return
    if path.suffix in LOGS and size > 2 * LOG_BYTES + 1024:
        with path.open("rb") as file:
            head = file.read(LOG_BYTES)
            file.seek(size - LOG_BYTES)
            tail = file.read()
        left = size - 2 * LOG_BYTES
        remarks.append(f"shortened: {inside}, {left / 2**20:.1f} MB of its middle are left out")
        text = head + f"\n… {left} bytes are left out here …\n".encode() + tail
    else:
        text = path.read_bytes()
    text, values = _SECRET.subn(rb"\g<1>" + REPLACED, text)
    text, keys = _PRIVATE_KEY.subn(REPLACED, text)
    if values + keys:
        remarks.append(f"removed: {values + keys} values that look like secrets, from {inside}")
    yield text


def _made(manifest: Manifest, remarks: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the files that are made for the archive."""
    packages = sorted(f"{one.metadata['Name']}=={one.version}" for one in metadata.distributions())
    yield "packages.txt", "\n".join(packages) + "\n"
    if not manifest.suite:
        remarks.append("no scenario.yaml: the manifest names no suite")
        return
    try:
        scenario = load_named(manifest.suite).only(manifest.scenario).scenarios[0]
    except UsageError as trouble:
        remarks.append(f"no scenario.yaml: {str(trouble).splitlines()[0]}")
        return
    if scenario_hash(scenario) != manifest.scenario_hash:
        remarks.append(f"no scenario.yaml: {manifest.suite} has changed since the run")
        return
    given = scenario.model_dump(mode="json", exclude_defaults=True, by_alias=True)
    yield "scenario.yaml", yaml.safe_dump(given, sort_keys=False, allow_unicode=True)


def _readme(name: str, manifest: Manifest, remarks: list[str]) -> str:
    versions = ", ".join(f"{key} {value}" for key, value in manifest.versions.items())
    lines = [
        f"A run of Squall: scenario {manifest.scenario}, seed {manifest.seed}, {manifest.started}",
        f"versions: {versions or 'unknown'}",
        "",
        "read it              open report.html in a browser",
        f"verdict in words     squall show {name}",
        f"check it again       squall check {name} --in-process",
        f"repeat it            {manifest.command or 'unknown'}",
        f"  from scenario.yaml squall run {name}/scenario.yaml --seed {manifest.seed}",
        f"  in simulation      squall simulate {name}/scenario.yaml --seed {manifest.seed}",
        "",
        "What is not as it was:" if remarks else "Nothing is left out, shortened or replaced.",
        *(f"  {one}" for one in remarks),
    ]
    return "\n".join(lines) + "\n"
