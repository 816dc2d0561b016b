"""The anomalies of consumer groups; `results/checkers/anomalies.py` lists all anomalies."""

from __future__ import annotations

from typing import Final

from squall.results.checkers.common.anomaly import Anomaly

GROUP_ANOMALIES: Final = (
    Anomaly(
        "stale_commit",
        "a group received a position that a later commit had already replaced",
        "a group received a position that had been replaced",
        "times a group received a position that had been replaced",
        "a group coordinator that lost commits, or answered before it had loaded them all",
    ),
    Anomaly(
        "phantom_commit",
        "a group received a position that was never committed",
        "a group received a position that was never committed",
        "times a group received positions that were never committed",
        "commits of another group or topic-partition, or a refused commit that was stored all the same",
    ),
    Anomaly(
        "double_assignment",
        "a topic-partition belonged to two members of a group in the same generation",
        "a topic-partition belonged to two members in the same generation",
        "topic-partitions belonged to two members in the same generation",
        "the assignor, or a coordinator that gave two groups of members the same generation",
    ),
    Anomaly(
        "generation_regress",
        "a member joined a generation older than one that was complete before its request",
        "a member joined a generation older than one complete before",
        "times a member joined a generation older than one complete before",
        "a coordinator that forgot the group's generation in a failover",
    ),
    Anomaly(
        "zombie_commit",
        "a commit of an older generation was accepted after a newer one was complete",
        "a commit of an older generation was accepted",
        "commits of older generations were accepted",
        "generations are not checked when positions are committed",
    ),
    Anomaly(
        "commit_ahead",
        "a group's position passes a record that none of its members had been given",
        "a group's position passes a record that no member was given",
        "records were passed by their group's position and given to no member",
        "positions that are committed before delivery, or a reset to the log's end",
    ),
)
