"""A client program (`clients.py`) that sends with librdkafka.

    python -m squall.harness.gallery.kafka.librdkafka_program

Settings have librdkafka's names. Every record whose delivery is reported with an error ends as `info`: librdkafka does
not say which errors exclude that the record is in the log.
"""

from __future__ import annotations

import json
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

import confluent_kafka

POLL_S: Final = 0.005
FLUSH_SECONDS: Final = 15.0
TRANSACTION_SECONDS: Final = 45.0

Answer = Callable[[dict[str, Any]], None]


class Load:
    """Records that are due at a rate."""

    def __init__(self, command: dict[str, Any]) -> None:
        self.command = command
        self._began = time.monotonic()
        self._made = 0

    def due(self) -> list[tuple[int, int]]:
        """The (partition, value) pairs that are due by now."""
        partitions, first = self.command["partitions"], self.command["first"]
        wanted = int((time.monotonic() - self._began) * self.command["rate"])
        pairs = [(partitions[at % len(partitions)], first + at) for at in range(self._made, wanted)]
        self._made = wanted
        return pairs


class Program:
    """Carries out commands in one thread, which also takes delivery reports."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._producer: confluent_kafka.Producer | None = None
        self._bootstrap = ""
        self._loads: dict[int, Load] = {}
        self._open: dict[int, dict[str, Any]] = {}
        self._transaction: dict[int, dict[str, Any]] | None = None
        """While there is one: what is known of its records, by value."""

    def step(self, command: dict[str, Any] | None) -> bool:
        """Carry out a command, if there is one, and what is due. Returns whether there may be more."""
        if command is not None:
            try:
                self._carry_out(command)
            except (confluent_kafka.KafkaException, KeyError, TypeError, ValueError) as trouble:
                self._answer({"op": command.get("op", 0), "error": f"{type(trouble).__name__}: {trouble}"})
        for op, load in self._loads.items():
            self._send(op, load.command, load.due())
        if self._producer is not None:
            self._producer.poll(0)
        return True

    def _carry_out(self, command: dict[str, Any]) -> None:
        op, do = command["op"], command["do"]
        if do == "open":
            self._bootstrap = command["settings"].get("bootstrap.servers", "")
            self._producer = confluent_kafka.Producer(command["settings"])
            if "transactional.id" in command["settings"]:
                self._producer.init_transactions(TRANSACTION_SECONDS)
            self._answer({"op": op, "client": f"librdkafka {confluent_kafka.libversion()[0]}"})
        elif do == "send":
            pairs = [(part, 0) for _ in range(command["each"]) for part in command["partitions"]]
            self._send(op, command, [(part, command["first"] + at) for at, (part, _) in enumerate(pairs)])
            self._answer({"op": op, "done": True})
        elif do == "load":
            self._loads[op] = Load(command)
        elif do == "stop":
            self._loads.pop(command["load"])
            self._answer({"op": op, "done": True})
        elif do == "begin":
            assert self._producer is not None, "open comes first"
            self._producer.begin_transaction()
            self._transaction = {}
            self._answer({"op": op, "done": True})
        elif do in ("commit", "abort"):
            self._end_transaction(committed=do == "commit")
            self._answer({"op": op, "done": True})
        elif do == "position":
            self._commit_position(command)
            self._answer({"op": op, "done": True})
        elif do == "close":
            self._close()
            self._answer({"op": op, "done": True})
        else:
            raise ValueError(f"do: {do!r} is not known")

    def _send(self, op: int, command: dict[str, Any], pairs: Iterable[tuple[int, int]]) -> None:
        assert self._producer is not None, "open comes first"
        for part, value in pairs:
            content = str(value).ljust(command["size"]).encode()
            begun = {"op": op, "value": value, "partition": part, "invoked": time.monotonic_ns()}
            self._open[value] = begun
            try:
                self._producer.produce(
                    command["topic"], content, partition=part, on_delivery=partial(self._report, value)
                )
            except BufferError:
                self._end(value, type="fail", error="the producer's queue is full")

    def _report(self, value: int, error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
        fate: dict[str, Any] = {"type": "info", "error": error.name()} if error is not None else {"type": "ok"}
        if error is None:
            fate["offset"] = message.offset()
        if self._transaction is None:
            self._end(value, **fate)
        else:
            self._transaction[value] = fate
            if error is None and value in self._open:
                self._answer({"op": self._open[value]["op"], "appended": value})

    def _end_transaction(self, *, committed: bool) -> None:
        """End the transaction, and tell the fates of its records: they share the transaction's."""
        assert self._producer is not None and self._transaction is not None, "begin comes first"
        if committed:
            self._producer.flush(FLUSH_SECONDS)
        try:
            end = self._producer.commit_transaction if committed else self._producer.abort_transaction
            end(TRANSACTION_SECONDS)
        except confluent_kafka.KafkaException:
            for value in list(self._open):
                self._end(value, type="info", error="the end of the transaction is not known")
            raise
        finally:
            fates, self._transaction = self._transaction, None
        for value in list(self._open):
            unknown = {"type": "info", "error": "no report of it"}
            self._end(value, **(fates.get(value, unknown) if committed else {"type": "fail", "error": "aborted"}))

    def _commit_position(self, command: dict[str, Any]) -> None:
        assert self._producer is not None, "open comes first"
        # The group's metadata comes from a consumer; one that has not joined has that of no member.
        consumer = confluent_kafka.Consumer({"bootstrap.servers": self._bootstrap, "group.id": command["group"]})
        try:
            place = confluent_kafka.TopicPartition(command["place"], command["partition"], command["offset"])
            group = consumer.consumer_group_metadata()
            self._producer.send_offsets_to_transaction([place], group, TRANSACTION_SECONDS)
        finally:
            consumer.close()

    def _end(self, value: int, **fate: Any) -> None:
        begun = self._open.pop(value, None)
        if begun is not None:
            self._answer({**begun, "completed": time.monotonic_ns(), **fate})

    def _close(self) -> None:
        self._loads.clear()
        if self._producer is not None:
            self._producer.flush(FLUSH_SECONDS)
        for value in list(self._open):
            self._end(value, type="info", error="open when the client was closed")


def read_commands(lines: Iterable[str], into: queue.SimpleQueue[dict[str, Any] | None]) -> None:
    """Put each line's command into the queue, and None at the end."""
    for line in lines:
        into.put(json.loads(line))
    into.put(None)


def main() -> int:
    commands: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
    threading.Thread(target=read_commands, args=(sys.stdin, commands), daemon=True).start()
    program = Program(lambda answer: print(json.dumps(answer), flush=True))
    while True:
        try:
            command = commands.get(timeout=POLL_S)
        except queue.Empty:
            program.step(None)
            continue
        if command is None:
            return 0
        program.step(command)


if __name__ == "__main__":
    raise SystemExit(main())
