"""`squall import`: convert another tool's history to a run that `squall check` judges.

It reads the file, writes the directory of a run and reports how it was translated. `squall check` judges it like any
run.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from squall.harness.errors import UsageError
from squall.harness.yaml_source import suggestion
from squall.results.checkers.common.text import several
from squall.results.checkers.transactions.list_append import MODELS
from squall.results.importing.edn import forms
from squall.results.importing.run import TOOLS, import_history
from squall.results.importing.trouble import ForeignTrouble

MOST_TRIES: Final = 1_000


def import_run(
    tool: str, file: Path, out: Path | None, *, runs: Path, model: str | None, initial: str | None, console: Console
) -> int:
    """Import a file and print where the run lies. Raises UsageError, and then leaves no directory behind."""
    if tool not in TOOLS:
        raise UsageError(f"{tool}: unknown tool{suggestion(tool, TOOLS)}", remedy=_USAGE)
    if model is not None and model not in MODELS:
        raise UsageError(f"--model {model}: unknown consistency model{suggestion(model, MODELS)}")
    words = ["squall", "import", tool, str(file), *(["--model", model] if model else [])]
    words += ["--initial", initial] if initial is not None else []
    at_first = _value(initial)
    directory = _fresh(out) if out is not None else _numbered(runs / f"imported-{tool}", _name_of(file))
    try:
        done = import_history(tool, file, directory, model=model, initial=at_first, command=shlex.join(words))
    except ForeignTrouble as trouble:
        directory.rmdir()
        raise UsageError(str(trouble), remedy=trouble.remedy) from None
    imported = done.manifest.imported
    assert imported is not None
    console.print(
        f"{'imported':<11}{several(imported.operations, 'operation')} of {file} ({imported.notation})", markup=False
    )
    console.print(f"{'mapped':<11}{imported.mapping}", markup=False)
    console.print(f"{'times':<11}{imported.times}", markup=False)
    if done.faults:
        console.print(f"{'faults':<11}{several(done.faults, 'window')} of the nemesis, unproven", markup=False)
    console.print(f"{'judge':<11}squall check {shlex.quote(str(directory))}", markup=False)
    return 0


_USAGE: Final = "squall import jepsen FILE, squall import elle FILE, or squall import porcupine FILE"


def _value(initial: str | None) -> Any:
    """Parse the value of `--initial`, in EDN."""
    if initial is None:
        return None
    try:
        (value,) = [form for _, form in forms(f"[{initial}]", "--initial")]
    except (ForeignTrouble, ValueError):
        raise UsageError(f"--initial {initial}: is not a value", remedy='write it as in EDN: 0, "a", :free') from None
    return value


def _name_of(file: Path) -> str:
    """Derive a directory's name from a file's: letters, digits, dots and dashes, never hidden."""
    return re.sub(r"[^A-Za-z0-9.-]+", "-", file.stem).strip(".-") or "history"


def _fresh(directory: Path) -> Path:
    """Return the directory, newly made or empty."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise UsageError(f"{directory}: already exists and is not empty", remedy="name a directory that is new")
    return _made(directory, exist_ok=True)


def _numbered(folder: Path, name: str) -> Path:
    """Make a new directory: `name`, or `name-2` and so on."""
    for number in range(1, MOST_TRIES):
        try:
            return _made(folder / (name if number == 1 else f"{name}-{number}"), exist_ok=False)
        except FileExistsError:
            continue
    raise UsageError(f"{folder / name}: {MOST_TRIES} imports of that name are there", remedy="name a directory")


def _made(directory: Path, *, exist_ok: bool) -> Path:
    try:
        directory.mkdir(parents=True, exist_ok=exist_ok)
    except FileExistsError:
        raise
    except OSError as trouble:
        reason = trouble.strerror or str(trouble)
        raise UsageError(
            f"{directory}: cannot be made: {reason}", remedy="name a directory that can be written"
        ) from None
    return directory
