"""Codecs made of schemas: versions, nulls, tagged fields, defaults, and buffers that are not copied."""

from __future__ import annotations

import pytest

from squall.nodes.protocol.compiler import decode, decode_from, encode, encode_bytes
from squall.nodes.protocol.errors import ProtocolError
from squall.nodes.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)
from squall.nodes.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from squall.nodes.protocol.schema import (
    Message,
    SharedItems,
    array,
    boolean,
    data,
    int8,
    int16,
    int32,
    message,
    string,
    struct,
    uuid,
)
from tests.facts import naming


@message()
class Place(Message):
    row: int = int32(default=-1)
    column: int = int16(default=-1)


@message(kind="record", record_id=7, versions=(0, 3), flexible=0)
class Tree(Message):
    name: str = string()
    label: str | None = string(default=None, nullable="1+")
    height: int = int32(versions="0-1", default=12)
    rings: list[int] = array("int64", versions="2+")
    owners: list[str] = array("string")
    ids: list[bytes] = array("uuid")
    place: Place = struct(Place)
    next_place: Place | None = struct(Place, default=None, nullable="0+")
    content: bytes = data()
    alive: bool = boolean(default=True, tag=0)
    sort: int = int8(default=3, tag=1)
    origin: Place = struct(Place, tag=2)
    owner_id: bytes = uuid(tag=3, versions="1+")
    nicknames: list[str] | None = array("string", default=None, nullable="0+", tag=4)


@message(versions=(0, 1), flexible=1)
class Seed(Message):
    """Version 1 of a future that has a field we do not know."""

    weight: int = int32()


@message(versions=(0, 1), flexible=1)
class FutureSeed(Message):
    weight: int = int32()
    colour: str = string(tag=5)
    shape: Place = struct(Place, tag=9)


@message(versions=(0, 1), flexible=1)
class Row(Message):
    number: int = int32()
    trees: list[Place] | None = array(Place, shared=True, nullable="0+")


OAK = Tree(
    name="oak",
    label="old",
    rings=[1, 2, 2**62],
    owners=["a", ""],
    ids=[bytes(16), bytes(range(16))],
    place=Place(1, 2),
    next_place=Place(3, 4),
    content=b"xyz",
    alive=False,
    sort=-4,
    origin=Place(0, 0),
    owner_id=bytes(range(16)),
    nicknames=["x" * 300],
)


def test_every_kind_of_field_comes_back() -> None:
    assert decode(Tree, 3, encode_bytes(OAK, 3)) == OAK


def test_a_field_that_a_version_lacks_is_not_sent_and_takes_its_default() -> None:
    read = decode(Tree, 3, encode_bytes(Tree(height=99), 3))
    assert read.height == 12
    assert decode(Tree, 1, encode_bytes(Tree(height=99), 1)).height == 99


def test_mutable_defaults_are_not_shared() -> None:
    one, other = (decode(Tree, 1, encode_bytes(Tree(), 1)) for _ in range(2))
    one.owners.append("me")
    one.origin.row = 5
    one.rings.append(1)
    assert other == Tree()


def test_tagged_fields_with_their_defaults_take_one_byte() -> None:
    assert encode_bytes(FutureSeed(weight=1), 1) == b"\x00\x00\x00\x01" + b"\x00"


def test_unknown_tagged_fields_are_skipped() -> None:
    future = FutureSeed(weight=7, colour="red" * 100, shape=Place(1, 1))
    assert decode(Seed, 1, encode_bytes(future, 1)) == Seed(weight=7)


def test_a_tagged_field_that_does_not_fill_its_size_is_refused() -> None:
    short = b"\x00\x00\x00\x01" + b"\x01" + b"\x05\x05" + b"\x02ab" + b"cd"
    with pytest.raises(ProtocolError, match=naming("tagged field 5")):
        decode(FutureSeed, 1, short)


def test_a_tagged_field_beyond_the_frame_is_refused() -> None:
    with pytest.raises(ProtocolError, match="tagged field 200"):
        decode(Seed, 1, b"\x00\x00\x00\x01" + b"\x01" + b"\xc8\x01" + b"\x7f" + b"abc")


def test_null_is_refused_where_a_version_does_not_allow_it() -> None:
    with pytest.raises(ProtocolError, match="label"):
        encode(Tree(label=None), 0)
    with pytest.raises(ProtocolError, match="name is null"):
        decode(Tree, 3, b"\x00" * 60)


