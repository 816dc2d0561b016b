"""Operators' actions as nemesis entries: reassign, elect leaders, change configuration, features and voters.

These are no faults: a cluster must bear them beside the faults, and control planes break there (RA-08). They go over
the Kafka protocol through the `ClusterOperator` of the world. What the cluster refuses now it may accept later, when
there is an active controller again, so each operation is retried until it is accepted or its window is over. An
operation that was not done is unproven. The evidence is not the response alone but also what the cluster's metadata, or
the quorum's leader, then reports: replicas, leaders, a setting, a level, voters.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from squall.nemesis.core.evidence import Facts
from squall.nemesis.core.fault import FaultContext
from squall.nemesis.core.grudge import Grudge
from squall.nemesis.core.ports import ClusterOperator, OperationRefused
from squall.nemesis.core.selector import NoTarget, Target, TopicPartitionPattern, parse_topic_partition
from squall.nemesis.faults.kind import Kind
from squall.nemesis.options import AlterConfig, ElectLeaders, Reassign, RemoveVoter, SetFeature

AGAIN_SECONDS = 0.1
PATIENCE_SECONDS = 2.0
"""How long an operation is retried; its window may be shorter."""
AT_ONCE_SECONDS = 2.0
"""How long to look for a move before the next of the same topic-partition may replace it."""
ALONE_SECONDS = 10.0
"""How long that next move waits for its turn."""


@dataclass(frozen=True)
class Seen:
    """The state that the metadata shows, and how it differs from the state after the operation."""

    state: str
    differs: str


class _Operation(ABC):
    """Makes its request on injection, and another on healing if there is something to take back."""

    waits_to_show = False
    evidence_lag = 5.0
    """If the active controller accepted it and died, by then it has a successor that brokers follow."""

    def __init__(self, kind: str, context: FaultContext) -> None:
        self.kind = kind
        self.accepted = 0
        self._context = context
        self._answer = "not requested yet"
        self._taken_back = False

    @property
    def _operator(self) -> ClusterOperator:
        if self._context.operator is None:
            raise OperationRefused(f"{self.kind}: this run has no admin client for the cluster")
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
        """The state that the cluster's metadata shows."""

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
        """Take the operation back. The runner retries if that is refused."""
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
        """Make the request once. Raises `OperationRefused` if the cluster does not accept it now."""

    async def _take_back(self) -> None:  # noqa: B027 - to do nothing is intended
        """Does nothing: most operations are not taken back."""

    def check_effect(self, before: Facts, during: Facts) -> str | None:
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
    """Moves one topic-partition to other replicas; random ones unless the suite names them.

    A move that another move replaces leaves no trace. So the fault looks for a move as soon as it is accepted, and
    meanwhile the next one of the same topic-partition waits. Only the requested move is cancelled, not another that has
    replaced it.
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
        """Exclude other moves of the topic-partition, after waiting at most `ALONE_SECONDS` for them."""
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
        """Compare with the goal. Replicas to be removed stay until the added ones have caught up, so only added ones
        can be missing.

        The controller knows of a move as soon as it has accepted it, brokers a moment later: by then another move of
        the same topic-partition may have replaced it. So the controller is asked first.
        """
        now = await self._moving() or await self._context.cluster.replicas(self._pattern.topic, self._partition)
        state = self._as_state(now)
        missing = [host for host in self._hosts if host not in now]
        return Seen(state, f"{state}, without {', '.join(missing)}" if missing else "")

    async def _moving(self) -> list[str]:
        """The replicas of a move under way; empty if there is none, or the controller cannot be asked."""
        try:
            return await self._operator.moving(self._pattern.topic, self._partition)
        except OperationRefused:
            return []

    async def _take_back(self) -> None:
        """One attempt: a move that is complete by now, or cannot be cancelled safely, stays."""
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

    def check_effect(self, before: Facts, during: Facts) -> str | None:
        reason = super().check_effect(before, during)
        if reason is None and during["state"]:
            reason = self._missing(str(before["state"]), Seen(str(during["state"]), "")) or None
        return reason

    def _missing(self, before: str, seen: Seen) -> str:
        """How the state differs from that after the move. It must differ from before, unless there was nothing
        to move.
        """
        if not seen.differs and seen.state == before and before != self._as_state(self._hosts):
            return f"{seen.state}, as before"
        return seen.differs

    def _as_state(self, replicas: Sequence[str]) -> str:
        return f"replicas of {self._pattern.topic}/{self._partition} are {', '.join(replicas)}"


class ElectPreferred(_Operation):
    """Elects the preferred replicas as leaders."""

    def __init__(self, options: ElectLeaders, context: FaultContext) -> None:
        super().__init__(options.fault, context)

    async def aim(self) -> Target:
        return Target(tuple(self._context.cluster.brokers), "preferred leaders")

    async def _ask(self) -> None:
        await self._operator.elect_preferred(self._context.cluster.topics)

    async def _seen(self) -> Seen:
        """Observe the leaders. A preferred replica that is not in sync need not lead."""
        cluster = self._context.cluster
        led, differs = 0, ""
        for topic, count in cluster.topics.items():
            for partition in range(count):
                preferred = (await cluster.replicas(topic, partition) or [""])[0]
                leader = await cluster.leader(topic, partition)
                led += leader == preferred
                if leader != preferred and preferred in await cluster.in_sync(topic, partition):
                    differs = (
                        differs or f"{topic}/{partition} has leader {leader or 'none'}, and {preferred} is preferred"
                    )
        return Seen(f"{led} of {sum(cluster.topics.values())} are led by their preferred replica", differs)


class ChangeConfig(_Operation):
    """Changes a setting of a topic."""

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
        state = f"{options.name} of {options.topic} is {value or 'the default'}"
        return Seen(state, "" if value == options.value else state)

    async def _take_back(self) -> None:
        await self._operator.set_config(self._options.topic, self._options.name, self._options.afterwards)


class SwitchFeature(_Operation):
    """Sets the level of a feature of the cluster, and sets it back when the window is over."""

    def __init__(self, options: SetFeature, context: FaultContext) -> None:
        super().__init__(options.fault, context)
        self._options = options
        self._afterwards: int | None = options.afterwards

    async def aim(self) -> Target:
        return Target(tuple(self._context.cluster.controllers), self._options.feature)

    async def _ask(self) -> None:
        """A change whose earlier level is not known could not be taken back, so it is not made."""
        if self._afterwards is None:
            self._afterwards = await self._operator.level_of(self._options.feature)
        await self._operator.set_feature(self._options.feature, self._options.level)

    async def _seen(self) -> Seen:
        try:
            level = await self._operator.level_of(self._options.feature)
        except OperationRefused as refused:
            return Seen("unknown", str(refused))
        state = f"{self._options.feature} is at level {level}"
        return Seen(state, "" if level == self._options.level else state)

    async def _take_back(self) -> None:
        assert self._afterwards is not None, "the change was made, so the level before is known"
        await self._operator.set_feature(self._options.feature, self._afterwards)


class TakeVoterOut(_Operation):
    """Removes one voter until the window is over. The quorum's leader must report it as removed, and as added again."""

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
            if self._asked:  # the response was lost, but the request was carried out
                return
            raise OperationRefused(f"{self._voter} is not a voter")
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
        on_hosts="requested from the cluster, as by an admin client",
        proof="the cluster's response, and the replicas that the controller lists or the metadata shows",
    ),
    Kind(
        ElectLeaders,
        ElectPreferred,
        (),
        on_hosts="requested from the cluster, as by an admin client",
        proof="the cluster's response, and the leaders that its metadata shows",
    ),
    Kind(
        AlterConfig,
        ChangeConfig,
        (),
        on_hosts="requested from the cluster, as by an admin client",
        proof="the cluster's response, and the setting that it then returns",
    ),
    Kind(
        SetFeature,
        SwitchFeature,
        (),
        on_hosts="requested from the cluster, as by an admin client",
        proof="the cluster's response, and the level that brokers then announce",
    ),
    Kind(
        RemoveVoter,
        TakeVoterOut,
        (),
        on_hosts="requested from the cluster, as by an admin client",
        proof="the cluster's response, and the voters by the quorum's leader",
    ),
)
