"""A network interface that is down, for real: two hosts joined by a virtual cable, one of which loses its end of it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.nemesis.agent.conftest import ADDRESSES

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(os.geteuid() != 0, reason="makes network namespaces, which needs root"),
]


class Cable:
    """h1, whose interface goes down, and h2."""

    def __init__(self, agents: dict[str, Any], inside: dict[str, list[str]]) -> None:
        self.h1 = agents["h1"]
        self.h2 = agents["h2"]
        self._inside = inside["h1"]

    def take_down(self, *, id: str = "f1", ttl: float = 60, **how: Any) -> None:
        self.h1.call("net.interface_down", id=id, ttl=ttl, **{"address": ADDRESSES["h1"], **how})

    def ip(self, *words: str) -> str:
        return subprocess.run([*self._inside, "ip", *words], capture_output=True, text=True, check=True).stdout

    def is_up(self) -> bool:
        return "UP" in self.ip("link", "show", "eth0").split("<")[1].split(">")[0].split(",")

    def is_reached(self) -> bool:
        return bool(self.h2.call("probe.reach", targets={"h1": ADDRESSES["h1"]}, timeout=1)["h1"])

    def seen(self, id: str = "f1") -> dict[str, Any]:
        return dict(self.h1.call("probe.errand", id=id))


@pytest.fixture
def cable(inside: dict[str, list[str]], start_agent: Callable[..., Any]) -> Iterator[Cable]:
    agents = {name: start_agent(address=ADDRESSES[name], name=name, prefix=inside[name]) for name in ADDRESSES}
    yield Cable(agents, inside)


def test_it_goes_down_a_moment_later_and_comes_up_with_its_routes(
    cable: Cable, wait_until: Callable[..., float]
) -> None:
    cable.ip("route", "add", "default", "via", ADDRESSES["h2"])
    cable.ip("-6", "address", "add", "fd00:99::1/64", "dev", "eth0", "nodad")
    routes = cable.ip("route", "show")
    cable.take_down()
    wait_until(lambda: not cable.is_up(), "the interface is down")
    assert not cable.is_reached() and cable.ip("route", "show") == ""
    wait_until(lambda: cable.seen()["effect"].get("samples", 0) >= 3, "the host looks at it")
    cable.h1.call("heal", id="f1")
    wait_until(cable.is_reached, "h1 is reached again")
    assert sorted(cable.ip("route", "show").splitlines()) == sorted(routes.splitlines())
    assert "fd00:99::1/64" in cable.ip("-6", "address", "show", "dev", "eth0")
    told = cable.seen()
    assert not told["open"] and not told["cut_short"]
    assert told["effect"]["down"] == told["effect"]["samples"] and told["effect"]["bytes"] == 0


def test_it_comes_up_by_its_time_to_live_with_nobody_there(cable: Cable, wait_until: Callable[..., float]) -> None:
    cable.take_down(ttl=1.5)
    cable.h1.kill_keepers()
    cable.h1.kill()
    wait_until(lambda: not cable.is_up(), "the interface is down")
    wait_until(cable.is_up, "the errand has brought it up")


def test_if_the_errand_dies_the_keeper_brings_it_up(cable: Cable, wait_until: Callable[..., float]) -> None:
    cable.take_down()
    wait_until(lambda: not cable.is_up(), "the interface is down")
    (running,) = (cable.h1.state / "errands").glob("*.running.json")
    pid = int(running.read_text().split('"pid": ')[1].split(",")[0])
    os.kill(pid, signal.SIGKILL)
    wait_until(cable.is_reached, "h1 is reached again")
    assert cable.seen()["cut_short"]


def test_of_two_faults_the_last_one_brings_it_up(cable: Cable, wait_until: Callable[..., float]) -> None:
    cable.take_down()
    cable.take_down(id="f2", interface="eth0")
    wait_until(lambda: not cable.is_up() and cable.seen("f2")["effect"].get("down", 0) > 0, "the interface is down")
    cable.h1.call("heal", id="f1")
    assert not cable.is_up()
    cable.h1.call("heal", id="f2")
    wait_until(cable.is_reached, "h1 is reached again")


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"interface": "lo"}, "'lo' is not an interface that this host can take down"),
        ({"interface": "eth9"}, "'eth9' is not an interface"),
        ({"address": "10.1.2.3"}, "no interface of this host has '10.1.2.3'"),
    ],
)
def test_what_is_no_interface_of_this_host_is_refused(
    cable: Cable, refused: type[Exception], how: dict[str, Any], said: str
) -> None:
    with pytest.raises(refused, match=said):
        cable.take_down(**how)
