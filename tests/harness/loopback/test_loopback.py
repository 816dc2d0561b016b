"""Ports of clusters on loopback: chosen once, by one process, and never lent by the kernel to a client meanwhile."""

import multiprocessing
import socket
from pathlib import Path

import pytest

from squall.harness.loopback.loopback import free_ports


def ports_taken_in_another_process(count: int, start_method: str) -> list[int]:
    with multiprocessing.get_context(start_method).Pool(1) as pool:
        return pool.apply(free_ports, (count,))


@pytest.mark.parametrize("start_method", ["fork", "spawn"])
def test_two_processes_never_choose_the_same_port(start_method: str) -> None:
    ours = free_ports(50)
    theirs = ports_taken_in_another_process(50, start_method)

    assert len({*ours, *theirs}) == 100


def test_no_port_is_one_that_the_kernel_gives_to_outgoing_connections() -> None:
    low, high = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())

    assert [port for port in free_ports(50) if low <= port <= high] == []


def test_a_port_on_which_a_process_listens_is_left_out() -> None:
    [first] = free_ports(1)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", first + 1))
        listening.listen()

        assert first + 1 not in free_ports(3)
