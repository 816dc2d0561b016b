"""How many connections a node takes, and that its peers get in whatever strangers do (CL-24)."""

from __future__ import annotations

import resource
import subprocess
import sys

from squall.nodes.server.connection_limits import ConnectionLimits, most_connections, most_open_files


def test_connections_of_one_address_are_limited_for_themselves() -> None:
    limits = ConnectionLimits(100, 2)
    for number in (1, 2):
        assert limits.refusal("PLAINTEXT", "10.0.0.1") is None
        limits.add(number, "10.0.0.1")
    assert "max.connections.per.ip=2" in (limits.refusal("PLAINTEXT", "10.0.0.1") or "")
    assert limits.refusal("PLAINTEXT", "10.0.0.2") is None
    limits.remove(1)
    assert limits.refusal("PLAINTEXT", "10.0.0.1") is None


def test_beyond_the_limit_of_all_only_the_controllers_listener_takes_more() -> None:
    limits = ConnectionLimits(2, 100, ["CONTROLLER"])
    for number in (1, 2):
        limits.add(number, "10.0.0.1")
    assert "max.connections" in (limits.refusal("PLAINTEXT", "10.0.0.2") or "")
    assert limits.refusal("CONTROLLER", "10.0.0.2") is None
    assert not limits.is_overfull
    limits.add(3, "10.0.0.2")
    assert limits.is_overfull, "somebody has to go for it"


def test_what_is_removed_twice_counts_once() -> None:
    limits = ConnectionLimits(2, 2)
    limits.add(1, "a")
    limits.remove(1)
    limits.remove(1)
    assert len(limits) == 0


def test_connections_and_files_leave_descriptors_for_the_rest() -> None:
    for descriptors in (64, 256, 1024, 1 << 20):
        assert most_connections(descriptors) + most_open_files(descriptors) <= descriptors * 3 // 4


def test_a_node_takes_as_many_descriptors_as_it_may() -> None:
    """The soft limit is 1024 nearly everywhere, and nobody raises it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    code = (
        "import resource\n"
        "_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (100, hard))\n"
        "from squall.nodes.server.connection_limits import raise_descriptor_limit\n"
        "print(raise_descriptor_limit(), resource.getrlimit(resource.RLIMIT_NOFILE)[0])\n"
    )
    told, soft = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert told == soft
    assert int(soft) == hard or hard == resource.RLIM_INFINITY
