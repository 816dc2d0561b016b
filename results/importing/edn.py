"""Read EDN, the notation of Clojure's data, form by form with line numbers.

PyPI's readers were tried first: `edn_format` had its last release in 2020, needs a parser generator and a library of
persistent collections at run time, and yields no line numbers, which an error about one operation among 100 000 needs.
EDN is small enough to be read directly.

Vectors and lists become tuples, sets frozensets, maps dicts, keywords `Keyword`, symbols `Symbol`, characters and
strings str, ratios and decimals float. A tag (`#inst "…"`, `#jepsen.history.Op{…}`) is dropped and its value kept.
Standard: github.com/edn-format/edn.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from squall.results.importing.trouble import ForeignTrouble

MOST_DEPTH: Final = 200
"""The most levels of nesting that are read; a history has five."""

_BLANK: Final = re.compile(r"(?:[\s,]+|;[^\n]*)*")
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_ATOM: Final = re.compile(r"[^\s,()\[\]{}\";]+")
_WHOLE: Final = re.compile(r"[+-]?\d+N?\Z")
_DECIMAL: Final = re.compile(r"[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?M?\Z")
_RATIO: Final = re.compile(r"([+-]?\d+)/(\d+)\Z")
_CLOSING: Final = {"(": ")", "[": "]", "{": "}"}
_NAMED: Final[dict[str, Any]] = {
    "nil": None, "true": True, "false": False, "##Inf": float("inf"), "##-Inf": float("-inf"), "##NaN": float("nan"),
}  # fmt: skip
_CHARACTERS: Final = {"newline": "\n", "space": " ", "tab": "\t", "return": "\r"}


class Keyword(str):
    """A keyword without its colon; equal to the string of its name."""

    __slots__ = ()


class Symbol(str):
    """A symbol."""

    __slots__ = ()


def forms(text: str, file: Path | str) -> Iterator[tuple[int, Any]]:
    """Yield each form with the line on which it begins; if all forms are in one vector or list, yield its elements.

    Raises ForeignTrouble.
    """
    reader = _Reader(text, file)
    reader.skip()
    opening = text[reader.at : reader.at + 1]
    closing = _CLOSING[opening] if opening in ("[", "(") else None
    reader.at += closing is not None
    while True:
        reader.skip()
        if reader.at >= len(text):
            if closing is not None:
                raise reader.trouble(f"the file ends within the {opening} with which it begins")
            return
        if closing is not None and text[reader.at] == closing:
            return
        yield reader.line, reader.form(0)


class _Reader:
    """A position in a text."""

    def __init__(self, text: str, file: Path | str) -> None:
        self.text, self.file, self.at = text, file, 0
        self._lines = [match.end() for match in re.finditer("\n", text)]

    @property
    def line(self) -> int:
        """The line of the position, from 1."""
        return bisect_right(self._lines, self.at) + 1

    def trouble(self, problem: str) -> ForeignTrouble:
        return ForeignTrouble(self.file, self.line, problem, "EDN is expected here, one map per operation")

    def skip(self) -> None:
        """Skip blanks, comments and discarded forms."""
        while True:
            match = _BLANK.match(self.text, self.at)
            assert match is not None
            self.at = match.end()
            if not self.text.startswith("#_", self.at):
                return
            self.at += 2
            self.skip()
            self.form(0)

    def form(self, depth: int) -> Any:
        """Read the form that begins here."""
        if depth > MOST_DEPTH:
            raise self.trouble(f"is nested more than {MOST_DEPTH} levels deep")
        opening = self.text[self.at : self.at + 1]
        if opening in ("(", "["):
            return tuple(self._until(_CLOSING[opening], depth))
        if opening == "{":
            return self._map(depth)
        if opening == '"':
            return self._string()
        if opening == "\\":
            return self._character()
        if opening == "#" and not self.text.startswith("##", self.at):
            return self._dispatched(depth)
        return self._atom()

    def _until(self, closing: str, depth: int) -> list[Any]:
        began = self.line
        self.at += 1
        items: list[Any] = []
        while True:
            self.skip()
            if self.at >= len(self.text):
                raise self.trouble(f"the file ends before the {closing!r} of what begins on line {began}")
            if self.text[self.at] == closing:
                self.at += 1
                return items
            items.append(self.form(depth + 1))

    def _map(self, depth: int) -> dict[Any, Any]:
        items = self._until("}", depth)
        if len(items) % 2:
            raise self.trouble(f"a map has a key without a value: {shown(items[-1])}")
        try:
            return dict(zip(items[::2], items[1::2], strict=True))
        except TypeError:
            raise self.trouble("a map has a map as its key, which is not read") from None

    def _dispatched(self, depth: int) -> Any:
        """Read a set, or a tagged form, whose tag is dropped."""
        if self.text.startswith("#{", self.at):
            self.at += 1
            try:
                return frozenset(self._until("}", depth))
            except TypeError:
                raise self.trouble("a set holds a map, which is not read") from None
        self.at += 1
        match = _ATOM.match(self.text, self.at)
        if match is None:
            raise self.trouble(f"{self.text[self.at - 1 : self.at + 10]!r} is not a form")
        self.at = match.end()
        self.skip()
        return self.form(depth + 1)

    def _string(self) -> str:
        match = _STRING.match(self.text, self.at)
        if match is None:
            raise self.trouble("a string does not end")
        self.at = match.end()
        try:
            return str(json.loads(match[0], strict=False))
        except ValueError:
            raise self.trouble(f"{match[0][:40]} is not a string") from None

    def _character(self) -> str:
        match = _ATOM.match(self.text, self.at + 2)
        self.at = match.end() if match else self.at + 2
        name = self.text[self.at - (match.end() - match.start() if match else 0) - 1 : self.at]
        return _CHARACTERS.get(name, name[:1])

    def _atom(self) -> Any:
        match = _ATOM.match(self.text, self.at)
        if match is None:
            raise self.trouble(f"{self.text[self.at : self.at + 1]!r} closes nothing")
        word, self.at = match[0], match.end()
        if word in _NAMED:
            return _NAMED[word]
        if word.startswith(":"):
            return Keyword(word[1:])
        if _WHOLE.match(word):
            return int(word.rstrip("N"))
        if _DECIMAL.match(word):
            return float(word.rstrip("M"))
        if (ratio := _RATIO.match(word)) and int(ratio[2]):
            return int(ratio[1]) / int(ratio[2])
        return Symbol(word)


def shown(value: Any) -> str:
    """Return a value as EDN writes it: it names values in messages and distinguishes values of different types."""
    if value is None:
        return "nil"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Keyword):
        return f":{value}"
    if isinstance(value, Symbol):
        return str(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, tuple | list):
        return f"[{' '.join(map(shown, value))}]"
    if isinstance(value, frozenset):
        return f"#{{{' '.join(sorted(map(shown, value)))}}}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{shown(key)} {shown(one)}" for key, one in value.items()) + "}"
    return repr(value)
