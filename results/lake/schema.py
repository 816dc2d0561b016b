"""The tables of the lake, their columns and what these mean: schema version 1.

Every table has the columns `key` (which entry the row belongs to: a run's id, or that of a campaign or benchmark) and
`date` (the UTC day on which it started, `2026-11-24`), so that tables join and a day is read alone. Seconds are counted
from the beginning of the load. Durations are in seconds unless their name says otherwise.

Rules for changes: columns are only added, at the end, and are null in older rows; anything else is another version,
in a folder of its own beside this one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

SCHEMA_VERSION: Final = 1

TEXT, WHOLE, NUMBER, YES_NO = pa.string(), pa.int64(), pa.float64(), pa.bool_()
TEXTS, WHOLES = pa.list_(pa.string()), pa.list_(pa.int64())


@dataclass(frozen=True)
class Column:
    """A column: its type, and what a value means."""

    name: str
    type: pa.DataType
    meaning: str


@dataclass(frozen=True)
class Table:
    """A table of the lake."""

    name: str
    meaning: str
    columns: tuple[Column, ...]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(one.name, one.type) for one in self.columns])


_IDENTITY: Final = (
    Column("key", TEXT, "the entry that the row belongs to"),
    Column("date", TEXT, "the UTC day on which it started"),
)


def _table(name: str, meaning: str, *columns: tuple[str, pa.DataType, str]) -> Table:
    return Table(name, meaning, (*_IDENTITY, *(Column(*one) for one in columns)))


_TABLES: Final = (
    _table(
        "runs",
        "one row for each run, on hosts or in simulation, with its verdict",
        ("kind", TEXT, "run, simulation, forged or imported"),
        ("started", TEXT, "when, in ISO 8601 with the zone"),
        ("suite", TEXT, "the suite file"),
        ("scenario", TEXT, "the scenario's name"),
        ("scenario_hash", TEXT, "of everything that the scenario states, without the seed; empty if unknown"),
        ("seed", WHOLE, "the seed of schedule and load"),
        ("schedule_hash", TEXT, "of the schedule of faults"),
        ("trace_hash", TEXT, "in simulation, of everything that was delivered"),
        ("verdict", TEXT, "valid, invalid or unknown; none if the run was never judged"),
        ("expected", TEXT, "the verdict that the scenario expects"),
        ("as_expected", YES_NO, "whether verdict and anomalies are those expected"),
        ("reasons", TEXTS, "why a verdict is unknown, or which requirement does not hold"),
        ("anomalies", TEXTS, "the names of the anomalies found"),
        ("world", TEXT, "hosts or simulation"),
        ("commit", TEXT, "the commit of Squall; empty if it was not run from a checkout"),
        ("dirty", YES_NO, "whether the checkout had changes that were not committed"),
        ("version", TEXT, "the version of Squall"),
        ("system", TEXT, "the system under test"),
        ("mutants", TEXTS, "bugs that were switched on"),
        ("machine", TEXT, "the machine's fingerprint: the key of its row in `machines`"),
        ("hosts", TEXTS, "the hosts, by name"),
        ("directory", TEXT, "where the run lies"),
        ("command", TEXT, "what repeats it"),
        ("load_s", NUMBER, "how long the load lasted"),
        ("check_s", NUMBER, "how long the check took"),
        ("acknowledged", WHOLE, "acknowledged sends"),
        ("sends_info", WHOLE, "sends of unknown outcome"),
        ("sends_fail", WHOLE, "refused sends"),
        ("polls", WHOLE, "polls"),
        ("records", WHOLE, "records delivered"),
        ("faults", WHOLE, "faults that were planned and begun"),
        ("faults_proven", WHOLE, "those with evidence that they took effect and were undone"),
        ("leader_changes", WHOLE, "leader changes that were observed"),
        ("elections", WHOLE, "elections of an active controller that were observed"),
        ("longest_outage_s", NUMBER, "the longest time without an acknowledged send on a topic-partition"),
        ("night", TEXT, "the night that it is part of; empty for a run by hand"),
        ("recorded", TEXT, "when this row was written"),
    ),
    _table(
        "anomalies",
        "one row for each anomaly of a run",
        ("anomaly", TEXT, "its name"),
        ("meaning", TEXT, "what it means"),
        ("occurrences", WHOLE, "how often it occurred"),
        ("places", TEXTS, "the topic-partitions, registers or checks that it occurred on"),
        ("fingerprint", TEXT, "equal for equal findings: of scenario, anomaly and the faults in force"),
        ("witness", TEXT, "the first witness in one line"),
        ("faults", TEXTS, "the kinds of fault in force at the first witness"),
    ),
    _table(
        "faults",
        "one row for each fault of a run",
        ("id", TEXT, "its id in the schedule"),
        ("fault", TEXT, "its kind"),
        ("targets", TEXTS, "the hosts, or links, it struck"),
        ("role", TEXT, "the role of the first target: broker, controller, or both"),
        ("injected_s", NUMBER, "when it was injected"),
        ("healed_s", NUMBER, "when it was healed"),
        ("proven", YES_NO, "whether evidence showed its effect and its end"),
        ("evidence", TEXT, "the evidence of its effect"),
        ("trouble", TEXT, "what went wrong with it"),
        ("silence_s", NUMBER, "the longest time without an acknowledged send that began while it held; null if none"),
        ("recovered_s", NUMBER, "from its injection until the end of that silence"),
        ("isr", WHOLE, "the smallest observed ISR of a topic-partition while it held; null if none was observed"),
        ("elections", WHOLE, "observed elections, of leaders or of the active controller, while it held"),
    ),
    _table(
        "partitions",
        "one row for each topic-partition of a run",
        ("topic", TEXT, "the topic"),
        ("partition", WHOLE, "its number"),
        ("acknowledged", WHOLE, "acknowledged sends"),
        ("records", WHOLE, "records in the final read"),
        ("anomalies", WHOLE, "occurrences of anomalies"),
        ("final_read_complete", YES_NO, "whether the final read reached its marker"),
        ("longest_outage_s", NUMBER, "the longest time without an acknowledged send"),
    ),
    _table(
        "latency",
        "the latencies of acknowledged sends of a run, as a histogram that can be added up",
        ("operation", TEXT, "send"),
        ("operations", WHOLE, "how many have a latency"),
        ("classes", WHOLES, "latency classes, each one per cent wide; `squall.results.lake.histogram` reads them"),
        ("counts", WHOLES, "how many fall into each"),
        ("p50_s", NUMBER, "the median"),
        ("p99_s", NUMBER, "the 99th percentile"),
        ("p999_s", NUMBER, "the 99.9th percentile"),
        ("max_s", NUMBER, "the longest"),
    ),
    _table(
        "throughput",
        "operations that ended, by time",
        ("second", NUMBER, "the beginning of the interval"),
        ("operation", TEXT, "send, poll and so on"),
        ("outcome", TEXT, "ok, fail or info"),
        ("operations", WHOLE, "how many ended in it"),
    ),
    _table(
        "outages",
        "times without an acknowledged send on a topic-partition",
        ("topic", TEXT, "the topic"),
        ("partition", WHOLE, "its number"),
        ("start_s", NUMBER, "from"),
        ("end_s", NUMBER, "to"),
    ),
    _table(
        "host_samples",
        "what the hosts of a run did, by time",
        ("host", TEXT, "the host"),
        ("second", NUMBER, "when"),
        ("metric", TEXT, "such as cpu_share, memory_bytes, disk_write_bytes_s"),
        ("value", NUMBER, "its value"),
    ),
    _table(
        "benchmarks",
        "one row for each figure of a benchmark",
        ("benchmark", TEXT, "its name"),
        ("figure", TEXT, "the figure"),
        ("unit", TEXT, "its unit"),
        ("better", TEXT, "higher or lower"),
        ("value", NUMBER, "the median of its samples"),
        ("samples", pa.list_(pa.float64()), "all samples"),
        ("commit", TEXT, "the commit of Squall"),
        ("machine", TEXT, "the key of the machine"),
        ("must", NUMBER, "the bar that the figure has to reach; null if there is none"),
        ("stretch", NUMBER, "the ambitious bar; null if there is none"),
        ("passed", YES_NO, "whether the figure reaches the bar; true if there is none"),
        ("started", TEXT, "when, in ISO 8601 with the zone"),
        ("dirty", YES_NO, "whether the checkout had changes that were not committed"),
        ("command", TEXT, "what repeats it"),
        ("ended", YES_NO, "whether the benchmark came to its end; false if it was interrupted"),
        ("recorded", TEXT, "when this row was written"),
        ("peer", TEXT, "another system with this figure, measured beside ours or published; null if there is none"),
        ("peer_value", NUMBER, "its value"),
    ),
    _table(
        "campaigns",
        "one row for each campaign of many seeds: a simulation, an exploration, a verification of mutants or checks",
        ("kind", TEXT, "simulate, mutants, generated, explore, shrink or forge"),
        ("scenario", TEXT, "what was simulated; of forge, the kind of history and the case"),
        ("commit", TEXT, "the commit of Squall"),
        ("first_seed", WHOLE, "the first seed"),
        ("seeds", WHOLE, "how many were run"),
        ("valid", WHOLE, "how many were valid"),
        ("invalid", WHOLE, "how many were invalid"),
        ("unknown", WHOLE, "how many were unknown"),
        ("failed_seeds", WHOLES, "the seeds that were not valid"),
        ("seconds", NUMBER, "how long it took"),
        ("processor_s", NUMBER, "processor time"),
        ("simulated_s", NUMBER, "simulated time"),
        ("behaviours", WHOLE, "features of behaviour seen; null if they were not counted"),
        ("new_behaviours", WHOLE, "those that no earlier run had shown"),
        ("estimated_behaviours", NUMBER, "an estimate of how many there are, with those not seen yet (Chao1)"),
        ("started", TEXT, "when, in ISO 8601 with the zone"),
        ("dirty", YES_NO, "whether the checkout had changes that were not committed"),
        ("version", TEXT, "the version of Squall"),
        ("machine", TEXT, "the key of the machine that the command was given on"),
        ("engine", TEXT, "where the seeds ran: local, or the Spark master"),
        ("mutants", TEXTS, "bugs that were switched on in all seeds"),
        ("broken", TEXTS, "the names of what broke, the most frequent first"),
        ("result", TEXT, "what came out, in words; of a simulation, the first failure"),
        ("ended", YES_NO, "whether all seeds ended; false if it was interrupted or the cluster gave up"),
        ("command", TEXT, "what repeats it"),
        ("recorded", TEXT, "when this row was written"),
    ),
    _table(
        "mutants",
        "the kill matrix: one row for each mutant of a verification, or generated mutant and way of judging",
        ("kind", TEXT, "documented or generated"),
        ("mutant", TEXT, "its name, or the id of a generated one"),
        ("requirement", TEXT, "what a documented one breaks"),
        ("scenario", TEXT, "the scenario that has to catch it; of a generated one, the scenario that did"),
        ("mode", TEXT, "what judged: simulation, history or unit"),
        ("seeds", WHOLE, "how many seeds, or unit tests, were run"),
        ("caught", WHOLE, "on how many it was caught"),
        ("by", TEXTS, "the names that caught it, the most frequent first"),
        ("twin_valid", WHOLE, "on how many seeds the scenario without it was valid; null for a generated one"),
        ("passed", YES_NO, "whether it was caught often enough and every twin was valid"),
        ("outcome", TEXT, "of a generated one: killed, survived, not reached and so on"),
        ("seconds", NUMBER, "processor time: of all its seeds, or of a generated one until the kill"),
        ("commit", TEXT, "the commit of Squall"),
    ),
    _table(
        "machines",
        "what the control node was and how fast and how quiet it was",
        ("machine", TEXT, "a fingerprint of everything below but the timings"),
        ("name", TEXT, "kernel and architecture"),
        ("processors", WHOLE, "cores"),
        ("memory", TEXT, "memory"),
        ("loop_ms", NUMBER, "the median time of a fixed loop of arithmetic"),
        ("loop_noise", NUMBER, "slowest over fastest of its repetitions, less 1"),
        ("sync_ms", NUMBER, "the median time of an fsync of 4 KiB"),
        ("round_trip_ms", NUMBER, "the median round trip over loopback"),
    ),
    _table(
        "nights",
        "one row for each night, also one that was interrupted",
        ("night", TEXT, "its name, as in `runs`"),
        ("began", TEXT, "when, in ISO 8601 with the zone"),
        ("seconds", NUMBER, "how long it took, from preflight to teardown"),
        ("cost", NUMBER, "what its hosts cost; null if no price is known"),
        ("currency", TEXT, "of the cost"),
        ("left_out", TEXTS, "the scenarios and other items that were not run"),
        ("left_out_why", TEXTS, "why each of them was not"),
    ),
)

TABLES: Final[Mapping[str, Table]] = {one.name: one for one in _TABLES}

Columns = Mapping[str, list[Any]]
"""The rows of one table, column by column."""


def columns_of(name: str, rows: list[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Turn rows into columns; a value that a row lacks is None. Raises KeyError for a column that the table lacks."""
    known = [one.name for one in TABLES[name].columns]
    for row in rows:
        unknown = set(row) - set(known)
        if unknown:
            raise KeyError(f"{name} has no column {', '.join(sorted(unknown))}")
    return {column: [row.get(column) for row in rows] for column in known}
