"""Every command that Squall prints can be typed as it stands: it exists, its options exist, it names its files."""

from __future__ import annotations

import ast
import functools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from squall.harness.cli.main import command_line, status_of
from squall.harness.scenario.inventory import HostSpec, load_inventory

ROOT = Path(__file__).resolve().parents[3]
ROOMS = ("harness", "results", "nemesis", "workloads", "benchmarks", "nodes")
FIELD = "FIELD"
COMMAND = re.compile(r"\bsquall ((?:[a-z]+)(?: [^\n`·;|]*)?)")
ENDS = re.compile(r"[,.:)]? (?:shows|lists|or|and|which|makes?|can|for|there|does|of|that|by|gives?|with|says)\b.*")
PROSE = frozenset({"crashed", "for", "as"})
"""What follows the word `squall` in sentences."""
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))


def strings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every string of a module, f-strings with `FIELD` in place of what is filled in; docstrings too."""
    if isinstance(tree, ast.JoinedStr):
        parts = [str(one.value) if isinstance(one, ast.Constant) else FIELD for one in tree.values]
        yield tree.lineno, "".join(parts)
    elif isinstance(tree, ast.Constant):
        if isinstance(tree.value, str):
            yield tree.lineno, tree.value
    else:
        for part in ast.iter_child_nodes(tree):
            yield from strings(part)


@functools.cache
def printed() -> list[Any]:
    """Commands in the strings of modules; a module without the word is not parsed, as each worker does this."""
    found = []
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if "squall " in text:
                found += [
                    pytest.param(command, id=f"{path.relative_to(ROOT)}:{line} {command[:60]}")
                    for line, command in commands_in(text)
                ]
    return found


def commands_in(module: str) -> Iterator[tuple[int, str]]:
    for line, text in strings(ast.parse(module)):
        for found in COMMAND.finditer(text):
            command = ENDS.sub("", found[1]).rstrip(" .,:)\"'")
            if command.split()[0] not in PROSE:
                yield line, command


def typed() -> Iterator[Any]:
    """Commands of pages: transcripts and lines of code that begin with `squall`."""
    for path in PAGES:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            found = re.match(r"(?:\$ |    )?squall ([a-z]+\b[^#|;`>]*?)(?:  .*)?$", line)
            if found:
                yield pytest.param(found[1], id=f"{path.name}:{number} {found[1][:60]}")


def assert_exists(command: str) -> None:
    """The command is one, and each of its options is one of its options."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    here: Any = command_line()
    while words and hasattr(here, "commands"):
        name = words.pop(0)
        if name == FIELD or not name[0].islower():
            return
        assert name in here.commands, f"there is no command {name!r} in: squall {command}"
        here = here.commands[name]
    options = {name for one in here.params for name in (*one.opts, *one.secondary_opts)} | {"--help"}
    for word in words:
        if re.fullmatch(r"--?[a-z][a-z-]*", word):
            assert word in options, f"{word} is no option of: squall {command}"


@pytest.mark.parametrize("command", printed())
def test_a_command_in_the_code_exists_with_its_options(command: str) -> None:
    assert_exists(command)


@pytest.mark.parametrize("command", list(typed()))
def test_a_command_of_a_page_exists_with_its_options(command: str) -> None:
    assert_exists(command)


def test_many_commands_were_collected() -> None:
    assert len(printed()) > 100 and len(list(typed())) > 40


def test_a_command_about_a_host_names_the_inventory_it_is_in(tmp_path: Path) -> None:
    path = tmp_path / "my inventory.yaml"
    path.write_text("all: {children: {controllers: {hosts: {c1: {}}}, brokers: {hosts: {b1: {}}}}}\n")
    words = shlex.split(load_inventory(path).host("b1").command("squall", "inventory", "trust"))
    assert words == ["squall", "inventory", "trust", "b1", "-i", str(path)]
    of_a_lab = HostSpec("b1", "10.0.0.1", ("brokers",))
    assert of_a_lab.command("squall", "inventory", "trust") == "squall inventory trust b1"


def test_what_only_the_simulation_does_is_refused_with_a_command_that_does_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where the suite lies nowhere near ./suites, and the scenario is not its first."""
    path = tmp_path / "mine.yaml"
    path.write_text(
        "scenarios:\n  - {scenario: first, fault_free: true}\n"
        "  - {scenario: second, swarm: true, time: {load: 1s, settle: 3s}, min_acknowledged: 1}\n"
    )
    assert status_of(["plan", str(path), "--only", "second"]) == 254
    said = capsys.readouterr().err
    found = re.search(r"squall (simulate [^,\n]+)", said)
    assert found is not None, said
    assert status_of(shlex.split(found[1])) in (0, 1, 2)
    assert "seeds      1:" in capsys.readouterr().out
