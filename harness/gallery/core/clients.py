"""Clients as programs of their own, joined by JSON lines on standard input and output.

So a client of any language and version joins a history. A program reads one command a line:

    {"op": 1, "do": "open", "settings": {"bootstrap.servers": "127.0.0.1:9092", "enable.idempotence": "true"}}
    {"op": 2, "do": "send", "topic": "a", "partitions": [0], "each": 1, "first": 7, "size": 0}
    {"op": 3, "do": "load", "topic": "a", "partitions": [0, 1], "rate": 5000, "first": 100, "size": 1000}
    {"op": 4, "do": "stop", "load": 3}
    {"op": 5, "do": "begin"}      and "commit", "abort", of a producer that is opened with a transactional.id
    {"op": 6, "do": "position", "group": "g", "place": "a", "partition": 0, "offset": 5}      within a transaction
    {"op": 7, "do": "write", "register": "r", "value": 5}
    {"op": 8, "do": "close"}

`send` sends `each` records to each topic-partition at once, `load` sends `rate` records a second in turn until it is
stopped; their values are `first`, `first + 1`, …. A record's value is its number in decimal digits, filled up with
spaces to `size` bytes. The program answers with one line for each record when its fate is known, and one for each
command when it is done:

    {"op": 2, "value": 7, "partition": 0, "type": "ok", "invoked": 81…, "completed": 82…, "offset": 3}
    {"op": 2, "value": 8, "partition": 0, "type": "info", "invoked": 81…, "completed": 95…, "error": "timed out"}
    {"op": 4, "done": true}

A write to a register is answered as a record is, with `value` and `type`, and without an offset. A program for
registers knows `open`, `write` and `close` alone.

Times are nanoseconds of the machine's monotonic clock. `info` means that the record may be in the log or not; `open`
answers with `client`, the library and its version. What is open when `close` comes ends as `info`. The fates of records
in a transaction are told when it has ended: what was aborted ends as `fail`, and all of it as `info` if the client does
not know how the transaction ended. Before, `{"op": 2, "appended": 7}` says that the broker has acknowledged the record.
"""

from __future__ import annotations

import json
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Literal

from squall.harness.gallery.core.trouble import NotReproduced

ANSWER_SECONDS: Final = 60.0
END_SECONDS: Final = 10.0


@dataclass(frozen=True)
class Sent:
    """The fate of one record."""

    op: int
    topic: str
    partition: int
    value: int
    type: str
    invoked: int
    completed: int
    offset: int | None = None
    error: str | None = None


