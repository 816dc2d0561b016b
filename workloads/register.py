"""Workload `register`: check that registers are linearizable: read, written, and compared and set as a whole.

A register is whatever the client program makes of its name, such as a key of etcd. Several processes of several clients
read, write, and compare and set a few registers at an open-loop rate. Values are unique, so every read identifies the
write that it saw; a compare-and-set expects the value that its worker has seen last in that register, or nothing while
it has seen none. Some of them are refused, which is a statement about the register as well.

After all faults are healed each register is read once more, until that succeeds: the cluster works again, and what was
acknowledged is still there.

Threads are numbered once for the whole run: those of each client in turn, then one for each register's last read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import msgspec
from pydantic import BaseModel, ConfigDict, Field, model_validator

from squall.workloads.clients.common.client import ClientPlan
from squall.workloads.clients.programs.options import ProgramOptions
from squall.workloads.core.generator import (
    WAIT,
    Answer,
    Context,
    Generator,
    Rate,
    Reserve,
    TimeLimit,
    random_fraction,
    threads_mask,
)
from squall.workloads.core.operation import ABSENT, CAS, OK, READ, WRITE, Event, Operation, unique_value
from squall.workloads.log import FinalState, PerSecond, Shard

NOTHING_KNOWN: Mapping[str, int] = {}


class RegisterOptions(BaseModel):
    """Options of the workload `register` in a suite."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Literal["register"]
    client: Literal["program"] = Field(default="program", description="Kafka has no registers; a program decides")
    program: ProgramOptions | None = Field(default=None, description="the program of each client")
    clients: int = Field(default=4, ge=1, le=64, description="clients, each a program")
    in_flight: int = Field(default=3, ge=1, le=100, description="processes of one client")
    registers: int = Field(default=5, ge=1, le=1000, description="registers, which all clients use")
    rate: PerSecond = Field(default=100.0, description="operations per second over all clients, e.g. 100/s")
    reads: float = Field(default=0.4, ge=0, le=1, description="share of reads")
    compare: float = Field(default=0.3, ge=0, le=1, description="share of compare-and-sets; the rest are writes")
    final_timeout: float = Field(default=60.0, gt=0, description="seconds the final reads may take")

    @model_validator(mode="after")
    def _shares_of_one(self) -> RegisterOptions:
        if self.reads + self.compare > 1:
            raise ValueError(f"reads {self.reads:g} and compare {self.compare:g} are shares, and together more than 1")
        return self

    @property
    def producers(self) -> int:
        """The number that load workers divide among them."""
        return self.clients

    @property
    def acks(self) -> Literal["all"]:
        return "all"

    @property
    def idempotent(self) -> bool:
        return True

    @property
    def operations(self) -> None:
        """None: the operations are generated, not listed."""

    @property
    def in_words(self) -> str:
        return f"{self.clients} clients, {self.registers} registers, {self.rate:g} operations/s"


class Registers(msgspec.Struct, frozen=True):
    """Read, write, or compare and set one of some registers, chosen at random, for ever.

    The n-th choice depends on `seed` and `count`. `known` is what this worker has seen last in each register.
    """

    names: tuple[str, ...]
    reads: float
    compare: float
    seed: int = 0
    count: int = 0
    known: Mapping[str, int] = NOTHING_KNOWN

    def op(self, context: Context) -> tuple[Answer, Generator]:
        thread = context.free_thread()
        if thread is None:
            return WAIT, self
        name = self.names[int(random_fraction(self.seed, 2 * self.count) * len(self.names))]
        lot = random_fraction(self.seed, 2 * self.count + 1)
        f = READ if lot < self.reads else CAS if lot < self.reads + self.compare else WRITE
        process = context.processes[thread]
        operation = Operation(
            f,
            thread,
            process,
            context.clients[thread],
            context.meant(),
            value=None if f == READ else unique_value(process, self.count),
            register=name,
            expected=self.known.get(name, ABSENT) if f == CAS else None,
        )
        return operation, msgspec.structs.replace(self, count=self.count + 1)

    def update(self, context: Context, event: Event) -> Generator:
        completion, operation = event.completion, event.operation
        if completion is None or operation.register is None:
            return self
        seen = completion.found
        if completion.type == OK and operation.f != READ:
            seen = operation.value
        if seen is None or seen == self.known.get(operation.register):
            return self
        return msgspec.structs.replace(self, known={**self.known, operation.register: seen})


@dataclass(frozen=True, slots=True)
class LastRead:
    """Reads a register until that succeeds. `topic` is for registers that are topics."""

    register: str
    thread: int
    topic: str | None = None
    busy: bool = False
    done: bool = False

    def op(self, context: Context) -> tuple[Answer, Generator]:
        if self.done:
            return None, self
        if self.busy or not context.free >> self.thread & 1:
            return WAIT, self
        process, client = context.processes[self.thread], context.clients[self.thread]
        operation = Operation(READ, self.thread, process, client, context.meant(), self.topic, register=self.register)
        return operation, replace(self, busy=True)

    def update(self, context: Context, event: Event) -> Generator:
        if event.completion is None:
            return self
        return replace(self, busy=False, done=event.completion.type == OK)

    @property
    def final_state(self) -> FinalState:
        return FinalState(self.topic or self.register, 0, 0 if self.done else None, self.done)


@dataclass(frozen=True)
class RegisterWorkload:
    """The plan: clients with their own threads, then a final read of each register. The suite's topics are not used."""

    options: RegisterOptions
    topics: Mapping[str, Any]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"r{number}" for number in range(self.options.registers))

    @property
    def total_threads(self) -> int:
        """The threads of the load, and one per register for the final read."""
        return self._first_final + self.options.registers

    @property
    def _first_final(self) -> int:
        return self.options.clients * self.options.in_flight

    def shard(self, worker: int, workers: int) -> Shard:
        """The load of one worker: every n-th client."""
        options = self.options
        clients = range(worker, options.clients, workers)
        plans = tuple(ClientPlan(client, "register", self._threads(client), ()) for client in clients)
        rate = options.rate * len(clients) / options.clients
        load = Registers(self.names, options.reads, options.compare, seed=worker)
        threads = threads_mask([thread for plan in plans for thread in plan.threads])
        return Shard(plans, Reserve(((threads, Rate(rate, load)),)))

    def final_shard(self) -> Shard:
        """The last reads, which the first worker does once everything is healed."""
        threads = tuple(range(self._first_final, self.total_threads))
        plan = ClientPlan(self.options.clients, "register", threads, ())
        shares = tuple(
            (threads_mask((thread,)), LastRead(name, thread)) for name, thread in zip(self.names, threads, strict=True)
        )
        return Shard((plan,), TimeLimit(self.options.final_timeout, Reserve(shares)))

    def _threads(self, client: int) -> tuple[int, ...]:
        first = client * self.options.in_flight
        return tuple(range(first, first + self.options.in_flight))
