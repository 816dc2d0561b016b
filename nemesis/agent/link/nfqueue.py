"""Receives packets from the kernel's queue (NFQUEUE) over plain netlink, and gives verdicts.

It needs no installed library. A firewall rule queues packets to a number; the program that has bound that number
receives them one by one and gives a verdict on each. Rules say `bypass`: while no program has bound the number, packets
pass as if the rule did not exist, so a program that dies does not cut the host off. Packets that were waiting for its
verdict are dropped by the kernel, once.

`find_driver` returns the firewall by which this host can queue, found by trying: a chain to which nothing jumps gets
such a rule for a moment, and a number is bound. That also shows whether the kernel has the queue's module.

This file imports no other module of the agent except `empty_tables`: the control side runs the two on a host that has
no agent yet (`harness/hosts/preflight.py`); it then prints the result of `find_driver` as JSON. Numbers are those of
linux/netfilter/nfnetlink_queue.h.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import socket
import struct
import subprocess
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from squall.nemesis.agent.core.socket_room import ask_for_room
from squall.nemesis.agent.net.empty_tables import remove_empty_table

FIRST_NUMBER = 7465
NUMBERS_TRIED = 64
LONGEST_QUEUE = 100_000
WHOLE_PACKET = 0xFFFF
HEADERS_ONLY = 64
"""Bytes of a packet that are copied when only its addresses matter."""

PREROUTING = 0
OUTPUT = 3

DROP = 0
ACCEPT = 1

NETLINK_NETFILTER = 12

PACKET = 0x0300
VERDICT = 0x0301
CONFIG = 0x0302
NLMSG_ERROR = 2
NLM_F_REQUEST = 1
NLM_F_ACK = 4

CONFIG_COMMAND = 1
CONFIG_PARAMETERS = 2
CONFIG_LONGEST = 3
CONFIG_MASK = 4
CONFIG_FLAGS = 5
COMMAND_BIND = 1
COPY_PACKET = 2
FLAG_GSO = 4

PACKET_HEADER = 1
VERDICT_HEADER = 2
PAYLOAD = 10
LENGTH_IF_CUT = 13

SYSTEM_PATH = "/usr/sbin:/sbin:/usr/bin:/bin"
TRY_SECONDS = 10

_MESSAGE = struct.Struct("=IHHII")
_NETFILTER = struct.Struct(">BBH")
_ATTRIBUTE = struct.Struct("=HH")
_PACKET_HEADER = struct.Struct(">IHB")
_VERDICT = struct.Struct("=IHHIIBBHHHII")


class Packet(NamedTuple):
    """A packet that waits for a verdict. `payload` begins with its IP header and may be cut; `length` is the full
    length.
    """

    id: int
    hook: int
    length: int
    payload: bytes


def _attribute(kind: int, value: bytes) -> bytes:
    return _ATTRIBUTE.pack(4 + len(value), kind) + value + bytes(-len(value) % 4)


def _attributes(message: bytes, position: int, end: int) -> Iterator[tuple[int, bytes]]:
    while position + 4 <= end:
        length, kind = _ATTRIBUTE.unpack_from(message, position)
        if length < 4:
            return
        yield kind & 0x3FFF, message[position + 4 : position + length]
        position += length + (-length % 4)


class Queue:
    """The packets of one queue number, the first free one. With `whole_segments` the kernel hands over as one what the
    network card will split or has joined: far fewer and larger packets. Raises OSError where the kernel cannot.
    """

    def __init__(self, copied: int, *, whole_segments: bool = False) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER)
        try:
            ask_for_room(self._socket)
            self._socket.bind((0, 0))
            self.number = self._bind_a_number()
            self._configure(_attribute(CONFIG_PARAMETERS, struct.pack(">IB", copied, COPY_PACKET)))
            self._configure(_attribute(CONFIG_LONGEST, struct.pack(">I", LONGEST_QUEUE)))
            flags = FLAG_GSO if whole_segments else 0
            mask = _attribute(CONFIG_MASK, struct.pack(">I", FLAG_GSO))
            self._configure(_attribute(CONFIG_FLAGS, struct.pack(">I", flags)) + mask)
        except OSError:
            self._socket.close()
            raise
        self._socket.setblocking(False)
        self._largest = copied + 512

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def receive(self, most: int) -> list[Packet]:
        """The packets that wait now, at most `most`."""
        packets: list[Packet] = []
        while len(packets) < most:
            try:
                packets += self._packets_in(self._socket.recv(self._largest))
            except BlockingIOError:
                break
            except OSError as trouble:
                if trouble.errno != errno.ENOBUFS:  # the kernel had to drop some: the queue overflowed
                    raise
        return packets

    def give(self, packet: Packet, verdict: int) -> None:
        """Accept or drop a packet. Harmless if the packet no longer waits."""
        message = _VERDICT.pack(
            _VERDICT.size,
            VERDICT,
            NLM_F_REQUEST,
            0,
            0,
            socket.AF_UNSPEC,
            0,
            socket.htons(self.number),
            12,
            VERDICT_HEADER,
            socket.htonl(verdict),
            socket.htonl(packet.id),
        )
        self._socket.send(message)

    def give_changed(self, packet: Packet, payload: bytes) -> None:
        """Accept a packet with other content of the same length. Its checksums stay unchanged and are verified."""
        verdict = _attribute(VERDICT_HEADER, struct.pack(">II", ACCEPT, packet.id)) + _attribute(PAYLOAD, payload)
        body = _NETFILTER.pack(socket.AF_UNSPEC, 0, self.number) + verdict
        self._socket.send(_MESSAGE.pack(16 + len(body), VERDICT, NLM_F_REQUEST, 0, 0) + body)

    def _bind_a_number(self) -> int:
        """Bind a free number. The kernel returns EPERM both for another program's number and without the privilege."""
        for number in range(FIRST_NUMBER, FIRST_NUMBER + NUMBERS_TRIED):
            self.number = number
            try:
                self._configure(_attribute(CONFIG_COMMAND, struct.pack(">BBH", COMMAND_BIND, 0, socket.AF_UNSPEC)))
                return number
            except OSError as trouble:
                refusal = trouble
                if trouble.errno not in (errno.EBUSY, errno.EPERM):
                    break
        raise refusal

    def _configure(self, attributes: bytes) -> None:
        """Send a configuration. Raises OSError with the kernel's answer."""
        body = _NETFILTER.pack(socket.AF_UNSPEC, 0, self.number) + attributes
        self._socket.send(_MESSAGE.pack(16 + len(body), CONFIG, NLM_F_REQUEST | NLM_F_ACK, 0, 0) + body)
        while True:
            answer = self._socket.recv(1 << 17)
            _, kind, _, _, _ = _MESSAGE.unpack_from(answer)
            if kind == NLMSG_ERROR:
                number = -struct.unpack_from("=i", answer, 16)[0]
                if number:
                    raise OSError(number, os.strerror(number))
                return

    def _packets_in(self, message: bytes) -> list[Packet]:
        found, position = [], 0
        while position + 16 <= len(message):
            length, kind, _, _, _ = _MESSAGE.unpack_from(message, position)
            if length < 16:
                break
            if kind == PACKET:
                found.append(self._packet(message, position + 20, position + length))
            position += length + (-length % 4)
        return found

    def _packet(self, message: bytes, position: int, end: int) -> Packet:
        id, hook, payload, whole = 0, PREROUTING, b"", 0
        for kind, value in _attributes(message, position, end):
            if kind == PACKET_HEADER:
                id, _, hook = _PACKET_HEADER.unpack_from(value)
            elif kind == PAYLOAD:
                payload = value
            elif kind == LENGTH_IF_CUT:
                (whole,) = struct.unpack(">I", value)
        return Packet(id, hook, whole or len(payload), payload)


