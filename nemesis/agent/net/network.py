"""`net.drop`: this host drops packets from given addresses. Network partitions consist of such drops.

A host that drops is called *deaf*. The receiver drops, so one-way partitions need nothing special. It drops at **raw
prerouting**, before connection tracking, so established connections are cut like new ones. The control connection (SSH)
is exempt by a rule before all others. The whole table is rewritten, in one transaction, from the open faults; without
open faults there is no table. Healing is therefore idempotent and independent of order by construction.

`*` as a source means all hosts, in both directions: clients have no agent that could drop on their side.

Uses nft where it works, otherwise iptables (legacy or nft-backed). With nft each rule matches only for its fault's time
to live, by the kernel's clock (`expiring_rules.py`), even if every process of the agent is dead.
"""

from __future__ import annotations

import ipaddress
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from squall.nemesis.agent.core.journal import Entry
from squall.nemesis.agent.core.verb_error import VerbError
from squall.nemesis.agent.net.empty_tables import remove_empty_table
from squall.nemesis.agent.net.expiring_rules import expiring_set, seconds_left, while_in

EVERYONE = "*"
SYSTEM_PATH = "/usr/sbin:/sbin:/usr/bin:/bin"
NFT_TABLE = "inet squall"
IPTABLES_CHAINS = {"PREROUTING": "SQUALL_IN", "OUTPUT": "SQUALL_OUT"}
COMMAND_TIMEOUT = 10


def find_program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}")


def checked_sources(sources: object) -> list[str]:
    """Addresses, networks or `*`, in canonical form. Raises VerbError."""
    if not isinstance(sources, list) or not sources:
        raise VerbError("bad_argument", f"sources: {sources!r} must be a list of addresses")
    networks: list[ipaddress.IPv4Network | ipaddress.IPv6Network] = []
    for source in sources:
        try:
            if source != EVERYONE:
                networks.append(ipaddress.ip_network(source, strict=False))
        except ValueError:
            raise VerbError("bad_argument", f"sources: {source!r} is not an IP address") from None
    checked = [EVERYONE] if EVERYONE in sources else []
    # nft rejects overlapping networks in one set.
    four = ipaddress.collapse_addresses(one for one in networks if isinstance(one, ipaddress.IPv4Network))
    six = ipaddress.collapse_addresses(one for one in networks if isinstance(one, ipaddress.IPv6Network))
    return [*checked, *map(str, four), *map(str, six)]


@dataclass(frozen=True)
class Deafness:
    """One open `net.drop`: its sources, and the seconds it has left."""

    sources: list[str]
    seconds: float


def deafness_of(entries: Sequence[Entry]) -> list[Deafness]:
    return [Deafness(entry.arguments["sources"], seconds_left(entry)) for entry in entries]


def family_of(source: str) -> str:
    return "ip6" if ":" in source else "ip"


def nft_script(faults: Sequence[Deafness], control_port: int) -> str:
    """The transaction that replaces the table by exactly these rules. Each fault's rules end by the kernel's clock."""
    lines = [f"table {NFT_TABLE}", f"delete table {NFT_TABLE}"]
    if not faults:
        return "\n".join(lines) + "\n"
    neighbours = "icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert, nd-router-advert } accept"
    inward, outward, sets = [], [], []
    for number, fault in enumerate(faults):
        sources, still = fault.sources, while_in(f"open{number}")
        sets += expiring_set(f"open{number}", fault.seconds)
        for family in ("ip", "ip6"):
            addresses = [source for source in sources if source != EVERYONE and family_of(source) == family]
            if addresses:
                inward.append(f"{still}{family} saddr {{ {', '.join(sorted(addresses))} }} counter drop")
        if EVERYONE in sources:
            inward.append(f"{still}counter drop")
            outward.append(f"{still}counter drop")
    lines += [
        f"table {NFT_TABLE} {{",
        *sets,
        "  chain in {",
        "    type filter hook prerouting priority -310; policy accept;",
        '    iifname "lo" accept',
        f"    tcp dport {control_port} accept",
        f"    {neighbours}",
        *(f"    {rule}" for rule in inward),
        "  }",
        "  chain out {",
        "    type filter hook output priority -310; policy accept;",
        '    oifname "lo" accept',
        f"    tcp sport {control_port} accept",
        f"    {neighbours}",
        *(f"    {rule}" for rule in outward),
        "  }",
        "}",
    ]
    return "\n".join(lines) + "\n"


