"""Waiting for a cluster: not longer than its nodes live, and with what their logs say."""

from __future__ import annotations

import asyncio

import pytest

from squall.harness.run import starting
from squall.harness.run.starting import ready_unless_ended, telling_lines
from squall.harness.scenario.cluster import ClusterNotReady


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starting, "LOOK_SECONDS", 0.01)


async def never() -> str:
    await asyncio.Event().wait()
    return "never"


async def soon() -> str:
    await asyncio.sleep(0.02)
    return "ready"


async def fails() -> str:
    raise ClusterNotReady("no broker answered")


def statuses(**states: str) -> object:
    async def told() -> dict[str, str]:
        return states

    return told


def test_a_node_that_ends_ends_the_wait() -> None:
    with pytest.raises(ClusterNotReady, match="b2 ended while starting"):
        asyncio.run(ready_unless_ended(never(), statuses(b1="running", b2="absent")))  # type: ignore[arg-type]


def test_a_cluster_becomes_ready_while_its_nodes_run() -> None:
    assert asyncio.run(ready_unless_ended(soon(), statuses(b1="running", b2="no answer"))) == "ready"  # type: ignore[arg-type]


def test_its_own_reason_passes_through() -> None:
    with pytest.raises(ClusterNotReady, match="no broker answered"):
        asyncio.run(ready_unless_ended(fails(), statuses()))  # type: ignore[arg-type]


JAVA = """\
2026-11-25T22:32:46.373Z [main] INFO kafka.server.BrokerServer - starting
2026-11-25T22:32:46.374Z [main] ERROR kafka.Kafka$ - Exiting Kafka due to fatal exception
java.lang.IllegalArgumentException: requirement failed: no
\tat scala.Predef$.require(Predef.scala:337)
\t... 3 more
2026-11-25T22:32:46.375Z [main] INFO kafka.server.BrokerServer - shut down
"""


def test_a_log_is_quoted_by_its_errors_without_their_stacks() -> None:
    assert [line.rpartition(" - ")[2] for line in telling_lines(JAVA)] == [
        "Exiting Kafka due to fatal exception",
        "java.lang.IllegalArgumentException: requirement failed: no",
    ]


def test_a_log_without_errors_is_quoted_by_its_end() -> None:
    assert telling_lines("one\ntwo\n\nthree\nfour\n") == ["two", "three", "four"]
    assert telling_lines("") == []
