"""Hosts as a distribution sets them up: its own sshd_config (PAM, ten sessions, no root login), an ordinary user with
sudo, the distribution's Python. Everything that works in a lab of ours has to work there too.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from squall.harness.hosts.agent_link import AgentHost
from squall.harness.hosts.preflight import check
from squall.harness.hosts.ssh import Remote, on_all
from squall.harness.hosts.ssh_access import NotLetIn
from squall.harness.hosts.system import (
    ClusterSettings,
    SquallNodes,
    agent_command,
    collect_logs,
    deploy_all,
    remove_run,
    write_files,
)
from squall.harness.lab.lab import Lab, lab_down, lab_up
from squall.harness.lab.lab_files import LAB_USER
from squall.harness.scenario.inventory import Inventory, load_inventory

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("hosts")]

NAME = f"foreign-{os.getpid()}"
DISTRIBUTIONS_OWN = Path("/etc/ssh/sshd_config")


@pytest.fixture(scope="module")
def foreign(lab: Lab) -> Iterator[Lab]:
    if not DISTRIBUTIONS_OWN.exists():
        pytest.skip("this machine has no sshd_config of its own")
    config = DISTRIBUTIONS_OWN.read_text() + "\nPermitRootLogin no\n"
    try:
        yield lab_up(1, 2, name=NAME, owner=os.getpid(), sshd_config=config)
    finally:
        lab_down(NAME)


@pytest.fixture
def inventory(foreign: Lab, tmp_path: Path) -> Inventory:
    """The file a user would write for these hosts."""
    addresses = {host.name: host.address for host in foreign.hosts}
    file = tmp_path / "inventory.yaml"
    file.write_text(
        "all:\n"
        f"  vars: {{ansible_user: {LAB_USER}, python: /usr/bin/python3, known_hosts: {foreign.directory}/known_hosts,\n"
        f"         ansible_ssh_private_key_file: {foreign.directory}/id_ed25519}}\n"
        "  children:\n"
        f"    controllers: {{hosts: {{c1.example: {{ansible_host: {addresses['c1']}}}}}}}\n"
        f"    brokers: {{hosts: {{b1.example: {{ansible_host: {addresses['b1']}}},\n"
        f"                     b2.example: {{ansible_host: {addresses['b2']}}}}}}}\n"
    )
    return load_inventory(file)


def test_preflight_finds_them_fit(foreign: Lab, inventory: Inventory) -> None:
    report = check(inventory, foreign.network)
    assert all(row.ok for row in report.rows), report.error()


def test_root_is_not_let_in(foreign: Lab, inventory: Inventory) -> None:
    with pytest.raises(NotLetIn, match="user root"):
        Remote(dataclasses.replace(inventory.hosts[0], user="root"), foreign.network).connect()


def test_a_node_is_deployed_defined_and_its_logs_fetched(foreign: Lab, inventory: Inventory, tmp_path: Path) -> None:
    remotes = {host.name: Remote(host, foreign.network) for host in inventory.hosts}
    system = SquallNodes()
    places = {name: one.place for name, one in deploy_all(remotes.values(), system).items()}
    plans = system.configure(inventory, places, ClusterSettings("abroad"))

    async def body() -> None:
        plan, remote = plans["b1.example"], remotes["b1.example"]
        await asyncio.to_thread(write_files, remote, plan)
        host = AgentHost(remote, agent_command(places[remote.name], remote.spec))
        info = await host.call("info")
        assert info["root"] and info["control_port"] == 22
        echo = dataclasses.replace(plan.process, argv=("sh", "-c", "id -un; sleep 99"))
        await host.call("proc.define", **echo.arguments())
        await host.call("proc.start", name=echo.name)
        assert (await host.call("proc.status", name=echo.name))["state"] == "running"
        deadline = time.monotonic() + 5
        while not (await asyncio.to_thread(remote.run, ["cat", echo.log], sudo=True)).stdout:
            assert time.monotonic() < deadline
        await host.call("proc.stop", name=echo.name)
        await host.close()
        collect_logs(remote, plan, tmp_path)
        remove_run(remote, plan)

    asyncio.run(body())
    assert (tmp_path / "b1.example/node.log").read_text() == "root\n"
    on_all(remotes.values(), lambda remote: remote.close())


def test_more_sessions_in_a_row_than_sshd_allows_at_once(foreign: Lab, inventory: Inventory) -> None:
    with Remote(inventory.hosts[0], foreign.network) as host:
        for _ in range(25):
            assert host.run(["true"]).ok
