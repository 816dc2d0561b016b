"""When looks at files show that they were damaged, lost or put back, and when they do not."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from pydantic import TypeAdapter

from squall.nemesis.core.fault import FaultContext
from squall.nemesis.entries import NemesisEntry
from squall.nemesis.registry import build_fault
from tests.facts import assert_names

ENTRY: TypeAdapter[NemesisEntry] = TypeAdapter(NemesisEntry)
KINDS = ["bit-flip", "truncate-file", "copy-chunk", "lose-file"]
PLACE = {"file": "events-0/0.log", "offset": 7, "length": 1, "source": 0}


class Host:
    """Remembers what it was asked to do."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []

    async def call(self, verb: str, **arguments: Any) -> dict[str, Any]:
        self.calls.append((verb, arguments))
        if verb == "probe.file":
            return {**PLACE, "size": 100, "digest": "abc", "open": False}
        return {"state": "running", "pid": 7, "started": 1}

    def verbs(self) -> list[str]:
        return [verb for verb, _ in self.calls if not verb.startswith(("probe.", "proc.status"))]


def fault_of(host: Host | None = None, **options: object) -> Any:
    async def sleep(seconds: float) -> None: ...

    context = FaultContext("1-damage", {"b1": host}, None, lambda: 0, sleep, random.Random(1))  # type: ignore[arg-type, dict-item]
    fault: Any = build_fault(ENTRY.validate_python({"target": "b1", "at": 1, **options}), context)  # type: ignore[arg-type]
    fault._targets = ("b1",)
    return fault


def looks(digest: str | None = "same", state: str = "running", **more: object) -> dict[str, Any]:
    file = {**PLACE, "size": 100, "digest": digest, "open": False, **more}
    return {"files": {"b1": file}, "processes": {"b1": {"state": state, "pid": 7}}}


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_reads_as_before_proves_no_damage_and_its_end(kind: str) -> None:
    fault = fault_of(fault=kind)
    assert_names(fault.check_effect(looks(), looks()), "b1", "events-0/0.log", "same content")
    assert fault.shows_end(looks(), looks()) is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_reads_otherwise_proves_it_and_not_its_end(kind: str) -> None:
    fault = fault_of(fault=kind)
    during = looks(None if kind == "lose-file" else "other")
    assert fault.check_effect(looks(), during) is None
    assert "from byte 7 on" in fault.shows_end(looks(), during)
    assert "events-0/0.log" in fault.told(during)


def test_a_file_that_is_still_there_is_not_lost() -> None:
    assert fault_of(fault="lose-file").check_effect(looks(), looks("other")) == "b1: events-0/0.log still exists"


def test_damage_that_is_to_stay_ends_all_the_same() -> None:
    fault = fault_of(fault="bit-flip", restore=False)
    assert fault.shows_end(looks(), looks("other")) is None
    assert fault.shows_end(looks(), looks("other", open=True)) == "b1: the fault is still open"
    assert fault.shows_end(looks(), looks("other", state="absent")) == "b1: the process is absent"


def test_a_node_that_should_be_down_must_be_seen_to_be() -> None:
    fault = fault_of(fault="bit-flip", node="down")
    assert fault.check_effect(looks(), looks("other")) == "b1: the process is running, pid 7"
    assert fault.check_effect(looks(), looks("other", state="absent")) is None


def test_every_look_and_the_damage_are_about_the_place_that_the_first_look_chose() -> None:
    host = Host()
    fault = fault_of(host, fault="bit-flip", where="end")
    asyncio.run(fault.observe())
    asyncio.run(fault.inject(5.0))
    asyncio.run(fault.observe())
    probes = [arguments for verb, arguments in host.calls if verb == "probe.file"]
    (done,) = [arguments for verb, arguments in host.calls if verb == "disk.damage"]
    assert probes[0]["where"] == "end" and "offset" not in probes[0]
    assert {key: probes[1][key] for key in PLACE} == PLACE == {key: done[key] for key in PLACE}


def test_a_node_is_down_before_the_damage_and_comes_up_after_the_bytes_are_back() -> None:
    host = Host()
    fault = fault_of(host, fault="truncate-file", node="down")
    asyncio.run(fault.observe())
    asyncio.run(fault.inject(5.0))
    asyncio.run(fault.heal())
    assert host.verbs() == ["proc.kill", "disk.damage", "heal", "heal"]
    ends = [arguments["id"] for verb, arguments in host.calls if verb == "heal"]
    assert ends == ["1-damage", "1-damage/node"]
    times = {verb: arguments["ttl"] for verb, arguments in host.calls if "ttl" in arguments}
    assert times["proc.kill"] > times["disk.damage"], "also if the hosts have to end both by themselves"


def back(state: str = "absent", **more: object) -> dict[str, Any]:
    return {"b1": {"state": state, "pid": 7, "same": True, "files": 3, "lost_bytes": 12, **more}}


def test_a_log_directory_equal_to_a_copy_that_lost_data_proves_the_return() -> None:
    fault = fault_of(fault="file-copy-restore")
    assert fault.check_effect(back("running"), back()) is None
    assert fault.told(back()) == "2 s back: 12 bytes written since the copy are lost, the process gone"
    assert "differs from the copy" in fault.check_effect(back("running"), back(same=False))
    assert "nothing was written since the copy" in fault.check_effect(back("running"), back(lost_bytes=0))
    assert "the process is running" in fault.check_effect(back("running"), back("running"))
    assert fault.shows_end(back("running"), back()) == "b1: the process is absent"
