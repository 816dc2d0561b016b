"""The checks: for each kind of disaggregation of the source yes or no, and what was seen that decides it.

(A) roles in separate processes and (B) a protocol that is split, with messages as the only interface, are Kafka's.
(C) segmented logs, (D) logs of pointers into other storage, (E) ordering apart from I/O and (F) leaderless proxies are
those of other systems. Then what the source says besides: that the planes change separately (DA-05), that each replica
has the roles of Paxos (DA-07), and that a specification is the oracle (DA-08).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from squall.harness.capabilities.imports import MESSAGES, PLANES, reached
from squall.harness.capabilities.paxos import roles_in_data, roles_in_quorum
from squall.harness.capabilities.scene import Scene, Seen
from squall.nodes.metadata import records
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey

QUORUM = {ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH}
WRITE_PATH = {"Produce", "Fetch", "response"}
POINTERS = ("offset", "segment", "object", "path", "url")
"""Words by which a metadata record would say where data lies."""


@dataclass(frozen=True)
class Capability:
    """One answer. `expected` is the source's; an answer that differs is a failure."""

    id: str
    name: str
    holds: bool
    expected: bool
    evidence: str

    @property
    def passed(self) -> bool:
        return self.holds == self.expected


def separate_processes(seen: Seen) -> Capability:
    """(A), DA-01: no process has both roles."""
    controllers = [host for host, roles in seen.roles.items() if roles == ("controller",)]
    brokers = [host for host, roles in seen.roles.items() if roles == ("broker",)]
    holds = len(controllers) + len(brokers) == len(seen.roles) and bool(controllers) and bool(brokers)
    evidence = f"controllers {' '.join(controllers)}; brokers {' '.join(brokers)}; a process each"
    return Capability("A", "roles run as separate processes", holds, True, evidence)


def split_protocol(seen: Seen) -> Capability:
    """(B), DA-02: the planes' code shares messages only, and the controllers ask nothing of brokers."""
    control, data = reached("control"), reached("data")
    crossing = sorted((control & set(PLANES["data"])) | (data & set(PLANES["control"])))
    pushed = sorted(one.name for one in seen.apis.get(("controller", "broker"), ()))
    asked = sorted(one.name for one in seen.apis.get(("broker", "controller"), ()))
    evidence = (
        f"imports from plane to plane: {', '.join(crossing) or 'none'}; both import {MESSAGES}; requests of brokers to "
        f"controllers: {', '.join(asked)}; of controllers to brokers: {', '.join(pushed) or 'none'}"
    )
    holds = not crossing and not pushed and MESSAGES in control & data and bool(asked)
    return Capability("B", "the protocol is split, messages are the interface", holds, True, evidence)


def segmented_logs(seen: Seen) -> Capability:
    """(C), DA-03: segments of one log lie on different servers."""
    whole = len(set(seen.logs.values())) == 1
    places = ", ".join(f"{host} [{start}, {end})" for host, (start, end) in seen.logs.items())
    return Capability("C", "segmented logs", not whole, False, f"every replica has the whole log: {places}")


def pointer_logs(seen: Seen) -> Capability:
    """(D), DA-03: the log holds pointers to data in other storage."""
    kinds = [one for _, one in inspect.getmembers(records, inspect.isclass) if one.__name__.endswith("Record")]
    pointing = [
        f"{kind.__name__}.{name}"
        for kind in kinds
        for name in getattr(kind, "__annotations__", {})
        if any(word in name for word in POINTERS)
    ]
    brokers = {host for host, roles in seen.roles.items() if "broker" in roles}
    elsewhere = sorted(seen.content_at - brokers)
    evidence = (
        f"{len(kinds)} kinds of metadata record, with pointers to data: {', '.join(pointing) or 'none'}; a record's "
        f"content was sent to {' '.join(sorted(seen.content_at))}, elsewhere: {' '.join(elsewhere) or 'nowhere'}"
    )
    return Capability("D", "logs of pointers", bool(pointing or elsewhere), False, evidence)


