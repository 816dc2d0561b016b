"""What operators do to a running cluster, as entries of the nemesis: reassign, elect leaders, change config and voters.

None of it is a fault: it is what a cluster must bear beside the faults, and where control planes break (RA-08, P16,
P19). It goes over the Kafka protocol through the `ClusterOperator` of the world. What the cluster refuses at one moment
it may take at the next, when there is an active controller again, so each operation is asked for until it is accepted
or its window is over. What could not be done is unproven. The evidence is not the answer alone but what the cluster's
metadata, or the quorum's leader, then tells: replicas, leaders, a setting, voters.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from squall.nemesis.evidence import Facts
from squall.nemesis.fault import FaultContext
from squall.nemesis.grudge import Grudge
from squall.nemesis.kind import Kind
from squall.nemesis.options import AlterConfig, ElectLeaders, Reassign, RemoveVoter
from squall.nemesis.ports import ClusterOperator, OperationRefused
from squall.nemesis.selector import NoTarget, Target, TopicPartitionPattern, parse_topic_partition

AGAIN_SECONDS = 0.1
PATIENCE_SECONDS = 2.0
"""How long an operation is asked for again and again; its window may be shorter."""
AT_ONCE_SECONDS = 2.0
"""How long a move is looked for before the next of the same topic-partition may take its place."""
ALONE_SECONDS = 10.0
"""How long that one waits for its turn."""


@dataclass(frozen=True)
class Seen:
    """How things stand by the metadata, and what of that is otherwise than if the operation was done."""

    state: str
    differs: str


class _Operation(ABC):
    """Asks once it is injected, again on healing if there is something to take back."""

    waits_to_show = False
    evidence_lag = 5.0
    """An active controller that accepted it and died has a successor by then, which brokers have heard of."""

    def __init__(self, kind: str, context: FaultContext) -> None:
        self.kind = kind
        self.accepted = 0
        self._context = context
        self._answer = "not asked yet"
        self._taken_back = False

    @property
    def _operator(self) -> ClusterOperator:
        if self._context.operator is None:
            raise OperationRefused(f"{self.kind}: there is nobody to ask the cluster of this run")
        return self._context.operator

    async def observe(self) -> Facts:
        blind = self._context.operator is None or self._context.believes_answers
        seen = Seen("", "") if blind else await self._seen()
        return {
            "asked": self._answer,
            "accepted": self.accepted,
            "taken_back": self._taken_back,
            "state": seen.state,
            "said": seen.state or self._answer,
            "differs": seen.differs,
        }

    @abstractmethod
    async def _seen(self) -> Seen:
        """What the cluster's metadata shows of it."""

    async def inject(self, ttl: float) -> None:
        if await self._until_accepted(min(ttl, PATIENCE_SECONDS)):
            self.accepted = 1
            self._answer = "accepted"

    async def _until_accepted(self, seconds: float) -> bool:
        end = self._context.now_ns() + round(seconds * 1e9)
        while True:
            try:
                await self._ask()
                return True
            except OperationRefused as refused:
                self._answer = str(refused)
            if self._context.now_ns() >= end:
                return False
            await self._context.sleep(AGAIN_SECONDS)

    async def heal(self) -> None:
        """Take back what was done; what is refused is asked for again by the runner."""
        if not self.accepted or self._taken_back:
            self._taken_back = True
            return
        try:
            await self._take_back()
            self._taken_back = True
        except OperationRefused as refused:
            self._answer = str(refused)

    @abstractmethod
    async def _ask(self) -> None:
        """Ask once; `OperationRefused` if the cluster does not take it now."""

    async def _take_back(self) -> None:  # noqa: B027 - to do nothing is what is meant
        """Most operations stand as they are."""

    def shows_hold(self, before: Facts, during: Facts) -> str | None:
        if not during["accepted"]:
            return str(during["asked"])
        return str(during["differs"]) or None

    def shows_end(self, before: Facts, after: Facts) -> str | None:
        return None if after["taken_back"] else str(after["asked"])

    def told(self, during: Facts) -> str:
        return f"{during['asked']}; {during['state']}"

    def cuts(self) -> Grudge:
        return {}


