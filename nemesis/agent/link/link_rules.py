"""Firewall rules that queue packets for the link emulator, rewritten from the open shapes.

The rules have the priority of the mangle table. Inward packets are queued as they arrive (prerouting), outward ones as
they are sent (output). Exempt are loopback, the control connection (SSH), neighbour discovery, and packets with the
emulator's mark, which it sends. Every rule says `bypass`, so that the network is open when the emulator is dead. The
firewall is nft or, where the kernel has no queue for nft, iptables; `nfqueue.find_driver` tries both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from squall.nemesis.agent.core.verb_error import VerbError
from squall.nemesis.agent.link.link_shapes import Shape
from squall.nemesis.agent.link.nfqueue import find_driver, program, why_iptables_cannot
from squall.nemesis.agent.net.empty_tables import remove_empty_table
from squall.nemesis.agent.net.expiring_rules import expiring_set, while_in
from squall.nemesis.agent.net.network import EVERYONE, family_of, insist, run

MARK = 0x73716C6C
NFT_TABLE = "inet squall_link"
CHAINS = {"PREROUTING": "SQUALL_LINK_IN", "OUTPUT": "SQUALL_LINK_OUT"}
NEIGHBOURS = ("router-solicitation", "router-advertisement", "neighbour-solicitation", "neighbour-advertisement")


@dataclass(frozen=True)
class Numbers:
    """The queues that a running emulator has bound."""

    inward: int
    outward: int


def peers_towards(shapes: Sequence[Shape], direction: str, family: str) -> list[str]:
    """The peers whose packets of that direction are queued; only `*` if it is among them."""
    peers = {peer for shape in shapes if shape.direction in ("both", direction) for peer in shape.peers}
    if EVERYONE in peers:
        return [EVERYONE]
    return sorted(peer for peer in peers if family_of(peer) == family)


def nft_script(shapes: Sequence[Shape], numbers: Numbers, control_port: int, seconds: float) -> str:
    """The transaction that replaces the table by exactly these rules, which match for `seconds` by the kernel's
    clock.
    """
    neighbours = "icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert, nd-router-advert, nd-router-solicit } accept"
    return "\n".join(
        [
            *nft_without().splitlines(),
            f"table {NFT_TABLE} {{",
            *expiring_set("open", seconds),
            "  chain in {",
            "    type filter hook prerouting priority -150; policy accept;",
            '    iifname "lo" accept',
            f"    meta mark {MARK} accept",
            f"    tcp dport {control_port} accept",
            f"    {neighbours}",
            *_nft_queueing(shapes, "in", "saddr", numbers.inward),
            "  }",
            "  chain out {",
            "    type filter hook output priority -150; policy accept;",
            '    oifname "lo" accept',
            f"    meta mark {MARK} accept",
            f"    tcp sport {control_port} accept",
            f"    {neighbours}",
            *_nft_queueing(shapes, "out", "daddr", numbers.outward),
            "  }",
            "}",
            "",
        ]
    )


def nft_without() -> str:
    """The transaction that deletes the table."""
    return f"table {NFT_TABLE}\ndelete table {NFT_TABLE}\n"


def _nft_queueing(shapes: Sequence[Shape], direction: str, field: str, number: int) -> Iterable[str]:
    for family in ("ip", "ip6"):
        peers = peers_towards(shapes, direction, family)
        if peers == [EVERYONE]:
            yield f"    {while_in('open')}queue num {number} bypass"
            return
        for peer in peers:
            yield f"    {while_in('open')}{family} {field} {peer} queue num {number} bypass"


def iptables_script(shapes: Sequence[Shape], numbers: Numbers, control_port: int, family: str) -> str:
    """Input of `iptables-restore --noflush`: both chains of the mangle table, rewritten."""
    inward, outward = CHAINS.values()
    lines = ["*mangle", f":{inward} - [0:0]", f":{outward} - [0:0]"]
    for chain, interface, port in ((inward, "-i", "--dport"), (outward, "-o", "--sport")):
        lines += [
            f"-A {chain} {interface} lo -j RETURN",
            f"-A {chain} -m mark --mark {MARK:#x} -j RETURN",
            f"-A {chain} -p tcp {port} {control_port} -j RETURN",
        ]
        if family == "ip6":
            lines += [f"-A {chain} -p ipv6-icmp --icmpv6-type {kind} -j RETURN" for kind in NEIGHBOURS]
    for chain, direction, field, number in (
        (inward, "in", "-s", numbers.inward),
        (outward, "out", "-d", numbers.outward),
    ):
        for peer in peers_towards(shapes, direction, family):
            match = "" if peer == EVERYONE else f"{field} {peer} "
            lines.append(f"-A {chain} {match}-j NFQUEUE --queue-num {number} --queue-bypass")
    return "\n".join([*lines, "COMMIT", ""])


def iptables_script_without() -> str:
    """The transaction that removes jumps and chains; it fails where one of them is missing."""
    lines = [f"-D {hook} -j {chain}\n-F {chain}\n-X {chain}" for hook, chain in CHAINS.items()]
    return "\n".join(["*mangle", *lines, "COMMIT", ""])


class NftRules:
    """The agent's nft table."""

    def write(self, shapes: Sequence[Shape], numbers: Numbers, control_port: int, seconds: float) -> None:
        insist([_found("nft"), "-f", "-"], nft_script(shapes, numbers, control_port, seconds))

    def written(self) -> bool:
        return run([_found("nft"), "list", "table", *NFT_TABLE.split()]).returncode == 0

    def clear(self) -> None:
        insist([_found("nft"), "-f", "-"], nft_without())


