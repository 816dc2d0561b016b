"""Where systemd runs, a timer heals below keeper and sentries, and a unit does at boot; elsewhere neither is there.

systemd itself is a fake here: the commands it would be given, and the files it would read.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from squall.nemesis.agent.guard import systemd_timer
from squall.nemesis.agent.guard.systemd_timer import SystemdTimer

COMMAND = ["/usr/bin/python3", "-u", "/root/agent dir/agent.py", "--state", "/root/.squall/agent"]


class Systemd:
    """What it was told; its timers."""

    def __init__(self) -> None:
        self.told: list[list[str]] = []
        self.active: set[str] = set()

    def __call__(self, argv: Sequence[str]) -> int:
        self.told.append(list(argv))
        if argv[0] == "systemd-run":
            self.active.add(next(word for word in argv if word.startswith("--unit=")).removeprefix("--unit="))
        elif "stop" in argv:
            self.active.discard(argv[-1].removesuffix(".timer"))
        elif "is-active" in argv:
            return 0 if argv[-1].removesuffix(".timer") in self.active else 3
        return 0


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Systemd:
    monkeypatch.setattr(systemd_timer.shutil, "which", lambda name, path=None: f"/usr/bin/{name}")
    for directory in ("run", "units"):
        (tmp_path / directory).mkdir()
    return Systemd()


def timer(tmp_path: Path, systemd: Systemd, *, is_root: bool = True, state: str = "/s") -> SystemdTimer:
    places = {"runs": tmp_path / "run", "units": tmp_path / "units"}
    return SystemdTimer(Path(state), COMMAND, run=systemd, is_root=is_root, **places)


def test_before_a_fault_a_timer_is_started_once(tmp_path: Path, systemd: Systemd) -> None:
    one = timer(tmp_path, systemd)
    one.start()
    one.start()
    (started,) = [argv for argv in systemd.told if argv[0] == "systemd-run"]
    assert started[-len(COMMAND) - 2 :] == ["--", *COMMAND, "--heal-due"]
    assert "--property=KillMode=process" in started, "or nodes that it starts again would end with it"


def test_one_that_somebody_stopped_is_started_again(tmp_path: Path, systemd: Systemd) -> None:
    one = timer(tmp_path, systemd)
    one.start()
    systemd.active.clear()
    one.start()
    assert len(systemd.active) == 1


def test_a_unit_heals_at_boot_while_a_fault_is_open(tmp_path: Path, systemd: Systemd) -> None:
    one = timer(tmp_path, systemd)
    one.start()
    (link,) = (tmp_path / "units/multi-user.target.wants").iterdir()
    unit = link.read_text()
    assert "ExecStart=/usr/bin/python3 -u '/root/agent dir/agent.py' --state /root/.squall/agent --heal-due" in unit
    assert "Type=oneshot" in unit and "KillMode=process" in unit


def test_with_nothing_open_neither_is_left(tmp_path: Path, systemd: Systemd) -> None:
    one = timer(tmp_path, systemd)
    one.start()
    timer(tmp_path, systemd).stop()  # by the keeper, which is another process than who started it
    assert systemd.active == set()
    assert not [path for path in (tmp_path / "units").rglob("*") if not path.is_dir()]


def test_two_agents_of_one_host_have_timers_of_their_own(tmp_path: Path, systemd: Systemd) -> None:
    timer(tmp_path, systemd, state="/a").start()
    timer(tmp_path, systemd, state="/b").start()
    assert len(systemd.active) == 2


@pytest.mark.parametrize("lacks", ["systemd", "root", "systemd-run"])
def test_without_systemd_or_root_nothing_is_asked_or_written(
    tmp_path: Path, systemd: Systemd, lacks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if lacks == "systemd":
        (tmp_path / "run").rmdir()
    if lacks == "systemd-run":
        monkeypatch.setattr(systemd_timer.shutil, "which", lambda name, path=None: None)
    one = timer(tmp_path, systemd, is_root=lacks != "root")
    one.start()
    one.stop()
    assert systemd.told == []
    assert not list((tmp_path / "units").iterdir())


def test_a_systemd_that_fails_keeps_no_fault_from_being_injected(tmp_path: Path, systemd: Systemd) -> None:
    (tmp_path / "units").rmdir()
    one = SystemdTimer(
        Path("/s"), COMMAND, runs=tmp_path / "run", units=tmp_path / "units", run=lambda argv: 1, is_root=True
    )
    one.start()
    one.stop()


def test_a_command_that_is_not_there_is_a_failure_and_no_error() -> None:
    assert systemd_timer.run(["/no/such/program"]) == 127
