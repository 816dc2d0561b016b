"""Pack Squall's own modules and data files into a zip archive, for workers on which Squall is not installed.

The archive is named by the hash of its content, so that workers with an older one never mistake it for this one. Its
libraries are not in it: most are compiled, and have to fit the worker.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOMS: Final = ("benchmarks", "harness", "nemesis", "nodes", "results", "suites", "workloads")
LEFT_OUT: Final = frozenset({"__pycache__"})
EPOCH: Final = (1980, 1, 1, 0, 0, 0)
"""The earliest time that a zip archive can state: equal content gives equal archives."""


def package_files() -> Iterator[tuple[str, Path]]:
    """Yield the files of the package by their names inside the archive, in order."""
    root = Path(__file__).resolve().parents[2]
    for room in ROOMS:
        for path in sorted((root / room).rglob("*")):
            if path.is_file() and not LEFT_OUT & set(path.relative_to(root).parts):
                yield f"squall/{path.relative_to(root).as_posix()}", path


def write_archive(folder: Path) -> Path:
    """Write the archive into a folder; return its path, `squall-HASH.zip`."""
    digest = hashlib.sha256()
    draft = folder / "squall.zip"
    with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, path in package_files():
            content = path.read_bytes()
            digest.update(f"{name}\0{len(content)}\0".encode() + content)
            archive.writestr(zipfile.ZipInfo(name, EPOCH), content, zipfile.ZIP_DEFLATED)
    return draft.rename(folder / f"squall-{digest.hexdigest()[:16]}.zip")
