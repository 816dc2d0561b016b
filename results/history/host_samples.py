"""`host-samples.jsonl`: what the hosts of a run and their nodes used and did, second by second, during the load.

A line is one sample of one host. Values are rates since the sample before, or levels at its time; a metric that could
not be read is missing from its line, and a host that did not answer has no line. Samples explain a history and are no
part of it: no verdict depends on them, and runs recorded before there were any have none.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from squall.results.history.ill_formed import IllFormedHistory
from squall.results.history.segments import EventWriter, complete_lines

HOST_SAMPLES_FILE: Final = "host-samples.jsonl"
SAMPLES: Final = "host_samples"
"""Among a manifest's `options`: what was sampled, and what could not be."""
CONTROL_NODE: Final = "control node"
"""The name of the machine that conducts the run; no host is called so, as host names have no spaces."""


@dataclass(frozen=True)
class Metric:
    """What a sampled value is: its unit, its meaning, and whether it is the host's own or the whole machine's."""

    unit: str
    meaning: str
    of_machine: bool = False
    worst: bool = False
    """Whether a longer time is described by its greatest value, since quantiles have no mean."""


METRICS: Final[Mapping[str, Metric]] = {
    "process_cpu": Metric("cores", "processors that the node's process used; on a client host, its load workers"),
    "process_memory": Metric("B", "resident memory of the node's process"),
    "process_read": Metric("B/s", "bytes that the node's process had read from disks"),
    "process_written": Metric("B/s", "bytes that the node's process had written to disks"),
    "network_received": Metric("B/s", "bytes that the host's interfaces received"),
    "network_sent": Metric("B/s", "bytes that the host's interfaces sent"),
    "machine_cpu": Metric("cores", "processors in use on the whole machine", of_machine=True),
    "machine_stolen": Metric("cores", "processors that a hypervisor gave to other machines", of_machine=True),
    "machine_memory": Metric("B", "memory in use on the whole machine", of_machine=True),
    "machine_read": Metric("B/s", "bytes read from the machine's disks", of_machine=True),
    "machine_written": Metric("B/s", "bytes written to the machine's disks", of_machine=True),
    "kafka_server_leader_count": Metric("", "topic-partitions that the broker leads"),
    "kafka_server_under_replicated_partitions": Metric("", "topic-partitions led with fewer in sync than replicas"),
    "kafka_server_under_min_isr_partition_count": Metric("", "topic-partitions led with fewer in sync than min ISR"),
    "kafka_server_bytes_in_per_s": Metric("B/s", "record batches from producers"),
    "kafka_server_bytes_out_per_s": Metric("B/s", "record batches to consumers"),
    "kafka_server_replication_bytes_in_per_s": Metric("B/s", "record batches from leaders"),
    "kafka_server_isr_shrinks_per_s": Metric("/s", "ISR shrinks of topic-partitions led"),
    "kafka_server_isr_expands_per_s": Metric("/s", "ISR expansions of topic-partitions led"),
    "kafka_network_request_queue_size": Metric("", "requests that wait in the data plane's channel"),
    "kafka_server_socket_server_connection_count": Metric("", "open connections"),
    "kafka_server_raft_current_epoch": Metric("", "the quorum's epoch"),
    "kafka_controller_active_controller_count": Metric("", "1 on the active controller"),
    "squall_iteration_time_ms_p99": Metric("ms", "p99 of a round of the node's thread", worst=True),
}
"""The sampled values by name; those named as in docs/metrics.md come from the nodes' metrics endpoints."""


class HostSample(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The values of one host at one time (ns on the history's clock). `shared`: its machine is that of all hosts."""

    time: int
    host: str
    values: dict[str, float]
    shared: bool = False


def samples_writer(run_dir: Path) -> EventWriter:
    """Return a writer of this file."""
    return EventWriter(run_dir / HOST_SAMPLES_FILE)


def read_host_samples(run_dir: Path) -> list[HostSample]:
    """Return the samples in order of time; none if there is no file. Raises IllFormedHistory."""
    path = run_dir / HOST_SAMPLES_FILE
    if not path.exists():
        return []
    decoder = msgspec.json.Decoder(HostSample)
    samples = []
    for number, line in enumerate(complete_lines(path)[0], 1):
        try:
            samples.append(decoder.decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as trouble:
            raise IllFormedHistory(path, number, f"is not a sample of a host: {trouble}") from trouble
    return sorted(samples, key=lambda one: one.time)


def thinned(
    samples: Sequence[HostSample], origin: int, width_ns: int, names: Container[str] = METRICS
) -> list[tuple[str, float, str, float]]:
    """Return (host, second, metric, value) for stretches of `width_ns`: means, or the greatest value of quantiles."""
    found: dict[tuple[str, int, str], tuple[int, float, float]] = {}
    for one in samples:
        stretch = (one.time - origin) // width_ns
        for name, value in one.values.items():
            if name in names:
                key = one.host, stretch, name
                count, total, greatest = found.get(key, (0, 0.0, value))
                found[key] = count + 1, total + value, max(greatest, value)
    return [
        (host, stretch * width_ns / 1e9, name, greatest if _is_worst(name) else total / count)
        for (host, stretch, name), (count, total, greatest) in sorted(found.items())
    ]


def _is_worst(name: str) -> bool:
    metric = METRICS.get(name)
    return metric is not None and metric.worst