def apart_from_io(seen: Seen) -> Capability:
    """(E), DA-03: a sequencer orders records before anyone stores them."""
    replicas = {host for host, roles in seen.roles.items() if "broker" in roles} | {"client"}
    strangers = sorted({host for one in seen.produce_path for host in one[:2]} - replicas)
    others = sorted({what for _, _, what in seen.produce_path} - WRITE_PATH)
    chain = " → ".join([seen.produce_path[0][0], *(target for _, target, _ in seen.produce_path)])
    evidence = f"a write went {chain} by {', '.join(sorted({what for _, _, what in seen.produce_path}))}: no sequencer"
    return Capability("E", "ordering apart from I/O", bool(strangers or others), False, evidence)


def leaderless(seen: Seen) -> Capability:
    """(F), DA-03: any proxy takes any write."""
    took = [host for host, error in seen.errors.items() if error == ErrorCode.NONE]
    refused = [host for host, error in seen.errors.items() if error == ErrorCode.NOT_LEADER_OR_FOLLOWER]
    evidence = f"{' '.join(took)} took a write; {' '.join(refused)} answered NOT_LEADER_OR_FOLLOWER"
    return Capability("F", "leaderless proxies", took != [seen.leader] or len(refused) < 2, False, evidence)


def planes_change_separately(seen: Seen, changed: Callable[[dict[str, str]], Seen]) -> Capability:
    """DA-05: a switch of the control plane leaves the data plane's requests as they are, and the other way round."""

    def between(one: Seen, *kinds: tuple[str, str]) -> set[ApiKey]:
        return {api for kind in kinds for api in one.apis.get(kind, set())}

    data = ("client", "broker"), ("broker", "broker")
    without_elr = changed({"eligible.leader.replicas.version": "0"})
    without_sessions = changed({"max.incremental.fetch.session.cache.slots": "0"})
    same_data = between(seen, *data) == between(without_elr, *data)
    control = ("broker", "controller"), ("controller", "controller")
    same_control = between(seen, *control) == between(without_sessions, *control)
    names = ", ".join(sorted(one.name for one in between(seen, *data)))
    evidence = f"without eligible leaders data still uses {names}; without fetch sessions control requests are the same"
    return Capability("DA-05", "the planes change separately", same_data and same_control, True, evidence)


def paxos_roles(seen: Seen) -> Capability:
    """DA-07: each replica has the roles of Paxos together."""
    quorum = {host: roles_in_quorum(role) for host, role in seen.quorum_roles.items()}
    data = {host: roles_in_data(leads=host == seen.leader, in_sync=True) for host in seen.logs}
    parts = [f"{host} {'+'.join(roles)}" for host, roles in quorum.items()]
    parts_of_data = [f"{host} {'+'.join(roles)}" for host, roles in data.items()]
    one_proposer = all(sum("proposer" in roles for roles in plane.values()) == 1 for plane in (quorum, data))
    evidence = f"metadata: {', '.join(parts)}; events-0: {', '.join(parts_of_data)}"
    return Capability("DA-07", "replicas have the roles of Paxos", one_proposer, True, evidence)


def follows_specification(seen: Seen) -> Capability:
    """DA-08: the trace is a behaviour of the public specifications."""
    named = ", ".join(f"{name} {count}" for name, count in sorted(seen.actions.items()))
    holds = "BecomeLeader" in seen.actions and "WriteRecordToLeader" in seen.actions
    evidence = f"{sum(seen.actions.values())} actions, each allowed: {named}"
    return Capability("DA-08", "the trace follows the TLA+ specifications", holds, True, evidence)


def capabilities() -> Sequence[Capability]:
    """Run the scene and all checks."""
    seen = Scene().play()
    checks = (separate_processes, split_protocol, segmented_logs, pointer_logs, apart_from_io, leaderless)
    return [
        *(check(seen) for check in checks),
        planes_change_separately(seen, lambda config: Scene(config).play()),
        paxos_roles(seen),
        follows_specification(seen),
    ]