class ReassignTopicPartition(_Operation):
    """One topic-partition to other replicas; by lot unless the suite names them.

    A move that another one takes the place of leaves no trace. So a move is looked for as soon as it is accepted, and
    meanwhile the next of the same topic-partition waits. Only the move that was asked for is cancelled, not another
    that has taken its place.
    """

    def __init__(self, options: Reassign, context: FaultContext) -> None:
        super().__init__(options.fault, context)
        self._before = ""
        self._shown: Seen | None = None
        self._options = options
        self._pattern = parse_topic_partition(options.target)
        self._partition = 0
        self._hosts: tuple[str, ...] = ()

    async def aim(self) -> Target:
        context, options = self._context, self._options
        self._partition = _one_of(self._pattern, context)
        if options.hosts is not None:
            self._hosts = (await context.resolve(options.hosts)).hosts
        else:
            now = await context.cluster.replicas(self._pattern.topic, self._partition)
            count = options.replicas or len(now)
            if not 0 < count <= len(context.cluster.brokers):
                raise NoTarget(f"{self._pattern}: {count} replicas, {len(context.cluster.brokers)} brokers")
            self._hosts = tuple(context.rng.sample(sorted(context.cluster.brokers), count))
        return Target(self._hosts, f"replicas of {self._pattern.topic}/{self._partition}")

    async def inject(self, ttl: float) -> None:
        async with self._alone():
            await super().inject(ttl)
            if self.accepted and not self._context.believes_answers:
                await self._look()

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """Nobody else moves the topic-partition meanwhile, or he has had his time."""
        context, place = self._context, (self._pattern.topic, self._partition)
        end = context.now_ns() + round(ALONE_SECONDS * 1e9)
        while place in context.moving and context.now_ns() < end and not context.believes_answers:
            await context.sleep(AGAIN_SECONDS)
        is_alone = place not in context.moving
        context.moving.add(place)
        try:
            yield
        finally:
            if is_alone:
                context.moving.discard(place)

    async def _look(self) -> None:
        end = self._context.now_ns() + round(AT_ONCE_SECONDS * 1e9)
        while self._missing(self._before, seen := await self._looked()) and self._context.now_ns() < end:
            await self._context.sleep(AGAIN_SECONDS)
        self._shown = None if self._missing(self._before, seen) else seen

    async def _ask(self) -> None:
        await self._operator.reassign(self._pattern.topic, self._partition, self._hosts)

    async def _seen(self) -> Seen:
        seen = self._shown or await self._looked()
        if not self.accepted:
            self._before = seen.state
        return seen

    async def _looked(self) -> Seen:
        """Replicas that are to go stay until those that come have caught up; so only those that come can be missed.

        The controller knows of a move as soon as it has accepted it, brokers a moment later: by then another move of
        the same topic-partition may have taken its place. So the controller is asked first.
        """
        now = await self._moving() or await self._context.cluster.replicas(self._pattern.topic, self._partition)
        state = self._as_state(now)
        missing = [host for host in self._hosts if host not in now]
        return Seen(state, f"{state}, without {', '.join(missing)}" if missing else "")

    async def _moving(self) -> list[str]:
        """The replicas of a move under way; none if there is none, or nobody tells."""
        try:
            return await self._operator.moving(self._pattern.topic, self._partition)
        except OperationRefused:
            return []

    async def _take_back(self) -> None:
        """One attempt: what is complete by now, or cannot be called off safely, stands."""
        if not self._options.cancel:
            return
        if self._context.believes_answers:
            await self._cancel()
            return
        async with self._alone():
            now = await self._moving()
            if now and all(host in now for host in self._hosts):
                await self._cancel()

    async def _cancel(self) -> None:
        try:
            await self._operator.reassign(self._pattern.topic, self._partition, None)
        except OperationRefused as refused:
            self._answer = f"not cancelled: {refused}"

    def shows_hold(self, before: Facts, during: Facts) -> str | None:
        reason = super().shows_hold(before, during)
        if reason is None and during["state"]:
            reason = self._missing(str(before["state"]), Seen(str(during["state"]), "")) or None
        return reason

    def _missing(self, before: str, seen: Seen) -> str:
        """What is otherwise than it would be after the move: it must look otherwise than before, unless there was
        nothing to move."""
        if not seen.differs and seen.state == before and before != self._as_state(self._hosts):
            return f"{seen.state}, as before"
        return seen.differs

    def _as_state(self, replicas: Sequence[str]) -> str:
        return f"replicas of {self._pattern.topic}/{self._partition} are {', '.join(replicas)}"