def iptables_script(faults: Sequence[Deafness], control_port: int, family: str) -> str:
    """Input of `iptables-restore --noflush`: both chains of the raw table, rewritten."""
    lines = ["*raw", *(f":{chain} - [0:0]" for chain in IPTABLES_CHAINS.values())]
    lines += [
        "-A SQUALL_IN -i lo -j RETURN",
        f"-A SQUALL_IN -p tcp --dport {control_port} -j RETURN",
        "-A SQUALL_OUT -o lo -j RETURN",
        f"-A SQUALL_OUT -p tcp --sport {control_port} -j RETURN",
    ]
    for fault in faults:
        for source in sorted(fault.sources):
            if source == EVERYONE:
                lines += ["-A SQUALL_IN -j DROP", "-A SQUALL_OUT -j DROP"]
            elif family_of(source) == family:
                lines.append(f"-A SQUALL_IN -s {source} -j DROP")
    return "\n".join([*lines, "COMMIT"]) + "\n"


def run(argv: Sequence[str], script: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, input=script, text=True, capture_output=True, timeout=COMMAND_TIMEOUT)


def insist(argv: Sequence[str], script: str | None = None) -> None:
    answer = run(argv, script)
    if answer.returncode != 0:
        raise VerbError("failed", f"{' '.join(argv)}: {(answer.stderr or answer.stdout).strip()}")


class NftFilter:
    """Writes the agent's nft table."""

    def __init__(self, program: str) -> None:
        self._program = program

    def usable(self) -> bool:
        return run([self._program, "list", "tables"]).returncode == 0

    def apply(self, faults: Sequence[Deafness], control_port: int) -> None:
        insist([self._program, "-f", "-"], nft_script(faults, control_port))


class IptablesFilter:
    """Writes the agent's chains of the raw table, and the jumps into them."""

    def __init__(self, program: str, family: str) -> None:
        self._program = program
        self._family = family

    def usable(self) -> bool:
        usable = run([self._program, "-w", "-t", "raw", "-S"]).returncode == 0
        self._leave_no_table()
        return usable

    def _leave_no_table(self) -> None:
        remove_empty_table(self._program, "ip6tables" if self._family == "ip6" else "iptables", "raw")

    def apply(self, faults: Sequence[Deafness], control_port: int) -> None:
        if not faults:
            self._clear()
            return
        insist(
            [f"{self._program}-restore", "-w", "--noflush"],
            iptables_script(faults, control_port, self._family),
        )
        for hook, chain in IPTABLES_CHAINS.items():
            if run([self._program, "-w", "-t", "raw", "-C", hook, "-j", chain]).returncode != 0:
                insist([self._program, "-w", "-t", "raw", "-I", hook, "-j", chain])

    def _clear(self) -> None:
        for hook, chain in IPTABLES_CHAINS.items():
            if run([self._program, "-w", "-t", "raw", "-S", chain]).returncode == 0:
                while run([self._program, "-w", "-t", "raw", "-D", hook, "-j", chain]).returncode == 0:
                    pass
                insist([self._program, "-w", "-t", "raw", "-F", chain])
                insist([self._program, "-w", "-t", "raw", "-X", chain])
        self._leave_no_table()


class Network:
    """Makes the host drop exactly what the open `net.drop` faults say."""

    def __init__(self, control_port: int) -> None:
        self.control_port = control_port
        self._filters: list[NftFilter | IptablesFilter] | None = None

    def method(self) -> str | None:
        """`nft`, `iptables`, or None if neither works here."""
        filters = self._find_filters()
        if not filters:
            return None
        return "nft" if isinstance(filters[0], NftFilter) else "iptables"

    def apply(self, entries: Sequence[Entry]) -> None:
        filters = self._find_filters()
        if not filters:
            raise VerbError("unsupported", "neither nft nor iptables works here; install nftables and run as root")
        for one in filters:
            one.apply(deafness_of(entries), self.control_port)

    def _find_filters(self) -> list[NftFilter | IptablesFilter]:
        if self._filters is None:
            self._filters = []
            nft = find_program("nft")
            if nft and NftFilter(nft).usable():
                self._filters.append(NftFilter(nft))
                return self._filters
            for name, family in (("iptables", "ip"), ("ip6tables", "ip6")):
                program = find_program(name)
                if program and IptablesFilter(program, family).usable():
                    self._filters.append(IptablesFilter(program, family))
        return self._filters
