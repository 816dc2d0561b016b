"""A control process that makes trouble without end, for `test_kill_storm.py` to kill; and what trouble leaves behind.

    python -m tests.harness.run.kill_storm LAB SEED        says `storm` once a fault has been proven

It is the real thing but for load: hosts reached over SSH, agents, and the nemesis with schedules drawn by lot, several
faults at a time. Faults live one second longer than their windows instead of five, so that the test need not wait long
for hosts to heal themselves.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from squall.harness.hosts.ssh import Remote
from squall.harness.hosts.system import ClusterSettings, SquallNodes
from squall.harness.lab.lab import Lab, standing_lab
from squall.harness.run.testbed import Testbed
from squall.harness.scenario.cluster import await_whole, create_topics
from squall.nemesis.entries import NemesisEntry
from squall.nemesis.runner import NemesisEvent, NemesisRunner, Patience
from squall.nemesis.schedule import Schedule, build_schedule
from squall.workloads.clients.common.client import Topic
from tests.harness.run.storm_deadlines import LONGEST_S, TTL_MARGIN_S, OpenFault, monotonic_of

RUN = "storm"
TOPICS = {"events": 1}
SQUALL_S = 6.0
FAULTS_AT_ONCE = 6
ENTRY: TypeAdapter[NemesisEntry] = TypeAdapter(NemesisEntry)

TROUBLE: tuple[Mapping[str, object], ...] = (
    {"fault": "kill", "target": "one broker"},
    {"fault": "pause", "target": "one node"},
    {"fault": "halves"},
    {"fault": "one-way", "target": "one broker"},
    {"fault": "isolate", "target": "one node", "from": "everyone"},
    {"fault": "clock", "target": "one broker", "offset": "1h"},
    {"fault": "slow-link", "target": "one broker", "latency": "20ms"},
    {"fault": "bandwidth", "target": "one broker"},
    {"fault": "rpc-hold", "api": "BrokerHeartbeat", "to": "all controllers"},
    {"fault": "rpc-cut", "api": "Fetch", "to": "one broker"},
    {"fault": "disk-slow", "target": "one broker", "calls": ["fsync"]},
    {"fault": "disk-error", "target": "one broker", "calls": ["fsync"]},
    {"fault": "power-loss", "target": "one broker"},
    {"fault": "restart", "target": "one broker"},
    {"fault": "majorities-ring"},
    {"fault": "cut-port", "target": "one broker", "connections": "controllers"},
    {"fault": "reset", "target": "one broker"},
    {"fault": "connection-storm", "target": "one broker", "connections": 100},
    {"fault": "interface-down", "target": "one broker"},
    {"fault": "flood", "target": "one broker"},
    {"fault": "bad-link", "target": "one broker", "duplicate": 0.3},
    {"fault": "slice", "target": "one broker"},
    {"fault": "cpu-throttle", "target": "one broker", "share": 0.5},
    {"fault": "cpu-stress", "target": "one broker", "processes": 1},
    {"fault": "memory-stress", "target": "one broker", "size": "16MB"},
    {"fault": "process-limit", "target": "one broker", "descriptors": 64},
    {"fault": "clock-strobe", "target": "one broker"},
    {"fault": "clock-freeze", "target": "one broker"},
    {"fault": "disk-full", "target": "one broker"},
    {"fault": "disk-load", "target": "one broker", "size": "1MB"},
    {"fault": "bit-flip", "target": "one broker"},
)


def drawn(rng: random.Random) -> Schedule:
    """A few faults that overlap."""
    chosen = rng.sample(TROUBLE, FAULTS_AT_ONCE)
    entries = [
        ENTRY.validate_python({**one, "at": rng.uniform(0, 1.5), "for": rng.uniform(0.5, LONGEST_S)}) for one in chosen
    ]
    return build_schedule(entries, SQUALL_S, rng.randrange(1 << 30))


async def ready(lab: Lab) -> Testbed:
    """Nodes on every host, running, with a topic."""
    testbed = Testbed(lab.inventory(), lab.network, TOPICS)
    settings = ClusterSettings(
        RUN, config={"broker.session.timeout.ms": 2000, "broker.heartbeat.interval.ms": 300}, disk_calls=("fsync",)
    )
    await testbed.deploy(SquallNodes(), settings)
    return testbed


async def started(lab: Lab) -> None:
    """For the test, once: the nodes whose trouble this is."""
    testbed = await ready(lab)
    try:
        await testbed.start()
        await create_topics(testbed.admin, (Topic("events", 1, 3, (("min.insync.replicas", "2"),)),), 30)
        await await_whole(testbed.admin, 3, TOPICS, 30)
    finally:
        await testbed.close()


async def storm(lab: Lab, seed: int) -> None:
    rng, said = random.Random(seed), False

    def report(event: NemesisEvent) -> None:
        nonlocal said
        if event.phase == "proven" and not said:
            print("storm", flush=True)
            said = True

    testbed = await ready(lab)
    while True:
        await NemesisRunner(
            drawn(rng),
            testbed.hosts,
            testbed.cluster,
            now_ns=testbed.now_ns,
            sleep=testbed.sleep,
            report=report,
            ports=testbed.ports(),
            patience=Patience(ttl_margin=TTL_MARGIN_S),
        ).run()


# -- what is left on a host ----------------------------------------------------------------------------------------

LOOK = """
echo "interfaces $(cat /sys/class/net/*/operstate | sort | tr '\\n' ' ')"
nft list tables | grep squall | sed 's/^/rules /'
nft -s list ruleset | sed 's/^[[:space:]]*/rule /' | grep -Ev '^rule (table .*|chain .*|type .*policy accept;|}|)$'
ip rule | sed 's/^/routing /'
tc qdisc | sed 's/^/queue /'
cut -d' ' -f4- /proc/self/mountinfo | sed 's/ [a-z]*:[0-9]*//g; s/^/mount /'
losetup -a 2>/dev/null | sed 's/^/loop /'
find /sys/fs/cgroup -maxdepth 3 -type d 2>/dev/null | sed 's/^/cgroup /'
echo "now $(cut -d' ' -f1 /proc/uptime)"
for entry in "$HOME"/.squall/agent/journal/*.json "$HOME"/.squall/agent/journal.copy/*.json; do
  content=$(cat "$entry" 2>/dev/null) && echo "entry ${entry##*/} $content"
