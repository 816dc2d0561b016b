"""IS-08: a leader knows followers that are replicas, and by the epoch of one of their broker's registrations.

A leader adds a follower to the ISR only if that epoch is the one of the broker's current registration (KIP-903). It
lets a fetch through that names none, for brokers from before that rule. So a broker that does not say its epoch is
still replicated, and the leader may count an incarnation that has lost its log. Asserted on each leader that is
examined: the epoch by which it knows a follower is not negative, and not newer than any that the quorum has committed.
Nor is it a broker that is not among the replicas which the leader has applied last: what a former replica had when it
left holds back every DeleteRecords, and is taken for its state when it returns (RA-01).
Legal: the epoch of an earlier registration, until the follower has heard of the new one; clusters without a quorum.

Source: requirement IS-08, KIP-841, KIP-903.
"""

from __future__ import annotations

from squall.harness.simulation.observer.rules.rule import ReplicaTurn, Rule, node_of_quorum
from squall.harness.simulation.observer.state.observed_log import InvariantBroken


class FetchingIncarnations(Rule):
    """See the module."""

    def replica_examined(self, turn: ReplicaTurn, committed_before: int) -> None:
        replica = turn.replica
        if not replica.is_leader or node_of_quorum(turn.process.node) is None:
            return
        replicas = () if replica.state is None else replica.state.replicas
        for broker, epoch in replica.follower_epochs():
            if broker not in replicas:
                raise InvariantBroken(
                    "IS-08",
                    f"{replica.topic}-{replica.partition}: its leader {turn.process.name} knows broker {broker} as a "
                    f"follower, and its replicas are {list(replicas)}",
                )
            registered = self.cluster.metadata.image.brokers.get(broker)
            if registered is not None and not 0 <= epoch <= registered.epoch:
                raise InvariantBroken(
                    "IS-08",
                    f"{replica.topic}-{replica.partition}: to its leader {turn.process.name}, broker {broker} fetches "
                    f"with the broker epoch {epoch}, and is registered with {registered.epoch}",
                )
