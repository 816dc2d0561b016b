"""A node whose disk fails: it halts with one line, and nothing it had acknowledged is missing when it starts again.

With a single log directory Kafka halts when it fails. The file size limit of a process makes a real disk refuse a
write in the middle (EFBIG), as a full one would with ENOSPC.
"""

from __future__ import annotations

import resource

import confluent_kafka
import pytest

from tests.clusters import Cluster
from tests.nodes.server.test_cluster import QUIET, Client

pytestmark = pytest.mark.xdist_group("clusters")

LIMIT = 200_000
VALUE = b"x" * 1000


def produce_until_it_halts(client: Client) -> None:
    """Acknowledged values are noted by the client; the first that fails ends it."""
    number = 0
    while client.cluster.brokers[0].pid is not None and number < 1000:
        client.producer.produce("t", b"%06d" % number + VALUE, partition=0, on_delivery=client.note)
        client.producer.flush(0.5)
        number += 1


class Halting(Client):
    def note(self, error: object, message: confluent_kafka.Message) -> None:
        if error is None:
            self.acknowledged[message.partition(), message.offset()] = message.value()


def test_a_node_whose_disk_refuses_a_write_halts_and_loses_nothing_acknowledged() -> None:
    with Cluster.combined() as cluster:
        cluster.wait_until_ready()
        client = Halting(cluster)
        client.create("t", 1, 1)
        node = cluster.brokers[0]
        assert node.pid is not None
        resource.prlimit(node.pid, resource.RLIMIT_FSIZE, (LIMIT, LIMIT))
        produce_until_it_halts(client)
        assert node.wait() == 255
        [line] = [line for line in node.log.splitlines() if "halts" in line]
        assert "t-0/00000000000000000000.log: cannot append: File too large (errno 27)" in line
        assert "Traceback" not in node.log
        assert len(client.acknowledged) > 100
        client.producer.purge()
        node.start()
        cluster.wait_until_ready()
        settings = {"bootstrap.servers": cluster.bootstrap} | QUIET
        again = confluent_kafka.Producer(settings)
        again.produce("t", b"after", partition=0)
        assert again.flush(30) == 0
        found = client.consume("t", 1, len(client.acknowledged) + 1)
        assert {place: value for place, value in found.items() if place in client.acknowledged} == client.acknowledged
