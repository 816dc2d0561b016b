"""QC-21: the active controller answers a request when all is committed that the answer may depend on.

It decides by what it has written, committed or not. If another controller takes over, what was not committed may be
gone: then "it exists already", "you are unfenced", "you may stop" are true of no state that ever was. So an answer
waits until the high watermark has reached the end of the log at the time of the decision. Asserted when a controller
answers: its high watermark has reached where its log ended when the request arrived, which was before the decision.

Source: `QuorumController` of Kafka, which defers responses without records as well. Legal: NOT_CONTROLLER, which
depends on nothing; the answers of a controller that is not active any more; requests that a combined node gets as a
broker and forwards. Records of the quorum itself, such as its voters, do not count (seeds 970058, 970063).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from squall.harness.simulation.observer.rules.rule import Rule, node_of_quorum
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.controller.error_responses import not_controller
from squall.nodes.node.base import BaseNode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.requests.session import ServerRequest


@dataclass(slots=True)
class _Written:
    """Where the records of an active controller ended after its turns, as far as they are not committed.

    Each of `ends` is a time, in microseconds, and an offset.
    """

    identity: tuple[int, int]
    """The process's incarnation and the quorum's epoch."""
    ends: deque[tuple[int, int]] = field(default_factory=deque)

    def end_before(self, time: int) -> int:
        """Return where the log ended before this time; 0 if all of it was committed by then, or is now."""
        return max((end for at, end in self.ends if at < time), default=0)


class ControllerAnswers(Rule):
    """See the module."""

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._written: dict[str, _Written] = {}

    def died(self, process: SimProcess) -> None:
        self._written.pop(process.name, None)

    def turned(self, process: SimProcess, node: BaseNode) -> None:
        with_quorum = node_of_quorum(node)
        if with_quorum is None or with_quorum.controller is None:
            return
        image = with_quorum.controller.image
        if image is None:
            self._written.pop(process.name, None)
            return
        raft, identity = with_quorum.raft, (process.incarnation, with_quorum.raft.epoch)
        written = self._written.get(process.name)
        if written is None or written.identity != identity:
            written = self._written[process.name] = _Written(identity)
        ends = written.ends
        while ends and ends[0][1] <= raft.high_watermark:
            ends.popleft()
        end = image.last_offset + 1
        if end > raft.high_watermark and (not ends or ends[-1][1] < end):
            ends.append((process.now, end))

    def answered(self, process: SimProcess, node: BaseNode, request: ServerRequest) -> None:
        written, with_quorum = self._written.get(process.name), node_of_quorum(node)
        if written is None or with_quorum is None or with_quorum.controller is None:
            return
        controller, raft = with_quorum.controller, with_quorum.raft
        if not controller.is_active or raft.epoch != written.identity[1] or request.api_key not in controller.api_keys:
            return
        if request.listener not in {one.listener for one in node.config.control_listeners}:
            return
        end = written.end_before(request.received_at)
        if end <= raft.high_watermark or request.answer is None or request.answer.response is None:
            return
        if request.answer.response == not_controller(request):
            return
        raise InvariantBroken(
            "QC-21",
            f"{process.name} answers {ApiKey(request.api_key).name} of {request.client_id}, and all below {end}, which "
            f"it had written when that arrived, is committed up to {raft.high_watermark} only",
        )
