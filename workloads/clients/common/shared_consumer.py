"""One consumer of a real library, shared by many processes: the common part of the adapters of real libraries.

Every process polls one topic-partition of the plan. What the library delivers goes into inboxes as runs of one session
(`inbox.py`). Sessions are counted where the library is served, so that nothing in flight at the start of a session is
counted under it.

Libraries do not expose the log start offset of a Fetch response. So the final read requests it, once a session, when
the first records of the session are there: retention cannot have removed more before they were read (DP-07).

A reopen abandons the instance as if it had crashed. A new one reads every topic-partition of the plan, in a new session
and under a new client number; what had arrived and was not polled is lost. Instances end in the background, and closing
the client waits for those that remain.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Coroutine, Mapping
from typing import Any

import msgspec

from squall.workloads.clients.common import errors
from squall.workloads.clients.common.client import GENERATION_STRIDE, ClientPlan, TopicPartition
from squall.workloads.clients.common.client_threads import await_end
from squall.workloads.clients.common.inbox import Inbox, Mailbox, Run
from squall.workloads.core.operation import (
    FAIL,
    FINAL_POLL,
    LIST_OFFSETS,
    OK,
    POLL,
    REOPEN,
    SEEK,
    Completion,
    Operation,
)

POLL_SECONDS = 1.0
AGAIN_SECONDS = 0.1

LOG = logging.getLogger("squall.consumer")

Sessions = Mapping[TopicPartition, int]


class ConsumerInstance(ABC):
    """A consumer of the library and what serves it; made in the event loop.

    `sessions` are those of what the library delivers from now on. `over` is done when the instance serves nothing more;
    `died_of` is the reason, if it was not retired.
    """

    def __init__(self, sessions: Sessions) -> None:
        self.loop = asyncio.get_running_loop()
        self.sessions = dict(sessions)
        self.inboxes = {place: Inbox(session=session) for place, session in sessions.items()}
        self.over: asyncio.Future[None] = self.loop.create_future()
        self.died_of: str | None = None

    @abstractmethod
    async def seek(self, place: TopicPartition, offset: int) -> Completion: ...

    @abstractmethod
    async def list_offsets(self, place: TopicPartition) -> Completion: ...

    @abstractmethod
    def retire(self) -> None:
        """Deliver nothing more, and end in the background."""

    @abstractmethod
    def gone(self) -> bool:
        """Whether it has ended completely."""

    @abstractmethod
    async def ended(self) -> None:
        """Wait until a retired instance has ended completely."""

    def begin_session(self, place: TopicPartition) -> int:
        """Count what arrives of that topic-partition from now on as a new session."""
        self.sessions[place] += 1
        return self.sessions[place]

    def finish(self, death: str | None = None) -> None:
        """In the event loop: end all waiting for this instance."""
        if not self.over.done():
            self.died_of = death
            self.over.set_result(None)
        for inbox in self.inboxes.values():
            inbox.release()


class ThreadedInstance(ConsumerInstance):
    """An instance whose library is owned by a thread of ours. Only `serve` and what it calls run there."""

    def __init__(self, sessions: Sessions, name: str) -> None:
        super().__init__(sessions)
        self.mailbox = Mailbox(self.loop)
        self.retired = threading.Event()
        self.seeks: deque[tuple[TopicPartition, int, asyncio.Future[Completion]]] = deque()
        self._name = name
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        self._thread = threading.Thread(target=self._live, name=self._name, daemon=True)
        self._thread.start()

    @abstractmethod
    def serve(self) -> None:
        """The thread's function, until `retired`."""

    @abstractmethod
    def go_to(self, place: TopicPartition, offset: int) -> None:
        """In the thread: make the library continue from there, without anything that it fetched before."""

    async def seek(self, place: TopicPartition, offset: int) -> Completion:
        answer: asyncio.Future[Completion] = self.loop.create_future()
        self.seeks.append((place, offset, answer))
        return await answer

    def retire(self) -> None:
        self.retired.set()
        self.finish()

    def gone(self) -> bool:
        return self._thread is None or not self._thread.is_alive()

    async def ended(self) -> None:
        if self._thread is not None:
            await await_end(self._thread)

    def _live(self) -> None:
        death: str | None = None
        try:
            self.serve()
        except Exception as trouble:
            death = self.name_of(trouble)
            LOG.warning("a consumer is dead", exc_info=trouble)
        finally:
            self.mailbox.post(lambda: self.finish(death))

    def name_of(self, trouble: Exception) -> str:
        return errors.exception_name(trouble)

    def carry_out_seeks(self) -> None:
        """In the thread: execute the waiting seeks."""
        while self.seeks:
            place, offset, answer = self.seeks.popleft()
            self.go_to(place, offset)
            self._sought(place, self.begin_session(place), offset, answer)

    def _sought(self, place: TopicPartition, session: int, offset: int, answer: asyncio.Future[Completion]) -> None:
        def tell() -> None:
            begun = self.inboxes[place].begin(session, offset)
            if not answer.done():
                answer.set_result(begun)

        self.mailbox.post(tell)

    def arrived(self, place: TopicPartition, run: Run) -> None:
        """In the thread: deliver a run to the inbox."""
        inbox = self.inboxes[place]
        self.mailbox.post(lambda: inbox.deliver(run))

    def failed(self, place: TopicPartition, error: str) -> None:
        """In the thread: deliver an error to the inbox."""
        self.arrived(place, Run(self.sessions[place], error=error))


