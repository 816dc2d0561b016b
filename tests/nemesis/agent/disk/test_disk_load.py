"""A busy disk: somebody else writes on it, by the kernel's account, and then nobody does."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import wait_until

SIZE = 1 << 20


@pytest.fixture
def loaded(agent: Any, tmp_path: Path) -> Any:
    (tmp_path / "data").mkdir()
    agent.define(["/bin/sleep", "1000"], data=str(tmp_path / "data"))
    return agent


def load(agent: Any, id: str = "f1", ttl: float = 60, **more: Any) -> int:
    pid: int = agent.call("disk.load", id=id, name="node", ttl=ttl, **{"bytes": SIZE, "writers": 2, **more})["pid"]
    return pid


def look(agent: Any, id: str = "f1") -> dict[str, Any]:
    seen: dict[str, Any] = agent.call("probe.load", id=id, name="node", seconds=0.1)
    return seen


def is_gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}/fd/0").exists()


def test_somebody_writes_while_it_is_open_and_nobody_before_and_after(loaded: Any, tmp_path: Path) -> None:
    before = look(loaded)
    assert (before["open"], before["pid"], before["written_bytes"]) == (False, None, 0)
    pid = load(loaded)
    wait_until(lambda: look(loaded)["written_bytes"] > 0, "it writes")
    assert look(loaded)["pid"] == pid and look(loaded)["fsync_s"] > 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "h1"], "its file has no name"
    loaded.call("heal", id="f1")
    assert is_gone(pid) and look(loaded)["written_bytes"] == 0


def test_its_file_stays_as_large_as_was_asked_for(loaded: Any) -> None:
    pid = load(loaded, bytes=SIZE, writers=3)
    wait_until(lambda: look(loaded)["written_bytes"] > 4 * SIZE, "it has gone over it several times", timeout=30)
    sizes = [file.stat().st_size for file in Path(f"/proc/{pid}/fd").iterdir() if file.exists()]
    assert SIZE / 2 < max(sizes) <= SIZE


def test_loads_add_up_and_end_in_any_order(loaded: Any) -> None:
    first, second = load(loaded, id="f1"), load(loaded, id="f2")
    loaded.call("heal", id="f1")
    assert is_gone(first) and not is_gone(second)
    loaded.call("heal", id="f2")
    assert is_gone(second)


def test_it_ends_in_its_time_though_agent_and_keeper_were_killed(loaded: Any) -> None:
    pid = load(loaded, ttl=1.0)
    loaded.kill_keepers()
    loaded.kill()
    wait_until(lambda: is_gone(pid), "it has ended", timeout=5)


def test_a_load_whose_process_was_killed_is_not_open_any_more(loaded: Any) -> None:
    os.kill(load(loaded), 9)
    wait_until(lambda: not look(loaded)["open"], "the keeper has ended it", timeout=5)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"bytes": 1 << 40}, "bytes: 1.*must be a whole number"),
        ({"bytes": 4096}, "at least 4096 for each of 2 writers"),
        ({"writers": 17}, "writers: 17 must be a whole number from 0 to 16"),
    ],
)
def test_what_is_too_much_or_nothing_is_refused(
    loaded: Any, refused: Callable[..., Any], arguments: dict[str, Any], said: str
) -> None:
    with pytest.raises(refused, match=said):  # type: ignore[call-overload]
        load(loaded, **arguments)