def program(name: str) -> str | None:
    """The path of a program, also outside an ordinary user's PATH."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}")


def _tried(argv: Sequence[str], script: str) -> str | None:
    """Run a command. Returns None if it succeeded, else its output."""
    try:
        done = subprocess.run(argv, input=script, text=True, capture_output=True, timeout=TRY_SECONDS)
    except (OSError, subprocess.SubprocessError) as trouble:
        return str(trouble)
    said = (done.stderr or done.stdout).strip().splitlines()
    return None if done.returncode == 0 else (said or [f"exit status {done.returncode}"])[0]


def why_nft_cannot() -> str | None:
    """Why nft cannot queue here; None if it can."""
    nft = program("nft")
    if nft is None:
        return "nft is not installed"
    rule = f"queue num {FIRST_NUMBER} bypass"
    table = f"table inet squall_try {{\n  chain c {{\n    {rule}\n  }}\n}}\n"
    return _tried([nft, "-f", "-"], f"{table}delete table inet squall_try\n")


def why_iptables_cannot(name: str) -> str | None:
    """Why this one (`iptables`, `ip6tables`) cannot queue here; None if it can."""
    iptables, restore = program(name), program(f"{name}-restore")
    if iptables is None or restore is None:
        return f"{name} is not installed"
    rule = f"-A SQUALL_TRY -j NFQUEUE --queue-num {FIRST_NUMBER} --queue-bypass"
    cannot = _tried([restore, "-w", "--noflush"], f"*mangle\n:SQUALL_TRY - [0:0]\n{rule}\nCOMMIT\n")
    _tried([restore, "-w", "--noflush"], "*mangle\n:SQUALL_TRY - [0:0]\nCOMMIT\n")
    _tried([iptables, "-w", "-t", "mangle", "-X", "SQUALL_TRY"], "")
    remove_empty_table(iptables, name, "mangle")
    return cannot


def why_not_bound() -> str | None:
    """Why this process may not bind a queue; None if it may."""
    try:
        Queue(HEADERS_ONLY).close()
    except OSError as trouble:
        return f"a packet queue cannot be bound: {trouble.strerror}"
    return None


def find_driver() -> tuple[str | None, str]:
    """`nft`, `iptables` or None, and the reason for None."""
    unbound = why_not_bound()
    if unbound:
        return None, f"{unbound}; it needs root and the kernel's nfnetlink_queue"
    nft = why_nft_cannot()
    if nft is None:
        return "nft", ""
    iptables = why_iptables_cannot("iptables")
    if iptables is None:
        return "iptables", ""
    return None, f"no firewall queues packets here: nft: {nft}; iptables: {iptables}"


if __name__ == "__main__":
    print(json.dumps(find_driver()))