done
for p in /proc/[0-9]*; do
  state=$(sed -n 's/^State:[[:space:]]*//p' $p/status 2>/dev/null) || continue
  line=$(tr '\\0\\n' '  ' <$p/cmdline 2>/dev/null) && [ -n "$line" ] && echo "process $state $line"
done
true
"""


@dataclass(frozen=True)
class Sight:
    """What a look at a host shows to somebody who knows nothing of agents. Each line once, without what differs every
    time; the journal's entries apart, each with its deadline.
    """

    lines: frozenset[str]
    faults: tuple[OpenFault, ...]
    at: float
    """When the journal was read, in seconds of CLOCK_MONOTONIC."""

    @classmethod
    def of(cls, host: Remote) -> Sight:
        return cls.seen(host.run(["sh"], stdin=LOOK.encode(), timeout=10, check=True).stdout)

    @classmethod
    def seen(cls, text: str) -> Sight:
        """By what LOOK printed."""
        lines, copies, at = [], dict[str, list[str]](), 0.0
        for line in text.splitlines():
            kind, _, rest = line.partition(" ")
            if kind == "now":
                at = monotonic_of(float(rest))
            elif kind == "entry":
                name, _, content = rest.partition(" ")
                copies.setdefault(name, []).append(content)
                lines.append(f"open fault {name}")
            elif not _own(line):
                lines.append(_plain(line))
        return cls(frozenset(lines), tuple(OpenFault.of(name, found) for name, found in copies.items()), at)

    def beyond(self, before: Sight) -> list[str]:
        """What is there now and was not before, or the other way round."""
        more = [f"left: {line}" for line in sorted(self.lines - before.lines)]
        return more + [f"missing: {line}" for line in sorted(before.lines - self.lines)]


def _own(line: str) -> bool:
    """Of the connection by which we look."""
    return line.startswith("process ") and any(word in f"{line} " for word in (" sh ", "sshd", "/proc", "timeout "))


def _plain(line: str) -> str:
    if not line.startswith("process "):
        return line
    state, command = line.removeprefix("process ").split(" ", 1)[0], line.split(") ", 1)[1]
    running = "stopped" if state in "Tt" else "running"
    return f"process {running} {' '.join(Path(word).name for word in command.split()[:6])}"


if __name__ == "__main__":
    asyncio.run(storm(standing_lab(sys.argv[1]), int(sys.argv[2])))
