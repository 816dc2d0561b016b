"""Faults of one kind of message to or from this host's node: hold it, or cut its connection.

    connection from a source ──TPROXY──▶ gate of the proxy ──▶ rules ──▶ node (a connection within the host)

While such a fault is open, new connections from its sources to the node's ports go through a proxy (`proxy.py`) that
reads length, API key, version and correlation id of messages and nothing else. Packets are never changed.

* **Connections that exist when a fault begins** bypass the proxy. Each is reset once, so that its client reconnects
  through the proxy; `probe.rpc` reports how many. Which messages are lost by that is as with any reset.
* **Clients see** the node's address. The node sees a connection from its own host: to see the client's address it would
  need changed routing rules of the host for its responses, which could be left behind.
* **The firewall** has a separate table with one rule per family and port, rewritten as one transaction from the open
  faults; the control connection is exempt. The rule acts only while the proxy listens, so if the proxy dies, the node
  is reachable at once; the keeper then ends its faults, and `probe.rpc` reports that they were cut short.
* **At the end** nothing stays: held messages proceed, the rule is removed, each connection is ended at its first quiet
  moment (no message under way, no request unanswered) or is reset a second later, and the proxy exits. If it forwarded
  for as long as peers keep their connections, a process would stay in their path after the fault's time to live.

The host needs Linux with nftables' tproxy (4.19 or later), the socket monitor with INET_DIAG_DESTROY, and root;
`trouble_with_host` returns what is missing, before a fault is injected.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from squall.nemesis.agent.core.arguments import required, text
from squall.nemesis.agent.core.journal import Entry
from squall.nemesis.agent.core.processes import Processes
from squall.nemesis.agent.core.verb_error import VerbError
from squall.nemesis.agent.net.expiring_rules import expiring_set, seconds_left, while_in
from squall.nemesis.agent.net.network import EVERYONE, checked_sources, family_of, find_program, insist, run
from squall.nemesis.agent.net.tcp_sockets import can_destroy
from squall.nemesis.agent.rpc.proxy import EFFECTS
from squall.nemesis.agent.rpc.rpc_gate import transparent_sockets
from squall.nemesis.agent.rpc.rpc_process import ProxyProcess
from squall.nemesis.agent.rpc.rpc_rules import Effects, RuleSpec

NFT_TABLE = "inet squall_rpc"
DIRECTIONS = ("request", "response")
NODE = "node"
HIGHEST_API_KEY = 32_767
FATES = ("delivered", "late", "answered", "dropped")
"""What can become of a message that was taken out of its connection; a probe names those that occurred."""
MOST_MESSAGES = 1_000_000_000
AFTER_MANGLE = -140
"""Priority of the chain: after the chain that delays packets at the receiver, which dequeues and requeues them."""

Gates = Mapping[str, Mapping[str, int]]


def nft_script(entries: Sequence[Entry], gates: Gates, control_port: int) -> str:
    """The transaction that replaces the table by exactly these rules."""
    lines = [f"table {NFT_TABLE}", f"delete table {NFT_TABLE}"]
    rules = [rule for port in sorted(gates) for rule in _rules_of(entries, int(port), gates[port])]
    if rules:
        lines += [
            f"table {NFT_TABLE} {{",
            *expiring_set("open", max(map(seconds_left, entries), default=0.0)),
            "  chain in {",
            f"    type filter hook prerouting priority {AFTER_MANGLE}; policy accept;",
            '    iifname "lo" accept',
            f"    tcp dport {control_port} accept",
            *(f"    {rule}" for rule in rules),
            "  }",
            "}",
        ]
    return "\n".join(lines) + "\n"


def _rules_of(entries: Sequence[Entry], port: int, gate: Mapping[str, int]) -> list[str]:
    """One rule for each family in which the gate listens and a source is meant."""
    meant = [one for entry in entries if port in entry.arguments["ports"] for one in entry.arguments["sources"]]
    if not meant:
        return []
    sources = checked_sources(meant)  # again, because the sources of several faults may overlap
    rules = []
    for family, gate_port in sorted(gate.items()):
        whose = ", ".join(one for one in sources if one != EVERYONE and family_of(one) == family)
        to_gate = f"tcp dport {port} tproxy {family} to :{gate_port}"
        if EVERYONE in sources:
            rules.append(f"{while_in('open')}meta nfproto {'ipv6' if family == 'ip6' else 'ipv4'} {to_gate}")
        elif whose:
            rules.append(f"{while_in('open')}{family} saddr {{ {whose} }} {to_gate}")
    return rules


class Redirection:
    """The firewall's rules that redirect connections to the gates."""

    def __init__(self, control_port: int) -> None:
        self._control_port = control_port

    def apply(self, entries: Sequence[Entry], gates: Gates) -> None:
        """Replace the rules. Raises VerbError."""
        insist([self._nft(), "-f", "-"], nft_script(entries, gates, self._control_port))

    def trouble(self) -> str | None:
        """Why this host's firewall cannot redirect; None if it can. Asks the kernel, changes nothing."""
        try:
            nft = self._nft()
        except VerbError as trouble:
            return trouble.error
        trial = Entry("trial", "", {"sources": [EVERYONE], "ports": [9]}, 0, 0, "")
        answer = run([nft, "--check", "-f", "-"], nft_script([trial], {"9": {"ip": 9}}, self._control_port))
        if answer.returncode == 0:
            return None
        said = (answer.stderr.strip().splitlines() or ["no reason given"])[0]
        return f"nftables cannot hand connections to a proxy here ({said}); the kernel needs nft_tproxy"

    def _nft(self) -> str:
        program = find_program("nft")
        if program is None:
            raise VerbError("unsupported", "this host has no `nft` command; install nftables")
        return program


