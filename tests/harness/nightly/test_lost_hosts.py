"""A host is lost if nothing answers there for a while, and the hook agrees."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from squall.harness.errors import UsageError
from squall.harness.nightly.conduct import Cluster
from squall.harness.nightly.lost_hosts import LostHosts, await_hosts
from squall.harness.nightly.plan.night_file import Hooks
from squall.harness.scenario.inventory import load_inventory


@pytest.fixture
def open_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


@pytest.fixture
def cluster(tmp_path: Path, open_port: int, closed_port: int) -> Cluster:
    def host(port: int) -> dict[str, object]:
        return {"ansible_host": "127.0.0.1", "ansible_port": port}

    children = {
        "controllers": {"hosts": {"c1": host(open_port)}},
        "brokers": {"hosts": {"c1": {}, "b1": host(closed_port)}},
    }
    path = tmp_path / "inventory.yaml"
    path.write_text(json.dumps({"all": {"hosts": {"c1": host(open_port)}, "children": children}}))
    return Cluster("rented", inventory=path)


def watch(directory: Path, gone: str = "") -> LostHosts:
    return LostHosts(directory, Hooks(gone=gone, timeout_s=10), {}, between_s=0.01)


def test_a_host_that_refuses_connections_for_a_while_is_gone(tmp_path: Path, cluster: Cluster) -> None:
    assert asyncio.run(watch(tmp_path).missing(cluster)) == ("b1",)


def test_with_a_hook_only_hosts_that_it_names_are_gone(tmp_path: Path, cluster: Cluster) -> None:
    assert asyncio.run(watch(tmp_path, "true").missing(cluster)) == ()
    names_all = """python3 -c "import json, sys; print(*[h['name'] for h in json.load(sys.stdin)['hosts']], 'c1')" """
    assert asyncio.run(watch(tmp_path, names_all).missing(cluster)) == ("b1",)


def test_labs_lose_no_hosts(tmp_path: Path) -> None:
    assert asyncio.run(watch(tmp_path).missing(Cluster("lab x", lab="x"))) == ()


def test_the_rest_of_a_cluster_is_an_inventory_without_the_lost(tmp_path: Path, cluster: Cluster) -> None:
    rest = watch(tmp_path).without(cluster, ("b1",))
    assert rest is not None and rest.inventory is not None and rest.name == "rented"
    assert [(one.name, one.groups) for one in load_inventory(rest.inventory).hosts] == [
        ("c1", ("controllers", "brokers"))
    ]
    assert watch(tmp_path).without(cluster, ("c1",)) is None, "no controller is left"


def test_provisioned_hosts_that_never_answer_are_named(cluster: Cluster) -> None:
    assert cluster.inventory is not None
    with pytest.raises(UsageError, match=r"no connection within 0 s after provisioning: b1 \(127.0.0.1\)"):
        asyncio.run(await_hosts(cluster.inventory, 0))