class ClientProgram:
    """A running program; use as a context. `sent` grows as fates become known."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self.log = log
        self._topics: dict[int, str] = {}
        self._sent: list[Sent] = []
        self._appended: list[int] = []
        """The operation of each record that was acknowledged within a transaction."""
        self._done: dict[int, queue.SimpleQueue[dict[str, Any]]] = {}
        self._changed = threading.Condition()
        self._trouble: str | None = None
        self._ops = 0
        self._next_value = 0
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, bufsize=1
            )
        assert self._process.stdout is not None
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._reader.start()

    def __enter__(self) -> ClientProgram:
        return self

    def __exit__(self, *exc: object) -> None:
        self.end()

    # --- commands ----------------------------------------------------------------------------------------------

    def open(self, settings: Mapping[str, str]) -> str:
        """Open the producer. Returns the library and its version."""
        return str(self._ask("open", settings=dict(settings)).get("client", ""))

    def send(self, topic: str, partitions: Sequence[int], *, each: int = 1, size: int = 0) -> int:
        """Send fresh records and return at once. Returns the operation's number."""
        return self._begin("send", topic, each * len(partitions), partitions=list(partitions), each=each, size=size)

    def load(self, topic: str, partitions: Sequence[int], *, rate: int, size: int = 0, most: int = 10_000_000) -> int:
        """Send records at a rate from now on. Returns the operation's number, for `stop`."""
        return self._begin("load", topic, most, partitions=list(partitions), rate=rate, size=size)

    def write_register(self, name: str, value: int) -> int:
        """Write to a register and return at once. Returns the operation's number."""
        return self._write("write", topic=name, register=name, value=value)

    def stop(self, load: int) -> None:
        self._ask("stop", load=load)

    def transaction(self, do: Literal["begin", "commit", "abort"]) -> None:
        """Begin or end a transaction. Raises NotReproduced if the client says that it did not."""
        self._ask(do)

    def position(self, group: str, topic: str, partition: int, offset: int) -> None:
        """Commit a group's position within the transaction. Raises NotReproduced if the client says that it did not."""
        self._ask("position", group=group, place=topic, partition=partition, offset=offset)

    def close(self) -> None:
        """Close the producer: every record has a fate afterwards."""
        self._ask("close")

    def end(self) -> None:
        """End the process."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(END_SECONDS)
        self._reader.join(END_SECONDS)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(OSError):  # a command that the program did not take any more
                    stream.close()

    # --- what has become known -----------------------------------------------------------------------------------

    @property
    def sent(self) -> list[Sent]:
        """The fates that are known by now."""
        with self._changed:
            return list(self._sent)

    def wait_for(self, op: int, count: int, seconds: float) -> list[Sent]:
        """Wait until so many records of an operation have a fate. Raises NotReproduced."""
        self._wait(lambda: sum(one.op == op for one in self._sent), count, "sends have ended", seconds)
        return [one for one in self.sent if one.op == op]

    def wait_until_appended(self, op: int, count: int, seconds: float) -> None:
        """Wait until so many records of an operation, within a transaction, are acknowledged. Raises NotReproduced."""
        self._wait(lambda: self._appended.count(op), count, "records of a transaction are acknowledged", seconds)

    def _wait(self, found: Callable[[], int], count: int, what: str, seconds: float) -> None:
        end = time.monotonic() + seconds
        with self._changed:
            while found() < count:
                self._raise_trouble()
                if not self._changed.wait(max(0.0, end - time.monotonic())) and time.monotonic() >= end:
                    raise NotReproduced(f"only {found()} of {count} {what} after {seconds:g} s")

    def _begin(self, do: str, topic: str, values: int, **more: Any) -> int:
        first, self._next_value = self._next_value + 1, self._next_value + values
        return self._write(do, topic=topic, first=first, **more)

    def _ask(self, do: str, **more: Any) -> dict[str, Any]:
        op = self._write(do, **more)
        try:
            answer = self._done[op].get(timeout=ANSWER_SECONDS)
        except queue.Empty:
            self._raise_trouble()
            raise NotReproduced(f"the client does not answer `{do}` within {ANSWER_SECONDS:g} s") from None
        if "error" in answer:
            raise NotReproduced(f"the client cannot {do}: {answer['error']}")
        return answer

    def _write(self, do: str, **more: Any) -> int:
        self._ops += 1
        op = self._ops
        self._done[op] = queue.SimpleQueue()
        if "topic" in more:
            self._topics[op] = more["topic"]
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"op": op, "do": do, **more}) + "\n")
            self._process.stdin.flush()
        except OSError:
            self._reader.join(END_SECONDS)  # what it has said before it ended tells more
            self._raise_trouble()
            raise NotReproduced(f"the client has ended: {self._last_words()}") from None
        return op

    def _read(self, out: IO[str]) -> None:
        """Take lines until the program ends."""
        try:
            for line in out:
                self._take(json.loads(line))
        except (ValueError, KeyError, TypeError) as trouble:
            self._fail(f"the client wrote what is no answer: {trouble}")
        else:
            self._fail(f"the client has ended: {self._last_words()}")

    def _take(self, answer: dict[str, Any]) -> None:
        op = int(answer["op"])
        if "appended" in answer:
            with self._changed:
                self._appended.append(op)
                self._changed.notify_all()
            return
        if "value" not in answer:
            self._done[op].put(answer)
            return
        one = Sent(
            op,
            self._topics[op],
            partition=answer["partition"],
            value=answer["value"],
            type=answer["type"],
            invoked=answer["invoked"],
            completed=answer["completed"],
            offset=answer.get("offset"),
            error=answer.get("error"),
        )
        with self._changed:
            self._sent.append(one)
            self._changed.notify_all()

    def _fail(self, problem: str) -> None:
        with self._changed:
            self._trouble = problem
            self._changed.notify_all()
        for waiting in list(self._done.values()):
            waiting.put({"error": problem})

    def _raise_trouble(self) -> None:
        if self._trouble is not None:
            raise NotReproduced(self._trouble)

    def _last_words(self) -> str:
        text = self.log.read_text(errors="replace").strip() if self.log.exists() else ""
        return text[-300:] or "it said nothing"
