"""All places where simulation lets rare but legal things happen: those of the nodes, and those of the simulated world.

See `nodes/buggify.py`. The places of the world are in network, disk and processes of `harness/simulation/world`; what
they do is done by any real host. A suite may name places of both kinds (`cluster.buggify`), so they are listed here,
below suites and simulation.
"""

from __future__ import annotations

from squall.nodes.buggify import NODE_PLACES, Place, by_name

WORLD_PLACES: dict[str, Place] = by_name(
    Place(
        "frame-trickles",
        "a message arrives byte by byte: 5 to 50 µs later for each of its bytes, at most 0.1 s",
        "TCP keeps order and bounds no time",
        "DP-11",
        0.01,
    ),
    Place(
        "idle-connection-reset",
        "a connection that was idle for 50 ms is reset as one end sends",
        "middleboxes forget idle connections; both ends connect again, and clients retry",
        "rule 5",
        0.01,
    ),
    Place(
        "connection-refused",
        "a node that listens refuses a connection",
        "a full backlog does; the other end tries again",
        "DP-11",
        0.1,
    ),
    Place(
        "fsync-slow",
        "an fsync takes 5 to 80 ms longer",
        "no promise of a disk bounds it",
        "FD-01",
        0.05,
    ),
    Place(
        "written-back",
        "the host writes a file back on its own: what was appended is durable without an fsync",
        "what was not synced may survive a power loss, any part of it",
        "rule 17",
        0.2,
    ),
    Place(
        "turn-late",
        "a process gets the processor 1 to 30 ms late",
        "no promise bounds it; timers are lower bounds",
        "FD-05",
        0.01,
    ),
    Place(
        "responses-not-taken",
        "a client or a node takes no responses from a connection for 1 to 200 ms, and the host tells the node",
        "a peer reads when it likes; the node serves its next requests after that",
        "CL-24",
        0.02,
    ),
)  # fmt: skip
"""The places in the simulated world, by name."""

PLACES: dict[str, Place] = NODE_PLACES | WORLD_PLACES
