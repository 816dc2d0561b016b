"""Examples in help texts can be copied from a terminal of any width: no word of them is broken."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from squall.harness.cli.main import command_line, status_of


def every_command() -> Iterator[Any]:
    def below(command: Any, words: tuple[str, ...]) -> Iterator[Any]:
        yield pytest.param(words, command.epilog or "", id=" ".join(words) or "squall")
        for name, one in getattr(command, "commands", {}).items():
            yield from below(one, (*words, name))

    return below(command_line(), ())


@pytest.mark.parametrize("columns", [40, 60, 80])
@pytest.mark.parametrize(("words", "epilog"), list(every_command()))
def test_no_word_of_an_example_is_broken(
    words: tuple[str, ...],
    epilog: str,
    columns: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert status_of([*words, "--help"]) == 0
    said = capsys.readouterr().out
    missing = [word for word in epilog.split() if word != "·" and word not in said.split()]
    assert not missing, f"{missing}\n{said}"
    assert "\ue000" not in said


def test_each_example_begins_a_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert status_of(["run", "--help"]) == 0
    examples = capsys.readouterr().out.split("Examples:")[1]
    assert len(re.findall(r"^  squall run", examples, re.MULTILINE)) == 6


def test_file_names_in_the_help_of_options_are_whole(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    assert status_of(["run", "--help"]) == 0
    assert "suites/quickstart.yaml" in capsys.readouterr().out
