"""Generate the tables of docs/faults.md from the registry and the catalogue, so that they cannot differ.

A file has markers, `<!-- faults: kinds -->` … `<!-- end -->`; the text between them is replaced.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from squall.harness.catalogue.describe import in_simulation, options_of, rows_of
from squall.harness.catalogue.trials import flat
from squall.harness.errors import UsageError
from squall.nemesis.catalogue import ROWS, CatalogueRow
from squall.nemesis.faults.kind import Kind
from squall.nemesis.registry import KINDS

NOT_SIMULATED = "not in simulation"
MARKED = re.compile(r"(<!-- faults: (?P<name>\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def tables() -> dict[str, str]:
    """Return every table by the name in its marker."""
    made: Mapping[str, Callable[[], str]] = {"kinds": _kinds, "options": _options, "rows": _rows}
    return {name: make() for name, make in made.items()}


def updated(text: str) -> str:
    """Return the text with current tables. Raises UsageError for a marker with an unknown name."""
    known = tables()

    def filled(match: re.Match[str]) -> str:
        if match["name"] not in known:
            raise UsageError(f"unknown table {match['name']!r}; known are {', '.join(known)}")
        return f"{match[1]}{known[match['name']]}{match[3]}"

    return MARKED.sub(filled, text)


def update(path: Path) -> bool:
    """Update a file. Return whether it changed. Raises UsageError for a file without markers."""
    before = path.read_text(encoding="utf-8")
    if not MARKED.search(before):
        raise UsageError(f"{path}: has no marker such as <!-- faults: kinds --> and <!-- end -->")
    after = updated(before)
    path.write_text(after, encoding="utf-8")
    return after != before


def _kinds() -> str:
    return _table(
        ("fault", "what it does", "on hosts", "proven by", "limits"),
        (
            (
                f"`{kind.name}`",
                kind.what,
                kind.on_hosts + (f" (`{'`, `'.join(kind.verbs)}`)" if kind.verbs else ""),
                kind.proof,
                _limits(kind),
            )
            for kind in KINDS
        ),
    )


def _limits(kind: Kind) -> str:
    if in_simulation(kind) or NOT_SIMULATED in kind.limits:
        return kind.limits
    return "; ".join(filter(None, (kind.limits, NOT_SIMULATED)))


def _options() -> str:
    return _table(
        ("fault", "options (defaults)", "rows"),
        (
            (
                f"`{kind.name}`",
                "; ".join(f"`{option}`: {option.values}" for option in options_of(kind.options)) or "none",
                ", ".join(str(row.number) for row in rows_of(kind)),
            )
            for kind in KINDS
        ),
    )


def _rows() -> str:
    return _table(
        ("row", "known fault", "covered here by"),
        ((str(row.number), row.name, _stands_for(row)) for row in ROWS),
    )


def _stands_for(row: CatalogueRow) -> str:
    if not row.trial:
        return row.in_every_run or f"nothing: {row.why_not}"
    faults = dict.fromkeys(f"`{fault['fault']}`" for fault in flat(row.trial))
    return ", ".join(faults) or f"`{json.dumps(dict(row.trial))}`"


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|").strip() for cell in line) + " |\n" for line in lines)
