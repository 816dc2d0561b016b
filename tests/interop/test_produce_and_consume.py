"""Every client writes and reads every codec, and every client reads what the others wrote.

Exactly: offsets, keys, values and headers, record by record.
"""

from __future__ import annotations

import pytest

from squall.nodes.protocol.compression import Compression
from squall.nodes.protocol.records import iterate_batches
from tests.clusters import Cluster
from tests.interop.clients import CLIENTS, CODECS, ClientLibrary
from tests.interop.records import Delivered, Record, numbered, sample

pytestmark = pytest.mark.xdist_group("interop")


def stored_codecs(cluster: Cluster, topic: str, partition: int) -> set[str]:
    """How the batches on the disks of all replicas are compressed."""
    found = set()
    for broker in cluster.brokers:
        for segment in (broker.directory / "data" / f"{topic}-{partition}").glob("*.log"):
            found |= {
                Compression(header.compression).name.lower() for header, _ in iterate_batches(segment.read_bytes())
            }
    return found


def test_a_client_lists_the_brokers(library: ClientLibrary, cluster: Cluster) -> None:
    assert library.brokers() == cluster.ports


def test_a_client_lists_a_topic_with_leaders_replicas_and_isr(library: ClientLibrary, topic: str) -> None:
    listed = library.partitions(topic)
    everyone = frozenset({1, 2, 3})
    assert sorted(listed) == [0, 1, 2]
    assert all(one.replicas == everyone and one.in_sync == everyone for one in listed.values())
    assert {one.leader for one in listed.values()} == everyone, "leaders are spread over the brokers"


@pytest.mark.parametrize("codec", CODECS)
def test_a_client_reads_exactly_what_it_wrote(library: ClientLibrary, cluster: Cluster, topic: str, codec: str) -> None:
    records = sample(f"{library.name}/{codec}")
    offsets = library.produce(topic, 1, records, codec)
    assert offsets in ([], list(range(len(records)))), "acknowledged offsets are those of the log"
    assert library.consume(topic, 1, len(records)) == numbered(records)
    assert library.end_offset(topic, 1) == len(records)
    assert stored_codecs(cluster, topic, 1) == {codec}, "the cluster keeps what the producer compressed"


def test_every_client_reads_what_all_wrote_with_all_codecs(topic: str, bootstrap: str) -> None:
    written: list[Record] = []
    for client in CLIENTS:
        for codec in CODECS:
            records = sample(f"crosswise/{client.name}/{codec}", 20)
            client(bootstrap).produce(topic, 0, records, codec)
            written += records
    read: dict[str, list[Delivered]] = {
        client.name: client(bootstrap).consume(topic, 0, len(written)) for client in CLIENTS
    }
    assert read == dict.fromkeys(read, numbered(written))


def test_headers_tombstones_and_empty_values_survive(topic: str, bootstrap: str) -> None:
    peculiar = [
        Record(b"k", None),
        Record(b"", b""),
        Record(None, b"plain", (("trace", b"1"), ("trace", b"2"), ("empty", b""))),
    ]
    writers = [client(bootstrap) for client in CLIENTS if client.writes_headers]
    for writer in writers:
        writer.produce(topic, 2, peculiar)
    expected = numbered(peculiar * len(writers))
    for reader in writers:
        assert reader.consume(topic, 2, len(expected)) == expected, reader.name


def test_a_batch_of_nearly_the_largest_size_and_records_of_many_fetches(library: ClientLibrary, topic: str) -> None:
    """Sixteen records of 60 KB, a megabyte in all: several batches, and answers in several reads."""
    records = [Record(f"k{number}".encode(), chr(97 + number).encode() * 60_000) for number in range(16)]
    library.produce(topic, 0, records)
    assert library.consume(topic, 0, len(records)) == numbered(records)
