"""Why a log refuses something. The kind is the name of Kafka's error for it, so that a broker can answer with it."""

from __future__ import annotations


class LogError(Exception):
    """The log refused; nothing was changed. `kind` is the name of a Kafka error, e.g. `CORRUPT_MESSAGE`."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message


class CorruptFile(Exception):
    """A file beside the log cannot be what it should be. Says file, problem and remedy."""
