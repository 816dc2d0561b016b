"""`squall run --inventory` on hosts that Squall did not create, and one schedule for all worlds.

The hosts are as a distribution sets them up: its own sshd_config (PAM, no root login, ten sessions), an ordinary user
with sudo, interpreters of other versions than the control node's. The lab only lends the machines; the command runs
inside its network and knows of it nothing but the inventory file that a user would write.

The machine's clock is everybody's here. A real clock fault must be refused, never carried out: see the last test.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from squall.harness.hosts.agent_link import AgentHost
from squall.harness.hosts.ssh import Remote
from squall.harness.hosts.system import SquallNodes, agent_command, deploy_all
from squall.harness.lab.lab import Lab, lab_down, lab_up
from squall.harness.lab.lab_files import LAB_USER
from squall.harness.scenario.inventory import load_inventory
from squall.harness.timeline.timeline import Timeline
from squall.nemesis.core.ports import VerbFailed
from squall.results.history.manifest import Manifest
from squall.results.history.segments import read_faults
from tests.labs import need_lab

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("foreign")]

NAME = f"foreign-run-{os.getpid()}"
DISTRIBUTIONS_OWN = Path("/etc/ssh/sshd_config")
CAP_SYS_TIME = 25

SCENARIO = """
scenario: abroad
cluster:
  topics: {events: {partitions: 4, replication_factor: 3, min_insync_replicas: 2}}
  config: {broker.session.timeout.ms: 2000, broker.heartbeat.interval.ms: 300, replica.lag.time.max.ms: 1500}
workload: {name: log, producers: 2, consumers: 1, rate: 200/s, acks: all}
nemesis:
  - {fault: isolate, target: leader of events/*, at: 1s, for: 3s}
  - {fault: kill, target: one broker, at: 7s, for: 2s}
time: {load: 11s, settle: 20s}
min_acknowledged: 300
"""

EVERYWHERE = """
scenario: everywhere
cluster:
  controllers: 1
  topics: {events: {partitions: 4, replication_factor: 3, min_insync_replicas: 2}}
  config: {broker.session.timeout.ms: 2000, broker.heartbeat.interval.ms: 300, replica.lag.time.max.ms: 1500}
workload: {name: log, producers: 2, consumers: 1, rate: 100/s, acks: all}
nemesis:
  - {fault: slow-link, target: leader of events/*, latency: 50ms, at: 500ms, for: {from: 1s, to: 2s}}
  - at: 3s
    stable: {from: 500ms, to: 1s}
    mix:
      - {fault: isolate, target: one broker, for: {from: 1s, to: 2s}}
      - {fault: kill, target: leader of events/*, for: {from: 1s, to: 2s}}
      - {fault: pause, target: one follower of events/*, for: {from: 1s, to: 2s}}
time: {load: 13s, quiet: 1s, settle: 20s}
min_acknowledged: 300
"""
"""Faults that all worlds have; aimed at roles, as hosts have other names elsewhere; drawn, so that the seed matters."""


def interpreters() -> list[Path]:
    """Pythons from 3.11 on of other minor versions than the one that runs this, else the system's."""
    roots = [Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"]
    found = {
        path.parent.parent.name: path
        for root in roots
        for path in sorted(root.glob("3.*/bin/python3"))
        if (int(path.parent.parent.name.split(".")[1]) >= 11)
        and int(path.parent.parent.name.split(".")[1]) != sys.version_info.minor
    }
    return [*found.values(), Path("/usr/bin/python3")]


def version_of(python: Path) -> str:
    return subprocess.run(
        [python, "-c", "import platform; print(platform.python_version())"], capture_output=True, text=True, check=True
    ).stdout.strip()


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    need_lab()
    if not DISTRIBUTIONS_OWN.exists():
        pytest.skip("this machine has no sshd_config of its own")
    config = DISTRIBUTIONS_OWN.read_text() + "\nPermitRootLogin no\n"
    elsewhere = tuple(str(path.parent.parent) for path in interpreters() if not path.is_relative_to("/usr"))
    try:
        running = lab_up(1, 3, name=NAME, owner=os.getpid(), sshd_config=config, read_only=elsewhere)
        for host in running.hosts:  # an interpreter below root's home has to be found by an ordinary user
            (running.host_files(host.name) / "root").chmod(0o711)
        yield running
    finally:
        lab_down(NAME)


