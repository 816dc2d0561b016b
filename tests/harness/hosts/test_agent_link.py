"""Verbs over the persistent channel: answers, refusals, deadlines, and links that are lost under a call."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator

import pytest

from squall.harness.hosts.agent_link import AgentHost
from squall.harness.hosts.deploy import deploy, probe
from squall.harness.hosts.ssh import Remote
from squall.harness.hosts.ssh_access import ConnectionLost, SshError
from squall.harness.hosts.system import SquallNodes, agent_command
from squall.harness.lab.lab import Lab
from squall.nemesis.core.ports import HostUnreachable, VerbFailed
from tests.facts import naming
from tests.waiting import wait_until

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("hosts")]

# An agent of a few lines whose behaviour the tests choose by verb; it counts the times it was started.
ODD_AGENT = """
import json, os, sys, time
count = int(open("/tmp/starts").read()) + 1 if os.path.exists("/tmp/starts") else 1
open("/tmp/starts", "w").write(str(count))
for line in sys.stdin:
    asked = json.loads(line)
    verb = asked["verb"]
    if verb == "die" and count == 1: os._exit(1)
    if verb == "die-always": os._exit(1)
    if verb == "babble" and count == 1: print("Traceback"); sys.stdout.flush(); continue
    if verb == "silence": continue
    if verb == "refuse": answer = {"ok": False, "kind": "refused", "error": "not today"}
    else: answer = {"ok": True, "result": {"starts": count, "args": asked["args"]}}
    print(json.dumps({"op": asked["op"], **answer}), flush=True)
"""


# A control process: an agent on host b2 of a lab, and nothing to do.
CONTROL = """
import asyncio, sys
from squall.harness.hosts.agent_link import AgentHost
from squall.harness.hosts.deploy import deploy, probe
from squall.harness.hosts.ssh import Remote
from squall.harness.hosts.system import SquallNodes, agent_command
from squall.harness.lab.lab import find_lab

async def hold():
    lab = find_lab(sys.argv[1])
    remote = Remote(lab.inventory().host("b2"), lab.network)
    place = deploy(remote, probe(remote), SquallNodes().bundle(probe(remote).kind)).place
    await AgentHost(remote, agent_command(place, remote.spec)).call("info")
    print("holds", flush=True)
    await asyncio.Event().wait()

