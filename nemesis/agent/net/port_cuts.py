"""`net.drop_port`: this host drops only packets of connections of one TCP port with some peers.

A packet belongs to such a connection if the port is at either end: a host that is cut off from a peer's port neither
reaches it nor is reached at its own. Inward packets are dropped at raw prerouting, outward ones at raw output, before
connection tracking, so that established connections are cut like new ones. Peers are addresses, or all `but` some: the
addresses of clients are not known beforehand, those of nodes are.

As with `net.drop`, the table is rewritten, in one transaction, from the open faults; without open faults there is no
table. The control connection (SSH) is exempt, and its port cannot be cut. nftables only: these rules need its sets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from squall.nemesis.agent.core.arguments import required
from squall.nemesis.agent.core.journal import Entry
from squall.nemesis.agent.core.verb_error import VerbError
from squall.nemesis.agent.net.expiring_rules import expiring_set, seconds_left, while_in
from squall.nemesis.agent.net.network import EVERYONE, Network, checked_sources, family_of, find_program, insist

NFT_TABLE = "inet squall_port"
DIRECTIONS = ("both", "in", "out")
HIGHEST_PORT = 65_535


def nft_script(entries: Sequence[Entry], control_port: int) -> str:
    """The transaction that replaces the table by exactly these rules. Each fault's rules end by the kernel's clock."""
    cuts = [(while_in(f"open{number}"), entry.arguments) for number, entry in enumerate(entries)]
    lines = [f"table {NFT_TABLE}", f"delete table {NFT_TABLE}"]
    if not cuts:
        return "\n".join(lines) + "\n"
    return "\n".join(
        [
            *lines,
            f"table {NFT_TABLE} {{",
            *(line for number, one in enumerate(entries) for line in expiring_set(f"open{number}", seconds_left(one))),
            "  chain in {",
            "    type filter hook prerouting priority -310; policy accept;",
            '    iifname "lo" accept',
            f"    tcp dport {control_port} accept",
            *(f"    {still}{rule}" for still, cut in cuts for rule in _rules(cut, "in", "saddr")),
            "  }",
            "  chain out {",
            "    type filter hook output priority -310; policy accept;",
            '    oifname "lo" accept',
            f"    tcp sport {control_port} accept",
            *(f"    {still}{rule}" for still, cut in cuts for rule in _rules(cut, "out", "daddr")),
            "  }",
            "}",
            "",
        ]
    )


def _rules(cut: dict[str, Any], direction: str, field: str) -> Iterator[str]:
    if cut["direction"] not in ("both", direction):
        return
    for peers in _matches(cut, field):
        for end in ("dport", "sport"):
            yield f"{peers}tcp {end} {cut['port']} counter drop"


def _matches(cut: dict[str, Any], field: str) -> Iterator[str]:
    """The beginning of a rule for the peers of each family."""
    everybody = EVERYONE in cut["peers"]
    for family, protocol in (("ip", "ipv4"), ("ip6", "ipv6")):
        named = [peer for peer in (cut["but"] if everybody else cut["peers"]) if family_of(peer) == family]
        if named:
            yield f"{family} {field} {'!= ' if everybody else ''}{{ {', '.join(named)} }} "
        elif everybody:
            yield f"meta nfproto {protocol} "


class DropPort:
    """The fault verb."""

    def __init__(self, network: Network) -> None:
        self._network = network

    def trouble_with_host(self) -> str | None:
        """Why this host cannot do it; None if it can."""
        if self._network.method() == "nft":
            return None
        return "the port of a connection is picked out by nftables, which does not work here; install it, run as root"

    def prepare(self, arguments: dict[str, Any]) -> dict[str, Any]:
        if trouble := self.trouble_with_host():
            raise VerbError("unsupported", trouble)
        port = required(arguments, "port", int, "a port number")
        if not 0 < port <= HIGHEST_PORT or port == self._network.control_port:
            raise VerbError(
                "bad_argument", f"port: {port} must be from 1 to {HIGHEST_PORT} and not the control connection's"
            )
        direction = arguments.get("direction", "both")
        if direction not in DIRECTIONS:
            raise VerbError("bad_argument", f"direction: {direction!r} must be one of {', '.join(DIRECTIONS)}")
        peers = _addresses("peers", arguments.get("peers"))
        but = _addresses("but", arguments["but"]) if arguments.get("but") else []
        if but and EVERYONE not in peers:
            raise VerbError("bad_argument", f"but: {but!r} goes with peers: ['{EVERYONE}'] only")
        return {"port": port, "peers": peers, "but": but, "direction": direction}

    def inject(self, entry: Entry, open_entries: Sequence[Entry]) -> dict[str, Any]:
        self._apply(open_entries)
        return {"port": entry.arguments["port"], "peers": entry.arguments["peers"]}

    def undo(self, entry: Entry, remaining: Sequence[Entry]) -> None:
        self._apply(remaining)

    def undo_unknown(self, id: str, remaining: Sequence[Entry]) -> None:
        if find_program("nft") and self.trouble_with_host() is None:
            self._apply(remaining)

    def _apply(self, entries: Sequence[Entry]) -> None:
        nft = find_program("nft")
        if nft is None:
            raise VerbError("failed", "nft is not installed any more")
        insist([nft, "-f", "-"], nft_script(entries, self._network.control_port))


def _addresses(name: str, told: object) -> list[str]:
    try:
        checked = checked_sources(told)
    except VerbError as trouble:
        raise VerbError(trouble.kind, trouble.error.replace("sources:", f"{name}:", 1)) from None
    return checked
