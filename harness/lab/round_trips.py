"""Measure the round trip of a packet between racks, as hosts see it, independent of the configured latency.

On one host of each rack a small program connects to a port of other hosts on which no process listens, and measures the
time until the refusal: one round trip of the network, without any process of the other host. A connection that is not
refused in time counts as no response. The result is the median of several, so that a lost packet, which TCP sends again
after a second, or a busy process is not mistaken for the link. Nothing has to be installed, and it also works on hosts
outside labs, if their inventory has racks.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from squall.harness.hosts.network import Network
from squall.harness.hosts.ssh import Remote, on_all
from squall.harness.scenario.inventory import HostSpec

ROUNDS = 15
PATIENCE_SECONDS = 3.0
NOBODYS_PORT = 1

KNOCK = """
import json, socket, sys, threading, time
targets, rounds, port, patience = json.loads(sys.argv[1])
seconds = {target: [] for target in targets}
def knock(target):
    silent = 0
    for _ in range(rounds):
        with socket.socket() as one:
            one.settimeout(patience)
            began = time.monotonic()
            try:
                one.connect((targets[target], port))
            except ConnectionRefusedError:
                pass
            except OSError:
                silent += 1
                if silent > 1:
                    return
                continue
            seconds[target].append(time.monotonic() - began)
threads = [threading.Thread(target=knock, args=[target]) for target in targets]
for one in threads:
    one.start()
for one in threads:
    one.join()
print(json.dumps(seconds))
"""


@dataclass(frozen=True)
class RoundTrip:
    """The round trip from one rack to another, or within one."""

    source: str
    """The source rack."""
    target: str
    hosts: tuple[str, str]
    """The two hosts between which it was measured."""
    seconds: float | None
    """The median; None if nothing came back."""


def representatives(hosts: Sequence[HostSpec]) -> dict[str, list[HostSpec]]:
    """Return up to two hosts of each rack: the first measures, the second is its target."""
    chosen: dict[str, list[HostSpec]] = {}
    for host in hosts:
        if host.rack is not None and len(chosen.setdefault(host.rack, [])) < 2:
            chosen[host.rack].append(host)
    return chosen


def measured_round_trips(hosts: Sequence[HostSpec], network: Network) -> list[RoundTrip]:
    """Measure within each rack that has two hosts, and between every two racks.

    Raises UsageError for an unreachable host.
    """
    racks = representatives(hosts)
    names = sorted(racks, key=lambda rack: (len(rack), rack))
    remotes = [Remote(racks[rack][0], network) for rack in names]

    def ask(remote: Remote) -> dict[str, list[float]]:
        own = remote.spec.rack
        targets = {rack: racks[rack][0].address for rack in names[names.index(str(own)) + 1 :]}
        if len(racks[str(own)]) > 1:
            targets[str(own)] = racks[str(own)][1].address
        told = json.dumps([targets, ROUNDS, NOBODYS_PORT, PATIENCE_SECONDS])
        with remote:
            done = remote.run([remote.spec.python, "-I", "-S", "-c", KNOCK, told], check=True)
        return {rack: list(seconds) for rack, seconds in json.loads(done.stdout).items()}

    answers = on_all(remotes, ask)
    found = []
    for source in names:
        for target, seconds in answers[racks[source][0].name].items():
            asked = racks[target][1 if target == source else 0]
            median = statistics.median(seconds) if seconds else None
            found.append(RoundTrip(source, target, (racks[source][0].name, asked.name), median))
    return sorted(found, key=lambda one: (one.source != one.target, names.index(one.source), names.index(one.target)))
