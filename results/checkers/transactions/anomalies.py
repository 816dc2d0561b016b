"""The anomalies of transactions; `results/checkers/anomalies.py` lists all anomalies.

The names of cycles are Adya's and Elle's. A cycle is named by the least that it needs: dependencies alone, or the order
within a process as well (`-process`), or real time as well (`-realtime`).
"""

from __future__ import annotations

from typing import Final

from squall.results.checkers.common.anomaly import Anomaly

_BASES: Final = (
    ("G0", "write cycle", "transactions overwrite each other in a circle", "writes of transactions are interleaved"),
    (
        "G1c",
        "cycle of writes and reads",
        "transactions read or overwrite each other's effects in a circle",
        "transactions see each other's effects before they are committed",
    ),
    (
        "G-single",
        "cycle with one missed write",
        "a transaction missed one write of another, whose effects it otherwise saw",
        "stale snapshots, lost updates, reads from a replica that lags behind",
    ),
    (
        "G2",
        "cycle with several missed writes",
        "transactions missed each other's writes in a circle",
        "write skew: reads are not protected until the commit",
    ),
)

_LEVELS: Final = (
    ("", "", "", ""),
    ("-process", " in process order", ", by the order within processes", "; sessions that go back in time"),
    ("-realtime", " in real time", ", by what had ended before what began", "; answers from a stale state"),
)

CYCLES: Final = tuple(
    Anomaly(
        f"{base}{suffix}",
        f"{meaning}{order}",
        f"there is a {what}{when} ({base}{suffix})",
        f"groups of transactions have a {what}{when} ({base}{suffix})",
        f"{hint}{more}",
    )
    for suffix, when, order, more in _LEVELS
    for base, what, meaning, hint in _BASES
)
"""By severity: the first in this list that explains a group of transactions is its name."""

LIST_ANOMALIES: Final = (
    Anomaly(
        "G1a",
        "a committed transaction read an element whose transaction was aborted",
        "an element of an aborted transaction was read (G1a)",
        "reads show elements of aborted transactions (G1a)",
        "effects of a transaction that stay visible after it was rolled back",
    ),
    Anomaly(
        "G1b",
        "a transaction read a state that another one had left behind only in its midst",
        "an intermediate state of another transaction was read (G1b)",
        "reads show intermediate states of other transactions (G1b)",
        "effects of a transaction that are visible one by one, not all at once",
    ),
    Anomaly(
        "internal",
        "a transaction contradicts its own earlier reads and appends",
        "a transaction contradicts itself",
        "reads contradict their own transactions",
        "reads that bypass the transaction's own writes, or its snapshot",
    ),
    Anomaly(
        "incompatible_order",
        "two reads show the elements of a key in orders of which neither continues the other",
        "a read does not agree with the longest one of its key",
        "reads do not agree with the longest ones of their keys",
        "replicas that diverged, or updates that were lost and written over",
    ),
    Anomaly(
        "duplicate_element",
        "a read shows an element twice that was appended once",
        "a read shows an element twice",
        "reads show an element twice",
        "a retry that was applied again",
    ),
    Anomaly(
        "phantom_element",
        "a read shows an element that was never appended to this key",
        "an element was read that was never appended",
        "reads show elements that were never appended",
        "corruption, another key's state, or state that survived from an earlier run",
    ),
)

TRANSACTIONAL_LOG_ANOMALIES: Final = (
    Anomaly(
        "precommitted_read",
        "a transaction read its own record before it was committed",
        "a transaction was delivered its own record",
        "records were delivered to the transactions that had sent them",
        "a last stable offset that does not wait for open transactions",
    ),
)
