"""What is counted of a train of datagrams, and which bit of a packet is changed: pure, no network is needed."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from random import Random

import pytest

from squall.nemesis.agent.link.link_damage import damaged
from squall.nemesis.agent.probe.link_trains import FILLING, Trains, car, missing_runs
from squall.nemesis.agent.probe.probe_auth import QUESTION, Key, ProbeKeys, Sealed, parsed
from squall.nemesis.agent.probe.probes import UdpResponder

KEY = Key(bytes(32))
LONG = 5000
"""Datagrams: more than a socket holds that asked for no room."""
UDP_PACKET = bytes([0x45, 0, 0, 40, *bytes(5), 17, *bytes(10)]) + bytes(8) + b"some content"
TCP_PACKET = bytes([0x45, 0, 0, 52, *bytes(5), 6, *bytes(10)]) + bytes(12) + bytes([0x50]) + bytes(7) + b"some content"
EMPTY_SEGMENT = TCP_PACKET[:40]


def counted(*cars: bytes) -> dict[str, int]:
    trains = Trains()
    for datagram in filter(None, (opened(one) for one in cars)):
        trains.take(datagram.body, datagram.unsealed)
    return trains.told("n").get("h1", {})


def opened(data: bytes) -> Sealed | None:
    datagram = parsed(data)
    return datagram if datagram and KEY.opens(datagram) else None


def cars(*numbers: int) -> list[bytes]:
    return [car(KEY, "n", "h1", number, 6) for number in numbers]


def test_a_train_that_arrives_as_it_was_thrown() -> None:
    seen = {"thrown": 6, "arrived": 6, "twice": 0, "damaged": 0, "overtaken": 0, "lost": 0, "bursts": 0, "longest": 0}
    assert counted(*cars(0, 1, 2, 3, 4, 5)) == seen


def test_what_comes_twice_late_or_not_at_all_is_counted() -> None:
    told = counted(*cars(0, 2, 2, 1, 5))
    assert (told["arrived"], told["twice"], told["overtaken"]) == (4, 1, 1)
    assert (told["lost"], told["bursts"], told["longest"]) == (2, 1, 2)


def test_a_damaged_content_is_counted_and_a_damaged_name_is_nobodys() -> None:
    whole = car(KEY, "n", "h1", 0, 6)
    content = whole[: -len(FILLING)] + bytes([FILLING[0] ^ 1]) + FILLING[1:]
    name = whole.replace(b'"h1"', b'"h9"')
    told = counted(content, name)
    assert (told["arrived"], told["damaged"]) == (1, 1)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gets more room than the machine allows all")
def test_a_host_that_is_busy_while_a_train_arrives_misses_nothing(tmp_path: Path) -> None:
    keys = ProbeKeys(tmp_path)
    responder, key = UdpResponder("127.0.0.1", 0, keys), keys.own()
    with responder.sockets[0], socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as thrower:
        thrower.connect(responder.address())
        for number in range(LONG):
            thrower.send(car(key, "n", "h1", number, LONG))
        responder.listen(timeout=0.5)
        answer = parsed(responder.answer(key.seal(QUESTION, json.dumps(["caught", "n"]).encode())) or b"")
    assert answer is not None and json.loads(answer.body)[1]["h1"]["lost"] == 0


@pytest.mark.parametrize(("arrived", "runs"), [({0, 1, 2}, []), (set(), [3]), ({1}, [1, 1]), ({0}, [2])])
def test_runs_of_what_is_missing(arrived: set[int], runs: list[int]) -> None:
    assert missing_runs(arrived, 3) == runs


@pytest.mark.parametrize(
    ("packet", "first"), [(UDP_PACKET, 28), (TCP_PACKET, 40), (EMPTY_SEGMENT, 36)], ids=["datagram", "segment", "empty"]
)
def test_one_bit_is_changed_of_what_a_packet_carries_or_of_its_checksum(packet: bytes, first: int) -> None:
    for seed in range(50):
        changed = damaged(packet, Random(seed))
        where = [at for at in range(len(packet)) if packet[at] != changed[at]]
        assert len(changed) == len(packet) and len(where) == 1 and where[0] >= first
        assert (packet[where[0]] ^ changed[where[0]]).bit_count() == 1
