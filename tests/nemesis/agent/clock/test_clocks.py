"""Skewed clocks: of single processes for real, of a machine only against a clock that is not one."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from squall.nemesis.agent.clock import clock_driver, clock_faults, clocks
from squall.nemesis.agent.clock.device import RealClockDevice, refusal
from squall.nemesis.agent.core import journal, verb_error
from tests.nemesis.agent.conftest import package_of
from tests.waiting import wait_until

SECOND = 10**9

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

        def written() -> list[str]:
            return self._log.read_text().splitlines() if self._log.exists() else []

        length = len(written())
        wait_until(lambda: len(written()) > length + 1, "it writes further lines")
        return [float(word) for word in written()[-2].split()]

    def lines(self) -> list[str]:
        return [line for line in self._log.read_text().splitlines() if len(line.split()) == 4]

    def look(self, seconds: float) -> dict[str, Any]:
        seen: dict[str, Any] = self.agent.call("probe.clock", name="node", watch_s=seconds)
        return seen

    def offset(self) -> float:
        """Its wall clock against ours, at the moment it told it."""
        return self._offset(self.latest())

    def offsets(self, count: int) -> list[float]:
        """The same for so many lines in a row, from now on."""
        first = len(self.lines())
        wait_until(lambda: len(self.lines()) > first + count, "it writes further lines")
        return [self._offset([float(word) for word in line.split()]) for line in self.lines()[first : first + count]]

    def _offset(self, line: list[float]) -> float:
        wall, monotonic, _, _ = line
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
        (package_of(copy / "agent.py") / "clock" / "clockshim.so").unlink(missing_ok=True)
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
        # The skewed process runs for a few of its own timers, which are due every 5 ms.
        time.sleep(0.02)
        watch.agent.call("heal", id=f"f{turn}")
    _, monotonic, _, worst_stall = watch.latest()
    assert abs(time.monotonic_ns() - monotonic) / 1e9 < 1.0
    assert worst_stall < 1.0


def test_a_clock_may_run_fast_without_a_jump(watch: Watch) -> None:
    watch.skew(0.0, rate=2.0)
    began = time.monotonic()
    # The rate is what is measured, over half a second; so it is below.
    time.sleep(0.5)
    first = watch.offset()
    assert first == pytest.approx(time.monotonic() - began, abs=0.2)
    # Measured over the next half a second.
    time.sleep(0.5)
    assert watch.offset() > first + 0.4


def test_the_probe_sees_what_the_process_sees(watch: Watch) -> None:
    watch.latest()
    assert watch.agent.call("probe.clock", name="node")["mapped"] is True
    watch.skew(1234.5)
    seen = watch.agent.call("probe.clock", name="node")
    assert seen["offset_s"] == pytest.approx(1234.5, abs=0.05)
    assert watch.offset() == pytest.approx(seen["offset_s"], abs=0.1)


def test_a_strobe_jumps_to_and_fro_and_leaves_monotonic_time_alone(watch: Watch) -> None:
    still = watch.look(0.4)
    assert still["jumps"] == 0
    watch.agent.call("clock.set", id="f1", name="node", offset_s=3600, every_s=0.05, ttl=60)
    seen = watch.look(0.6)
    assert seen["jumps"] == pytest.approx(12, abs=3) and seen["jump_s"] == pytest.approx(3600, abs=0.1)
    assert abs(seen["monotonic_offset_s"]) < 0.01 and seen["mapped"] is True
    own = {round(offset / 3600) for offset in watch.offsets(40)}
    assert own == {0, 1}, "the running process sees it too"
    watch.agent.call("clock.clear", id="f1")
    assert watch.look(0.4)["jumps"] == 0


def test_a_frozen_clock_stands_still_at_the_time_that_was_asked_for(watch: Watch) -> None:
    watch.agent.call("clock.set", id="f1", name="node", wall_s=2_000_000_000, rate=0, ttl=60)
    seen = watch.look(0.2)
    assert seen["wall_ran_s"] == 0
    assert seen["watched_s"] > 0.15, "the first and the last reading may be among those that were interrupted"
    assert seen["wall_s"] == pytest.approx(2_000_000_000, abs=0.001)
    assert {watch.latest()[0] for _ in range(3)} == {watch.latest()[0]}
    watch.agent.call("heal")
    assert watch.look(0.2)["wall_ran_s"] == pytest.approx(0.2, abs=0.1)


def test_the_monotonic_clock_alone_runs_ahead_and_fast_and_never_goes_back(watch: Watch) -> None:
    if watch.agent.call("info")["clock"] != "shim":
        assert "needs the clock shim" in watch.agent.call("info")["unable"]["clock.monotonic"]
        return
    before = watch.look(0.2)
    watch.agent.call("clock.monotonic", id="f1", name="node", offset_s=10, rate=1.5, ttl=60)
    seen = watch.look(0.4)
    assert seen["monotonic_ran_s"] / seen["watched_s"] == pytest.approx(1.5, abs=0.05)
    assert abs(seen["offset_s"]) < 0.05 and seen["monotonic_rate"] == 1.5
    assert watch.latest()[1] / 1e9 - time.monotonic() > 9, "the running process too"
    watch.agent.call("heal")
    after = watch.look(0.2)
    assert after["monotonic_offset_s"] >= seen["monotonic_offset_s"] > before["monotonic_offset_s"] + 10
    assert after["monotonic_ran_s"] / after["watched_s"] == pytest.approx(1, abs=0.05)


def test_overlapping_monotonic_faults_end_in_any_order_never_backwards(
    watch: Watch,
) -> None:
    if watch.agent.call("info")["clock"] != "shim":
        pytest.skip("the Python hook leaves monotonic time alone")
    watch.agent.call("clock.monotonic", id="f1", name="node", rate=3.0, ttl=60)
    watch.agent.call("clock.monotonic", id="f2", name="node", rate=0.5, ttl=60)
    assert watch.look(0.1)["monotonic_rate"] == 0.5
    watch.agent.call("clock.monotonic", id="f1", name="node", rate=3.0, ttl=60)
    watch.agent.call("heal", id="f2")
    assert watch.look(0.1)["monotonic_rate"] == 3.0
    watch.agent.call("heal", id="f1")
    watch.agent.call("heal", id="f1")
    assert watch.look(0.1)["monotonic_rate"] == 1.0
    told = [line.split()[1] for line in watch.lines()]
    assert all(int(one) < int(other) for one, other in pairwise(told))


def test_a_wait_by_the_monotonic_clock_lasts_as_long_as_that_clock_says(watch: Watch) -> None:
    """Ten naps of 5 ms by a clock that is four times as fast take a quarter of the time, and none hangs."""
    if watch.agent.call("info")["clock"] != "shim":
        pytest.skip("the Python hook leaves monotonic time alone")
    watch.agent.call("clock.monotonic", id="f1", name="node", offset_s=3600, rate=0.25, ttl=60)
    first, second = watch.latest(), watch.latest()
    assert second[1] - first[1] > 0.04e9 and second[0] - first[0] > 0.16e9


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
        ({"offset_s": 1, "rate": -1}, "rate: -1.0 must be at least 0"),
        ({"offset_s": 1, "every_s": 0.0001}, "every_s: 0.0001 must be at least 0.002"),
        ({"wall_s": "noon"}, "wall_s: 'noon' must be a number"),
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

    def sleep(self, seconds: float) -> None:
        self.raw += round(seconds * SECOND)


class PretendedDriver:
    """Whoever would set the clock again and again."""

    def __init__(self) -> None:
        self.plans: list[Any] = []
        self.stops = 0

    def start(self, plan: Any) -> None:
        self.plans.append(plan)

    def stop(self) -> None:
        self.stops += 1


def entry(offset_s: float, seconds: float = 60.0, **more: float) -> Any:
    arguments = {"name": "node", "offset_s": offset_s, "rate": 1.0, "every_s": 0.0, **more}
    return journal.Entry("f1", "clock.set", arguments, time.monotonic() + seconds, 0.0, "")


def test_a_machines_clock_is_restored_by_elapsed_raw_time(tmp_path: Path) -> None:
    device = PretendedClock()
    clock = clocks.MachineClock(tmp_path, device, PretendedDriver())
    clock.apply("node", [entry(3600)])
    assert device.error == 3600 * 10**9 and device.running == []
    device.raw += 7 * 10**9
    assert clock.offset(None, None)["offset_s"] == pytest.approx(3600)
    clock.apply("node", [])
    assert device.error == 0 and device.running == ["chrony"]
    assert clock.offset(None, None)["offset_s"] == 0


def test_whoever_restores_it_need_not_be_who_set_it(tmp_path: Path) -> None:
    device = PretendedClock()
    clocks.MachineClock(tmp_path, device, PretendedDriver()).apply("node", [entry(-3600)])
    device.raw += 10**9
    clocks.MachineClock(tmp_path, device, PretendedDriver()).apply("node", [])
    assert device.error == 0 and device.running == ["chrony"]


def test_restoring_twice_sets_the_clock_once(tmp_path: Path) -> None:
    device = PretendedClock()
    clock = clocks.MachineClock(tmp_path, device, PretendedDriver())
    clock.apply("node", [entry(60)])
    clock.apply("node", [])
    clock.apply("node", [])
    assert len(device.settings) == 2


def test_after_a_reboot_the_clock_is_left_alone(tmp_path: Path) -> None:
    device = PretendedClock()
    clock = clocks.MachineClock(tmp_path, device, PretendedDriver())
    clock.apply("node", [entry(60)])
    saved = tmp_path / "clock.json"
    boot = journal.boot_id()
    saved.write_text(saved.read_text().replace(boot, "another") if boot else saved.read_text())
    clock.apply("node", [])
    assert len(device.settings) == (1 if boot else 2) and not saved.exists()


def test_a_frozen_or_strobed_machine_clock_is_driven_until_restored(tmp_path: Path) -> None:
    device, driver = PretendedClock(), PretendedDriver()
    clock = clocks.MachineClock(tmp_path, device, driver)
    clock.apply("node", [entry(3600, every_s=0.1)])
    (plan,) = driver.plans
    began = device.wall_ns()
    clock_driver.follow(plan, device, lambda: device.raw < plan.true.base_real + SECOND)
    shown = [wall - (began - 3600 * SECOND) for wall in device.settings[1:]]
    sides = [offset > 1800 * SECOND for offset in shown]
    assert sum(one != other for one, other in pairwise(sides)) == 9
    clock.apply("node", [entry(60, rate=0.0)])
    device.settings.clear()
    clock_driver.follow(driver.plans[-1], device, lambda: len(device.settings) < 20)
    assert len(set(device.settings)) == 1
    clock.apply("node", [])
    assert device.error == 0 and driver.stops == 3 and device.running == ["chrony"]


def test_a_driven_clock_is_left_alone_when_its_time_is_up(tmp_path: Path) -> None:
    device, driver = PretendedClock(), PretendedDriver()
    clock = clocks.MachineClock(tmp_path, device, driver)
    clock.apply("node", [entry(3600, every_s=0.1, seconds=2.0)])
    began = device.raw
    clock_driver.follow(driver.plans[0], device, lambda: True)
    assert device.raw - began == pytest.approx(2 * SECOND, abs=0.1 * SECOND)


def test_who_drives_a_clock_sets_it_no_more_once_it_was_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here in a thread, against a clock that is only numbers."""
    driving = clock_driver
    device, process = PretendedClock(), driving.DriverProcess(tmp_path)
    device.sleep = lambda seconds: (time.sleep(0.001), PretendedClock.sleep(device, seconds))  # type: ignore[method-assign]

    threads: list[threading.Thread] = []

    def in_a_thread(*_: object) -> bool:
        _, tell = os.pipe()
        threads.append(threading.Thread(target=process.run, args=(tell, device), daemon=True))
        threads[0].start()
        return True

    monkeypatch.setattr(driving, "daemonize", in_a_thread)
    line = driving.Line(device.raw, device.wall_ns(), 0.0)
    process.start(driving.Plan(line, line, 0, 3600.0))
    wait_until(lambda: len(device.settings) >= 3, "it sets the clock again and again", timeout=5, every=0.001)
    process.stop()
    count = len(device.settings)
    threads[0].join(5)
    assert not threads[0].is_alive()
    assert 3 <= count == len(device.settings)
    process.stop()


def test_a_machines_monotonic_clock_is_nobodys_to_set(tmp_path: Path) -> None:
    clock = clocks.MachineClock(tmp_path, PretendedClock(), PretendedDriver())
    assert "cannot be set" in clock_faults.why_no_monotonic(clock)


def test_the_real_clock_is_refused_where_it_is_forbidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The setter itself is replaced, so that even a broken guard could not touch this machine's clock."""

    def never(*_: object) -> None:
        raise AssertionError("the guard let it through")

    monkeypatch.setattr(time, "clock_settime_ns", never)
    monkeypatch.setattr(time, "clock_settime", never)
    monkeypatch.setenv("SQUALL_NO_REAL_CLOCK", "1")
    device = RealClockDevice()
    clock = clocks.MachineClock(tmp_path, device, PretendedDriver())
    for attempt in (lambda: device.set_wall_ns(0), clock.check):
        with pytest.raises(verb_error.VerbError) as caught:
            attempt()
        assert caught.value.kind == "refused"


def test_a_lab_hosts_marker_forbids_the_real_clock(tmp_path: Path) -> None:
    marker = tmp_path / "squall-lab-host"
    marker.touch()
    assert "lab host" in refusal(marker)
