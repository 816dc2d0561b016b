"""The packet capture: what it leaves out, and that it stops when there is no more room."""

from __future__ import annotations

import io
import struct

from squall.nemesis.agent.net.capture import Capture, file_header, packet_header, tcp_ports

SEGMENT = struct.pack(">HH", 40000, 9092) + bytes(16)


def over_ipv4(segment: bytes, *, options: int = 0, protocol: int = 6) -> bytes:
    header = bytes([0x45 + options]) + bytes(8) + bytes([protocol]) + bytes(10 + 4 * options)
    return bytes(12) + b"\x08\x00" + header + segment


def over_ipv6(segment: bytes) -> bytes:
    return bytes(12) + b"\x86\xdd" + b"\x60" + bytes(5) + b"\x06" + bytes(33) + segment


def captured(capture_of: list[bytes], *, most_bytes: int = 10_000, except_port: int = 22) -> tuple[bytes, Capture]:
    output = io.BytesIO()
    capture = Capture(output, keep_bytes=256, most_bytes=most_bytes, except_port=except_port)
    for at, packet in enumerate(capture_of):
        capture.take(1_500_000_000 + at, packet, 2 * len(packet))
    return output.getvalue(), capture


def test_ports_are_found_behind_headers_of_any_length() -> None:
    assert tcp_ports(over_ipv4(SEGMENT)) == (40000, 9092)
    assert tcp_ports(over_ipv4(SEGMENT, options=3)) == (40000, 9092)
    assert tcp_ports(over_ipv6(SEGMENT)) == (40000, 9092)


def test_what_is_not_tcp_or_cut_short_has_no_ports() -> None:
    assert tcp_ports(over_ipv4(SEGMENT, protocol=17)) is None
    assert tcp_ports(over_ipv4(b"")[:30]) is None
    assert tcp_ports(b"") is None
    assert tcp_ports(bytes(60)) is None


def test_a_packet_is_written_with_its_time_and_its_whole_size() -> None:
    packet = over_ipv4(SEGMENT)
    content, capture = captured([packet])
    assert content == file_header(256) + packet_header(1_500_000_000, len(packet), 2 * len(packet)) + packet
    assert struct.unpack_from("<II", content, 24) == (1, 500_000_000)
    assert (capture.written, capture.without_room) == (1, 0)


def test_the_control_connection_is_left_out_in_both_directions() -> None:
    ours = [over_ipv4(struct.pack(">HH", *ports) + bytes(16)) for ports in ((22, 50000), (50000, 22))]
    content, capture = captured(ours)
    assert content == file_header(256) and capture.written == 0


def test_what_has_no_room_is_counted() -> None:
    packet = over_ipv4(SEGMENT)
    content, capture = captured([packet] * 3, most_bytes=2 * (16 + len(packet)))
    assert (capture.written, capture.without_room) == (2, 1)
    assert len(content) == 24 + 2 * (16 + len(packet))