@pytest.fixture
def inventory(lab: Lab, tmp_path: Path) -> Path:
    """The file a user would write; every host has another interpreter, as far as there are any."""
    pythons = interpreters()
    lines = {
        host.name: f"{host.name}.example: {{ansible_host: {host.address}, python: {pythons[number % len(pythons)]}}}"
        for number, host in enumerate(lab.hosts)
    }
    brokers = ", ".join(lines[name] for name in ("b1", "b2", "b3"))
    file = tmp_path / "inventory.yaml"
    file.write_text(
        "all:\n"
        f"  vars: {{ansible_user: {LAB_USER}, ansible_ssh_private_key_file: {lab.directory}/id_ed25519,\n"
        f"         known_hosts: {lab.directory}/known_hosts}}\n"
        "  children:\n"
        f"    controllers: {{hosts: {{{lines['c1']}}}}}\n"
        f"    brokers: {{hosts: {{{brokers}}}}}\n"
    )
    return file


@pytest.mark.full
def test_a_partition_and_a_kill_on_somebody_elses_hosts_end_in_a_verdict(
    lab: Lab, inventory: Path, squall: Any
) -> None:
    (squall.directory / "abroad.yaml").write_text(SCENARIO)
    inside = squall.within(lab.network.command_prefix())
    ran = inside("run", "abroad.yaml", "--inventory", inventory.name, "--seed", "7", "--in-process")
    assert ran.status == 0, ran.all
    assert "VALID" in ran.out and "Traceback" not in ran.all
    assert re.search(r"isolate +b\d\.example .*✔.*healed.*✔", ran.out), ran.out
    assert re.search(r"kill -9 +b\d\.example .*✔ process gone.*✔", ran.out), ran.out
    verdict = json.loads((squall.directory / "runs/latest/verdict.json").read_text())
    assert verdict["verdict"] == "valid"
    assert "squall run abroad.yaml --seed 7 --inventory inventory.yaml" in ran.out
    assert {path.name for path in (squall.directory / "runs/latest/nodes").iterdir()} == {
        f"{host.name}.example" for host in lab.hosts
    }
    for host in load_inventory(inventory).hosts:  # hosts are left as they were found, but for the bundle
        with Remote(host, lab.network) as remote:
            assert remote.run("ls ~/.squall/runs", check=True).stdout == ""
            assert "squall.nodes" not in remote.run(["ps", "ax", "-o", "args"], check=True).stdout


def test_the_hosts_are_checked_and_told_in_one_table(lab: Lab, inventory: Path, squall: Any) -> None:
    seen = squall.within(lab.network.command_prefix())("inventory", "check", "--inventory", inventory.name)
    assert seen.status == 0, seen.all
    for host, python in zip(("c1", "b1", "b2", "b3"), interpreters() * 4, strict=False):
        row = next(line for line in seen.out.splitlines() if line.startswith(f"{host}.example"))
        assert version_of(python) in row and "sudo" in row and "✘" not in row


