"""Write a small file whole or not at all: a full disk or a killed writer leaves the old file."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(target: Path, content: bytes | str) -> None:
    """Write `content` (text as UTF-8) into `target`. Raises OSError that names the file; no draft remains then."""
    draft = target.with_name(f"{target.name}.new")
    try:
        with draft.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(target)
    except OSError as trouble:
        draft.unlink(missing_ok=True)
        raise OSError(trouble.errno, trouble.strerror, str(target)) from None
