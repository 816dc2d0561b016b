"""Deletes the empty tables that iptables leaves behind where it is implemented by nftables.

`iptables-nft` creates a table and its base chains when it first needs them, even only to list them, and never removes
them. Base chains without a rule are deleted by `-X CHAIN`; the table then by a message to the kernel that refuses to
delete a table with content (NLM_F_NONREC). Legacy iptables leaves nothing to delete.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import subprocess
from collections.abc import Sequence

COMMAND_TIMEOUT = 10
NETLINK_NETFILTER = 12
NFNL_SUBSYS_NFTABLES = 10
NFNL_MSG_BATCH_BEGIN, NFNL_MSG_BATCH_END = 0x10, 0x11
NFT_MSG_DELTABLE = 2
NFTA_TABLE_NAME = 1
NLM_F_REQUEST, NLM_F_ACK, NLM_F_NONREC = 0x1, 0x4, 0x100
NFPROTO = {"iptables": socket.AF_INET, "ip6tables": socket.AF_INET6}
BASE_CHAINS = {"raw": ("PREROUTING", "OUTPUT"), "mangle": ("PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING")}


def remove_empty_table(program: str, name: str, table: str) -> None:
    """Delete a table of iptables if it has no rule and no chain. `name` is iptables or ip6tables, `program` its
    path.
    """
    if "nf_tables" not in _run([program, "-V"]).stdout:
        return
    said = _run([program, "-w", "-t", table, "-S"])
    if said.returncode != 0 or any(not _is_idle(line) for line in said.stdout.splitlines()):
        return
    for chain in BASE_CHAINS[table]:
        _run([program, "-w", "-t", table, "-X", chain])
    with contextlib.suppress(OSError):  # something was added meanwhile: the table stays
        delete_if_empty(NFPROTO[name], table)


def _run(argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, text=True, capture_output=True, timeout=COMMAND_TIMEOUT, check=False)


def _is_idle(line: str) -> bool:
    return line.startswith("-P ") and line.endswith(" ACCEPT")


def delete_if_empty(family: int, table: str) -> None:
    """Delete the table. Raises OSError, EBUSY for a table with content."""
    name = table.encode() + b"\0"
    attribute = struct.pack("=HH", 4 + len(name), NFTA_TABLE_NAME) + name + bytes(-len(name) % 4)
    deletion = (NFNL_SUBSYS_NFTABLES << 8) | NFT_MSG_DELTABLE
    batch = (
        _message(NFNL_MSG_BATCH_BEGIN, 0, 0, NFNL_SUBSYS_NFTABLES, b"", 1)
        + _message(deletion, NLM_F_ACK | NLM_F_NONREC, family, 0, attribute, 2)
        + _message(NFNL_MSG_BATCH_END, 0, 0, NFNL_SUBSYS_NFTABLES, b"", 3)
    )
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER) as one:
        one.settimeout(2.0)
        one.send(batch)
        answer = one.recv(4096)
        error = -struct.unpack_from("=i", answer, 16)[0]
        if error:
            raise OSError(error, f"table {table}")


def _message(kind: int, flags: int, family: int, resource: int, content: bytes, sequence: int) -> bytes:
    body = struct.pack("=BBH", family, 0, socket.htons(resource)) + content
    return struct.pack("=IHHII", 16 + len(body), kind, NLM_F_REQUEST | flags, sequence, 0) + body
