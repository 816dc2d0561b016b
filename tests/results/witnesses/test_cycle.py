"""A cycle in plain words, and its picture."""

from __future__ import annotations

import random
from xml.etree import ElementTree

import pytest

from squall.results.checkers.transactions.facts import TransactionWitness
from squall.results.checkers.transactions.list_append import check_list_append
from squall.results.synthetic.forge_cycles import INJECTIONS, healthy_transactions
from squall.results.synthetic.forge_transactions import MILLISECOND, ForgedTransaction, append, read, table_of
from squall.results.witnesses.cycle import tell_transactions, title_of
from squall.results.witnesses.cycle_diagram import cycle_diagram

SVG = "{http://www.w3.org/2000/svg}"


def at(begun: int, ended: int | None) -> tuple[int, int | None]:
    return begun * MILLISECOND, None if ended is None else ended * MILLISECOND


def lost_update() -> TransactionWitness:
    history = [
        ForgedTransaction(4, *at(0, 20), (read(7), append(7, 41))),
        ForgedTransaction(5, *at(5, 25), (read(9), read(7), append(7, 42))),
        ForgedTransaction(6, *at(40, 50), (read(7, 41, 42),)),
    ]
    return check_list_append(table_of(history)).witnesses[0]


def injected(name: str, seed: int = 3) -> TransactionWitness:
    anomaly, inject = INJECTIONS[name]
    witnesses = check_list_append(table_of(inject(healthy_transactions(seed), random.Random(seed)))).witnesses
    return next(one for one in witnesses if one.anomaly == anomaly)


def test_a_lost_update_in_words() -> None:
    witness = lost_update()
    assert title_of(witness) == "there is a cycle with one missed write (G-single)"
    told = [(line.subject, line.text, line.time) for line in tell_transactions(witness, 0)]
    assert told == [
        (
            "T1, process 5",
            "read key 7: empty, append 42 to key 7 and 1 more; committed; begun at 0.005000 s",
            "0.025000 s",
        ),
        ("T2, process 4", "read key 7: empty, append 41 to key 7; committed; begun at 0.000000 s", "0.020000 s"),
        ("because", "T1 comes before T2: T1 read key 7 empty; the next element is 41, which T2 appended", ""),
        ("because", "T2 comes before T1: in key 7, T2's 41 is followed by T1's 42", ""),
        ("so", "T1 → T2 → T1: no order of these transactions explains what they read", ""),
    ]


def test_a_lost_append_in_words() -> None:
    history = [
        ForgedTransaction(4, *at(0, 5), (append(7, 1),)),
        ForgedTransaction(5, *at(6, 9), (append(7, 2),)),
        ForgedTransaction(6, *at(10, 12), (read(7, 2),)),
    ]
    told = [line.text for line in tell_transactions(check_list_append(table_of(history)).witnesses[0], 0)]
    assert told[2:4] == [
        "T1 comes before T2: T1 appended 2, the last element of key 7 in any read, and T2 appended 1, "
        "which no read shows",
        "T2 comes before T1: T2 had ended at 0.005000 s, before T1 began at 0.006000 s",
    ]


def test_a_list_is_shown_where_it_matters() -> None:
    elements = tuple(range(1, 31))
    history = [
        ForgedTransaction(4, *at(0, 5), tuple(append(7, one) for one in elements)),
        ForgedTransaction(5, *at(6, 9), (read(7, *elements),)),
        ForgedTransaction(6, *at(6, 9), (read(7, *elements[:10], 12, 11),)),
    ]
    told = tell_transactions(check_list_append(table_of(history)).witnesses[0], 0)
    assert told[0].text.startswith("read key 7: … 8 9 10 11 12 13 …; committed")
    assert told[1].text.startswith("read key 7: … 8 9 10 12 11; committed")


@pytest.mark.parametrize("name", INJECTIONS)
def test_every_anomaly_can_be_told_and_drawn(name: str) -> None:
    witness = injected(name)
    lines = tell_transactions(witness, 0)
    assert [line for line in lines if line.subject == "because"]
    assert all("None" not in line.text for line in lines), lines
    picture = cycle_diagram(witness, 0)
    if not witness.steps:
        assert picture == ""
        return
    root = ElementTree.fromstring(picture)
    assert len(root.findall(f"{SVG}rect")) == len(witness.transactions)
    assert len(root.findall(f"{SVG}path")) == len(witness.steps)


def test_a_picture_is_always_the_same() -> None:
    assert cycle_diagram(lost_update(), 0) == cycle_diagram(lost_update(), 0)


def test_a_transaction_whose_end_nobody_saw_is_dashed() -> None:
    history = [
        ForgedTransaction(4, *at(0, None), (append(7, 1), append(8, 1)), 2),
        ForgedTransaction(5, *at(5, 25), (read(7, 1), read(8))),
    ]
    witness = check_list_append(table_of(history)).witnesses[0]
    rects = ElementTree.fromstring(cycle_diagram(witness, 0)).findall(f"{SVG}rect")
    assert [bool(one.get("stroke-dasharray")) for one in rects].count(True) == 1
    assert "outcome unknown" in " ".join(line.text for line in tell_transactions(witness, 0))
