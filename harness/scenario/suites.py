"""Find suites by name: those that Squall ships, and those in ./suites, which take precedence.

    squall run quickstart              squall run suites/quickstart.yaml
    squall simulate swarm              squall plan leader-kill-lagging-ack-before-replication

A word with a slash, or with the ending `.yaml` or `.yml`, is a file. Any other is the name of a suite file, or of a
scenario in one. The shipped suites lie beside the top-level packages, in a checkout (`suites/`) as in an installed
wheel (`squall/suites/`), so the same commands work in every directory.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterator
from pathlib import Path

from squall.harness.errors import UsageError
from squall.harness.scenario.suite import Scenario, Suite, load_suite

SHIPPED = Path(__file__).resolve().parents[2] / "suites"
HERE = Path("suites")
SUFFIXES = (".yaml", ".yml")


def is_file_name(word: str) -> bool:
    """Return whether a word of a command line names a file rather than a suite or scenario."""
    return "/" in word or Path(word).suffix in SUFFIXES


def load_named(word: str, here: Path = HERE) -> Suite:
    """Return the suite of a file, the suite of that name, or the one scenario of that name. Raises UsageError."""
    if is_file_name(word):
        return load_suite(word)
    for path in suite_files(here):
        if path.stem == word:
            return _said(load_suite(path), here)
    for path, scenario in scenarios(here):
        if scenario.scenario == word:
            return _said(load_suite(path), here).only(word)
    raise unknown(word, here)


def suite_files(here: Path = HERE) -> list[Path]:
    """Return every suite file; those of `here` replace shipped ones of the same name."""
    found = {path.name: path for place in (SHIPPED, here) for path in sorted(place.glob("*.yaml"))}
    return [found[name] for name in sorted(found)]


def scenarios(here: Path = HERE) -> Iterator[tuple[Path, Scenario]]:
    """Yield every scenario with the file that holds it, those of `here` first: they take precedence."""
    files = suite_files(here)
    for path in sorted(files, key=lambda path: path.parent != here):
        yield from ((path, scenario) for scenario in load_suite(path).own)


def unknown(word: str, here: Path = HERE) -> UsageError:
    """Return the error for an unknown name: the nearest, and all that exist."""
    suites = [path.stem for path in suite_files(here)]
    names = sorted({*suites, *(one.scenario for _, one in scenarios(here))})
    near = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    meant = f"; did you mean `{near[0]}`?" if near else ""
    return UsageError(f"no suite file or scenario is named {word!r}{meant}", remedy=f"known are {', '.join(names)}")


def _said(suite: Suite, here: Path) -> Suite:
    """Name a shipped suite by its name in commands: its path lies inside the installation."""
    return suite if suite.path.parent == here else dataclasses.replace(suite, said=suite.path.stem)
