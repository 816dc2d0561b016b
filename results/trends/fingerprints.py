"""Tell whether two findings of different runs are the same: by a hash of what does not vary from run to run.

Scenario, anomaly, the rule or suspect, the kinds of faults in force and the normalised text of an error count. Offsets,
ids, times, addresses, paths and the numbers of nodes and topic-partitions do not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final


@dataclass(frozen=True)
class Finding:
    """What a run shows of a finding. `faults` are the kinds in force when it happened, in any order.

    `suspect` is the rule that was broken, or the part that the witness points to; `error` is a message, if any.
    """

    scenario: str
    anomaly: str
    suspect: str = ""
    faults: tuple[str, ...] = ()
    error: str = ""


def fingerprint(finding: Finding) -> str:
    """Sixteen hexadecimal digits, equal for the same finding in every run, process and version of Python."""
    parts = (
        finding.scenario,
        finding.anomaly,
        finding.suspect,
        *_counted(sorted(set(finding.faults))),
        normalised(finding.error),
    )
    return blake2b("".join(_counted(parts)).encode(), digest_size=8).hexdigest()


def _counted(parts: Iterable[str]) -> tuple[str, ...]:
    """Each part with its length before it, so that no two lists of parts give the same text."""
    return tuple(f"{len(one.encode())}:{one}" for one in parts)


_KEPT: Final = r"\b(?:[A-Z]{2}-\d{2}|KIP-\d+|[PpNX]\d{2,3})\b"
"""Numbers that are names: requirement ids, Kafka's proposals, quantiles such as p99, scenarios and defects."""

_RULES: Final[tuple[tuple[re.Pattern[str], str], ...]] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b", "<id>"),
        (r"\b0x[0-9a-fA-F]+\b", "<address>"),
        (r"\b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?", "<time>"),
        (r"\b\d{1,2}:\d{2}:\d{2}(?:[.,]\d+)?\b", "<time>"),
        (r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?(?![\w.])", "<host>"),
        (r"\[?(?<![\w:])(?:[0-9a-fA-F]{1,4}(?::[0-9a-fA-F]{0,4}){3,7}|::1)(?![\w:])\]?(?::\d+)?", "<host>"),
        (r"(?<![\w<])(?:/[\w.@+-]+){2,}/?", "<path>"),
        (r"(?<![\w-])(?=[\w-]*\d)(?=[\w-]*[a-z])(?=[\w-]*[A-Z])[\w-]{22}(?![\w-])", "<id>"),
        (r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{12,}\b", "<id>"),
        (r"[-+]?(?<!\w)\d+(?:[.,·\u00a0\u202f]\d+)*(?:e[-+]?\d+)?(?!\w)", "#"),
        (r"(?<!\w)\d+(?:\.\d+)?(?=(?:ns|µs|us|ms|s|m|h|B|kB|KB|MB|GB|KiB|MiB|GiB)\b)", "#"),
        (r"(?<=[A-Za-z_])\d+\b", "#"),
        (r"#(?:[ ,·]#)+", "#"),
        (r"# ?(?:ns|µs|us|ms|s|seconds?|minutes?)\b", "<duration>"),
        (r"\s+", " "),
    )
)
_NAMED: Final = re.compile(_KEPT)


def normalised(text: str) -> str:
    """The text of an error with everything that varies from run to run replaced by placeholders.

    Names that have a number (QC-08, KIP-966, p99) stay.
    """
    pieces, end = [], 0
    for kept in _NAMED.finditer(text):
        pieces += [_replaced(text[end : kept.start()]), kept.group()]
        end = kept.end()
    return " ".join("".join([*pieces, _replaced(text[end:])]).split())


def _replaced(text: str) -> str:
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text
