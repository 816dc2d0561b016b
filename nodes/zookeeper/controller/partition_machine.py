"""The partition state machine: elect leaders, write them to the ensemble, give them to the replicas (ZK-06, ZK-08).

    non-existent → new → online ⇄ offline → non-existent

A new topic-partition becomes online with its first state. Any other gets a new leader by one of four strategies, each
a choice among its replicas; without a candidate it stays as it is. The state is read before the choice, because leaders
change ISRs by themselves, and the write is repeated where the version shows that one did in between.

In each strategy a replica of the ISR is preferred, and the order of the assignment decides.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from enum import Enum

from squall.nodes.ports import Trace
from squall.nodes.zookeeper.controller.context import ControllerContext, PartitionState
from squall.nodes.zookeeper.controller.event_loop import ControllerMoved
from squall.nodes.zookeeper.controller.request_batch import RequestBatch
from squall.nodes.zookeeper.controller.state_store import StateStore
from squall.nodes.zookeeper.session import Code, GetData, Operation, SessionResponse
from squall.nodes.zookeeper.znodes import StateZnode, TopicPartition, decode_config, topic_config_path

UNCLEAN = "unclean.leader.election.enable"
Elected = Generator[Sequence[Operation], list[SessionResponse], dict[TopicPartition, StateZnode]]
Settings = Generator[Sequence[Operation], list[SessionResponse], dict[str, bool]]
Step = Generator[Sequence[Operation], list[SessionResponse], list[TopicPartition]]


class Strategy(Enum):
    """How a leader is chosen."""

    OFFLINE = "offline"
    """The first of the ISR that lives; if the topic allows it, else the first replica that lives (unclean)."""
    PREFERRED = "preferred"
    """The first replica, if it lives and is in the ISR."""
    REASSIGN = "reassign"
    """The first of the target replicas that lives and is in the ISR."""
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    """The first of the ISR that lives and is not about to stop; those that are leave the ISR."""


class PartitionMachine:
    """See the module. `defaults` gives the cluster's defaults of topics' settings; `on_unclean` is called for each
    election of a leader that was not in the ISR.
    """

    def __init__(
        self,
        context: ControllerContext,
        store: StateStore,
        batch: RequestBatch,
        trace: Trace,
        defaults: Callable[[], Mapping[str, str]],
        on_unclean: Callable[[], None],
    ) -> None:
        self._context = context
        self._store = store
        self._batch = batch
        self._trace = trace
        self._defaults = defaults
        self._on_unclean = on_unclean

    def initialize(self) -> None:
        """Derive every state after a new controller has read the ensemble."""
        context = self._context
        for key in context.partitions():
            state = context.states.get(key)
            if state is None:
                context.partition_states[key] = PartitionState.NEW
            elif context.is_online(state.leader):
                context.partition_states[key] = PartitionState.ONLINE
            else:
                context.partition_states[key] = PartitionState.OFFLINE

    def set_new(self, keys: Sequence[TopicPartition]) -> None:
        for key in keys:
            self._context.partition_states[key] = PartitionState.NEW

    def set_offline(self, keys: Sequence[TopicPartition]) -> None:
        for key in keys:
            self._context.partition_states[key] = PartitionState.OFFLINE

    def set_non_existent(self, keys: Sequence[TopicPartition]) -> None:
        for key in keys:
            self._context.partition_states.pop(key, None)

    def make_online(self, keys: Sequence[TopicPartition], strategy: Strategy = Strategy.OFFLINE) -> Step:
        """Give leaders to topic-partitions, and send what was decided. Return those that have none."""
        states = self._context.partition_states
        new = [key for key in keys if states.get(key) is PartitionState.NEW]
        failed = yield from self._begin(new)
        failed += yield from self._elect([key for key in keys if key not in new], strategy)
        yield from self._batch.in_steps()
        return failed

    # -- the first state ------------------------------------------------------------------------------------------

    def _begin(self, keys: Sequence[TopicPartition]) -> Step:
        context = self._context
        first: dict[TopicPartition, StateZnode] = {}
        failed: list[TopicPartition] = []
        for key in keys:
            live = tuple(one for one in context.replicas(*key) if context.is_live(one))
            if live:
                first[key] = StateZnode(live[0], 0, live, context.epoch)
            else:
                failed.append(key)
        made, refused = yield from self._store.create(first)
        for key in made:
            context.partition_states[key] = PartitionState.ONLINE
            self._batch.leader_and_isr(context.replicas(*key), key, is_new=True)
        return failed + refused

    # -- elections ------------------------------------------------------------------------------------------------

    def _elect(self, keys: Sequence[TopicPartition], strategy: Strategy) -> Step:
        context, remaining = self._context, list(keys)
        failed: list[TopicPartition] = []
        unclean: dict[str, bool] = {}
        if strategy is Strategy.OFFLINE:
            unclean = yield from self._allows_unclean(remaining)
        while remaining:
            found = yield from self._store.read(remaining)
            chosen: dict[TopicPartition, StateZnode] = {}
            for key in remaining:
                state = found.get(key)
                if state is not None and state.controller_epoch > context.epoch:
                    raise ControllerMoved
                decided = None if state is None else self._choose(key, state, strategy, unclean.get(key[0], False))
                if state is not None:
                    context.states[key] = state
                if decided is None:
                    failed.append(key)
                else:
                    chosen[key] = decided
            written, remaining = yield from self._store.write(chosen)
            for key, state in written.items():
                context.partition_states[key] = PartitionState.ONLINE
                if state.leader not in found[key].isr:
                    self._on_unclean()
                self._batch.leader_and_isr(context.replicas(*key), key)
                self._trace.event(
                    "zk_leader_elected", by=strategy.value, of=f"{key[0]}-{key[1]}", leader=state.leader,
                    epoch=state.leader_epoch, isr=state.isr,
                )  # fmt: skip
        return failed

    def _choose(self, key: TopicPartition, state: StateZnode, strategy: Strategy, unclean: bool) -> StateZnode | None:
        """The next state, None without a candidate."""
        context, assignment = self._context, self._context.assignment(*key)
        in_sync = [one for one in assignment.replicas if one in state.isr and context.is_live(one)]
        leader: int | None
        isr = tuple(one for one in state.isr if context.is_online(one))
        match strategy:
            case Strategy.OFFLINE:
                leader = next(iter(in_sync), None)
                if leader is None and unclean:
                    leader = next((one for one in assignment.replicas if context.is_live(one)), None)
                    isr = () if leader is None else (leader,)
            case Strategy.PREFERRED:
                leader = next((one for one in assignment.replicas[:1] if one in in_sync), None)
            case Strategy.REASSIGN:
                leader = next((one for one in assignment.target if one in in_sync), None)
                # What leaves goes with this state: the leader no longer waits for it.
                isr = tuple(one for one in isr if one in assignment.replicas)
            case Strategy.CONTROLLED_SHUTDOWN:
                leader = next(iter(in_sync), None)
                isr = tuple(one for one in state.isr if one not in context.shutting_down)
        if leader is None:
            return None
        return StateZnode(leader, state.leader_epoch + 1, isr, context.epoch, state.version)

    def _allows_unclean(self, keys: Sequence[TopicPartition]) -> Settings:
        """Read from the ensemble which topics allow unclean elections."""
        topics = list(dict.fromkeys(topic for topic, _ in keys))
        default = self._defaults().get(UNCLEAN) == "true"
        if not topics:
            return {}
        responses = yield [GetData(topic_config_path(topic)) for topic in topics]
        allowed = {}
        for topic, one in zip(topics, responses, strict=True):
            settings = decode_config(topic_config_path(topic), one.data) if one.code is Code.OK else {}
            allowed[topic] = settings[UNCLEAN] == "true" if UNCLEAN in settings else default
        return allowed
