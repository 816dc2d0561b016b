"""The replica state machine: what a replica's broker is asked to do when the broker or the assignment changes.

    new → online ⇄ offline → deletion started → deleted → non-existent
                      ↑               ↓
                      └── deletion ineligible (its broker died, or refused)

A replica that goes offline leaves the ISR, in the ensemble, and the other replicas learn it. The last member of an ISR
stays in it, as in Kafka: it alone is known to have all committed records.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace

from squall.nodes.zookeeper.controller.context import ControllerContext, Replica, ReplicaState
from squall.nodes.zookeeper.controller.event_loop import PAUSE, ControllerMoved
from squall.nodes.zookeeper.controller.request_batch import WITHOUT_PAUSE, RequestBatch
from squall.nodes.zookeeper.controller.state_store import StateStore
from squall.nodes.zookeeper.session import Operation, SessionResponse
from squall.nodes.zookeeper.znodes import NO_LEADER, StateZnode, TopicPartition

Step = Generator[Sequence[Operation], list[SessionResponse], None]


class ReplicaMachine:
    """See the module."""

    def __init__(self, context: ControllerContext, store: StateStore, batch: RequestBatch) -> None:
        self._context = context
        self._store = store
        self._batch = batch

    def initialize(self) -> None:
        """Derive every state after a new controller has read the ensemble."""
        context = self._context
        for topic, number in context.partitions():
            for broker in context.replicas(topic, number):
                online = context.is_online(broker)
                context.replica_states[topic, number, broker] = (
                    ReplicaState.ONLINE if online else ReplicaState.DELETION_INELIGIBLE
                )

    def set_new(self, replicas: Sequence[Replica]) -> None:
        """Replicas that never had a log. A state that exists is sent to them."""
        for topic, number, broker in replicas:
            self._context.replica_states[topic, number, broker] = ReplicaState.NEW
            if (topic, number) in self._context.states:
                self._batch.leader_and_isr((broker,), (topic, number), is_new=True)
        self._batch.send()

    def set_online(self, replicas: Sequence[Replica]) -> Step:
        """Replicas whose broker has started, or that have got their log."""
        for count, (topic, number, broker) in enumerate(replicas, start=1):
            before = self._context.replica_states.get((topic, number, broker))
            self._context.replica_states[topic, number, broker] = ReplicaState.ONLINE
            if before is not ReplicaState.NEW and (topic, number) in self._context.states:
                self._batch.leader_and_isr((broker,), (topic, number))
            if count % WITHOUT_PAUSE == 0:
                yield PAUSE
        yield from self._batch.in_steps()

    def set_offline(self, replicas: Sequence[Replica], *, stop: bool = True) -> Step:
        """Take replicas out of their ISRs; `stop` them if their brokers live."""
        context = self._context
        by_broker: dict[int, list[TopicPartition]] = {}
        for topic, number, broker in replicas:
            context.replica_states[topic, number, broker] = ReplicaState.OFFLINE
            by_broker.setdefault(broker, []).append((topic, number))
        for broker, keys in by_broker.items():
            removed = yield from self._remove_from_isr(broker, [key for key in keys if key in context.states])
            for key in removed:
                others = [one for one in context.replicas(*key) if one != broker]
                self._batch.leader_and_isr(others, key)
            self._batch.update_metadata(context.brokers, keys)
            for key in keys if stop else ():
                self._batch.stop_replica(broker, key, delete=False)
        yield from self._batch.in_steps()

    def _remove_from_isr(
        self, broker: int, keys: Sequence[TopicPartition]
    ) -> Generator[Sequence[Operation], list[SessionResponse], dict[TopicPartition, StateZnode]]:
        removed: dict[TopicPartition, StateZnode] = {}
        remaining = list(keys)
        while remaining:
            found = yield from self._store.read(remaining)
            self._context.states.update(found)
            if any(state.controller_epoch > self._context.epoch for state in found.values()):
                raise ControllerMoved
            written, remaining = yield from self._store.write(
                {key: self._without(state, broker) for key, state in found.items() if broker in state.isr}
            )
            removed |= written
        return removed

    def _without(self, state: StateZnode, broker: int) -> StateZnode:
        return replace(
            state,
            leader=NO_LEADER if state.leader == broker else state.leader,
            leader_epoch=state.leader_epoch + 1,
            isr=state.isr if state.isr == (broker,) else tuple(one for one in state.isr if one != broker),
            controller_epoch=self._context.epoch,
        )

    # -- deletion -------------------------------------------------------------------------------------------------

    def start_deletion(self, replicas: Sequence[Replica], stopped: Callable[[int, Replica, int], None]) -> None:
        """Ask the brokers to delete replicas; `stopped(now, replica, error)` is called with each answer."""
        for topic, number, broker in replicas:
            self._context.replica_states[topic, number, broker] = ReplicaState.DELETION_STARTED
            self._batch.stop_replica(broker, (topic, number), delete=True)
        self._batch.on_stopped(stopped)
        self._batch.send()

    def set_states(self, replicas: Sequence[Replica], state: ReplicaState) -> None:
        for replica in replicas:
            self._context.replica_states[replica] = state

    def forget(self, replicas: Sequence[Replica]) -> None:
        for replica in replicas:
            self._context.replica_states.pop(replica, None)
