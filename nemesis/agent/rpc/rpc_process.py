"""Starts, commands and ends the proxy, for agent and keeper.

The proxy lives if its lock is held; its pid might by now be another process's. It is a child of neither, so that it
survives the agent and its SSH channel. The caller that starts or ends it holds the journal's lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import time
from pathlib import Path
from typing import Any

from squall.nemesis.agent.core.daemonize import daemonize
from squall.nemesis.agent.core.programs import command
from squall.nemesis.agent.core.verb_error import VerbError
from squall.nemesis.agent.rpc.proxy import LOCK, SOCKET

START_SECONDS = 10.0
ANSWER_SECONDS = 10.0
END_SECONDS = 5.0
GLANCE = 0.005


class ProxyProcess:
    """The one proxy of this host."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    def lives(self) -> bool:
        with open(self.directory / LOCK, "a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def pid(self) -> int:
        return int((self.directory / LOCK).read_text())

    def start(self) -> None:
        """Start the proxy unless it lives. Returns when it accepts commands; raises VerbError if it does not get
        there.
        """
        if self.lives():
            return
        started = [*command("rpc.proxy"), "--directory", str(self.directory)]
        if not daemonize("proxy", started, "--ready", self.directory / "proxy.log", START_SECONDS):
            raise VerbError("failed", f"the proxy did not start: {self._last_words()}")

    def tell(self, do: str, **more: Any) -> dict[str, Any]:
        """Send a command and return the proxy's response. Raises VerbError."""
        try:
            with socket.socket(socket.AF_UNIX) as channel:
                channel.settimeout(ANSWER_SECONDS)
                descriptor = os.open(self.directory, os.O_PATH)
                try:
                    channel.connect(f"/proc/self/fd/{descriptor}/{SOCKET}")
                finally:
                    os.close(descriptor)
                channel.sendall(json.dumps({"do": do, **more}).encode() + b"\n")
                answer: dict[str, Any] = json.loads(channel.makefile().readline())
        except (OSError, ValueError) as trouble:
            raise VerbError("failed", f"the proxy does not answer ({trouble}): {self._last_words()}") from None
        if "error" in answer:
            raise VerbError("failed", f"the proxy: {answer['error']}")
        return answer

    def see_it_gone(self) -> None:
        """Wait for the proxy to exit, which it does without rules; otherwise kill it. Raises VerbError if even that
        fails.
        """
        if self._gone_within(END_SECONDS):
            return
        with contextlib.suppress(ProcessLookupError, ValueError):
            os.kill(self.pid(), signal.SIGKILL)
        if not self._gone_within(END_SECONDS):
            raise VerbError("failed", f"the proxy (pid {self.pid()}) is still there {END_SECONDS:g} s after SIGKILL")

    def _gone_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self.lives():
            if time.monotonic() >= deadline:
                return False
            time.sleep(GLANCE)
        return True

    def _last_words(self) -> str:
        try:
            return (self.directory / "proxy.log").read_text(errors="replace")[-300:] or "it said nothing"
        except FileNotFoundError:
            return "it said nothing"
