"""Transcripts in Markdown: what a page says to type and what it says will come back, made checkable.

A fenced block marked `console` holds commands after `$ ` and, below each, what it prints:

    ```console
    $ squall plan suites/quickstart.yaml --seed 4711
    seed       4711
    …
    fault         5.0 s  isolate      leader of events/*  for 10s
    …
    ```

A line that is only `…` stands for any number of lines, `…` within a line for the rest of it, and blanks for any
blanks. Numbers, times and hashes stand for any others where they differ from run to run; where a seed decides them
(`squall simulate`, `squall plan`) they are facts, and stand for themselves only. Words always do.
Words after `console` say what a block needs: nothing (`quick`), `spark`, `lab`, `full`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^```(\w*) ?([\w ]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
VARYING = re.compile(r"(…|\b[0-9a-f]{16,}\b|(?<![A-Za-z0-9])\d{1,3}(?: \d{3}\b)+|\d[\d:.,+T-]*|\s+)")
REPEATABLE = re.compile(r"\bsquall (plan|simulate|shrink|mutants|suite)\b")
OF_THE_MACHINE = re.compile(r"^time\b|per second|\bin \d[\d.]* s\b|\bruns, \d[\d.]* s$")
"""Lines of such commands that say how fast this machine was."""
NUMBER = r"\d[\d:.,+T-]*(?: \d{3}\b)*"


@dataclass(frozen=True)
class Block:
    """A fenced block of a page: its language, the words after it, its text, and the line it begins on."""

    page: str
    line: int
    language: str
    needs: tuple[str, ...]
    text: str

    @property
    def name(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Command:
    """A command of a transcript and what is shown below it."""

    text: str
    shown: tuple[str, ...]


def blocks_of(path: Path, language: str) -> Iterator[Block]:
    """The fenced blocks in a language, in order."""
    page = path.read_text(encoding="utf-8")
    for match in FENCE.finditer(page):
        if match[1] == language:
            line = page.count("\n", 0, match.start()) + 1
            yield Block(path.name, line, match[1], tuple(match[2].split()), match[3])


def commands_of(block: Block) -> Iterator[Command]:
    """The commands of a `console` block, each with the output shown for it."""
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        yield Command(command, tuple(shown.rstrip().splitlines()))


def is_repeatable(command: str) -> bool:
    """Whether a command prints the same on every machine, so that each figure and hash a page shows is a fact."""
    return REPEATABLE.search(command) is not None


def pattern_of(shown: tuple[str, ...], *, exact: bool = False) -> str:
    """A regular expression for outputs that a shown one stands for; if `exact`, those of the same figures only."""
    lines = []
    for line in shown:
        if line == "…":
            lines.append(r"(?:[^\n]*\n)*?")
        else:
            figures = exact and not OF_THE_MACHINE.search(line)
            lines.append("".join(_piece(piece, figures) for piece in VARYING.split(line)) + r"[^\S\n]*\n")
    return "".join(lines)


def _piece(piece: str, exact: bool) -> str:
    if piece == "…":
        return r"[^\n]*"
    if exact and piece and not piece.isspace():
        return re.escape(piece)
    if re.fullmatch(r"[0-9a-f]{16,}", piece):
        return r"[0-9a-f]{16,}"
    if re.fullmatch(NUMBER, piece):
        return NUMBER
    return r"[^\S\n]+" if piece.isspace() else re.escape(piece)


def is_shown_by(output: str, shown: tuple[str, ...], *, exact: bool = False) -> bool:
    """Whether an output is what a page shows of it, if `exact` with the same figures."""
    return re.fullmatch(pattern_of(shown, exact=exact), output.strip("\n") + "\n") is not None