def test_a_value_its_type_cannot_hold_is_refused() -> None:
    for wrong in (Tree(height=2**31), Tree(height="tall"), Tree(ids=None), Tree(owners=[3])):  # type: ignore[arg-type,list-item]
        with pytest.raises(ProtocolError, match="Tree v1"):
            encode(wrong, 1)
    with pytest.raises(ProtocolError):
        encode(ProduceRequest(transactional_id="x" * 40_000), 3)


def test_versions_outside_the_range_are_refused() -> None:
    for version in (-1, 4):
        with pytest.raises(ProtocolError, match="versions 0 to 3"):
            encode(Tree(), version)
        with pytest.raises(ProtocolError, match="versions 0 to 3"):
            decode(Tree, version, b"")


def test_text_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(ProtocolError, match="utf-8"):
        decode(FutureSeed, 1, b"\x00\x00\x00\x01" + b"\x01" + b"\x05\x03" + b"\x03\xff\xfe")


def test_a_message_can_be_read_from_the_middle_of_a_buffer() -> None:
    buffer = memoryview(b"??" + encode_bytes(Seed(weight=5), 0) + b"!!")
    assert decode_from(Seed, 0, buffer, 2) == (Seed(weight=5), 6)


def test_records_are_views_of_the_frame() -> None:
    request = ProduceRequest(None, 1, 5, [TopicProduceData("t", [PartitionProduceData(0, b"r" * 5_000)])])
    frame = bytearray(encode_bytes(request, 9))
    records = decode(ProduceRequest, 9, frame).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.obj is frame


def test_records_are_sent_as_the_buffer_they_are_and_the_rest_is_joined() -> None:
    records = memoryview(bytearray(100_000))
    parts = [PartitionData(index, records=records) for index in range(3)]
    chunks = encode(FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=parts)]), 12)
    assert [chunk is records for chunk in chunks] == [False, True, False, True, False, True, False]
    small = encode(FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[PartitionData(0)])]), 12)
    assert len(small) == 1


def test_fetch_names_topics_by_id_from_version_13_on() -> None:
    answer = FetchResponse(responses=[FetchableTopicResponse(topic="events", topic_id=b"i" * 16)])
    by_name = decode(FetchResponse, 12, b"".join(encode(answer, 12))).responses[0]
    by_id = decode(FetchResponse, 13, b"".join(encode(answer, 13))).responses[0]
    assert (by_name.topic, by_name.topic_id) == ("events", bytes(16))
    assert (by_id.topic, by_id.topic_id) == ("", b"i" * 16)


def test_the_leader_hint_of_a_fetch_is_sent_when_there_is_one() -> None:
    hint = LeaderIdAndEpoch(2, 9)
    for leader in (LeaderIdAndEpoch(), hint):
        part = PartitionData(0, current_leader=leader)
        answer = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[part])])
        read = decode(FetchResponse, 12, b"".join(encode(answer, 12)))
        assert read.responses[0].partitions[0].current_leader == leader


def test_the_cluster_id_of_a_fetch_is_tagged() -> None:
    assert decode(FetchRequest, 12, encode_bytes(FetchRequest(cluster_id="c"), 12)).cluster_id == "c"
    assert decode(FetchRequest, 11, encode_bytes(FetchRequest(cluster_id="c"), 11)).cluster_id is None


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("places", [[], [Place(1, 2)], [Place(number, 7) for number in range(300)]], ids=len)
def test_a_shared_array_is_sent_like_any_other_and_encoded_once_in_each_version(
    version: int, places: list[Place]
) -> None:
    shared = SharedItems(places)
    for number in (1, 2):
        assert encode_bytes(Row(number, shared), version) == encode_bytes(Row(number, places), version)
        assert decode(Row, version, encode_bytes(Row(number, shared), version)) == Row(number, places)
    assert list(shared.encoded) == [version]
    kept = shared.encoded[version]
    encode_bytes(Row(3, shared), version)
    encode_bytes(Row(3, shared), 1 - version)
    assert shared.encoded[version] is kept and len(shared.encoded) == 2


def test_a_field_of_shared_arrays_may_be_null() -> None:
    assert decode(Row, 1, encode_bytes(Row(1, None), 1)) == Row(1, None)


def test_the_class_says_what_it_is() -> None:
    assert (Tree.KIND, Tree.RECORD_ID, Tree.VERSIONS, Tree.FLEXIBLE_FROM) == ("record", 7, (0, 3), 0)
    assert (FetchRequest.NAME, FetchRequest.API_KEY, FetchRequest.KIND) == ("FetchRequest", 1, "request")