asyncio.run(hold())
"""
OUTAGE_S = 8.0
"""Longer than the kernel repeats the end of a connection of ours (TCP_USER_TIMEOUT in `ssh.py`)."""
AGENTS = "pgrep -f 'agent[.]py --state'"


@contextlib.asynccontextmanager
async def odd_agent(remote: Remote, seconds: float = 5.0) -> AsyncIterator[AgentHost]:
    await asyncio.to_thread(remote.run, ["rm", "-f", "/tmp/starts"])
    host = AgentHost(remote, [remote.spec.python, "-u", "-c", ODD_AGENT], call_seconds=seconds)
    try:
        yield host
    finally:
        await host.close()


def test_a_verb_is_answered(b1: Remote) -> None:
    async def body() -> None:
        async with odd_agent(b1) as host:
            assert (host.name, host.address) == ("b1", "10.77.0.12")
            assert (await host.call("echo", name="node"))["args"] == {"name": "node"}

    asyncio.run(body())


def test_a_refusal_tells_host_verb_kind_and_reason(b1: Remote) -> None:
    async def body() -> None:
        async with odd_agent(b1) as host:
            with pytest.raises(VerbFailed, match=naming("b1", "refuse", "not today")) as caught:
                await host.call("refuse")
            assert caught.value.kind == "refused"

    asyncio.run(body())


@pytest.mark.parametrize("verb", ["die", "babble"])
def test_a_call_whose_link_is_lost_is_repeated_over_a_new_one(b1: Remote, verb: str) -> None:
    async def body() -> None:
        async with odd_agent(b1) as host:
            assert (await host.call(verb))["starts"] == 2

    asyncio.run(body())


def test_calls_in_flight_together_each_get_their_own_answer(b1: Remote) -> None:
    async def body() -> None:
        async with odd_agent(b1) as host:
            answers = await asyncio.gather(*(host.call("echo", number=number) for number in range(50)))
            assert [answer["args"] for answer in answers] == [{"number": number} for number in range(50)]

    asyncio.run(body())


@pytest.mark.parametrize(("verb", "reason"), [("silence", "no answer to silence"), ("die-always", "session ended")])
def test_a_host_that_never_answers_is_unreachable_after_the_deadline(b1: Remote, verb: str, reason: str) -> None:
    async def body() -> None:
        async with odd_agent(b1, seconds=0.7) as host:
            began = time.monotonic()
            with pytest.raises(HostUnreachable, match=reason):
                await host.call(verb)
            assert 0.6 < time.monotonic() - began < 3

    asyncio.run(body())


def test_a_host_that_cannot_be_connected_is_unreachable(b1: Remote) -> None:
    async def body() -> None:
        async with odd_agent(b1, seconds=0.5) as host:
            b1.spec = dataclasses.replace(b1.spec, port=23)
            b1.close()
            with pytest.raises(HostUnreachable, match="connection refused"):
                await host.call("echo")

    asyncio.run(body())


def test_a_verb_with_a_timeout_of_its_own_is_given_longer(b1: Remote) -> None:
    async def body() -> None:
        async with odd_agent(b1, seconds=0.2) as host:
            began = time.monotonic()
            with pytest.raises(HostUnreachable):
                await host.call("silence", timeout=0.5)
            assert time.monotonic() - began > 0.6

    asyncio.run(body())


def test_a_warm_call_costs_about_a_millisecond(b1: Remote) -> None:
    async def body() -> None:
        async with odd_agent(b1) as host:
            durations = []
            for _ in range(100):
                began = time.monotonic()
                await host.call("echo")
                durations.append(time.monotonic() - began)
            assert statistics.median(durations) < 0.02, f"median {statistics.median(durations) * 1000:.2f} ms"

    asyncio.run(body())


def test_the_real_agent_from_the_bundle_answers_and_starts_processes(b1: Remote) -> None:
    async def body() -> None:
        place = deploy(b1, probe(b1), SquallNodes().bundle(probe(b1).kind)).place
        host = AgentHost(b1, agent_command(place, b1.spec))
        info = await host.call("info")
        assert info["lab"] and info["name"] == "b1"
        log = f"{place.base}/sleep.log"
        await host.call("proc.define", name="x", argv=["sleep", "77"], env={}, cwd="/", log=log, stop_signal="SIGTERM")
        started = await host.call("proc.start", name="x")
        await host.close()
        status = await host.call("proc.status", name="x")
        assert (status["state"], status["pid"]) == ("running", started["pid"])
        await host.call("proc.stop", name="x")
        assert (await host.call("proc.status", name="x"))["state"] == "absent"
        await host.close()

    asyncio.run(body())


@pytest.mark.timeout(120)
def test_an_agent_ends_though_the_end_of_its_connection_was_lost(lab: Lab) -> None:
    """The control process is killed during an outage: nothing on the wire ever says so (HX-11)."""
    control = subprocess.Popen([sys.executable, "-c", CONTROL, lab.name], stdout=subprocess.PIPE, text=True)
    with Remote(lab.inventory().host("b2"), lab.network) as b2:
        try:
            assert control.stdout is not None and control.stdout.readline() == "holds\n"
            assert b2.run(AGENTS).ok
            outage = f"sleep 0.5; ip link set eth0 down; sleep {OUTAGE_S:g}; ip link set eth0 up"
            with pytest.raises(ConnectionLost):
                b2.run(f"setsid -f sh -c {shlex.quote(outage)}; sleep 60", timeout=60)
        finally:
            control.kill()
            control.wait()
    wait_until(lambda: _can_log_in(lab), "b2 can be reached again", timeout=30)
    with Remote(lab.inventory().host("b2"), lab.network) as b2:
        wait_until(lambda: not b2.run(AGENTS).ok, lambda: b2.run("ps axo pid,etimes,args").stdout, timeout=30)


def _can_log_in(lab: Lab) -> bool:
    with contextlib.suppress(SshError), Remote(lab.inventory().host("b2"), lab.network) as b2:
        return b2.run(["true"], timeout=5).ok
    return False