class SharedConsumer(ABC):
    """A client whose processes all read through one instance at a time."""

    def __init__(self, plan: ClientPlan) -> None:
        self.plan = plan
        self.client = plan.client
        self.instance: ConsumerInstance | None = None
        self.abandoned: list[ConsumerInstance] = []
        self.closed = False
        self.log_starts_of: dict[TopicPartition, int] = {}
        """The session in which the final read last reported the log start offset."""

    @abstractmethod
    def start(self, sessions: Sessions) -> ConsumerInstance:
        """Return a new instance without waiting: it may connect later."""

    async def open(self) -> None:
        self.instance = self.start(dict.fromkeys(self.plan.topic_partitions, 0))

    async def setup(self) -> None:
        return None

    async def invoke(self, operation: Operation) -> Completion:
        assert self.instance is not None, "open comes before invoke"
        if operation.f == REOPEN and self.closed:
            return errors.refused("closed")
        if operation.f == REOPEN:
            self._reopen(self.instance)
            return Completion(OK, client=self.client)
        number = self.client
        completion = await self._answer(self.instance, operation)
        return completion if number == self.plan.client else msgspec.structs.replace(completion, client=number)

    async def _answer(self, instance: ConsumerInstance, operation: Operation) -> Completion:
        if operation.f not in (POLL, FINAL_POLL, LIST_OFFSETS, SEEK):
            return errors.refused("not_offered")
        assert operation.topic is not None and operation.partition is not None
        place = (operation.topic, operation.partition)
        if operation.f == LIST_OFFSETS:
            return await _unless_over(instance, instance.list_offsets(place))
        if operation.f == SEEK:
            assert operation.value is not None and operation.value >= 0
            return await _unless_over(instance, instance.seek(place, operation.value))
        inbox = instance.inboxes[place]
        if not instance.over.done():
            await inbox.arrival(POLL_SECONDS)
        elif instance.died_of is not None and not inbox.runs:
            await asyncio.sleep(AGAIN_SECONDS)  # polls of a dead instance should not spin
        if instance.died_of is not None and not inbox.runs:
            return Completion(FAIL, error=instance.died_of, session=inbox.session)
        if operation.f == FINAL_POLL and inbox.runs and inbox.runs[0].session != self.log_starts_of.get(place):
            return await self._begin_final_read(instance, place, inbox)
        return inbox.take()

    async def _begin_final_read(self, instance: ConsumerInstance, place: TopicPartition, inbox: Inbox) -> Completion:
        """Return the first poll of a session, with the log start offset; without that the poll
        fails and takes nothing.
        """
        listed = await _unless_over(instance, instance.list_offsets(place))
        if listed.type != OK:
            return Completion(FAIL, error=listed.error, session=inbox.session)
        polled = inbox.take()
        if polled.type != OK:
            return polled
        assert polled.session is not None
        self.log_starts_of[place] = polled.session
        return msgspec.structs.replace(polled, log_start=listed.log_start)

    def _reopen(self, old: ConsumerInstance) -> None:
        """Replace an instance; the new one's sessions are all new."""
        old.retire()
        self.abandoned = [one for one in (*self.abandoned, old) if not one.gone()]
        self.client += GENERATION_STRIDE
        self.instance = self.start({place: session + 1 for place, session in old.sessions.items()})

    async def teardown(self) -> None:
        return None

    async def close(self) -> None:
        self.closed = True
        if self.instance is not None:
            self.instance.retire()
            await asyncio.gather(*(one.ended() for one in (*self.abandoned, self.instance)))


async def _unless_over(instance: ConsumerInstance, question: Coroutine[Any, Any, Completion]) -> Completion:
    """Return an instance's response; fails if the instance ends or dies first."""
    asking = asyncio.get_running_loop().create_task(question)
    waiting: set[asyncio.Future[Any]] = {asking, instance.over}
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        return asking.result() if asking.done() else errors.refused(instance.died_of or "closed")
    finally:
        asking.cancel()
