"""Read and write the states of topic-partitions in the ensemble, fenced by the controller epoch (ZK-14).

Every write is a transaction of two operations: check that `/controller_epoch` has the version that this controller gave
it at its election, and set the state if it still has the version that was read. So a controller that has a successor
writes nothing any more, and a leader's own change of the ISR is never overwritten unseen (ZK-07).

Mutant: `controller-epoch-not-checked` in `_fenced`.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace

from squall.nodes.mutants import HEALTHY, Mutants
from squall.nodes.zookeeper.controller.context import ControllerContext
from squall.nodes.zookeeper.controller.event_loop import ControllerMoved
from squall.nodes.zookeeper.session import (
    Check,
    Code,
    Create,
    Delete,
    GetData,
    Multi,
    Operation,
    SessionResponse,
    SetData,
)
from squall.nodes.zookeeper.znodes import (
    CONTROLLER_EPOCH,
    StateZnode,
    TopicPartition,
    decode_state,
    encode_state,
    partition_path,
    partitions_path,
    state_path,
)

States = dict[TopicPartition, StateZnode]
Read = Generator[Sequence[Operation], list[SessionResponse], States]
Written = Generator[Sequence[Operation], list[SessionResponse], tuple[States, list[TopicPartition]]]
Fenced = Generator[Sequence[Operation], list[SessionResponse], list[SessionResponse]]


AT_ONCE = 5_000
"""Operations of a batch. A million at once would be decoded in one turn, in which the session sends no ping."""


class StateStore:
    """See the module. Every method is a part of a procedure (`yield from`)."""

    def __init__(self, context: ControllerContext, mutants: Mutants = HEALTHY) -> None:
        self._context = context
        self._mutants = mutants

    def read(self, keys: Sequence[TopicPartition]) -> Read:
        """Return the states of those topic-partitions that have one."""
        found: States = {}
        for first in range(0, len(keys), AT_ONCE):
            part = keys[first : first + AT_ONCE]
            responses = yield [GetData(state_path(*key)) for key in part]
            for key, one in zip(part, responses, strict=True):
                if one.ok and one.stat is not None:
                    found[key] = decode_state(state_path(*key), one.data, one.stat.version)
        return found

    def write(self, states: Mapping[TopicPartition, StateZnode]) -> Written:
        """Replace states, each on the condition of its version.

        Return those that were written, with their new versions, and the topic-partitions whose state has changed in
        between. Raises ControllerMoved.
        """
        if not states:
            return {}, []
        keys = list(states)
        responses = yield from self.fenced(
            [SetData(state_path(*key), encode_state(states[key]), states[key].version) for key in keys]
        )
        written, again = {}, []
        for key, one in zip(keys, responses, strict=True):
            if one.ok and one.stat is not None:
                written[key] = replace(states[key], version=one.stat.version)
            elif one.code is Code.BAD_VERSION:
                again.append(key)
        self._context.states.update(written)
        return written, again

    def create(self, states: Mapping[TopicPartition, StateZnode]) -> Written:
        """Create states, and what is above them. Return those that exist now, and those that failed."""
        if not states:
            return {}, []
        topics = dict.fromkeys(topic for topic, _ in states)
        yield from self.fenced([Create(partitions_path(topic)) for topic in topics])
        yield from self.fenced([Create(partition_path(*key)) for key in states])
        responses = yield from self.fenced(
            [Create(state_path(*key), encode_state(state)) for key, state in states.items()]
        )
        made, failed = {}, []
        for (key, state), one in zip(states.items(), responses, strict=True):
            if one.ok:
                made[key] = replace(state, version=0)
            else:
                failed.append(key)
        made |= yield from self.read(failed)  # this controller's own, if an answer was lost, or a predecessor's
        self._context.states.update(made)
        return made, [key for key in failed if key not in made]

    def fenced(self, operations: Sequence[Create | Delete | SetData]) -> Fenced:
        """Carry out operations, each on the condition that this broker is still the controller.

        Return the response of each operation itself. Raises ControllerMoved.
        """
        results: list[SessionResponse] = []
        for first in range(0, len(operations), AT_ONCE):
            responses = yield [self._fenced(operation) for operation in operations[first : first + AT_ONCE]]
            for one in responses:
                if one.results and one.results[0].code in (Code.BAD_VERSION, Code.NO_NODE):
                    raise ControllerMoved
                results.append(one.results[-1] if one.results else one)
        return results

    def _fenced(self, operation: Create | Delete | SetData) -> Multi:
        if self._mutants.has("controller-epoch-not-checked"):
            return Multi((operation,))
        return Multi((Check(CONTROLLER_EPOCH, self._context.epoch_version), operation))
