"""Whatever bytes arrive, decoding ends in a message or a ProtocolError, soon and without asking for much memory."""

from __future__ import annotations

import os
import random
import tracemalloc

import pytest

from squall.nodes.protocol.compiler import decode, decode_from, encode_bytes
from squall.nodes.protocol.errors import ProtocolError
from squall.nodes.protocol.messages import APIS, Api
from squall.nodes.protocol.messages.metadata import MetadataRequest
from squall.nodes.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from squall.nodes.protocol.records import Record, build_batch, iterate_batches, parse_records, validate_client_batch
from squall.nodes.protocol.requests import headers
from tests.facts import naming

QUICK = 20_000
FULL = 1_000_000


def mutated(frame: bytes, rng: random.Random) -> bytes:
    """The frame with one to four wounds: a flipped bit, a byte out of range, a cut, a repetition, an insertion."""
    changed = bytearray(frame)
    for _ in range(rng.randrange(1, 5)):
        if not changed:
            break
        at = rng.randrange(len(changed))
        wound = rng.randrange(6)
        if wound == 0:
            changed[at] ^= 1 << rng.randrange(8)
        elif wound == 1:
            changed[at] = rng.choice((0x00, 0x7F, 0x80, 0xFF))
        elif wound == 2:
            del changed[at:]
        elif wound == 3:
            del changed[at : at + rng.randrange(1, 9)]
        elif wound == 4:
            changed[at:at] = changed[at : at + rng.randrange(1, 33)]
        else:
            changed[at : at + 4] = rng.choice((b"\x7f\xff\xff\xff", b"\xff\xff\xff\xfe", b"\x80\x00\x00\x00"))
    return bytes(changed)


def survive(read, frame: bytes, seed: str) -> None:
    try:
        read(frame)
    except ProtocolError:
        pass
    except BaseException as trouble:
        raise AssertionError(f"{type(trouble).__name__} where a ProtocolError was due; seed {seed}") from trouble


def attack_codecs(rounds: int, fill) -> None:
    every = [(api, version) for api in APIS.values() for version in range(api.versions[0], api.versions[1] + 1)]
    for number in range(rounds):
        api, version = every[number % len(every)]
        rng = random.Random(number)
        request = b"".join(headers.encode_request(api.key, version, 1, "me", fill(api.request, version, number)))
        response = b"".join(headers.encode_response(api.key, version, 1, fill(api.response, version, number)))
        for _ in range(4):
            survive(headers.decode_request, mutated(request, rng), f"{number} ({api.key.name} request v{version})")
            survive(reader_of(api, version), mutated(response, rng), f"{number} ({api.key.name} response v{version})")


def reader_of(api: Api, version: int):
    return lambda frame: headers.decode_response(api.key, version, frame)


def attack_batches(rounds: int) -> None:
    batch = bytes(build_batch([Record(key=b"k", value=b"v" * 40, headers=(("h", b"x"),))] * 3, timestamp=1_000))
    for number in range(rounds):
        wounded = mutated(batch, random.Random(number))
        survive(parse_records, wounded, str(number))
        survive(lambda frame: [header.size for header, _ in iterate_batches(frame)], wounded, str(number))
        survive(lambda frame: validate_client_batch(frame, max_bytes=1 << 20), wounded, str(number))


def test_mutated_frames_raise_only_protocol_errors(fill) -> None:
    attack_codecs(QUICK // 8, fill)


def test_mutated_batches_raise_only_protocol_errors() -> None:
    attack_batches(QUICK // 3)


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_a_million_mutated_frames_and_batches(fill) -> None:
    rounds = int(os.environ.get("SQUALL_MUTATIONS", FULL))
    attack_codecs(rounds // 8, fill)
    attack_batches(rounds // 3)


def test_every_cut_of_every_message_is_refused(fill) -> None:
    """No prefix of a message is a message: each one must be found too short."""
    for api in APIS.values():
        version = api.versions[1]
        for cls in (api.request, api.response):
            whole = encode_bytes(fill(cls, version, 1), version)[:400]
            for length in range(len(whole)):
                survive(lambda frame, cls=cls, version=version: decode(cls, version, frame), whole[:length], "1")


@pytest.mark.parametrize("version", [4, 9])
def test_a_short_frame_cannot_ask_for_a_long_array(version: int) -> None:
    """An array said to hold two thousand million topics in six bytes is refused before a list is made."""
    count = b"\x7f\xff\xff\xff" if version == 4 else b"\xff\xff\xff\xff\x07"
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match="bytes are left"):
            decode(MetadataRequest, version, count + b"\x00")
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_bytes_after_the_message_are_refused() -> None:
    with pytest.raises(ProtocolError, match=naming("3 bytes")):
        decode(MetadataRequest, 1, b"\xff\xff\xff\xff" + b"abc")


def test_an_array_is_no_longer_than_the_least_its_items_take() -> None:
    """Forty-five megabytes of empty topic-partitions took six gigabytes."""
    item = 4 + 4  # index, and the length of its records
    frame = encode_bytes(ProduceRequest(topic_data=[TopicProduceData("t", [])]), 3)
    assert frame[-4:] == bytes(4)
    claimed = frame[:-4] + (1000).to_bytes(4, "big") + bytes(1000 * item - 1)
    with pytest.raises(ProtocolError, match=naming("1000")):
        decode(ProduceRequest, 3, claimed)
    assert len(decode(ProduceRequest, 3, claimed + b"\x00").topic_data[0].partition_data) == 1000


def test_a_request_has_only_so_many_items_in_all_its_arrays() -> None:
    topics = [TopicProduceData("t", [PartitionProduceData(number) for number in range(10)]) for _ in range(5)]
    content = memoryview(encode_bytes(ProduceRequest(topic_data=topics), 9))
    left = [55]
    decode_from(ProduceRequest, 9, content, 0, left)
    assert left == [0]
    with pytest.raises(ProtocolError, match="more items"):
        decode_from(ProduceRequest, 9, content, 0, [54])
