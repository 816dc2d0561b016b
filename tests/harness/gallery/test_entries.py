"""The format of entries, and what the shipped ones state: complete, consistent, and true of their minimal histories."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from squall.harness.errors import UsageError
from squall.harness.gallery.core.entry import BROKEN, MOST_OPERATIONS, TWIN, Entry
from squall.harness.gallery.core.steps import Hold, without
from squall.harness.gallery.entries import chosen, entries, load_entry
from squall.harness.gallery.history import write_minimal
from squall.harness.scenario.suites import SHIPPED
from squall.results.check import verdict_of
from tests.facts import naming
from tests.harness.gallery.editing import edited

SHIPPED_ENTRIES = entries(Path("nowhere"))
D1 = SHIPPED / "gallery" / "D1.yaml"


@pytest.fixture(params=SHIPPED_ENTRIES, ids=lambda entry: entry.name)
def entry(request: pytest.FixtureRequest) -> Entry:
    found: Entry = request.param
    return found


def test_every_file_of_the_gallery_is_an_entry() -> None:
    files = {path.stem for path in (SHIPPED / "gallery").glob("*")}
    assert (
        {one.name for one in SHIPPED_ENTRIES}
        == files
        >= {"D1", "E1", "J1", "K1", "L1", "N1", "N2", "T1a", "T1b", "T2", "T3"}
    )


def test_a_minimal_history_is_invalid_with_the_entrys_anomaly(entry: Entry, tmp_path: Path) -> None:
    """HX-08: the checks find each published bug in at most ten operations."""
    assert len(entry.minimal.broken) <= MOST_OPERATIONS
    write_minimal(tmp_path, entry, BROKEN)
    verdict = verdict_of(tmp_path)
    assert (verdict.verdict, [one.name for one in verdict.anomalies]) == ("invalid", [entry.anomaly])
    assert verdict.as_expected


def test_the_minimal_history_of_the_twin_is_valid(entry: Entry, tmp_path: Path) -> None:
    """The near-miss: nothing else is wrong with these histories."""
    write_minimal(tmp_path, entry, TWIN)
    verdict = verdict_of(tmp_path)
    assert (verdict.verdict, verdict.reasons) == ("valid", ())
    assert verdict.as_expected


def test_the_twin_differs_and_expects_the_opposite(entry: Entry) -> None:
    broken, twin = entry.arm(BROKEN), entry.arm(TWIN)
    assert (broken.expects, twin.expects) == ("invalid", "valid")
    assert broken.words != twin.words
    assert twin.schedule, "a twin does something"
    fixed = broken.client != twin.client or broken.cluster != twin.cluster or broken.system != twin.system
    assert entry.is_live or fixed, "what is fixed has a fixed twin"


def test_a_reproduction_is_dated(entry: Entry) -> None:
    assert entry.reproduced >= datetime.date(2026, 11, 26)


def test_without_leaves_out_a_step_and_all_that_refer_to_it() -> None:
    broken = load_entry(D1).schedule
    twin = without(broken, ("gap",))
    assert len(broken) - len(twin) == 2, "the hold, and the wait for it"
    assert "gap" not in {name for step in twin for name in step.refers_to}
    assert without(broken, ()) == broken


MARKER = {"f": "marker", "process": 1, "time": [0, 1], "value": 1}
HOLD = {"do": "hold", "as": "h", "api": "Produce"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"anomaly": "dupicate"}, ("anomaly", "dupicate", "duplicate")),
        ({"mechanism": "One. Two. Three. Four."}, ("mechanism", "4 sentences", "3")),
        ({"name": "D2"}, ("name", "D2", "D1")),
        ({"rate": {"seen": 4, "of": 3}}, ("rate", "seen: 4", "3")),
        ({"system__version": "4.4"}, ("system.version", "4.4", "4.4.0")),
        ({"client__name": "kafka-python"}, ("client.name", "kafka-python", "librdkafka")),
        ({"references": []}, ("references",)),
        ({"fixed": 4}, ("fixed",)),
        ({"minimal__broken": []}, ("minimal.broken",)),
        ({"minimal__broken": [MARKER] * 11}, ("minimal.broken", "10")),
        ({"minimal__broken": [MARKER | {"value": None}]}, ("minimal.broken[0]", "a marker needs one")),
        ({"minimal__broken": [MARKER | {"f": "read"}]}, ("minimal.broken[0]", "register")),
        ({"minimal__broken": [MARKER | {"register": "r"}]}, ("minimal.broken[0]", "register")),
        ({"cluster__proxied": [2]}, ("cluster", "no broker 2")),
        ({"cluster__proxied": []}, ("schedule", "broker 1 has no proxy", "cluster.proxied")),
        ({"cluster__topics": {"events": {"replicas": [[2]]}}}, ("topics.events", "no broker 2")),
        ({"cluster__config": {"min.insync.replica": "2"}}, ("cluster.config", "min.insync.replicas")),
        ({"schedule": [HOLD, HOLD]}, ("schedule[1]", "'h' is given twice")),
        ({"schedule": [{"do": "await", "held": "h"}]}, ("schedule[0]", "'h' is the name of no step before")),
        ({"schedule": [{"do": "await", "held": "h", "sent": "h"}]}, ("schedule[0]", "exactly one of")),
        ({"schedule": [HOLD | {"outlive": True, "direction": "response"}]}, ("schedule[0]", "outlive")),
        ({"schedule": [HOLD | {"api": "Produces"}]}, ("schedule[0]", "did you mean Produce")),
        ({"schedule": [{"do": "kill", "broker": 3}]}, ("schedule[0]", "no broker 3", "1 to 1")),
        ({"schedule": [{"do": "send", "as": "s", "topic": "event", "partitions": [0]}]}, ("schedule[0]", "'event'")),
        ({"schedule": [{"do": "sleep"}]}, ("schedule[0]", "sleep")),
        ({"twin": {"why": "?", "without": ["gaps"]}}, ("twin.without[0]", "'gaps' is the name of no step")),
        ({"schedule": [{"do": "hold-writes", "as": "h"}]}, ("schedule[0]", "etcd")),
        ({"schedule": [{"do": "write", "as": "w", "register": "r", "value": 1}]}, ("schedule[0]", "etcd")),
        ({"twin": {"why": "?", "system": {"name": "nats", "version": "2.12.1"}}}, ("twin.system.name", "kafka")),
        ({"twin": {"why": "?"}}, ("twin", "same as the broken version")),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)
def test_what_is_wrong_is_named_with_file_line_and_field(
    changes: dict[str, object], words: tuple[str, ...], tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=naming(*words)) as caught:
        load_entry(edited("D1", tmp_path, **changes))
    assert f"{tmp_path / 'D1.yaml'}:" in str(caught.value)


def test_an_unchanged_copy_is_an_entry(tmp_path: Path) -> None:
    assert load_entry(edited("D1", tmp_path)) == load_entry(D1)


def test_an_entry_of_ones_own_replaces_a_shipped_one_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "gallery").mkdir()
    edited("D1", tmp_path / "gallery", title="mine")
    assert [one.title for one in chosen(["D1"], tmp_path)] == ["mine"]
    assert [one.name for one in chosen(["L1", "D1", "L1"], tmp_path)] == ["L1", "D1"]


def test_an_unknown_name_finds_the_nearest() -> None:
    with pytest.raises(UsageError, match=naming("'D2'", "known are")):
        chosen(["D2"])


def test_every_hold_can_be_met_at_a_proxy(entry: Entry) -> None:
    assert all(hold.broker in entry.cluster.proxied for hold in entry.arm(BROKEN).holds if isinstance(hold, Hold))
