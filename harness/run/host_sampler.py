"""Sample the hosts of a run each second during its load: processors, memory, disks, network, the nodes' own metrics.

The agents read the counters (`probe.samples`, `probe.metrics`); rates are made here. Each host is sampled on its own,
so that one that hangs delays no other. Nodes compute their metrics when they are read, so that is done less often. The
control node is sampled as well: where hosts are namespaces of it, its processors and disks are theirs.

Samples explain a run and decide nothing. Whatever goes wrong here is counted and said in the manifest.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from squall.harness.deadlines import within
from squall.harness.loopback.scraping import Line, parse
from squall.harness.run.host_rates import machine_rates, metric_values, sampled_values
from squall.nemesis.agent.probe.host_samples import machine_use
from squall.nemesis.core.ports import NODE_PROCESS, Host, HostUnreachable, VerbFailed
from squall.results.checkers.common.text import listed, several
from squall.results.history.host_samples import CONTROL_NODE, HostSample

EVERY_SECONDS: Final = 1.0
ANSWER_SECONDS: Final = 5.0
METRICS_EVERY: Final = 5
"""Each sample of so many is one with the node's own metrics."""
READ_METRICS: Final = (
    "kafka_server_leader_count",
    "kafka_server_under_replicated_partitions",
    "kafka_server_under_min_isr_partition_count",
    "kafka_server_bytes_in_total",
    "kafka_server_bytes_out_total",
    "kafka_server_replication_bytes_in_total",
    "kafka_server_isr_shrinks_total",
    "kafka_server_isr_expands_total",
    "kafka_network_request_queue_size",
    "kafka_server_socket_server_connection_count",
    "kafka_server_raft_current_epoch",
    "kafka_controller_active_controller_count",
    "squall_iteration_time_ms",
)

Answer = dict[str, Any]
Write = Callable[[HostSample], None]


class HostSampler:
    """Samples some hosts until it is cancelled."""

    def __init__(
        self,
        hosts: Mapping[str, Host],
        metrics: Mapping[str, str],
        now_ns: Callable[[], int],
        sleep: Callable[[float], Awaitable[None]],
        write: Write,
    ) -> None:
        """`metrics` says at which address and port the node of a host shows metrics."""
        self._hosts = hosts
        self._metrics = metrics
        self._now_ns = now_ns
        self._sleep = sleep
        self._write = write
        self.samples: Counter[str] = Counter()
        self.missed: Counter[str] = Counter()
        self.trouble = ""

    async def run(self) -> None:
        """Sample until cancelled, or until samples cannot be written."""
        hosts = (self._sample_host(name, host) for name, host in self._hosts.items())
        await asyncio.gather(*hosts, self._sample_here())

    @property
    def told(self) -> str:
        """What was sampled and what was not, for the manifest."""
        said = f"{several(self.samples.total(), 'sample')} of {several(len(self.samples), 'host')}"
        if self.missed:
            names = [f"{name} ({count})" for name, count in sorted(self.missed.items())]
            said += f"; without an answer: {listed(names)}, last {self.trouble}"
        return said

    async def _sample_host(self, name: str, host: Host) -> None:
        before: Answer | None = None
        lines_before: tuple[float, list[Line]] | None = None
        number = 0
        while True:
            due = self._now_ns() + int(EVERY_SECONDS * 1e9)
            try:
                answer = await within(ANSWER_SECONDS, host.call("probe.samples", name=NODE_PROCESS))
                values = sampled_values(before, answer)
                if name in self._metrics and number % METRICS_EVERY == 0:
                    lines = await self._read_metrics(name, host)
                    if lines is not None:
                        values |= metric_values(lines_before, lines)
                    lines_before = lines
                before, number = answer, number + 1
                self._keep(name, values, shared=bool(answer["shared"]))
            except (VerbFailed, HostUnreachable, TimeoutError) as trouble:
                self.missed[name] += 1
                self.trouble = str(trouble) or f"{name}: no answer in {ANSWER_SECONDS:g} s"
            await self._sleep(max(0.0, (due - self._now_ns()) / 1e9))

    async def _read_metrics(self, name: str, host: Host) -> tuple[float, list[Line]] | None:
        """Return the node's metrics and when they were read; None if it shows none now, as while it is down."""
        call = host.call("probe.metrics", address=self._metrics[name], names=list(READ_METRICS))
        try:
            answer = await within(ANSWER_SECONDS, call)
            return time.monotonic(), parse(str(answer["text"])).lines
        except (VerbFailed, ValueError, TimeoutError):
            return None

    async def _sample_here(self) -> None:
        before: tuple[float, Answer] | None = None
        while True:
            now = time.monotonic(), machine_use()
            self._keep(CONTROL_NODE, machine_rates(before, now))
            before = now
            await self._sleep(EVERY_SECONDS)

    def _keep(self, name: str, values: Mapping[str, float], *, shared: bool = False) -> None:
        if values:
            self._write(HostSample(time=self._now_ns(), host=name, values=dict(values), shared=shared))
            self.samples[name] += 1
