"""Short runs of systems in Go in the lab, for the tests of each."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.labs import need_lab

NEEDS_GO = pytest.mark.skipif(
    shutil.which("go") is None, reason="Go is not installed, which builds the servers; set-up does not install it"
)


def run(suite: str, directory: Path) -> tuple[dict[str, Any], Path]:
    """Run a suite of one scenario in a lab of its own. Returns the verdict and the run's directory."""
    need_lab()
    (directory / "suite.yaml").write_text(suite)
    command = [sys.executable, "-m", "squall.harness.cli.main", "run", "suite.yaml", "--seed", "1", "--in-process"]
    ran = subprocess.run(
        [*command, "--no-lake"], cwd=directory, capture_output=True, text=True, env=os.environ | {"COLUMNS": "200"}
    )
    (found,) = (directory / "runs").glob("*/*/verdict.json")
    verdict = json.loads(found.read_text())
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return verdict, found.parent
