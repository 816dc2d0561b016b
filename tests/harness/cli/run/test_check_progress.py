"""Who judges at a terminal sees how far the checker is; elsewhere nothing of it is printed."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from squall.harness.cli.main import status_of
from squall.harness.cli.run.check import Judge
from squall.results.synthetic.forge import forge_run, healthy

QUICKSTART = Path(__file__).resolve().parents[4] / "suites" / "quickstart.yaml"


def printed(run: Path, *, terminal: bool) -> str:
    said = StringIO()
    with Judge(Console(file=said, force_terminal=terminal, width=120), spark_master=None, in_process=True) as judge:
        (verdict,) = judge.judge([run])
        assert judge.engine is not None and judge.engine.on_progress is None
    assert verdict.verdict == "valid"
    return said.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
def test_a_bar_is_for_terminals(tmp_path: Path, terminal: bool) -> None:
    said = printed(forge_run(tmp_path / "run", healthy(1, 200)), terminal=terminal)
    assert ("100%" in said) is terminal
    assert "VALID" in said


@pytest.mark.parametrize("command", ["check", "run"])
def test_a_spark_master_that_would_be_ignored_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    what = forge_run(tmp_path / "run", healthy(1, 200)) if command == "check" else QUICKSTART
    assert status_of([command, "--spark-master", "spark://b1:7077", "--in-process", str(what)]) == 254
    assert "--spark-master spark://b1:7077 would be ignored" in capsys.readouterr().err
