"""`squall heal` heals every host that answers, whatever the others do, and tells loudly what is left."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from typer.testing import CliRunner

from squall.harness.cli.main import app
from squall.harness.errors import UsageError
from squall.harness.hosts import healing
from squall.harness.hosts.healing import Bundles, Healed, heal_hosts, what_is_left
from squall.harness.hosts.network import MachineNetwork
from squall.harness.hosts.ssh import Remote
from squall.harness.scenario.inventory import HostSpec, Inventory
from squall.nemesis.core.ports import HostUnreachable, VerbFailed

NAMES = ("ok", "unreachable", "full", "crashes", "hangs", "stubborn", "last")


def inventory() -> Inventory:
    hosts = (HostSpec(name=name, address="127.0.0.1", groups=("brokers",)) for name in NAMES)
    return Inventory("test", tuple(hosts))


async def heal_one(remote: Remote, bundles: Bundles) -> Healed:
    match remote.name:
        case "unreachable":
            raise HostUnreachable(remote.name, "no answer")
        case "full":
            raise UsageError("no space left on device", remedy="make room")
        case "crashes":
            raise ZeroDivisionError("of ours")
        case "hangs":
            await asyncio.Event().wait()
        case "stubborn":
            return Healed(remote.name, ("f1",), ("f2 (net.drop)",), "nft is not installed any more")
    return Healed(remote.name, ("f1", "f2"))


def test_one_bad_host_keeps_no_other_from_being_healed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(healing, "HOST_SECONDS", 0.2)
    outcome = {one.host: one for one in asyncio.run(heal_hosts(inventory(), MachineNetwork(), heal_one))}
    assert list(outcome) == list(NAMES)
    assert [name for name, one in outcome.items() if one.ok] == ["ok", "last"]
    assert outcome["last"].told() == "healed: f1, f2"
    told = what_is_left(list(outcome.values())) or ""
    for line in (
        "5 of 7 hosts are not healed:",
        "unreachable: NOT ASKED: unreachable is unreachable: no answer",
        "full: NOT ASKED: no space left on device make room",
        "crashes: NOT ASKED: ZeroDivisionError: of ours",
        "hangs: NOT ASKED: not done within 0.2 s",
        "stubborn: NOT HEALED: f2 (net.drop): nft is not installed any more (healed: f1)",
    ):
        assert line in told


def test_with_nothing_left_there_is_nothing_to_tell() -> None:
    assert what_is_left([Healed("b1"), Healed("b2", ("f1",))]) is None
    assert Healed("b1").told() == "nothing to heal"


@pytest.mark.parametrize(("left", "status"), [((), 0), (("f1 (proc.kill)",), 1), (None, 1)])
def test_the_command_fails_if_a_fault_is_left(
    left: tuple[str, ...] | None, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def healed(*_: object) -> list[Healed]:
        return [Healed("b1"), Healed("b2", left=left)]

    monkeypatch.setattr(healing, "heal_hosts", healed)
    file = tmp_path / "inventory.yaml"
    file.write_text("all:\n  children:\n    controllers: {hosts: {c1: }}\n    brokers: {hosts: {b1: , b2: }}\n")
    answer = CliRunner().invoke(app, ["heal", "--inventory", str(file)], standalone_mode=False)
    assert (answer.return_value or 0) == status
    assert ("b2" in answer.output.partition("not healed")[2]) == bool(status)


class FakeAgent:
    """An agent that can heal all but one fault."""

    def __init__(self, *_: object, **__: object) -> None:
        self.open = {"f1": "proc.kill", "f2": "net.drop"}

    async def call(self, verb: str, **_: object) -> dict[str, object]:
        if verb == "heal":
            del self.open["f1"]
            raise VerbFailed("b1", "heal", "failed", "not healed: f2 (net.drop): no nft; healed: f1")
        return {"entries": [{"id": id, "verb": verb} for id, verb in self.open.items()]}

    async def close(self) -> None: ...


def test_of_a_host_that_heals_in_part_both_parts_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(healing, "AgentHost", FakeAgent)
    monkeypatch.setattr(healing, "place_of_agent", lambda remote, bundles: healing.HostPaths("python3", "/root", "/b"))
    spec = HostSpec(name="b1", address="127.0.0.1", groups=("brokers",))
    told = asyncio.run(healing.heal_host(Remote(spec, MachineNetwork()), Bundles()))
    assert told.healed == ("f1",)
    assert told.left == ("f2 (net.drop)",)
    assert not told.ok
