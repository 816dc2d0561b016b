"""The process that carries out calls, one after the other: `python -m squall.harness.distributed.call_process`.

It reads pickled calls from standard input and writes pickled answers to standard output, each after its length in eight
bytes. It ends when its input ends, also in the middle of a call: the caller is gone then.
"""

from __future__ import annotations

import os
import pickle
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import IO, Any

VALUE, RAISED, LACK = "value", "raised", "lack"
"""The kinds of answers: what the call returned, the traceback of its exception, or what this worker lacks."""


def read_frame(stream: IO[bytes]) -> bytes | None:
    """Read one frame; None at the end, also within a frame."""
    head = stream.read(8)
    if len(head) < 8:
        return None
    length = int.from_bytes(head, "big")
    data = stream.read(length)
    return data if len(data) == length else None


def write_frame(stream: IO[bytes], data: bytes) -> None:
    stream.write(len(data).to_bytes(8, "big") + data)
    stream.flush()


def answer(data: bytes) -> tuple[str, Any]:
    """Carry out a pickled call: a function with its first arguments, and its last argument. Never raises."""
    try:
        function: Callable[..., Any]
        common, item = pickle.loads(data)
        function, arguments = pickle.loads(common)
        last = pickle.loads(item)
    except ImportError as missing:
        return LACK, f"{socket.gethostname()}: {sys.executable} cannot import what a call needs: {missing}"
    except Exception:
        return RAISED, traceback.format_exc()
    try:
        return VALUE, function(*arguments, last)
    except Exception:
        return RAISED, traceback.format_exc()


def _requests() -> Iterator[bytes]:
    """Yield calls as they come. A thread reads them, so that the end of the input ends the process at once."""
    arrived: SimpleQueue[bytes] = SimpleQueue()

    def read() -> None:
        while (data := read_frame(sys.stdin.buffer)) is not None:
            arrived.put(data)
        os._exit(0)

    threading.Thread(target=read, name="calls", daemon=True).start()
    while True:
        yield arrived.get()


def main() -> None:
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a call prints must not get between answers
    for data in _requests():
        write_frame(answers, pickle.dumps(answer(data)))


if __name__ == "__main__":
    main()
