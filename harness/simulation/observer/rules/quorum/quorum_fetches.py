"""QC-16: a leader of the quorum states its own log's start and its high watermark in its responses to Fetch.

Followers take the high watermark, and tools the start. A wrong start shows nowhere, since our replicas do not use it.
Asserted when a leader answers a Fetch of the metadata log without an error, and does not make the follower truncate or
download a snapshot:

* the log's start is that of its log;
* the high watermark is its own, or not stated as long as it has committed nothing in its epoch.

Source: KIP-595, Fetch. Legal: an answer by a replica that does not lead, which is an error.
"""

from __future__ import annotations

from squall.harness.simulation.observer.rules.rule import Rule, is_of_quorum, node_of_quorum
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.node.base import BaseNode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.raft.roles import Leader

NONE, NOT_STATED = -1, -1


class QuorumFetches(Rule):
    """See the module."""

    def answered(self, process: SimProcess, node: BaseNode, request: ServerRequest) -> None:
        if request.api_key != ApiKey.FETCH or request.answer is None:
            return
        asked, told = request.body, request.answer.response
        if not isinstance(asked, FetchRequest) or not isinstance(told, FetchResponse) or not is_of_quorum(asked):
            return
        with_quorum = node_of_quorum(node)
        role = None if with_quorum is None else with_quorum.raft.role
        if with_quorum is None or told.error_code or not isinstance(role, Leader):
            return
        start = with_quorum.raft.log.start_offset
        committed = NOT_STATED if role.high_watermark is None else role.high_watermark
        for one in (part for topic in told.responses for part in topic.partitions if _is_of_the_log(part)):
            if (one.log_start_offset, one.high_watermark) != (start, committed):
                raise InvariantBroken(
                    "QC-16",
                    f"{process.name} answers a fetch of the metadata log with log start {one.log_start_offset} and "
                    f"high watermark {one.high_watermark}; they are {start} and {committed}",
                )


def _is_of_the_log(one: PartitionData) -> bool:
    return not one.error_code and one.diverging_epoch.end_offset == NONE and one.snapshot_id.end_offset == NONE
