"""Write a small file whole or not at all: a full disk or a killed writer leaves the old file."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def write_whole(target: Path, content: bytes | str, *, durably: bool = True) -> None:
    """Write `content` (text as UTF-8) into `target`. Raises OSError that names the file; no draft remains then.

    Each writer has a draft of its own, so that several may write the same file at once: the last one counts.
    """
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}.new")
    try:
        with draft.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            if durably:
                os.fsync(file.fileno())
        draft.replace(target)
    except OSError as trouble:
        draft.unlink(missing_ok=True)
        raise OSError(trouble.errno, trouble.strerror, str(target)) from None
