"""Workload `idempotence`: check that a record that is sent twice is in the log once.

The load of the workload `log`, by idempotent producers that are forced to retry: every so many Produce requests the
producer's connection is cut. The producer then does not know the outcome and sends the same batch again, with the same
producer id and the same sequence numbers (DP-05). Two kinds of cut alternate:

    request     as soon as the request is sent: the retry may overtake it at the broker
    answer      in place of the response: the broker has appended the batch and, with acks=all, replicated it

A record that is in the log twice is an anomaly, and an acknowledged retry must receive the offset of the first attempt.
Without faults this tests the leader's state of its producers; a leader that dies, or loses power, between a cut and the
retry tests the state of its successor.

Only our own client is cut from inside, in both worlds. The connections of the real libraries are out of reach; faults
make them retry (`rpc-cut`, `rpc-hold`, `kill`, listed under `nemesis`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from squall.workloads.clients.kits import Library
from squall.workloads.core.ports import Connector, Stream
from squall.workloads.log import LogOptions, PerSecond

PRODUCE: Final = (0).to_bytes(2, "big")
"""The first bytes of a Produce request: its API key."""

CUT: Final = "cut by the workload"
CUT_EVERY: Final = 4

Cut = Literal["request", "answer"]
TURNS: Final[tuple[Cut, ...]] = ("answer", "request")


class IdempotenceOptions(BaseModel):
    """Options of the workload `idempotence` in a suite."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Literal["idempotence"]
    client: Library = Field(
        default="native", description="the library of the clients on hosts; simulated ones are always native"
    )
    producers: int = Field(default=2, ge=1, le=64, description="idempotent producing clients")
    consumers: int = Field(default=2, ge=0, le=64, description="consuming clients; each reads every topic-partition")
    rate: PerSecond = Field(default=200.0, description="sends per second over all producers, e.g. 200/s")
    record_size: int = Field(default=100, ge=16, le=900_000, description="bytes of a record's value")
    in_flight: int = Field(default=8, ge=1, le=1000, description="processes of one producer per topic-partition")
    cut_every: int | None = Field(
        default=None,
        ge=2,
        le=10_000,
        description=f"produce requests between two cuts of a connection (default {CUT_EVERY}); native only",
    )
    final_timeout: float = Field(default=60.0, gt=0, description="seconds the final reads may take")

    @field_validator("cut_every")
    @classmethod
    def _cuts_only_its_own(cls, every: int | None, others: ValidationInfo) -> int | None:
        client = others.data.get("client", "native")
        if client != "native" and every is not None:
            raise ValueError(f"only connections of `client: native` can be cut; let faults cut those of {client}")
        return every

    @property
    def acks(self) -> Literal["all"]:
        return "all"

    @property
    def idempotent(self) -> bool:
        return True

    @property
    def requests_per_cut(self) -> int:
        return self.cut_every or CUT_EVERY

    @property
    def operations(self) -> None:
        """None: the operations are generated, not listed."""

    @property
    def in_words(self) -> str:
        cut = f", a connection cut every {self.requests_per_cut} of their requests" if self.client == "native" else ""
        return f"{self.as_log().in_words}, idempotent{cut}"

    def as_log(self) -> LogOptions:
        """The same load as options of the workload `log`."""
        return LogOptions(
            client=self.client,
            producers=self.producers,
            consumers=self.consumers,
            rate=self.rate,
            record_size=self.record_size,
            in_flight=self.in_flight,
            final_timeout=self.final_timeout,
            acks="all",
            idempotent=True,
        )


@dataclass
class Cuts:
    """Decides which Produce request is cut, counted over all connections, and counts the cuts."""

    every: int
    requests: int = 0
    made: Counter[Cut] = field(default_factory=Counter)

    def next(self, frame: bytes) -> Cut | None:
        """Whether and when to cut the connection of this request."""
        if frame[:2] != PRODUCE:
            return None
        self.requests += 1
        if self.requests % self.every:
            return None
        cut = TURNS[self.requests // self.every % len(TURNS)]
        self.made[cut] += 1
        return cut


class CuttingConnector:
    """A connector that cuts connections at the requests that `cuts` chooses."""

    def __init__(self, connector: Connector, cuts: Cuts) -> None:
        self.connector = connector
        self.cuts = cuts

    async def connect(self, host: str, port: int) -> Stream:
        return _CutStream(await self.connector.connect(host, port), self.cuts)


class _CutStream:
    """One connection of a `CuttingConnector`."""

    def __init__(self, stream: Stream, cuts: Cuts) -> None:
        self._stream = stream
        self._cuts = cuts
        self._in_place_of_the_answer = False
        self._received: Callable[[bytes], None] | None = None
        self._lost: Callable[[str], None] | None = None

    def listen(self, received: Callable[[bytes], None], lost: Callable[[str], None]) -> None:
        self._received, self._lost = received, lost
        self._stream.listen(self._hear, lost)

    async def send(self, frame: bytes) -> None:
        cut = self._cuts.next(frame)
        self._in_place_of_the_answer = self._in_place_of_the_answer or cut == "answer"
        await self._stream.send(frame)
        if cut == "request":
            self._cut()

    def close(self) -> None:
        self._stream.close()

    def abort(self) -> None:
        self._stream.abort()

    def _hear(self, frame: bytes) -> None:
        if self._in_place_of_the_answer:
            self._cut()
        elif self._received is not None:
            self._received(frame)

    def _cut(self) -> None:
        self._stream.close()
        if self._lost is not None:
            self._lost(CUT)
