"""Print the digest of each directory given, as a JSON list: `python3 -u program.py disk.digests DIRECTORY…`."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path


def digest_of(directory: Path) -> str:
    """Digest of all files below, by name and content."""
    digest = hashlib.sha256()
    for path in sorted(path for path in directory.rglob("*") if path.is_file() and path.name != ".lock"):
        digest.update(path.relative_to(directory).as_posix().encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def main(argv: list[str]) -> int:
    print(json.dumps([digest_of(Path(one)) for one in argv]))
    return 0
