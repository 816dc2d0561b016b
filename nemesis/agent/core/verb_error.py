"""The one exception that verbs raise on purpose: a kind for programs, a sentence for people."""

from __future__ import annotations


class VerbError(Exception):
    """Becomes `{"ok": false, "kind": kind, "error": error}` on the channel."""

    def __init__(self, kind: str, error: str) -> None:
        super().__init__(error)
        self.kind = kind
        self.error = error
