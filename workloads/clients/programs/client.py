"""The client of a workload that is a program of its own: one process for each client, and another when it ends.

The program is told to open once, with addresses, topics and settings; then it gets one line for each operation and
answers each of them in any order. Positions of polls are kept here: a poll names the offset from which the program is
to read, so that a program needs no memory, and another one goes on where the last one ended.

**A program that ends** by itself, or is killed because it wrote nonsense or did not answer in time: what it had open is
`info`, of reads `fail`. The next operation starts a new process, under a new client number and in a new session. While
none can be started, operations are `fail`: they were handed to no program. A first start that fails is an error of the
run.

A reopen kills the program with what it has open, as a crash would; the new one reads from the beginning.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from squall.workloads.clients.common import errors
from squall.workloads.clients.common.client import GENERATION_STRIDE, Client, ClientPlan, TopicPartition
from squall.workloads.clients.programs.lines import (
    NAMES,
    BadLine,
    OpenRequest,
    completion_of,
    opening_error,
    request_of,
)
from squall.workloads.clients.programs.options import ANSWER_SECONDS
from squall.workloads.clients.programs.program import Program, ProgramEnded, unavailable
from squall.workloads.core.operation import FINAL_POLL, OK, POLL, REOPEN, SEEK, Completion, Operation

OPEN_SECONDS: Final = 25.0
AGAIN_SECONDS: Final = 0.5
"""The pause after a failed start, before the next."""
POLL_WAIT_MS: Final = 500
"""How long a poll may wait for a record."""
RECORDS_A_POLL: Final = 1000

LOG = logging.getLogger("squall.program")


@dataclass(frozen=True)
class ProgramChoice:
    """Which program the clients of a run are: its whole command, its settings, and its time for an answer."""

    command: tuple[str, ...]
    settings: Mapping[str, str] = field(default_factory=dict)
    answer: float = ANSWER_SECONDS


@dataclass(frozen=True)
class ProgramFactory:
    """Makes clients that are programs."""

    choice: ProgramChoice
    bootstrap: tuple[tuple[str, int], ...]
    name: str = "program"

    def client(self, plan: ClientPlan) -> Client:
        return ProgramClient(plan, self.choice, tuple(f"{host}:{port}" for host, port in self.bootstrap))


@dataclass
class Cursor:
    """Where the process that polls a topic-partition is: the next offset (None: the first there is), in its session."""

    session: int = 0
    position: int | None = None


class ProgramClient:
    """A client whose operations a program carries out."""

    def __init__(self, plan: ClientPlan, choice: ProgramChoice, servers: tuple[str, ...]) -> None:
        self.plan = plan
        self.number = plan.client
        self._choice = choice
        self._servers = servers
        self._program: Program | None = None
        self._starting: asyncio.Task[str | None] | None = None
        self._failed = False
        """Whether the last start has failed."""
        self._cursors = {place: Cursor() for place in plan.topic_partitions}
        self._ids = 0
        self._closed = False

    async def open(self) -> None:
        """Start the program. Raises OSError, which says why it cannot be used."""
        problem = await self._start(self.plan.client)
        if problem is not None:
            raise OSError(unavailable(self._choice.command, problem))

    async def setup(self) -> None:
        return None

    async def invoke(self, operation: Operation) -> Completion:
        if self._closed:
            return errors.refused("closed")
        if operation.f == REOPEN:
            return await self._reopen()
        if operation.f == SEEK:
            return self._seek(operation)
        if operation.f not in NAMES:
            return errors.refused("not_offered")
        if (problem := await self._restarted()) is not None:
            return errors.refused(f"program_not_started: {problem}")
        assert self._program is not None
        number = self.number
        completion = await self._carried_out(self._program, operation)
        return completion if number == operation.client else msgspec.structs.replace(completion, client=number)

    async def teardown(self) -> None:
        return None

    async def close(self) -> None:
        self._closed = True
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait({self._starting})
        if self._program is not None:
            await self._program.close()

    # --- operations --------------------------------------------------------------------------------------------

    async def _carried_out(self, program: Program, operation: Operation) -> Completion:
        """Have a program carry out an operation; whatever goes wrong with it leaves the outcome unknown."""
        cursor = self._cursor(operation)
        before = (cursor.session, cursor.position)
        self._ids += 1
        request = request_of(
            self._ids,
            operation,
            size=self.plan.record_size,
            position=cursor.position,
            most=RECORDS_A_POLL,
            wait_ms=POLL_WAIT_MS,
        )
        try:
            async with asyncio.timeout(self._choice.answer):
                answer = await program.ask(request)
            completion = completion_of(operation, answer)
        except TimeoutError:
            program.kill(f"it did not answer a {request.f} within {self._choice.answer:g} s")
            return errors.lost(operation.f, "program_no_answer")
        except BadLine as wrong:
            program.kill(f"it wrote what is no answer: {wrong}")
            return errors.lost(operation.f, f"program_bad_answer: {wrong}")
        except ProgramEnded as end:
            return errors.lost(operation.f, f"program_ended: {end}")
        return self._moved(cursor, before, completion) if operation.f in (POLL, FINAL_POLL) else completion

    def _cursor(self, operation: Operation) -> Cursor:
        if operation.f not in (POLL, FINAL_POLL):
            return Cursor()
        assert operation.topic is not None and operation.partition is not None
        return self._cursors.setdefault((operation.topic, operation.partition), Cursor())

    def _moved(self, cursor: Cursor, before: tuple[int, int | None], completion: Completion) -> Completion:
        """Move the cursor behind what a poll has delivered, and state where the poll began."""
        session, position = before
        if completion.offsets and cursor.session == session:
            cursor.position = completion.offsets[-1] + 1
        return msgspec.structs.replace(completion, session=session, position=position)

    def _seek(self, operation: Operation) -> Completion:
        assert operation.topic is not None and operation.partition is not None and operation.value is not None
        cursor = self._cursors[operation.topic, operation.partition]
        cursor.session, cursor.position = cursor.session + 1, operation.value
        return Completion(OK, session=cursor.session, position=cursor.position, client=self._changed_number(operation))

    def _changed_number(self, operation: Operation) -> int | None:
        return None if self.number == operation.client else self.number

    # --- the program's life ------------------------------------------------------------------------------------

    async def _restarted(self) -> str | None:
        """Start another program if there is none. Return why that failed; None if one is open."""
        if self._program is not None and self._program.ended is None:
            return None
        if self._starting is None:
            self._starting = asyncio.create_task(self._start_again())
        return await asyncio.shield(self._starting)

    async def _start_again(self) -> str | None:
        try:
            if self._failed:
                await asyncio.sleep(AGAIN_SECONDS)
            if self._program is not None:
                self._log_end(self._program)
            return await self._start(self.number + GENERATION_STRIDE)
        finally:
            self._starting = None

    async def _start(self, number: int) -> str | None:
        """Start a program under a client number, and have it open. Return why that failed; None if it did not."""
        self._failed = True
        try:
            program = await Program.start(self._choice.command)
        except OSError as trouble:
            return str(trouble)
        try:
            problem = await self._opened(program, number)
        except BaseException:
            program.kill("closed")
            raise
        if problem is not None:
            program.kill(problem)
            await program.over()
            return problem
        self._failed = False
        if self._program is not None:
            self._begin_sessions()
        self._program, self.number = program, number
        return None

    async def _opened(self, program: Program, number: int) -> str | None:
        """Have a program open. Return why it did not; None if it did."""
        plan = self.plan
        topics: tuple[TopicPartition, ...] = tuple(plan.topic_partitions)
        request = OpenRequest(number, plan.role, self._servers, topics, plan.acks, self._choice.settings)
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                answer = await program.ask(request)
        except TimeoutError:
            return f"it did not answer open within {OPEN_SECONDS:g} s"
        except ProgramEnded as end:
            return str(end)
        if (problem := opening_error(answer)) is None:
            LOG.info("client %d is a program, %s", number, answer.client or self._choice.command[0])
        return problem

    def _begin_sessions(self) -> None:
        """Go on at the same positions, in new sessions: another program reads."""
        for cursor in self._cursors.values():
            cursor.session += 1

    async def _reopen(self) -> Completion:
        if self._program is not None:
            self._program.kill("abandoned")
        for cursor in self._cursors.values():
            cursor.position = None
        if (problem := await self._restarted()) is not None:
            return errors.refused(f"program_not_started: {problem}")
        return Completion(OK, client=self.number)

    def _log_end(self, program: Program) -> None:
        LOG.warning("the program of client %d is replaced: %s", self.number, program.ended)