class IptablesRules:
    """The agent's chains of the mangle table of one family, and the jumps into them."""

    def __init__(self, name: str, family: str) -> None:
        self._name = name
        self._family = family

    def written(self) -> bool:
        return any(self._does("-S", chain) for chain in CHAINS.values())

    def write(self, shapes: Sequence[Shape], numbers: Numbers, control_port: int, seconds: float) -> None:
        """Write the rules. They do not expire; keeper and emulator end them."""
        script = iptables_script(shapes, numbers, control_port, self._family)
        insist([_found(f"{self._name}-restore"), "-w", "--noflush"], script)
        for hook, chain in CHAINS.items():
            if not self._does("-C", hook, "-j", chain):
                insist([*self._mangle(), "-I", hook, "-j", chain])

    def clear(self) -> None:
        """Remove the rules in one transaction, or piece by piece where some are already missing."""
        if run([_found(f"{self._name}-restore"), "-w", "--noflush"], iptables_script_without()).returncode != 0:
            for hook, chain in CHAINS.items():
                if self._does("-S", chain):
                    while self._does("-D", hook, "-j", chain):
                        pass
                    insist([*self._mangle(), "-F", chain])
                    insist([*self._mangle(), "-X", chain])
        remove_empty_table(_found(self._name), self._name, "mangle")

    def _mangle(self) -> list[str]:
        return [_found(self._name), "-w", "-t", "mangle"]

    def _does(self, *words: str) -> bool:
        return run([*self._mangle(), *words]).returncode == 0


def _found(name: str) -> str:
    path = program(name)
    if path is None:
        raise VerbError("failed", f"{name} is not installed any more")
    return path


Table = NftRules | IptablesRules

TABLES: dict[str, Callable[[], Table]] = {
    "nft": NftRules,
    "iptables": lambda: IptablesRules("iptables", "ip"),
    "ip6tables": lambda: IptablesRules("ip6tables", "ip6"),
}


class QueueRules:
    """The rules of this host, with either firewall. The caller that writes rules records the tables, to clear them
    later.
    """

    def __init__(self, control_port: int) -> None:
        self._control_port = control_port
        self._driver: tuple[str | None, str] | None = None

    def driver(self) -> tuple[str | None, str]:
        """`nft`, `iptables` or None, and the reason for None. Tried once."""
        if self._driver is None:
            self._driver = find_driver()
        return self._driver

    def tables_for(self, shape: Shape) -> list[str]:
        """The tables that need rules for this shape. Raises VerbError for a shape that is not possible here."""
        driver, cannot = self.driver()
        if driver is None:
            raise VerbError("unsupported", f"links cannot be shaped on this host: {cannot}")
        if driver == "nft":
            return ["nft"]
        six = [peer for peer in shape.peers if peer != EVERYONE and family_of(peer) == "ip6"]
        without_six = why_iptables_cannot("ip6tables")
        if six and without_six:
            raise VerbError("unsupported", f"peers: {six[0]}: packets of IPv6 cannot be queued here: {without_six}")
        return ["iptables"] if without_six else ["iptables", "ip6tables"]

    def written(self) -> list[str]:
        """Return the tables of this host that hold rules of the agent."""
        driver = self.driver()[0]
        possible = {"nft": ["nft"], "iptables": ["iptables", "ip6tables"]}.get(driver or "", [])
        return [name for name in possible if program(name) is not None and TABLES[name]().written()]

    def write(self, tables: Iterable[str], shapes: Sequence[Shape], numbers: Numbers, seconds: float) -> None:
        for name in tables:
            TABLES[name]().write(shapes, numbers, self._control_port, seconds)

    def clear(self, tables: Iterable[str]) -> None:
        for name in tables:
            TABLES[name]().clear()
