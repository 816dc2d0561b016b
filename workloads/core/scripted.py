"""Scripted operations: a list of which process does what to which topic-partition, and when.

A workload generates its operations from rates; a *schedule* lists them, so that a run can be repeated without the
generator that chose them, and shortened (docs/simulation.md, "Schedules"). In a suite:

    workload:
      name: log
      producers: 1
      consumers: 0
      in_flight: 1
      operations:
        - {at: 4.998, process: 0, send: events/0}

`at` counts in seconds from the start of the load, exact to the microsecond. `process` is a thread of the workload, by
the numbers of `workloads/log.py`; after an `info` the thread continues under a new process number, as in any run. A
thread does one operation at a time: an operation due while it is busy is done as soon as it is free, in order.

The value that a send writes is unique by its process and its position in the list.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from squall.workloads.core.generator import NANOSECONDS, WAIT, Answer, Context, Generator, Pending
from squall.workloads.core.operation import LIST_OFFSETS, POLL, REOPEN, SEEK, SEND, Event, Operation, unique_value

SCRIPTED = (SEND, POLL, LIST_OFFSETS, SEEK, REOPEN)
"""The operations that may be listed."""
MICROSECONDS = 1_000_000
_TOPIC_PARTITION = re.compile(r"([A-Za-z0-9._-]+)/(\d+)")
_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s)?")


def _seconds(value: object) -> object:
    """Parse `4.998`, `4.998s` or `4998ms`."""
    if isinstance(value, bool):
        raise ValueError("is not a time, such as 4.998s")
    if isinstance(value, str):
        match = _TIME.fullmatch(value.strip())
        if not match:
            raise ValueError("is not a time, such as 4.998s")
        return float(match[1]) / (1000 if match[2] == "ms" else 1)
    return value


def _topic_partition(text: str) -> str:
    if not _TOPIC_PARTITION.fullmatch(text):
        raise ValueError("is not a topic-partition; write TOPIC/PARTITION")
    return text


At = Annotated[float, BeforeValidator(_seconds, json_schema_input_type=str | float), Field(ge=0)]
OneTopicPartition = Annotated[str, AfterValidator(_topic_partition)]


class ScriptedOperation(BaseModel):
    """One line of `operations:`; exactly one of `send`, `poll`, `list_offsets`, `seek` and `reopen` names the
    topic-partition.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    at: At = Field(description="seconds since the start of the load, to the microsecond")
    process: int = Field(ge=0, description="thread of the workload that does it")
    send: OneTopicPartition | None = None
    poll: OneTopicPartition | None = None
    list_offsets: OneTopicPartition | None = None
    seek: OneTopicPartition | None = None
    to: int | None = Field(default=None, ge=0, description="the offset that a seek goes to")
    reopen: OneTopicPartition | None = Field(default=None, description="crash the client that reads or writes it")

    @model_validator(mode="after")
    def _one_thing(self) -> ScriptedOperation:
        if sum(where is not None for where in self._named.values()) != 1:
            raise ValueError("an operation is exactly one of `send`, `poll`, `list_offsets`, `seek` and `reopen`")
        if (self.seek is None) != (self.to is None):
            raise ValueError("a `seek` needs `to`, the offset it goes to, and nothing else has one")
        return self

    @property
    def _named(self) -> dict[str, str | None]:
        return {
            SEND: self.send,
            POLL: self.poll,
            LIST_OFFSETS: self.list_offsets,
            SEEK: self.seek,
            REOPEN: self.reopen,
        }

    @property
    def f(self) -> str:
        return next(f for f, where in self._named.items() if where is not None)

    @property
    def topic_partition(self) -> tuple[str, int]:
        match = _TOPIC_PARTITION.fullmatch(self._named[self.f] or "")
        assert match is not None, "validated"
        return match[1], int(match[2])

    @property
    def due(self) -> int:
        """Nanoseconds since the start of the load; whole microseconds, so that every world can meet it."""
        return round(self.at * MICROSECONDS) * (NANOSECONDS // MICROSECONDS)


def operation_at(due: int, operation: Operation) -> ScriptedOperation:
    """An operation on a topic-partition `due` nanoseconds after the start of the load, in the form of the file."""
    at = round(due / (NANOSECONDS // MICROSECONDS)) / MICROSECONDS
    where = {operation.f: f"{operation.topic}/{operation.partition}"}
    to = {"to": operation.value} if operation.f == SEEK else {}
    return ScriptedOperation.model_validate({"at": at, "process": operation.thread, **where, **to})


@dataclass(frozen=True, slots=True)
class Scripted:
    """A generator of the listed operations, in the order of time.

    `operations` are pairs of position in the file and operation. `position` is the next one that is not due yet or was
    not examined; `held` are the positions of those that were due while their thread was busy.
    """

    operations: tuple[tuple[int, ScriptedOperation], ...]
    origin: int = -1
    position: int = 0
    held: tuple[int, ...] = ()

    def op(self, context: Context) -> tuple[Answer, Generator]:
        origin = context.now if self.origin < 0 else self.origin
        for place, index in enumerate(self.held):
            if self._is_free(index, context):
                held = self.held[:place] + self.held[place + 1 :]
                return self._made(index, context, origin), replace(self, origin=origin, held=held)
        position, held = self.position, self.held
        while position < len(self.operations) and origin + self.operations[position][1].due <= context.now:
            if self._is_free(position, context):
                after = replace(self, origin=origin, position=position + 1, held=held)
                return self._made(position, context, origin), after
            held, position = (*held, position), position + 1
        if position == len(self.operations) and not held:
            return None, self
        after = replace(self, origin=origin, position=position, held=held)
        if position == len(self.operations):
            return WAIT, after
        return Pending(origin + self.operations[position][1].due), after

    def update(self, context: Context, event: Event) -> Generator:
        return self

    def _is_free(self, index: int, context: Context) -> bool:
        return bool(context.free >> self.operations[index][1].process & 1)

    def _made(self, index: int, context: Context, origin: int) -> Operation:
        place, scripted = self.operations[index]
        thread = scripted.process
        process = context.processes[thread]
        topic, partition = scripted.topic_partition
        return Operation(
            scripted.f,
            thread,
            process,
            context.clients[thread],
            origin + scripted.due,
            topic,
            partition,
            unique_value(process, place) if scripted.f == SEND else scripted.to,
        )


def scripted(operations: tuple[ScriptedOperation, ...], threads: frozenset[int]) -> Scripted:
    """The generator of the listed operations of some threads; equal times keep the order of the file."""
    mine = [(place, one) for place, one in enumerate(operations) if one.process in threads]
    return Scripted(tuple(sorted(mine, key=lambda pair: (pair[1].due, pair[0]))))
