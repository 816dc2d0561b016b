"""Skewed clocks: of single processes for real, of a machine only against a clock that is not one."""

from __future__ import annotations

import importlib
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

WATCH = """
import asyncio, datetime, sys, time

async def main():
    worst, last = 0.0, time.monotonic()
    while True:
        for _ in range(10):
            await asyncio.sleep(0.005)
            now = time.monotonic()
            worst, last = max(worst, now - last), now
        print(time.time_ns(), time.monotonic_ns(), datetime.datetime.now().timestamp(), worst, flush=True)

asyncio.run(main())
"""


class Watch:
    """A Python process that keeps telling its wall clock, its monotonic clock and its longest stall."""

    def __init__(self, agent: Any, log: Path) -> None:
        self.agent = agent
        self._log = log
        agent.define([sys.executable, "-c", WATCH], log=str(log))
        agent.call("proc.start", name="node")

    def latest(self) -> list[float]:
        """The first line written from now on."""
        length = len(self._log.read_text().splitlines()) if self._log.exists() else 0
        while True:
            lines = self._log.read_text().splitlines()
            if len(lines) > length + 1:
                return [float(word) for word in lines[-2].split()]
            time.sleep(0.01)

    def offset(self) -> float:
        """Its wall clock against ours, at the moment it told it."""
        wall, monotonic, _, _ = self.latest()
        true_wall = time.time_ns() - (time.monotonic_ns() - monotonic)
        return (wall - true_wall) / 1e9

    def skew(self, offset_s: float, rate: float = 1.0, id: str = "f1") -> None:
        self.agent.call("clock.set", id=id, name="node", offset_s=offset_s, rate=rate, ttl=60)


@pytest.fixture(params=["shim", "hook"])
def watch(
    request: pytest.FixtureRequest,
    start_agent: Callable[..., Any],
    program: Path,
    shim: bytes | None,
    tmp_path: Path,
) -> Watch:
    """Once with the C shim, once as on a host for which there was no compiler."""
    if request.param == "shim" and shim is None:
        pytest.skip("this machine has no C compiler")
    copy = shutil.copytree(program.parent, tmp_path / "agent")
    if request.param == "hook":
        (copy / "clockshim.so").unlink(missing_ok=True)
    agent = start_agent(program=copy / "agent.py")
    assert agent.call("info")["clock"] == request.param
    return Watch(agent, tmp_path / "watch.log")


@pytest.mark.parametrize("offset", [3600.0, -90.5, 0.25])
def test_the_wall_clock_of_the_process_jumps_and_comes_back(watch: Watch, offset: float) -> None:
    assert watch.offset() == pytest.approx(0, abs=0.1)
    watch.skew(offset)
    assert watch.offset() == pytest.approx(offset, abs=0.1)
    watch.agent.call("clock.clear", id="f1")
    assert watch.offset() == pytest.approx(0, abs=0.1)


def test_monotonic_time_stays_true_and_asyncio_does_not_stall(watch: Watch) -> None:
    watch.latest()
    for turn in range(20):
        watch.skew(3600.0 if turn % 2 else -3600.0, id=f"f{turn}")
        time.sleep(0.02)
        watch.agent.call("heal", id=f"f{turn}")
    _, monotonic, _, worst_stall = watch.latest()
    assert abs(time.monotonic_ns() - monotonic) / 1e9 < 1.0
    assert worst_stall < 1.0


def test_a_clock_may_run_fast_without_a_jump(watch: Watch) -> None:
    watch.skew(0.0, rate=2.0)
    began = time.monotonic()
    time.sleep(0.5)
    first = watch.offset()
    assert first == pytest.approx(time.monotonic() - began, abs=0.2)
    time.sleep(0.5)
    assert watch.offset() > first + 0.4


def test_the_probe_sees_what_the_process_sees(watch: Watch) -> None:
    watch.latest()
    assert watch.agent.call("probe.clock", name="node")["mapped"] is True
    watch.skew(1234.5)
    seen = watch.agent.call("probe.clock", name="node")
    assert seen["offset_s"] == pytest.approx(1234.5, abs=0.05)
    assert watch.offset() == pytest.approx(seen["offset_s"], abs=0.1)


def test_the_latest_of_overlapping_faults_rules_until_it_heals(watch: Watch) -> None:
    watch.skew(100, id="f1")
    watch.skew(-200, id="f2")
    assert watch.offset() == pytest.approx(-200, abs=0.1)
    watch.agent.call("heal", id="f2")
    assert watch.offset() == pytest.approx(100, abs=0.1)
    watch.agent.call("heal")
    assert watch.offset() == pytest.approx(0, abs=0.1)


def test_a_restarted_process_still_has_the_skewed_clock(watch: Watch) -> None:
    watch.skew(500)
    watch.agent.call("proc.stop", name="node")
    watch.agent.call("proc.start", name="node")
    assert watch.offset() == pytest.approx(500, abs=0.1)


def test_the_shim_covers_datetime_too(watch: Watch) -> None:
    if watch.agent.call("info")["clock"] != "shim":
        pytest.skip("the Python hook leaves datetime true, as documented")
    watch.skew(3600)
    wall, _, datetime_now, _ = watch.latest()
    assert datetime_now == pytest.approx(wall / 1e9, abs=0.1)


