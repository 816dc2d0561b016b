"""Whatever a stranger sends to either plane: it is answered, refused, or ends its connection, and never the node.

Structure-aware: the frames decode, and their fields are near the truth (`tests/nodes/forged.py`).
"""

from __future__ import annotations

from random import Random

import pytest

from squall.nodes.node.dispatch import BROKER_VERSIONS, CONTROLLER_VERSIONS
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.nodes.forged import Forger
from tests.nodes.node.test_node import CLIENT, CONTROL, LISTENERS, SECOND, Host

FRAMES = 1500


def truths(host: Host, rng: Random) -> Forger:
    forger = Forger(rng)
    node = host.node
    assert node.broker is not None
    topics = list(node.image.topics.values())
    forger.names += [topic.name for topic in topics]
    forger.ids += [topic.id for topic in topics] + [node.raft.config.directory_id]
    forger.numbers += [node.raft.epoch, node.raft.end_offset, node.raft.high_watermark, node.broker.lifecycle.epoch]
    return forger


@pytest.mark.parametrize("seed", range(6))
def test_forged_requests_never_end_the_node(seed: int) -> None:
    host = Host()
    host.run()
    host.open(77, CLIENT)
    host.send(77, CreateTopicsRequest(topics=[CreatableTopic("topic", 2, 1)], timeout_ms=1000), 7)
    host.run(SECOND // 10)
    rng = Random(seed)
    forger = truths(host, rng)
    for number in range(FRAMES):
        if number % 50 == 0:
            forger = truths(host, rng)
        port, versions = rng.choice(((CLIENT, BROKER_VERSIONS), (CONTROL, CONTROLLER_VERSIONS)))
        connection = 10_000 + number
        frame = forger.frame(versions, number)
        try:
            host.node.opened(host.now, connection, LISTENERS[port])
            host.node.received(host.now, connection, bytearray(frame))
            host.iterate()
            host.now += rng.choice((0, 1000, 20_000))
        except Exception as error:
            key = ApiKey(int.from_bytes(frame[:2], "big"))
            raise AssertionError(f"seed {seed}, frame {number}: {key.name} ended the node: {frame.hex()}") from error
        host.node.closed(host.now, connection)
    host.run(5 * SECOND)
    assert host.node.raft.is_leader, f"seed {seed}: the quorum is gone"
    assert host.node.raft.epoch < 2**31 - 2**20 - FRAMES, f"seed {seed}"
