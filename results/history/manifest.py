"""Read and write `run.json`: the facts about a run that are not in its history.

A checker, a report or a person may need them.

Facts travel in the manifest, not by import: `results` never calls the harness, the workloads or the cluster. It is
written when a run starts, with `completed` false, and again when it ends, so that a run whose control process was
killed still has one and can be judged for what it recorded. It holds no secrets.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from squall.results.history.ill_formed import IllFormedHistory
from squall.results.history.whole_file import write_whole

MANIFEST_FILE: Final = "run.json"
PLUGINS: Final = "plugins"
"""Among a manifest's `options`: the plugins of the run, such as `fault full-inodes`, and the package of each."""
SYSTEM: Final = "system"
"""Among a manifest's `options`: what was tested instead of our own nodes, such as `kafka 4.1.1`."""
CANARIES: Final = {"loop_ms": "loop of arithmetic", "sync_ms": "fsync", "round_trip_ms": "loopback round trip"}
"""Figures among a manifest's `machine` that do not depend on the system. All are times: lower is faster."""


class TopicFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A topic under test. `topic_id` as Kafka prints it, in base64."""

    partitions: int
    topic_id: str = ""
    replication_factor: int = 3
    min_insync_replicas: int = 2


class HostFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A host of the run, described for people; `facts` are name and value."""

    name: str
    address: str = ""
    roles: tuple[str, ...] = ()
    facts: dict[str, str] = {}


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome that the scenario expects."""

    verdict: Literal["valid", "invalid", "unknown"] = "valid"
    anomalies: tuple[str, ...] = ()


Window = tuple[float, float]
"""From when to when, in seconds from the start of the load."""


class RateRule(msgspec.Struct, frozen=True, kw_only=True):
    """At least this share of the rate of acknowledged sends in another window."""

    during: Window
    at_least: float
    compared_with: Window


class Required(msgspec.Struct, frozen=True, kw_only=True):
    """What the scenario requires beyond safety; see `required.py`.

    `longest_gap` is in seconds, throughout the load or in `gap_during` only.
    """

    rate: RateRule | None = None
    silence: Window | None = None
    longest_gap: float | None = None
    gap_during: Window | None = None
    elections: int | None = None
    calm: bool = False


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """Where an imported history comes from and how it was mapped.

    These are the tool, the file and its checksum, its notation, and the number of operations of clients. `unknown` is
    what the file does not state, in words; faults and cluster changes are unknown.
    """

    tool: str
    file: str
    sha256: str
    notation: str
    mapping: str
    operations: int
    times: str = ""
    unknown: tuple[str, ...] = ()


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of one run.

    Times in nanoseconds are on the history's clock: `load_started` is second 0 of every report. `profile` is the
    consistency model: `kafka`, or `lin` if reads must be linearizable. `faults_planned` counts the fault windows of the
    schedule; fewer in `nemesis.parquet` means that some were never injected. `trouble` lists what went wrong outside
    the system under test (a host that failed, an interrupted run): each makes the verdict unknown. `command` repeats
    the run. `segments` is how many segments were begun, one by each load worker, and None until they were: a history
    that lacks a segment is incomplete. `imported` is set if another tool recorded the history.
    """

    run_id: str
    scenario: str
    seed: int
    topics: dict[str, TopicFacts]
    suite: str = ""
    description: str = ""
    covers: tuple[str, ...] = ()
    started: str = ""
    command: str = ""
    load_started: int | None = None
    load_began: str = ""
    """The time of day of `load_started`, in ISO 8601 with the zone; empty if unknown."""
    load_ended: int | None = None
    completed: bool = False
    segments: int | None = None
    profile: Literal["kafka", "lin"] = "kafka"
    checks: tuple[str, ...] = ("log", "availability")
    fault_free: bool = False
    faults_planned: int = 0
    min_acknowledged: int = 1000
    keeps_front: bool = False
    """Whether neither settings nor clients could remove records from the front of a log; False if that is not known."""
    expect: Expected = Expected()
    require: Required = Required()
    mutants: tuple[str, ...] = ()
    final_read: str = ""
    trouble: tuple[str, ...] = ()
    workload: dict[str, Any] = {}
    options: dict[str, Any] = {}
    node_config: dict[str, str] = {}
    scenario_hash: str = ""
    """Of everything that the scenario states, without the seed."""
    schedule_hash: str = ""
    trace_hash: str = ""
    versions: dict[str, str] = {}
    machine: dict[str, str] = {}
    hosts: tuple[HostFacts, ...] = ()
    world: Literal["hosts", "simulation"] = "hosts"
    imported: Imported | None = None

    def save(self, run_dir: Path | str) -> Path:
        """Write it whole or not at all: if the control process is killed, the old one remains."""
        target = Path(run_dir) / MANIFEST_FILE
        target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(target, msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n")
        return target

    def with_changes(self, **changes: Any) -> Manifest:
        """Return the manifest with some fields changed."""
        return msgspec.structs.replace(self, **changes)

    @classmethod
    def load(cls, run_dir: Path | str) -> Manifest:
        """Load a manifest. Raises IllFormedHistory naming the file and the field."""
        path = Path(run_dir) / MANIFEST_FILE
        try:
            manifest = msgspec.json.decode(path.read_bytes(), type=cls)
        except OSError as trouble:
            raise IllFormedHistory(path, None, f"cannot be read: {trouble.strerror}") from trouble
        except msgspec.ValidationError as trouble:
            raise IllFormedHistory(path, None, f"is not a manifest: {trouble}") from trouble
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as trouble:
            raise IllFormedHistory(path, None, f"is not JSON: {trouble}") from trouble
        started, ended = manifest.load_started, manifest.load_ended
        if started is not None and ended is not None and ended < started:
            problem = f"load_ended is {ended}, before load_started, {started}: both are nanoseconds of one clock"
            raise IllFormedHistory(path, None, problem)
        return manifest

    @property
    def topic_partitions(self) -> list[tuple[str, int]]:
        return [(name, number) for name, facts in sorted(self.topics.items()) for number in range(facts.partitions)]
