"""The anomalies of logs, and which of the three statements about a log each contradicts.

`results/checkers/anomalies.py` lists the anomalies of all checks.
"""

from __future__ import annotations

from typing import Final

from squall.results.checkers.common.anomaly import Anomaly

LOG_ANOMALIES: Final = (
    Anomaly(
        "lost_write",
        "a record that was acknowledged under acks=all, or read, is missing from the log",
        "an acknowledged record is missing from the log",
        "acknowledged records are missing from the log",
        "acknowledging before all in-sync replicas have it, a leader that was not fenced, or truncation of "
        "committed records",
    ),
    Anomaly(
        "inconsistent_offset",
        "one offset holds two different values",
        "an offset holds two different values",
        "offsets hold two different values",
        "two leaders at once, a follower that did not truncate, or reads beyond the high watermark",
    ),
    Anomaly(
        "duplicate",
        "one value of an idempotent producer lies at two offsets",
        "a value of an idempotent producer lies at two offsets",
        "values of idempotent producers lie at two offsets each",
        "producer state: sequence numbers not checked, or not rebuilt after a leader change or restart",
    ),
    Anomaly(
        "phantom",
        "a record was read that was never sent to this topic-partition",
        "a record was read that was never sent here",
        "records were read that were never sent here",
        "corruption, records of another topic-partition, or a log that survived from an earlier run",
    ),
    Anomaly(
        "aborted_read",
        "a record was read whose send had definitely failed",
        "a record was read although its send had failed",
        "records were read although their sends had failed",
        "an error returned after the record was appended; it should have stated that the outcome is unknown",
    ),
    Anomaly(
        "rt_order",
        "of two sends one after the other, the later has the lower offset",
        "a send has a lower offset than one that ended before it began",
        "sends have lower offsets than others that ended before they began",
        "two leaders at once, or offsets given out again after truncation",
    ),
    Anomaly(
        "future_read",
        "a record at this offset or beyond it was read before the send was even begun",
        "a send lies at or below an offset that had been read before it began",
        "sends lie at or below offsets that had been read before they began",
        "reads beyond the high watermark, or offsets given out again after truncation",
    ),
    Anomaly(
        "stale_read",
        "a leader stated a log end below a record acknowledged before, and must have known it by its epoch",
        "a stated log end lies below a record acknowledged before",
        "stated log ends lie below records acknowledged before",
        "a leader that responds before its high watermark has caught up with its predecessor's (KIP-207)",
    ),
    Anomaly(
        "hw_regress",
        "a leader stated a log end below what had been read or stated before, and must have known it by its epoch",
        "a stated log end went back",
        "stated log ends went back",
        "a new leader that responds before its high watermark has caught up (KIP-207)",
    ),
    Anomaly(
        "hw_ahead",
        "a poll stated a high watermark above the offset of a send that began afterwards",
        "a send lies below a high watermark that had been stated before it began",
        "sends lie below high watermarks that had been stated before they began",
        "a high watermark that counts replicas outside the ISR or what they no longer have, or one that is restored "
        "from a checkpoint without a bound",
    ),
    Anomaly(
        "log_start_ahead",
        "a poll stated a log start beyond the high watermark of the same response (DP-07)",
        "a log starts beyond its own high watermark",
        "times a log started beyond its own high watermark",
        "retention or delete-records of records that are not committed yet",
    ),
    Anomaly(
        "deleted_read",
        "a node delivered a record below the low watermark that it had stated in answer to a DeleteRecords (DP-16)",
        "a deleted record was delivered",
        "deleted records were delivered",
        "a deletion that is acknowledged before the log start is raised, or a log start that a restart loses",
    ),
    Anomaly(
        "int_poll_skip",
        "a single poll left out a record that others read",
        "a poll left out a record that others read",
        "times a poll left out records that others read",
        "a hole in one replica's log, or a fetch that served the wrong segment position",
    ),
    Anomaly(
        "int_nonmonotonic",
        "a single poll delivered offsets that do not increase",
        "a poll delivered offsets that do not increase",
        "times a poll delivered offsets that do not increase",
        "batches out of order in a replica's log or in a fetch response",
    ),
    Anomaly(
        "poll_skip",
        "from one poll to the next, a session left out a record that others read",
        "a session left out a record that others read",
        "times a session left out records that others read",
        "a high watermark that went back and forth, or a position reset without an error to the client",
    ),
    Anomaly(
        "nonmonotonic_poll",
        "a session was delivered an offset it had already passed",
        "a session went back",
        "times a session went back",
        "truncation below what had been read, or a position reset without an error to the client",
    ),
    Anomaly(
        "nonmonotonic_send",
        "an idempotent producer's later send lies before its earlier one",
        "a later send of an idempotent producer lies before its earlier one",
        "later sends of idempotent producers lie before their earlier ones",
        "sequence numbers not checked per producer and topic-partition",
    ),
)
"""In the order in which a verdict lists them."""

APPENDS: Final = (
    "inconsistent_offset",
    "duplicate",
    "phantom",
    "aborted_read",
    "rt_order",
    "future_read",
    "stale_read",
    "hw_regress",
    "hw_ahead",
    "log_start_ahead",
    "deleted_read",
    "nonmonotonic_send",
)
"""Contradict `linearizable appends`."""
READS: Final = ("int_poll_skip", "int_nonmonotonic", "poll_skip", "nonmonotonic_poll")
"""Contradict `gap-free reads`."""
LOSSES: Final = ("lost_write",)
"""Contradict `nothing acknowledged lost`."""
