"""What is put on a host runs there by itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from squall.nemesis.shipping import agent_command, agent_files, compile_shim, content_hash


def test_the_shipped_agent_imports_nothing_of_ours(tmp_path: Path) -> None:
    for path, content in agent_files().items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(content)
    blocked = "import sys; sys.modules['squall'] = None; sys.argv = ['agent.py', '--help']; import runpy; "
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"{blocked}runpy.run_path({str(tmp_path / 'agent.py')!r}, run_name='__main__')"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and "--state" in done.stdout, done.stderr


def test_the_directory_is_named_by_its_content() -> None:
    files = agent_files()
    assert content_hash(files) == content_hash(dict(reversed(list(files.items()))))
    assert content_hash(files) != content_hash(agent_files(shim=b"a library"))


def test_without_a_compiler_there_is_no_shim() -> None:
    assert compile_shim("no-such-compiler") is None
    assert "clockshim.so" not in agent_files()


def test_the_command_says_where_and_who() -> None:
    command = agent_command("/opt/agent", state="/run/squall", python="/usr/bin/python3", name="b2", lab=True)
    assert command[:3] == ["/usr/bin/python3", "-u", "/opt/agent/agent.py"]
    assert command[-1] == "--lab" and "b2" in command
