"""PARKED: no request waits at a broker for what has happened, and none whose connection has ended.

A broker wakes a parked request when something changes at one of its topic-partitions. Where it does not, the client
waits until its own time is over, and takes the same answer then: nothing is wrong, but a move of leaderships stops each
client for as long as it is willing to wait. A request that stays parked after its connection has ended is memory that
nobody gives back. Asserted after a turn that touched metadata:

* of a parked Produce or DeleteRecords something is not over yet: its records may still become committed here, or its
  followers may still delete
* a parked Fetch names only what is read here: replicas that this broker leads, or any of them for a consumer that reads
  from followers
* the connection of each parked request is open, and has no answer to it

Source: rule 16, DP-08; `DelayedOperationPurgatory` of Kafka, which completes what a change of leaders concerns.
"""

from __future__ import annotations

from squall.harness.simulation.observer.rules.rule import Rule
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.node.base import BaseNode
from squall.nodes.protocol.messages import ApiKey


class ParkedRequests(Rule):
    """See the module."""

    def images_examined(self, process: SimProcess, node: BaseNode) -> None:
        parked = [] if node.broker is None else node.broker.parked
        if not parked:
            return
        waiting = {id(inbound.request) for inbound in node.connections.unanswered()}
        for one in parked:
            why = ""
            if id(one.request) not in waiting:
                why = "whose connection has ended"
            elif one.waits_in_vain():
                why = "which has nothing to wait for"
            if why:
                raise InvariantBroken(
                    "PARKED",
                    f"{process.name} keeps {ApiKey(one.request.api_key).name} of {one.request.client_id} parked, {why}",
                )