class MessageFaults:
    """What the verbs and their probe share: the proxy, the redirection, what each fault has done."""

    def __init__(self, state: Path, control_port: int, processes: Processes) -> None:
        directory = state / "rpc"
        self.proxy = ProxyProcess(directory)
        self.effects = Effects(directory / EFFECTS)
        self.redirection = Redirection(control_port)
        self.processes = processes
        self.control_port = control_port
        self._able = False

    def trouble_with_host(self) -> str | None:
        """Why this host cannot carry out such faults; None if it can."""
        if self._able:
            return None
        if os.geteuid() != 0:
            return "only root may send connections through a proxy; set ansible_become"
        if trouble := self.redirection.trouble():
            return trouble
        try:
            for one in transparent_sockets().values():
                one.close()
            destroys = can_destroy()
        except OSError as refused:
            return f"the kernel lends no transparent listener or no list of its sockets: {refused}"
        if not destroys:
            return "the kernel cannot reset connections (CONFIG_INET_DIAG_DESTROY), as must be done when a fault begins"
        self._able = True
        return None

    def put_in_force(self, entries: Sequence[Entry]) -> int:
        """Apply exactly these faults. Returns how many connections were reset so that they reconnect."""
        self.proxy.start()
        self._tell_rules(entries)
        return int(self.proxy.tell("cut")["cut"])

    def leave_in_force(self, remaining: Sequence[Entry]) -> None:
        """End all faults but these. Without a proxy, no fault acts."""
        alive = self.proxy.lives()
        if alive and remaining:
            self._tell_rules(remaining)
            return
        self.remove_redirection()
        if alive:
            with contextlib.suppress(VerbError):  # it may be about to exit, which is enough
                self.proxy.tell("apply", rules=[], ports=[])
            self.proxy.see_it_gone()

    def remove_redirection(self) -> None:
        """Let new connections reach the node directly. A host without nft has no table either."""
        if find_program("nft"):
            self.redirection.apply([], {})

    def waiting(self, id: str) -> int:
        """Messages that the fault holds now."""
        try:
            waiting: dict[str, int] = self.proxy.tell("waiting")["waiting"]
        except VerbError:
            if self.proxy.lives():
                raise
            return 0
        return waiting.get(id, 0)

    def _tell_rules(self, entries: Sequence[Entry]) -> None:
        ports = sorted({port for entry in entries for port in entry.arguments["ports"]})
        answer = self.proxy.tell("apply", rules=[asdict(rule_of(entry)) for entry in entries], ports=ports)
        self.redirection.apply(entries, answer["gates"])


def rule_of(entry: Entry) -> RuleSpec:
    """The rule of this fault for the proxy."""
    arguments = entry.arguments
    return RuleSpec(
        id=entry.id,
        api_key=arguments["api_key"],
        responses=arguments["direction"] == "response",
        sources=tuple(arguments["sources"]),
        messages=arguments["messages"],
        deadline=entry.deadline,
        treatment=arguments.get("treatment"),
        count=arguments.get("count"),
        pass_others=arguments.get("pass_others", False),
        outlive=arguments.get("outlive", False),
        until=arguments.get("until"),
    )


