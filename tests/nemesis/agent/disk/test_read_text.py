"""A string is read from another process's memory, and a process that has just died has none."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from squall.nemesis.agent.disk import disk_calls


def test_a_string_is_read_from_where_it_is() -> None:
    text = ctypes.create_string_buffer(b"/var/lib/" + b"x" * 3000)
    assert disk_calls.read_text(os.getpid(), ctypes.addressof(text)) == "/var/lib/" + "x" * 3000


@pytest.mark.timeout(10)
def test_a_process_that_is_killed_while_it_is_read_ends_the_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its memory, once opened, gives nothing any more: a watch once read that for ever, on a whole processor."""
    process = subprocess.Popen([sys.executable, "-c", "print(1, flush=True); input()"], stdin=-1, stdout=-1)
    assert process.stdout is not None
    process.stdout.readline()

    def opened_before_the_kill(*arguments: Any, **named: Any) -> Any:
        memory = open(*arguments, **named)  # noqa: SIM115  # whoever reads it closes it
        process.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        return memory

    monkeypatch.setattr(disk_calls, "open", opened_before_the_kill, raising=False)
    with pytest.raises(OSError):
        disk_calls.read_text(process.pid, 0x1000)
    process.communicate()