class ElectPreferred(_Operation):
    """Preferred replicas lead again."""

    def __init__(self, options: ElectLeaders, context: FaultContext) -> None:
        super().__init__(options.fault, context)

    async def aim(self) -> Target:
        return Target(tuple(self._context.cluster.brokers), "preferred leaders")

    async def _ask(self) -> None:
        await self._operator.elect_preferred(self._context.cluster.topics)

    async def _seen(self) -> Seen:
        """A preferred replica that is not in sync need not lead."""
        cluster = self._context.cluster
        led, differs = 0, ""
        for topic, count in cluster.topics.items():
            for partition in range(count):
                preferred = (await cluster.replicas(topic, partition) or [""])[0]
                leader = await cluster.leader(topic, partition)
                led += leader == preferred
                if leader != preferred and preferred in await cluster.in_sync(topic, partition):
                    differs = (
                        differs or f"{topic}/{partition} is led by {leader or 'nobody'}, and {preferred} is preferred"
                    )
        return Seen(f"{led} of {sum(cluster.topics.values())} are led by their preferred replica", differs)


class ChangeConfig(_Operation):
    """A setting of a topic."""

    def __init__(self, options: AlterConfig, context: FaultContext) -> None:
        super().__init__(options.fault, context)
        self._options = options

    async def aim(self) -> Target:
        return Target(tuple(self._context.cluster.brokers), f"{self._options.name} of {self._options.topic}")

    async def _ask(self) -> None:
        await self._operator.set_config(self._options.topic, self._options.name, self._options.value)

    async def _seen(self) -> Seen:
        options = self._options
        try:
            value = await self._operator.setting_of(options.topic, options.name)
        except OperationRefused as refused:
            return Seen("unknown", str(refused))
        state = f"{options.name} of {options.topic} is {value or 'as by default'}"
        return Seen(state, "" if value == options.value else state)

    async def _take_back(self) -> None:
        await self._operator.set_config(self._options.topic, self._options.name, self._options.afterwards)


class TakeVoterOut(_Operation):
    """One voter fewer, until the window is over. That it is gone, and back, the quorum's leader must say."""

    def __init__(self, options: RemoveVoter, context: FaultContext) -> None:
        super().__init__(options.fault, context)
        self._selector = options.target
        self._voter = ""
        self._asked = False

    async def aim(self) -> Target:
        target = await self._context.resolve(self._selector)
        self._voter = target.hosts[0]
        return Target((self._voter,), target.role)

    async def _ask(self) -> None:
        if self._voter not in await self._operator.voters():
            if self._asked:  # an answer was lost, and it was done
                return
            raise OperationRefused(f"{self._voter} is no voter")
        self._asked = True
        await self._operator.remove_voter(self._voter)

    async def _seen(self) -> Seen:
        try:
            voters = await self._operator.voters()
        except OperationRefused as refused:
            return Seen("unknown", str(refused))
        state = f"{', '.join(voters)} vote"
        return Seen(state, state if self._voter in voters else "")

    async def _take_back(self) -> None:
        if self._voter not in await self._operator.voters():
            await self._operator.add_voter(self._voter)


def _one_of(pattern: TopicPartitionPattern, context: FaultContext) -> int:
    count = context.cluster.topics.get(pattern.topic, 0)
    if not count:
        raise NoTarget(f"there is no topic {pattern.topic}")
    return context.rng.randrange(count) if pattern.partition is None else pattern.partition


OPERATIONS = (
    Kind(
        Reassign,
        ReassignTopicPartition,
        (),
        on_hosts="asked of the cluster as by an admin client",
        proof="the cluster's answer, and the replicas that the controller lists or the metadata shows",
    ),
    Kind(
        ElectLeaders,
        ElectPreferred,
        (),
        on_hosts="asked of the cluster as by an admin client",
        proof="the cluster's answer, and the leaders that its metadata shows",
    ),
    Kind(
        AlterConfig,
        ChangeConfig,
        (),
        on_hosts="asked of the cluster as by an admin client",
        proof="the cluster's answer, and the setting that it then tells",
    ),
    Kind(
        RemoveVoter,
        TakeVoterOut,
        (),
        on_hosts="asked of the cluster as by an admin client",
        proof="the cluster's answer, and who votes by the quorum's leader",
    ),
)
