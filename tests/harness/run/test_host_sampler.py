"""Samples of hosts: rates of what agents answer, and what happens when one does not."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from squall.harness.loopback.scraping import parse
from squall.harness.run.host_rates import metric_values, sampled_values
from squall.harness.run.host_sampler import HostSampler
from squall.harness.run.run import time_of_day
from squall.nemesis.core.ports import HostUnreachable, VerbFailed
from squall.results.history.host_samples import CONTROL_NODE, METRICS, HostSample

SECOND = 1_000_000_000


def answer(at: float, *, cpu: float = 0.0, pid: int = 7, sent: int = 0, shared: bool = True) -> dict[str, Any]:
    return {
        "at_s": at,
        "shared": shared,
        "cpus": 2,
        "process": {
            "pid": pid, "started": pid, "cpu_s": cpu, "resident_bytes": 5000, "read_bytes": None, "written_bytes": 0,
        },
        "machine": {
            "busy_s": at, "stolen_s": 0.0, "memory_bytes": 9, "memory_total_bytes": 10, "read_bytes": 0,
            "written_bytes": 0,
        },
        "network": {"received_bytes": 0, "sent_bytes": sent},
    }  # fmt: skip


def test_rates_are_of_the_seconds_between_two_answers_on_the_hosts_own_clock() -> None:
    values = sampled_values(answer(10.0, cpu=1.0, sent=1000), answer(12.0, cpu=2.0, sent=5000))
    assert (values["process_cpu"], values["network_sent"]) == (0.5, 2000.0)
    assert "process_read" not in values and "machine_cpu" not in values


def test_a_node_that_was_started_anew_has_no_rate_until_its_second_answer() -> None:
    values = sampled_values(answer(10.0, cpu=50.0), answer(12.0, cpu=0.5, pid=8))
    assert "process_cpu" not in values
    assert values["process_memory"] == 5000


def test_a_node_that_is_down_uses_nothing_and_its_host_is_still_sampled() -> None:
    down = {**answer(12.0, sent=500), "process": None}
    assert set(sampled_values(answer(10.0), down)) == {"network_received", "network_sent"}


def test_a_host_of_its_own_shows_the_whole_machine() -> None:
    assert sampled_values(answer(10.0, shared=False), answer(12.0, shared=False))["machine_cpu"] == 1.0


def test_counters_become_rates_and_of_summaries_the_tail_is_kept() -> None:
    page = "kafka_server_bytes_in_total {}\nkafka_server_leader_count 3\nkafka_x NaN\n"
    page += 'squall_iteration_time_ms{{quantile="0.5"}} 1\nsquall_iteration_time_ms{{quantile="0.99"}} 9\n'
    values = metric_values((0.0, parse(page.format(100)).lines), (2.0, parse(page.format(300)).lines))
    expected = {"kafka_server_bytes_in_per_s": 100.0, "kafka_server_leader_count": 3, "squall_iteration_time_ms_p99": 9}
    assert values == expected
    assert "kafka_server_bytes_in_per_s" not in metric_values(
        (0.0, parse(page.format(300)).lines), (2.0, parse(page.format(1)).lines)
    )


class Scripted:
    """A host that answers with what it is given, in turn, and then is silent."""

    address = "10.0.0.1"

    def __init__(self, name: str, answers: list[dict[str, Any] | Exception], metrics: str | Exception = "") -> None:
        self.name = name
        self._answers = answers
        self._metrics = metrics

    async def call(self, verb: str, **arguments: object) -> dict[str, object]:
        if verb == "probe.metrics":
            if isinstance(self._metrics, Exception):
                raise self._metrics
            return {"text": self._metrics}
        if not self._answers:
            await asyncio.Event().wait()
        given = self._answers.pop(0)
        if isinstance(given, Exception):
            raise given
        return dict(given)


def sampled(hosts: Mapping[str, Scripted], *, write: Any = None) -> tuple[HostSampler, list[HostSample]]:
    """Sample these hosts for a thousand turns of the loop, in no time."""
    found: list[HostSample] = []

    async def scenario() -> HostSampler:
        one = HostSampler(hosts, {"b1": "10.0.0.1:9404"}, lambda: 0, lambda _: asyncio.sleep(0), write or found.append)
        task = asyncio.create_task(one.run())
        for _ in range(1000):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        if write is not None:
            with pytest.raises(OSError, match="No space"):
                task.result()
        return one

    return asyncio.run(scenario()), found


def test_every_host_and_the_control_node_have_samples_with_the_nodes_own_metrics() -> None:
    hosts = {"b1": Scripted("b1", [answer(1.0), answer(2.0, cpu=0.5)], "kafka_server_leader_count 3\n")}
    one, found = sampled(hosts)
    of_b1 = [sample for sample in found if sample.host == "b1"]
    assert [sample.values.get("kafka_server_leader_count") for sample in of_b1] == [3.0, None]
    assert of_b1[1].values["process_cpu"] == 0.5 and of_b1[1].shared
    assert one.samples[CONTROL_NODE] > 1
    assert {name for sample in found for name in sample.values} <= set(METRICS)


def test_a_host_that_does_not_answer_is_counted_and_delays_no_other() -> None:
    lost = HostUnreachable("b2", "no route")
    hosts = {
        "b1": Scripted("b1", [answer(1.0), answer(2.0)], VerbFailed("b1", "probe.metrics", "failed", "refused")),
        "b2": Scripted("b2", [lost, lost, answer(1.0)]),
    }
    one, _ = sampled(hosts)
    assert (one.samples["b1"], one.samples["b2"], one.missed["b2"]) == (2, 1, 2)
    assert one.told.endswith("without an answer: b2 (2), last b2 is unreachable: no route")


def test_a_full_disk_ends_the_samples_and_nothing_else() -> None:
    def full(_: HostSample) -> None:
        raise OSError(28, "No space left on device")

    sampled({"b1": Scripted("b1", [answer(1.0)])}, write=full)


def test_the_time_of_day_of_a_past_moment_is_reckoned_back() -> None:
    now = datetime(2026, 11, 24, 14, 0, 10, tzinfo=UTC)
    assert time_of_day(5 * SECOND, 7 * SECOND + SECOND // 2, now) == "2026-11-24T14:00:07.500+00:00"