@pytest.mark.full
def test_one_schedule_for_simulation_lab_and_hosts_of_others(lab: Lab, inventory: Path, squall: Any) -> None:
    """One file and one seed are one schedule in all three worlds, and all of it takes place there.

    Who leads when a fault starts is another matter in each; so is, on hosts, to the millisecond, when.
    """
    (squall.directory / "everywhere.yaml").write_text(EVERYWHERE)
    announced = squall("plan", "everywhere.yaml", "--seed", "5")
    simulated = squall("simulate", "everywhere.yaml", "--seed", "5", "--keep", "simulated")
    in_lab = squall("run", "everywhere.yaml", "--seed", "5", "--in-process", "--runs-dir", "in-lab")
    inside = squall.within(lab.network.command_prefix())
    arguments = ("everywhere.yaml", "--seed", "5", "--inventory", inventory.name)
    abroad = inside("run", *arguments, "--in-process", "--runs-dir", "abroad")
    for ran in (simulated, in_lab, abroad):
        assert ran.status == 0, ran.all
    runs = [squall.directory / name for name in ("simulated/seed-5", "in-lab/latest", "abroad/latest")]
    assert [Manifest.load(run).world for run in runs] == ["simulation", "hosts", "hosts"]
    (schedule,) = {Manifest.load(run).schedule_hash for run in runs}
    assert schedule in announced.out, "it is known before anything is started"
    kinds = {kind_and_fate(run) for run in runs}
    assert len(kinds) == 1, "the same faults took place everywhere"
    (faults,) = kinds
    assert {kind for _, kind, _, _ in faults} == {"slow-link", "isolate", "kill -9", "pause"}
    assert all(proven and undone for _, _, proven, undone in faults)
    targets = {name for window in read_faults(runs[2]) for name in window.targets}
    assert targets and all(name.endswith(".example") for name in targets)
    starts = [entry for entry in Timeline.of(runs[2]).entries() if " starts in " in entry.text]
    assert {entry.source for entry in starts} == {f"{host.name}.example" for host in lab.hosts}
    assert all(entry.certain for entry in starts), "their clocks were read over SSH"
    dry = inside("run", *arguments, "--dry-run")
    assert dry.status == 0, dry.all
    assert schedule in dry.out and all(f"{fault}:" in dry.out for fault, *_ in faults)


def kind_and_fate(run: Path) -> tuple[tuple[str, str, bool, bool], ...]:
    """Of every fault, which it was, of what kind, whether it was proven and whether it was seen to end."""
    return tuple(sorted((one.id, one.fault, bool(one.took), bool(one.undone)) for one in read_faults(run)))


def test_setting_the_machines_clock_is_refused(lab: Lab, inventory: Path) -> None:
    """Without the lab's marker the agent takes the host for a real one. It then must obey SQUALL_NO_REAL_CLOCK; and
    should it fail to, the host has not got the capability.
    """
    spec = load_inventory(inventory).host("b1.example")
    sudoers = lab.host_files("b1") / "etc/sudoers"
    kept = sudoers.read_text()
    sudoers.write_text(f'{kept}Defaults env_keep += "SQUALL_NO_REAL_CLOCK"\n')
    with Remote(spec, lab.network) as remote:
        bounding = remote.run(["grep", "CapBnd", "/proc/self/status"], sudo=True, check=True).stdout.split()[1]
        assert not int(bounding, 16) >> CAP_SYS_TIME & 1
        place = deploy_all([remote], SquallNodes())[remote.name].place
        remote.run(["rm", "/run/squall-lab-host"], sudo=True, check=True)
        command = ["env", "SQUALL_NO_REAL_CLOCK=1", *agent_command(place, spec)]
        command[command.index("--state") + 1] += "-without-marker"

        async def body() -> None:
            host = AgentHost(remote, command)
            assert (await host.call("info"))["clock"] == "machine"
            await host.call("proc.define", name="sleeper", argv=["sleep", "9"])
            before = time.time_ns() - time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
            with pytest.raises(VerbFailed, match="SQUALL_NO_REAL_CLOCK is set") as refused:
                await host.call("clock.set", id="f1", name="sleeper", offset_s=1.0, ttl=5)
            assert refused.value.kind == "refused"
            assert (await host.call("journal"))["entries"] == []
            assert abs(time.time_ns() - time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW) - before) < 0.5e9
            await host.close()

        try:
            asyncio.run(body())
        finally:
            remote.run("echo b1 >/run/squall-lab-host", sudo=True, check=True)
            sudoers.write_text(kept)