class Hold:
    """`rpc.hold`"""

    def __init__(self, faults: MessageFaults) -> None:
        self._faults = faults

    def prepare(self, arguments: dict[str, Any]) -> dict[str, Any]:
        self._refuse_if_unable()
        direction = text(arguments, "direction")
        if direction not in DIRECTIONS:
            raise VerbError("bad_argument", f"direction: {direction!r} must be one of {', '.join(DIRECTIONS)}")
        prepared = {
            "api": text(arguments, "api"),
            "api_key": whole_number(arguments, "api_key", HIGHEST_API_KEY),
            "direction": direction,
            "sources": checked_sources(arguments.get("sources")),
            "messages": self._messages(arguments),
            "ports": self._ports(str(arguments.get("name") or NODE)),
            **self._picking(arguments, direction),
        }
        self._faults.effects.forget(text(arguments, "id"))
        return prepared

    def inject(self, entry: Entry, open_entries: Sequence[Entry]) -> dict[str, Any]:
        if not self._faults.proxy.lives():
            for other in open_entries:
                if other.id != entry.id:
                    self.note_broken(other)
        return {"sources": entry.arguments["sources"], "reset": self._faults.put_in_force(open_entries)}

    def undo(self, entry: Entry, remaining: Sequence[Entry]) -> None:
        self._faults.leave_in_force(remaining)

    def undo_unknown(self, id: str, remaining: Sequence[Entry]) -> None:
        if self._faults.proxy.lives() or os.geteuid() == 0:
            self._faults.leave_in_force(remaining)

    def broken(self, entry: Entry) -> bool:
        """Whether the proxy that carries out the fault has died."""
        return not self._faults.proxy.lives()

    def note_broken(self, entry: Entry) -> None:
        effects = self._faults.effects
        effects.keep(entry.id, replace(effects.of(entry.id), cut_short=True))

    def _refuse_if_unable(self) -> None:
        if trouble := self._faults.trouble_with_host():
            raise VerbError("unsupported", trouble)

    def _messages(self, arguments: dict[str, Any]) -> int | None:
        return None

    def _picking(self, arguments: dict[str, Any], direction: str) -> dict[str, Any]:
        """Which messages are held, and how, as far as the arguments say more than all of them in place."""
        count, until = arguments.get("count"), arguments.get("until")
        picking = {name: flag(arguments, name) for name in ("pass_others", "outlive")}
        if count is not None and whole_number(arguments, "count", MOST_MESSAGES) == 0:
            raise VerbError("bad_argument", "count: 0 must be at least 1")
        if picking["outlive"] and (direction == "response" or not picking["pass_others"]):
            raise VerbError("bad_argument", "outlive: only a request that lets others pass can outlive its connection")
        return {**picking, "count": count, "until": None if until is None else checked_event(until)}

    def _ports(self, name: str) -> list[int]:
        """The ports where the node accepts connections, by its definition: the node may be down now."""
        ports = self._faults.processes.definition(name).ports
        if not ports:
            raise VerbError(
                "unsupported", f"{name} was defined without `ports`: where clients connect to it is not known"
            )
        if self._faults.control_port in ports:
            raise VerbError("bad_argument", f"ports: {self._faults.control_port} is the port of the control connection")
        return list(ports)


class Cut(Hold):
    """`rpc.cut`"""

    def _messages(self, arguments: dict[str, Any]) -> int | None:
        return whole_number({"messages": 1, **arguments}, "messages", MOST_MESSAGES)

    def _picking(self, arguments: dict[str, Any], direction: str) -> dict[str, Any]:
        return {}


def flag(arguments: Mapping[str, Any], name: str) -> bool:
    """Return a yes or no; no if it is not stated. Raises VerbError."""
    value = arguments.get(name, False)
    if not isinstance(value, bool):
        raise VerbError("bad_argument", f"{name}: {value!r} must be true or false")
    return value


def checked_event(event: object) -> dict[str, Any]:
    """Check the event that releases what is held: so many messages of an API have passed. Raises VerbError."""
    if not isinstance(event, dict):
        raise VerbError("bad_argument", f"until: {event!r} must be an object of api_key, direction and messages")
    direction = text(event, "direction")
    if direction not in DIRECTIONS:
        raise VerbError("bad_argument", f"until.direction: {direction!r} must be one of {', '.join(DIRECTIONS)}")
    return {
        "api_key": whole_number(event, "api_key", HIGHEST_API_KEY),
        "responses": direction == "response",
        "messages": max(1, whole_number(event, "messages", MOST_MESSAGES)),
    }


def checked_ports(ports: object) -> list[int]:
    """Check the ports of a process's definition. Raises VerbError."""
    if not isinstance(ports, list) or not all(isinstance(port, int) and 0 < port < 65_536 for port in ports):
        raise VerbError("bad_argument", f"ports: {ports!r} must be a list of port numbers")
    return list(ports)


def whole_number(arguments: dict[str, Any], name: str, most: int) -> int:
    value = required(arguments, name, int, "a whole number")
    if not 0 <= value <= most:
        raise VerbError("bad_argument", f"{name}: {value} must be at least 0 and at most {most}")
    return int(value)


def probe(faults: MessageFaults, id: str, entry: Entry | None) -> dict[str, Any]:
    """The response to `probe.rpc`. A fault whose proxy has died is not open any more, even if its entry is."""
    effect = faults.effects.of(id)
    acting = entry is not None and faults.proxy.lives()
    return {
        "open": acting,
        "met": effect.met,
        "waiting": faults.waiting(id) if acting else 0,
        "reset": effect.reset,
        "cut_short": effect.cut_short or (entry is not None and not acting),
        **{fate: count for fate in FATES if (count := getattr(effect, fate))},
    }
