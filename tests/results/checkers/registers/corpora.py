"""Readers of public histories with known verdicts; the histories themselves are not part of this project.

Porcupine is a Go module, and its test data comes with it, so the Go tool fetches it where there is one, in a fixed
version. Else, and for Knossos, `SQUALL_CORPORA` names a folder with checkouts of the two repositories:

    git clone https://github.com/anishathalye/porcupine     test_data/jepsen/etcd_*.log, verdicts in porcupine_test.go
    git clone https://github.com/jepsen-io/knossos          data/cas-register/{good,bad}/*.edn, verdict by folder

Both are sequences of invocations and completions; the number of a line or map serves as its time. In the etcd
logs the register starts without a value, and a compare-and-set that failed says that the register held
something else; what timed out is of unknown outcome. In Knossos' histories the register starts at 0, what failed
never happened, and a read of nil says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from squall.results.checkers.registers.operations import ABSENT, RegisterOperation

ETCD_LINE = re.compile(r"^INFO\s+jepsen\.util\s+-\s+(\d+)\s+:(\w+)\s+:(\w+)\s+(.*?)\s*$")
ETCD_VERDICT = re.compile(r"checkJepsen\(t, (\d+), (true|false)\)")
EDN_STRING = re.compile(r'"(?:\\.|[^"\\])*"')
EDN_MAP = re.compile(r"\{[^{}]*\}")
EDN_FIELD = re.compile(r":(process|type|f|value)\s+(\[[^\]]*\]|[^\s,}]+)")
NUMBER = re.compile(r"-?\d+")

Event = tuple[str, str, str, str]
"""Process, type, function, value, as they are written."""


def joined(events: Iterable[Event], *, nothing: int | None, failed_cas_refused: bool) -> list[RegisterOperation]:
    """Operations of invocations and completions. `nothing` is what a read of nil found."""
    operations: list[RegisterOperation] = []
    outstanding: dict[str, int] = {}
    for moment, (process, kind, f, text) in enumerate(events):
        numbers = [int(one) for one in NUMBER.findall(text)]
        if kind == "invoke":
            one = RegisterOperation(f, len(operations), moment, None, "info")
            if f == "cas":
                one = replace(one, expected=numbers[0], value=numbers[1])
            elif f == "write":
                one = replace(one, value=numbers[0])
            outstanding[process] = len(operations)
            operations.append(one)
            continue
        place = outstanding.pop(process)
        if kind == "info":
            continue
        one = replace(operations[place], type=kind, completed=moment)
        if f == "read" and kind == "ok":
            one = replace(one, found=numbers[0] if numbers else nothing)
        operations[place] = replace(one, refused=failed_cas_refused and f == "cas" and kind == "fail")
    return operations


def etcd_log(text: str) -> list[RegisterOperation]:
    matches = (ETCD_LINE.match(line) for line in text.splitlines())
    events = [(one[1], one[2], one[3], one[4]) for one in matches if one]
    return joined(events, nothing=ABSENT, failed_cas_refused=True)


def etcd_corpus(porcupine: Path) -> Iterator[tuple[str, list[RegisterOperation], bool]]:
    """Name, history and known verdict of each log."""
    tests = (porcupine / "porcupine_test.go").read_text(encoding="utf-8")
    for number, verdict in ETCD_VERDICT.findall(tests):
        path = porcupine / "test_data" / "jepsen" / f"etcd_{int(number):03d}.log"
        yield path.name, etcd_log(path.read_text(encoding="utf-8")), verdict == "true"


def knossos_history(text: str) -> list[RegisterOperation]:
    code = re.sub(r";.*", "", EDN_STRING.sub('""', text))
    maps = [dict(EDN_FIELD.findall(one)) for one in EDN_MAP.findall(code)]
    events = [
        (one["process"], one["type"].removeprefix(":"), one["f"].removeprefix(":"), one["value"])
        for one in maps
        if one["process"] != ":nemesis"
    ]
    return joined(events, nothing=None, failed_cas_refused=False)


def knossos_corpus(knossos: Path) -> Iterator[tuple[str, list[RegisterOperation], bool]]:
    """Name, history and known verdict of each."""
    for kind in ("good", "bad"):
        for path in sorted((knossos / "data" / "cas-register" / kind).glob("*.edn")):
            yield f"{kind}/{path.name}", knossos_history(path.read_text(encoding="utf-8")), kind == "good"
