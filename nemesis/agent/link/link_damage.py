"""Changes one bit of a packet in transit and keeps its checksum.

The bit belongs to the payload of a datagram or segment, never to addresses or ports, which would make it a packet of
another connection. A packet without payload has a bit of its checksum changed. So the receiver's kernel finds a wrong
checksum and drops the packet, as with a bad wire: TCP retransmits, a datagram is lost. Datagrams that are sent without
a checksum arrive damaged; the damage is measured with them (`link_trains.py`).
"""

from __future__ import annotations

from random import Random

TCP, UDP = 6, 17
IPV6_HEADER = 40
UDP_HEADER = 8
CHECKSUM_AT = {TCP: 16, UDP: 6}


def damaged(packet: bytes, rng: Random) -> bytes:
    """The packet, which begins with its IP header, with one bit changed."""
    first, end = _part_to_damage(packet)
    where = rng.randrange(first, max(end, first + 1))
    if where >= len(packet):
        return packet
    changed = packet[where] ^ 1 << rng.randrange(8)
    return packet[:where] + bytes([changed]) + packet[where + 1 :]


def _part_to_damage(packet: bytes) -> tuple[int, int]:
    """The range of bytes that may change: the first, and the one after the last."""
    four = packet[0] >> 4 == 4
    transport = (packet[0] & 15) * 4 if four else IPV6_HEADER
    protocol = packet[9] if four else packet[6]
    if protocol == TCP and len(packet) > transport + 12:
        data = transport + (packet[transport + 12] >> 4) * 4
    elif protocol == UDP:
        data = transport + UDP_HEADER
    else:
        return transport, len(packet)
    if data < len(packet):
        return data, len(packet)
    checksum = transport + CHECKSUM_AT[protocol]
    return checksum, checksum + 2
