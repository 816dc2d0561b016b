"""The catalogue: 58 kinds of faults that tools of the field offer, each with its counterpart here.

The rows come from nine tools and this one. A row has a *trial*, an entry as in a suite's `nemesis:` list but without
times, by which `squall faults --verify` shows that it works on the present hosts; or the reason why there is none.
Another parameter does not make another row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class CatalogueRow:
    """One kind of fault that a tool of the field can inject."""

    number: int
    name: str
    trial: Mapping[str, Any] = field(default_factory=dict)
    """Empty if there is no trial; then there is a reason, or it is part of every run."""
    why_not: str = ""
    in_every_run: str = ""
    """Its counterpart, if that is no fault but part of every run."""
    clients: bool = False
    """Whether the trial needs a client host, besides brokers and controllers."""


ROWS: tuple[CatalogueRow, ...] = (
    CatalogueRow(1, "SIGKILL of a process", {"fault": "kill", "target": "b1"}),
    CatalogueRow(2, "SIGTERM, a graceful stop", {"fault": "restart", "target": "b1"}),
    CatalogueRow(3, "pause and resume", {"fault": "pause", "target": "b1"}),
    CatalogueRow(4, "bounce loop, rolling restart", {"fault": "bounce", "target": "b1"}),
    CatalogueRow(5, "one, a minority, a majority or all killed", {"fault": "kill", "target": "minority of brokers"}),
    CatalogueRow(
        6,
        "aimed at a role: leader, follower, controller, coordinator",
        {"fault": "kill", "target": "leader of events/0"},
    ),
    CatalogueRow(7, "kill at a chosen system call", {"fault": "kill-at-call", "target": "b1", "call": "write"}),
    CatalogueRow(8, "host down: power off, reboot, virtual machine stopped", {"fault": "host-down", "target": "b1"}),
    CatalogueRow(
        9,
        "a command of the user's own",
        {
            "fault": "command",
            "target": "b1",
            "inject": "ip route add blackhole 203.0.113.0/24",
            "heal": "ip route del blackhole 203.0.113.0/24; ! ip route show 203.0.113.0/24 | grep -q .",
            "check": "ip route show 203.0.113.0/24 | grep blackhole",
        },
    ),
    CatalogueRow(10, "clients paused, killed, fenced", {"fault": "pause-clients"}, clients=True),
    CatalogueRow(11, "one node isolated", {"fault": "isolate", "target": "b1"}),
    CatalogueRow(
        12, "halves, majority against minority, thirds", {"sequence": [{"fault": "halves"}, {"fault": "thirds"}]}
    ),
    CatalogueRow(13, "majorities ring, bridge", {"fault": "majorities-ring"}),
    CatalogueRow(14, "one-way partition", {"fault": "one-way", "target": "b1"}),
    CatalogueRow(15, "clients from brokers only", {"fault": "cut-port", "target": "b1", "connections": "clients"}),
    CatalogueRow(
        16,
        "one port only: replication or controllers",
        {
            "sequence": [
                {"fault": "cut-port", "target": "b1", "connections": "replication"},
                {"fault": "cut-port", "target": "b1", "connections": "controllers"},
            ]
        },
    ),
    CatalogueRow(
        17,
        "delay with jitter and a distribution",
        {"fault": "slow-link", "target": "b1", "latency": "20ms", "jitter": "5ms", "distribution": "pareto"},
    ),
    CatalogueRow(18, "random loss", {"fault": "slow-link", "target": "b1", "latency": "0ms", "loss": 0.3}),
    CatalogueRow(19, "loss in bursts", {"fault": "bad-link", "target": "b1", "burst": {"enter": 0.05, "leave": 0.25}}),
    CatalogueRow(20, "packets duplicated", {"fault": "bad-link", "target": "b1", "duplicate": 0.3}),
    CatalogueRow(21, "packets corrupted", {"fault": "bad-link", "target": "b1", "corrupt": 0.2}),
    CatalogueRow(22, "packets reordered", {"fault": "bad-link", "target": "b1", "reorder": 0.3}),
    CatalogueRow(23, "bandwidth", {"fault": "bandwidth", "target": "b1"}),
    CatalogueRow(24, "TCP reset", {"fault": "reset", "target": "b1"}),
    CatalogueRow(
        25,
        "black hole then close, slow close",
        {
            "sequence": [
                {"fault": "black-hole", "target": "b1", "delay": "500ms"},
                {"fault": "slow-close", "target": "b1", "delay": "500ms"},
            ]
        },
    ),
    CatalogueRow(
        26,
        "slicing into small segments, cut after so many bytes",
        {"sequence": [{"fault": "slice", "target": "b1", "size": 16}, {"fault": "cut-after", "target": "b1"}]},
    ),
    CatalogueRow(
        27,
        "jam, network interface down, flood",
        {"sequence": [{"fault": "interface-down", "target": "b1"}, {"fault": "flood", "target": "b1"}]},
    ),
    CatalogueRow(
        28,
        "DNS error or spoof",
        why_not="nodes and clients use addresses, never names",
    ),
    CatalogueRow(29, "clock step", {"fault": "clock", "target": "b1", "offset": "1h"}),
    CatalogueRow(30, "clock strobe", {"fault": "clock-strobe", "target": "b1"}),
    CatalogueRow(31, "clock rate", {"fault": "clock", "target": "b1", "offset": "0s", "rate": 1.05}),
    CatalogueRow(32, "one clock of several: wall or monotonic", {"fault": "clock-monotonic", "target": "b1"}),
    CatalogueRow(
        33, "clock frozen, absolute time", {"fault": "clock-freeze", "target": "b1", "time": "2038-01-19T03:14:07Z"}
    ),
    CatalogueRow(34, "writes lost that were not fsynced", {"fault": "power-loss", "target": "b1"}),
    CatalogueRow(35, "torn write", {"fault": "power-loss", "target": "b1", "mode": "torn"}),
    CatalogueRow(
        36,
        "crash before or after a call on a path",
        {"fault": "kill-at-call", "target": "b1", "call": "write", "path": "*.log", "when": "after"},
    ),
    CatalogueRow(
        37, "errno by call, path and probability", {"fault": "disk-error", "target": "b1", "calls": ["fsync"]}
    ),
    CatalogueRow(38, "slow disk", {"fault": "disk-slow", "target": "b1", "calls": ["fsync"]}),
    CatalogueRow(39, "bit flip, filling with zeros or noise", {"fault": "bit-flip", "target": "b1"}),
    CatalogueRow(40, "file truncated; chunks copied and restored", {"fault": "truncate-file", "target": "b1"}),
    CatalogueRow(41, "disk full", {"fault": "disk-full", "target": "b1"}),
    CatalogueRow(42, "load on the disk", {"fault": "disk-load", "target": "b1"}),
    CatalogueRow(43, "read-only directory; file deleted or renamed", {"fault": "read-only-disk", "target": "b1"}),
    CatalogueRow(
        44,
        "volume detached",
        why_not="needs a cloud provider's volumes and credentials, which no lab or inventory has",
    ),
    CatalogueRow(45, "CPU stress, throttle", {"fault": "cpu-throttle", "target": "b1"}),
    CatalogueRow(
        46,
        "memory limit, memory stress",
        {"fault": "process-limit", "target": "b1", "memory": "256MiB", "descriptors": 200},
    ),
    CatalogueRow(47, "failures within the kernel: slab, page, bio", why_not="needs a kernel built for fault injection"),
    CatalogueRow(
        48,
        "exceptions and delays within the running program",
        why_not="not implemented: our nodes have no named points at which a fault could delay or raise",
    ),
    CatalogueRow(
        49,
        "single threads paused",
        why_not="our nodes have one thread, so this equals row 3; freezing one by a control group is not implemented",
    ),
    CatalogueRow(
        50,
        "leadership transfer",
        {"sequence": [{"fault": "restart", "target": "b1"}, {"fault": "elect-leaders"}, {"fault": "move-controller"}]},
    ),
    CatalogueRow(
        51,
        "reassignment",
        {
            "sequence": [
                {"fault": "reassign", "target": "events/0", "replicas": 2},
                {"fault": "reassign", "target": "events/0", "replicas": 3},
            ]
        },
    ),
    CatalogueRow(
        52,
        "membership: voters added and removed, brokers decommissioned",
        {"fault": "remove-voter", "target": "active controller"},
    ),
    CatalogueRow(53, "transactional ids taken over", why_not="our nodes have no transactions yet"),
    CatalogueRow(54, "admin operations at random", {"fault": "admin-mix"}),
    CatalogueRow(55, "connection storm, topics filled, quotas squeezed", {"fault": "connection-storm", "target": "b1"}),
    CatalogueRow(56, "upgrade and downgrade under load", why_not="there is one version of our nodes"),
    CatalogueRow(
        57,
        "combinators: repeat, mix, in series and side by side",
        {
            "mix": [
                {
                    "sequence": [
                        {"fault": "pause", "target": "b1", "for": "1s"},
                        {"fault": "kill", "target": "b2", "for": "1s"},
                    ]
                },
                {
                    "parallel": [
                        {"fault": "pause", "target": "b1", "for": "1s"},
                        {"fault": "kill", "target": "b3", "for": "1s"},
                    ]
                },
            ],
            "stable": {"from": "500ms", "to": "1s"},
            "for": "10s",
        },
    ),
    CatalogueRow(
        58,
        "quiet period, then final checks",
        in_every_run="the last `time.quiet` of the load has no faults; then all hosts are healed and all logs are read",
    ),
)