def test_a_process_that_does_not_map_its_page_is_told_apart(agent: Any) -> None:
    agent.define(["/usr/bin/env", "-i", "/bin/sleep", "1000"])
    agent.call("proc.start", name="node")
    assert agent.call("probe.clock", name="node")["mapped"] is False


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"offset_s": "soon"}, "offset_s: 'soon' must be a number"),
        ({"offset_s": 1, "rate": 0}, "rate: 0.0 must be more than 0"),
    ],
)
def test_a_wrong_skew_is_named(agent: Any, refused: Any, arguments: dict[str, Any], told: str) -> None:
    agent.define(["/bin/sleep", "1000"])
    with pytest.raises(refused) as caught:
        agent.call("clock.set", id="f1", name="node", ttl=5, **arguments)
    assert told in caught.value.error


class PretendedClock:
    """A machine's clock that is only numbers, and the service that keeps it right."""

    def __init__(self) -> None:
        self.raw = 5_000_000_000
        self.error = 0
        self.running = ["chrony"]
        self.settings: list[int] = []

    def wall_ns(self) -> int:
        return 1_700_000_000_000_000_000 + self.raw + self.error

    def raw_ns(self) -> int:
        return self.raw

    def set_wall_ns(self, wall_ns: int) -> None:
        self.settings.append(wall_ns)
        self.error += wall_ns - self.wall_ns()

    def synchronisation(self) -> list[str]:
        return list(self.running)

    def stop_synchronisation(self, services: Sequence[str]) -> None:
        self.running = [name for name in self.running if name not in services]

    def start_synchronisation(self, services: Sequence[str]) -> None:
        self.running += services


@pytest.fixture
def modules(program: Path) -> Iterator[dict[str, ModuleType]]:
    """The agent's own modules, imported as the agent does."""
    sys.path.insert(0, str(program.parent))
    names = ("clocks", "journal", "trouble")
    yield {name: importlib.import_module(name) for name in names}
    sys.path.remove(str(program.parent))
    for name in (*names, "network", "processes"):
        sys.modules.pop(name, None)


def entry(modules: dict[str, ModuleType], offset_s: float) -> Any:
    arguments = {"name": "node", "offset_s": offset_s, "rate": 1.0}
    return modules["journal"].Entry("f1", "clock.set", arguments, 0.0, 0.0, "")


def test_a_machines_clock_is_restored_by_elapsed_raw_time(modules: dict[str, ModuleType], tmp_path: Path) -> None:
    device = PretendedClock()
    clock = modules["clocks"].MachineClock(tmp_path, device)
    clock.apply("node", [entry(modules, 3600)])
    assert device.error == 3600 * 10**9 and device.running == []
    device.raw += 7 * 10**9
    assert clock.offset(None, None)["offset_s"] == pytest.approx(3600)
    clock.apply("node", [])
    assert device.error == 0 and device.running == ["chrony"]
    assert clock.offset(None, None)["offset_s"] == 0


def test_whoever_restores_it_need_not_be_who_set_it(modules: dict[str, ModuleType], tmp_path: Path) -> None:
    device = PretendedClock()
    modules["clocks"].MachineClock(tmp_path, device).apply("node", [entry(modules, -3600)])
    device.raw += 10**9
    modules["clocks"].MachineClock(tmp_path, device).apply("node", [])
    assert device.error == 0 and device.running == ["chrony"]


def test_restoring_twice_sets_the_clock_once(modules: dict[str, ModuleType], tmp_path: Path) -> None:
    device = PretendedClock()
    clock = modules["clocks"].MachineClock(tmp_path, device)
    clock.apply("node", [entry(modules, 60)])
    clock.apply("node", [])
    clock.apply("node", [])
    assert len(device.settings) == 2


def test_after_a_reboot_the_clock_is_left_alone(modules: dict[str, ModuleType], tmp_path: Path) -> None:
    device = PretendedClock()
    clock = modules["clocks"].MachineClock(tmp_path, device)
    clock.apply("node", [entry(modules, 60)])
    saved = tmp_path / "clock.json"
    boot = modules["journal"].boot_id()
    saved.write_text(saved.read_text().replace(boot, "another") if boot else saved.read_text())
    clock.apply("node", [])
    assert len(device.settings) == (1 if boot else 2) and not saved.exists()


def test_a_machines_clock_has_no_rate(modules: dict[str, ModuleType], tmp_path: Path) -> None:
    clock = modules["clocks"].MachineClock(tmp_path, PretendedClock())
    with pytest.raises(modules["trouble"].Trouble, match="needs a lab host"):
        clock.check(1.5)


def test_the_real_clock_is_refused_where_it_is_forbidden(
    modules: dict[str, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The setter itself is replaced, so that even a broken guard could not touch this machine's clock."""

    def never(*_: object) -> None:
        raise AssertionError("the guard let it through")

    monkeypatch.setattr(time, "clock_settime_ns", never)
    monkeypatch.setattr(time, "clock_settime", never)
    monkeypatch.setenv("SQUALL_NO_REAL_CLOCK", "1")
    device = modules["clocks"].RealClockDevice()
    clock = modules["clocks"].MachineClock(tmp_path, device)
    for attempt in (lambda: device.set_wall_ns(0), lambda: clock.check(1.0)):
        with pytest.raises(modules["trouble"].Trouble) as caught:
            attempt()
        assert caught.value.kind == "refused"


def test_a_lab_hosts_marker_forbids_the_real_clock(modules: dict[str, ModuleType], tmp_path: Path) -> None:
    marker = tmp_path / "squall-lab-host"
    marker.touch()
    assert "lab host" in modules["clocks"].refusal(marker)
