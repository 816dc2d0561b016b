"""Samples of client hosts: the load workers there together, and a host that stops to answer is only not sampled."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from squall.harness.hosts.client_bundle import ClientHost
from squall.harness.hosts.ssh import ConnectionLost
from squall.harness.load.client_samples import ClientSamples, client_samples
from squall.harness.load.sampling import answer, together
from squall.harness.run.host_rates import sampled_values
from squall.harness.scenario.inventory import HostSpec
from squall.nemesis.core.ports import HostUnreachable, VerbFailed


def test_a_sample_has_what_an_agents_has(tmp_path: Path) -> None:
    (pid := tmp_path / "worker.pid").write_text(f"{os.getpid()}\n")
    command = [sys.executable, "-m", "squall.harness.load.sampling", "--shared", str(pid), str(tmp_path / "none")]
    ran = subprocess.run(command, input="\n\n", capture_output=True, text=True, check=True)
    before, after = (json.loads(line) for line in ran.stdout.splitlines())
    values = sampled_values(before, after)
    assert values["process_memory"] > 1_000_000 and values["process_cpu"] >= 0 and "machine_cpu" not in values


def test_workers_of_a_host_are_added_up() -> None:
    uses = [{"pid": pid, "started": 1, "cpu_s": 2.0, "read_bytes": pid or None} for pid in (7, 8)]
    assert together(uses) == {"pid": [7, 8], "started": [1, 1], "cpu_s": 4.0, "read_bytes": 15}
    assert together([*uses, {**uses[0], "read_bytes": None}]) == {
        "pid": [7, 8, 7], "started": [1, 1, 1], "cpu_s": 6.0, "read_bytes": None,
    }  # fmt: skip
    assert together([]) is None


def test_without_a_worker_the_host_is_still_sampled(tmp_path: Path) -> None:
    assert answer([tmp_path / "none"], shared=False, own_network=False)["process"] is None


class Channel:
    """Answers with these lines, in turn, and then is lost."""

    def __init__(self, lines: list[bytes]) -> None:
        self.lines = lines
        self.closed = False

    def send_line(self, line: bytes, timeout: float) -> None: ...

    def receive_line(self, timeout: float) -> bytes:
        if not self.lines:
            raise ConnectionLost(HostSpec("l1", "10.0.0.9", ("clients",)), "cut")
        return self.lines.pop(0)

    def close(self) -> None:
        self.closed = True


def client(open_channel: Callable[[list[str]], Channel], name: str = "l1") -> ClientHost:
    spec = SimpleNamespace(address="10.0.0.9", reduced="")
    place = SimpleNamespace(python="python3", library="/home/x/lib")
    remote = SimpleNamespace(spec=spec, open_channel=open_channel)
    return cast(ClientHost, SimpleNamespace(name=name, remote=remote, deployed=SimpleNamespace(place=place)))


def test_a_host_that_is_lost_is_asked_anew() -> None:
    opened: list[Channel] = []

    def open_channel(command: list[str]) -> Channel:
        assert command[:2] == ["env", "PYTHONPATH=/home/x/lib"] and command[-2:] == ["--shared", "/w/0/worker.pid"]
        opened.append(Channel([b'{"at_s": 1}'] if len(opened) != 1 else [b"[]"]))
        return opened[-1]

    one = ClientSamples(client(open_channel), ["/w/0/worker.pid"], shared=True)

    async def scenario() -> None:
        assert await one.call("probe.samples", name="node") == {"at_s": 1}
        with pytest.raises(HostUnreachable, match="cut"):
            await one.call("probe.samples", name="node")
        with pytest.raises(HostUnreachable, match="is not an object"):
            await one.call("probe.samples", name="node")
        with pytest.raises(VerbFailed, match="only sampled"):
            await one.call("probe.metrics")
        one.close()

    asyncio.run(scenario())
    assert len(opened) == 2 and all(channel.closed for channel in opened)


def test_a_host_of_a_node_is_not_sampled_twice() -> None:
    workers = [
        SimpleNamespace(host=client(lambda _: Channel([]), name), directory=f"/w/{at}")
        for at, name in enumerate(("l1", "b1", "l1"))
    ]
    found = client_samples(cast(Any, workers), {"b1": object()}, shared=False)
    assert list(found) == ["l1"]
    assert found["l1"]._pid_files == ["/w/0/worker.pid", "/w/2/worker.pid"]
