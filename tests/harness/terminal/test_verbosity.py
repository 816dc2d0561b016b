"""`-v` says more on standard error wherever it stands; `--version` names version, commit and Python."""

from __future__ import annotations

import logging
import platform

import pytest

from squall.harness.cli.main import status_of
from squall.harness.terminal.verbosity import without_verbose


def test_the_version_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["--version"]) == 0
    out = capsys.readouterr().out
    assert (
        out.startswith("squall 0.") and out.endswith(f"Python {platform.python_version()}\n") and out.count("\n") == 1
    )


@pytest.mark.parametrize("words", [("-v", "plan", "none.yaml"), ("plan", "none.yaml", "--verbose")])
def test_an_error_says_where_it_was_raised(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(list(words)) == 254
    captured = capsys.readouterr()
    assert ": squall plan none.yaml\n" in captured.err and "Traceback" in captured.err
    assert "of processor time" in captured.err and captured.out == ""


def test_without_it_nothing_more_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    handlers = list(logging.getLogger().handlers)
    status_of(["-v", "plan", "none.yaml"])
    capsys.readouterr()
    assert status_of(["plan", "none.yaml"]) == 254
    assert capsys.readouterr().err == "none.yaml: no such file\n"
    assert logging.getLogger().handlers == handlers


def test_it_is_not_looked_for_behind_two_dashes() -> None:
    assert without_verbose(["run", "-v", "--", "-v"]) == (["run", "--", "-v"], True)
    assert without_verbose(["run", "--", "-v"]) == (["run", "--", "-v"], False)
