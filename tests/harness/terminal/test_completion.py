"""Completion in bash: commands, options and names of suites, by the script that `squall` prints."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = """
eval "$(_SQUALL_COMPLETE=source_bash squall)"
COMP_WORDS=({words}) COMP_CWORD={place}
$(complete -p squall | sed 's/.*-F \\([^ ]*\\) .*/\\1/') squall
echo "${{COMPREPLY[@]}}"
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="completion of bash needs bash")
@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (("squall", "com"), ["compare"]),
        (("squall", "lake", "re"), ["rebuild"]),
        (("squall", "compare", "--verd"), ["--verdicts-only"]),
        (("squall", "run", "quick"), ["quickstart"]),
    ],
)
def test_bash_completes_what_is_typed(words: tuple[str, ...], completed: list[str]) -> None:
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    script = SCRIPT.format(words=" ".join(words), place=len(words) - 1)
    done = subprocess.run(
        ["bash", "--norc", "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.stdout.split() == completed, done.stderr
