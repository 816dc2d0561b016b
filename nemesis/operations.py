"""What operators do to a running cluster, as entries of the nemesis: reassign, elect leaders, change config and voters.

None of it is a fault: it is what a cluster must bear beside the faults, and where control planes break (RA-08, P16,
P19). It goes over the Kafka protocol through the `ClusterOperator` of the world. What the cluster refuses at one moment
it may take at the next, when there is an active controller again, so each operation is asked for until it is accepted
or its window is over. The evidence is the cluster's own answer, and what could not be done is unproven.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

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


class _Operation(ABC):
    """Asks once it is injected, again on healing if there is something to take back."""

    waits_to_show = False

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
        return {"asked": self._answer, "accepted": self.accepted, "taken_back": self._taken_back}

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
        return None if during["accepted"] else str(during["asked"])

    def shows_end(self, before: Facts, after: Facts) -> str | None:
        return None if after["taken_back"] else str(after["asked"])

    def told(self, during: Facts) -> str:
        return str(during["asked"])

    def cuts(self) -> Grudge:
        return {}


class ReassignTopicPartition(_Operation):
    """One topic-partition to other replicas; by lot unless the suite names them."""

    def __init__(self, options: Reassign, context: FaultContext) -> None:
        super().__init__(options.fault, context)
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

    async def _ask(self) -> None:
        await self._operator.reassign(self._pattern.topic, self._partition, self._hosts)

    async def _take_back(self) -> None:
        """One attempt: what is complete by now, or cannot be called off safely, stands."""
        if self._options.cancel:
            try:
                await self._operator.reassign(self._pattern.topic, self._partition, None)
            except OperationRefused as refused:
                self._answer = f"not cancelled: {refused}"


class ElectPreferred(_Operation):
    """Preferred replicas lead again."""

    def __init__(self, options: ElectLeaders, context: FaultContext) -> None:
        super().__init__(options.fault, context)

    async def aim(self) -> Target:
        return Target(tuple(self._context.cluster.brokers), "preferred leaders")

    async def _ask(self) -> None:
        await self._operator.elect_preferred(self._context.cluster.topics)


class ChangeConfig(_Operation):
    """A setting of a topic."""

    def __init__(self, options: AlterConfig, context: FaultContext) -> None:
        super().__init__(options.fault, context)
        self._options = options

    async def aim(self) -> Target:
        return Target(tuple(self._context.cluster.brokers), f"{self._options.name} of {self._options.topic}")

    async def _ask(self) -> None:
        await self._operator.set_config(self._options.topic, self._options.name, self._options.value)

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
        proof="the cluster's answer",
    ),
    Kind(
        ElectLeaders,
        ElectPreferred,
        (),
        on_hosts="asked of the cluster as by an admin client",
        proof="the cluster's answer",
    ),
    Kind(
        AlterConfig,
        ChangeConfig,
        (),
        on_hosts="asked of the cluster as by an admin client",
        proof="the cluster's answer",
    ),
    Kind(
        RemoveVoter,
        TakeVoterOut,
        (),
        on_hosts="asked of the cluster as by an admin client",
        proof="the cluster's answer, and who votes by the quorum's leader",
    ),
)
