"""A client program (`core/clients.py`) that writes registers to etcd by its JSON gateway.

    python -m squall.harness.gallery.etcd.register_program

Settings: `address` (HOST:PORT of a member), `timeout` in seconds. Each write has a thread of its own, so that one that
waits holds up no other. Every write without an answer, or with an error, ends as `info`.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from squall.harness.systems.etcd.gateway import TROUBLES, VERSION, Gateway

Answer = Callable[[dict[str, Any]], None]


class Program:
    """Carries out commands."""

    def __init__(self, answer: Answer) -> None:
        self._say = answer
        self._lock = threading.Lock()
        self._gateway: Gateway | None = None
        self._writers: list[threading.Thread] = []

    def carry_out(self, command: dict[str, Any]) -> None:
        op, do = command.get("op", 0), command.get("do")
        try:
            if do == "open":
                settings = command["settings"]
                self._gateway = Gateway(settings["address"], float(settings["timeout"]))
                self._answer({"op": op, "client": f"json-gateway {VERSION}"})
            elif do == "write":
                assert self._gateway is not None, "open comes first"
                writer = threading.Thread(target=self._write, args=(self._gateway, command))
                self._writers.append(writer)
                writer.start()
            elif do == "close":
                for one in self._writers:
                    one.join()
                self._answer({"op": op, "done": True})
            else:
                raise ValueError(f"do: {do!r} is not known to this client")
        except (AssertionError, KeyError, TypeError, ValueError) as trouble:
            self._answer({"op": op, "error": f"{type(trouble).__name__}: {trouble}"})

    def _write(self, gateway: Gateway, command: dict[str, Any]) -> None:
        fate: dict[str, Any] = {"type": "ok"}
        begun = time.monotonic_ns()
        try:
            gateway.put(command["register"], str(command["value"]))
        except TROUBLES as trouble:
            fate = {"type": "info", "error": str(trouble) or type(trouble).__name__}
        times = {"invoked": begun, "completed": time.monotonic_ns()}
        self._answer({"op": command["op"], "value": command["value"], "partition": 0, **times, **fate})

    def _answer(self, what: dict[str, Any]) -> None:
        with self._lock:
            self._say(what)


def main() -> int:
    program = Program(lambda answer: print(json.dumps(answer), flush=True))
    for line in sys.stdin:
        program.carry_out(json.loads(line))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
