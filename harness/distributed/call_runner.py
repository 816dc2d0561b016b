"""On a Spark worker: hand calls to a process of their own, and say so if one ends it.

Spark's Python worker stays small and never imports Squall's code, so that a call that ends its interpreter, such as by
using all memory, costs that call and neither the others nor Spark's task. The process is used by one task after the
other, as it takes seconds to import what it needs, and is replaced after `CALLS_PER_PROCESS` calls. Spark's Python
worker loads this file by its path in the archive: it uses the standard library only.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

CALLS_PER_PROCESS = 100
DIED = "died"
"""The kind of answer to a call that ended its process."""
END_SECONDS = 10

Share = tuple[bytes, list[tuple[int, bytes]]]
"""A pickled function with its first arguments, and the pickled last argument of each call by the call's number."""


class CallRunner:
    """Carries out calls in a process that is started when it is needed."""

    def __init__(self, package: Path | None) -> None:
        """`package` is the folder that holds `squall`; None for what is installed."""
        self._package = package
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._calls = 0

    def answers(self, share: Share) -> Iterator[tuple[int, bytes]]:
        """Yield the number of each call with its pickled answer: its kind, and a value or words."""
        function, items = share
        for number, item in items:
            yield number, self._answer(pickle.dumps((function, item)))

    def _answer(self, call: bytes) -> bytes:
        process = self._running()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(len(call).to_bytes(8, "big") + call)
            process.stdin.flush()
            head = process.stdout.read(8)
            answer = process.stdout.read(int.from_bytes(head, "big"))
        except OSError:
            head = answer = b""
        if len(head) < 8 or len(answer) < int.from_bytes(head, "big"):
            return pickle.dumps((DIED, self._last_words()))
        self._calls += 1
        if self._calls >= CALLS_PER_PROCESS:
            self.close()
        return answer

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            before = () if self._package is None else (str(self._package),)
            paths = [*before, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
            self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the process
            self._calls = 0
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "squall.harness.distributed.call_process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
            )
        return self._process

    def _last_words(self) -> str:
        """Say how the process ended, with the last line of its errors."""
        assert self._process is not None and self._errors is not None
        try:
            status = self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace").strip().splitlines()[-1:]
        self._forget()
        how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with exit status {status}"
        return ": ".join([f"its interpreter on {os.uname().nodename} {how}", *said])

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            assert self._process.stdin is not None
            with contextlib.suppress(OSError):  # it has ended already
                self._process.stdin.close()
            try:
                self._process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._forget()

    def _forget(self) -> None:
        assert self._process is not None
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream is not None:
                with contextlib.suppress(OSError):  # an unsent call to a process that is gone
                    stream.close()
        self._process = self._errors = None


_RUNNERS: dict[Path | None, CallRunner] = {}
"""Of this Python worker, which Spark uses for one task after the other."""


def runner_in(package: Path | None) -> CallRunner:
    """Return the runner of a package; the same one for each task."""
    if package not in _RUNNERS:
        _RUNNERS[package] = CallRunner(package)
    return _RUNNERS[package]
