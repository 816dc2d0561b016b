"""Packets of a host, as a file that Wireshark reads: it shows what was really on the wire.

    python3 -u program.py net.capture --output FILE --except-port 22 [--keep-bytes 256] [--most-bytes N] [--seconds N]

It uses a packet socket on all interfaces and needs no installed tool. It keeps the beginning of each packet: headers,
and of a request its length, API key, version and correlation id. The control connection is left out, because it would
capture itself. File size and time are bounded, so that a capture whose owner died ends and does not fill the disk. At
the end, or on SIGTERM, it prints one line of JSON: how many packets were written, left out for lack of room, and missed
by the kernel.
"""

from __future__ import annotations

import argparse
import json
import select
import signal
import socket
import struct
import time
from pathlib import Path
from typing import BinaryIO

EVERY_PROTOCOL = 0x0003
SOL_PACKET, PACKET_STATISTICS, PACKET_AUXDATA = 263, 6, 8
AUXDATA = struct.Struct("=IIIHHHH")
BUFFER_BYTES = 8 << 20
AT_ONCE = 1000
ETHERNET = 1
MAGIC = 0xA1B23C4D
"""Timestamps in nanoseconds."""
IPV4, IPV6, TCP = 0x0800, 0x86DD, 6
ETHERNET_HEADER, IPV6_HEADER = 14, 40


def file_header(keep_bytes: int) -> bytes:
    return struct.pack("<IHHiIII", MAGIC, 2, 4, 0, 0, keep_bytes, ETHERNET)


def packet_header(at_ns: int, kept: int, size: int) -> bytes:
    return struct.pack("<IIII", at_ns // 1_000_000_000, at_ns % 1_000_000_000, kept, size)


def tcp_ports(packet: bytes) -> tuple[int, int] | None:
    """Source and destination port of a TCP segment in an Ethernet frame; None for anything else."""
    if len(packet) < ETHERNET_HEADER + 20:
        return None
    kind = int.from_bytes(packet[12:14], "big")
    if kind == IPV4 and packet[23] == TCP:
        begin = ETHERNET_HEADER + 4 * (packet[14] & 15)
    elif kind == IPV6 and packet[20] == TCP:
        begin = ETHERNET_HEADER + IPV6_HEADER
    else:
        return None
    if len(packet) < begin + 4:
        return None
    source, destination = struct.unpack_from(">HH", packet, begin)
    return source, destination


class Capture:
    """Writes packets until it must stop, or has no room or time left."""

    def __init__(self, output: BinaryIO, *, keep_bytes: int, most_bytes: int, except_port: int) -> None:
        self.written = self.without_room = 0
        self._output = output
        self._keep_bytes = keep_bytes
        self._room = most_bytes
        self._except_port = except_port
        self._output.write(file_header(keep_bytes))

    def take(self, at_ns: int, packet: bytes, size: int) -> None:
        if self._except_port in (tcp_ports(packet) or ()):
            return
        entry = packet_header(at_ns, len(packet), size) + packet
        if len(entry) > self._room:
            self.without_room += 1
            return
        self._room -= len(entry)
        self.written += 1
        self._output.write(entry)

    def run(self, packets: socket.socket, stopped: socket.socket, seconds: float) -> None:
        """Capture until `stopped` is readable or the time is over."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            ready = select.select([packets, stopped], [], [], left)[0]
            if stopped in ready:
                return
            if ready:
                self._drain(packets)

    def _drain(self, packets: socket.socket) -> None:
        for _ in range(AT_ONCE):
            try:
                packet, beside, _, _ = packets.recvmsg(self._keep_bytes, socket.CMSG_SPACE(AUXDATA.size))
            except BlockingIOError:
                return
            size = next(
                (AUXDATA.unpack(data)[1] for level, kind, data in beside if kind == PACKET_AUXDATA), len(packet)
            )
            self.take(time.time_ns(), packet, size)


def opened_packets() -> socket.socket:
    """A socket for every packet on any interface. Needs root."""
    packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(EVERY_PROTOCOL))
    packets.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
    packets.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
    packets.setblocking(False)
    return packets


def missed_by_kernel(packets: socket.socket) -> int:
    _, dropped = struct.unpack("II", packets.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
    return int(dropped)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--except-port", type=int, required=True)
    parser.add_argument("--keep-bytes", type=int, default=256)
    parser.add_argument("--most-bytes", type=int, default=256 << 20)
    parser.add_argument("--seconds", type=float, default=3600.0)
    options = parser.parse_args(arguments)
    stopped, stop = socket.socketpair()
    signal.signal(signal.SIGTERM, lambda *_: stop.send(b"."))
    with opened_packets() as packets, options.output.open("wb") as output:
        capture = Capture(
            output, keep_bytes=options.keep_bytes, most_bytes=options.most_bytes, except_port=options.except_port
        )
        capture.run(packets, stopped, options.seconds)
        missed = missed_by_kernel(packets)
    print(json.dumps({"written": capture.written, "without_room": capture.without_room, "missed": missed}), flush=True)
    return 0
