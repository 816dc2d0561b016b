"""What a suite may say under `nemesis:`, and what it is told when it says something else."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from squall.nemesis.core.durations import DurationRange
from squall.nemesis.entries import NemesisEntry, Sequence, nearest_fault, targets_of
from squall.nemesis.options import Bandwidth, Isolate
from squall.nemesis.registry import FAULT_NAMES

ENTRY: TypeAdapter[NemesisEntry] = TypeAdapter(NemesisEntry)


def entry(**written: Any) -> Any:
    return ENTRY.validate_python({key.rstrip("_"): value for key, value in written.items()})


def problem(**written: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        entry(**written)
    return str(caught.value)


def test_a_repeated_isolation_as_in_the_readme() -> None:
    parsed = entry(fault="isolate", target="leader of events/*", repeat={"every": "20s", "for": "10s"})
    assert isinstance(parsed, Isolate)
    assert (parsed.repeat.every, parsed.length(), parsed.cut_from) == (20.0, 10.0, "peers")


def test_options_may_be_written_within_the_fault() -> None:
    within = entry(fault={"isolate": {"from": "everyone"}}, target="b1", at="5s")
    beside = entry(fault="isolate", from_="everyone", target="b1", at=5)
    assert within == beside


def test_a_duration_may_be_a_range() -> None:
    parsed = entry(fault="pause", target="b1", at=1, for_={"from": "500ms", "to": "10s"})
    assert parsed.length() == DurationRange(shortest=0.5, longest=10.0)


def test_durations_have_units_and_offsets_a_sign() -> None:
    parsed = entry(fault="clock", target="b1", at="2m", for_="500ms", offset="-1h")
    assert (parsed.at, parsed.length(), parsed.offset) == (120.0, 0.5, -3600.0)


def test_a_sequence_holds_steps() -> None:
    parsed = entry(at="5s", sequence=[{"fault": "pause", "target": "b1", "for": 1}])
    assert isinstance(parsed, Sequence) and parsed.steps[0].fault == "pause"


def test_dumped_it_reads_again() -> None:
    written = {"fault": "isolate", "from": "everyone", "target": "b1", "repeat": {"every": 20, "for": "500ms"}}
    parsed = ENTRY.validate_python(written)
    assert ENTRY.validate_python(parsed.model_dump(mode="json", by_alias=True, exclude_none=True)) == parsed


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ({"fault": "isolat", "target": "b1", "at": 1}, "isolate"),
        ({"target": "b1", "at": 1}, "has no `fault`"),
        ({"fault": "kill", "target": "b1"}, "has no start time"),
        ({"fault": "kill", "target": "leader", "at": 1, "taget": 1}, "taget"),
        ({"fault": "kill", "target": "the boss of it", "at": 1}, "is not a target"),
        ({"fault": "kill", "target": "b1", "at": "soon"}, "is not a duration; write 500ms"),
        ({"fault": "kill", "target": "b1", "at": 1, "for": 0}, "must be longer than 0 s"),
        ({"fault": "kill", "target": "b1", "at": -1}, "greater than or equal to 0"),
        ({"fault": "kill", "target": "b1", "at": 1, "after": 1}, "for steps of a sequence"),
        ({"fault": "pause", "target": "b1", "at": 1, "for": {"from": 2, "to": 1}}, "must not be longer"),
        ({"fault": "pause", "target": "b1", "for": 1, "repeat": {"every": 9, "for": 1}}, "given twice"),
        ({"fault": "clock", "target": "b1", "at": 1, "offset": 0}, "does not change the clock"),
        ({"fault": "clock", "target": "b1", "at": 1, "offset": 5, "time": "2038-01-19"}, "give only one"),
        ({"fault": "clock", "target": "b1", "at": 1, "time": "noon"}, "such as 2038-01-19T03:14:07Z"),
        ({"fault": "clock-strobe", "target": "b1", "at": 1, "every": "2s"}, "must be from 0.005 s to 0.5 s"),
        ({"fault": "clock-strobe", "target": "b1", "at": 1, "offset": "1ms"}, "at least 10 ms"),
        ({"fault": "clock-monotonic", "target": "b1", "at": 1, "rate": 1}, "does not change the clock"),
        ({"fault": "disk-error", "target": "b1", "at": 1, "errno": "EBADFD"}, "'EIO', 'ENOSPC'"),
        ({"fault": "disk-slow", "target": "b1", "at": 1, "path": "/var/log/*"}, "below the log directory"),
        ({"fault": "lying-fsync", "target": "b1", "at": 1, "calls": ["write"]}, "'fsync' or 'fsync-directory'"),
        ({"fault": "disk-full", "target": "b1", "at": 1, "leave": "much"}, "is not a size; write 64KiB"),
        ({"fault": "bit-flip", "target": "b1", "at": 1, "bytes": 0}, "must be from 1 byte to 1MiB"),
        ({"fault": "truncate-file", "target": "b1", "at": 1, "file": "/etc/passwd"}, "below the log directory"),
        ({"fault": "lose-file", "target": "b1", "at": 1, "how": "burn"}, "'delete' or 'rename'"),
        ({"fault": "disk-load", "target": "b1", "at": 1, "size": "10GiB"}, "must be from 64KiB to 1GiB"),
        ({"fault": "clock-monotonic", "target": "b1", "at": 1, "offset": -1}, "greater than or equal to 0"),
        ({"fault": "leader-kill-lagging", "target": "b1", "at": 1}, "is not a topic-partition"),
        ({"fault": "rpc-hold", "api": "AlterPartitions", "at": 1}, "did you mean AlterPartition?"),
        ({"fault": "rpc-hold", "api": "EndTxn", "outlive": True, "at": 1}, "pass_others"),
        (
            {
                "fault": "rpc-hold",
                "api": "Fetch",
                "direction": "response",
                "pass_others": True,
                "outlive": True,
                "at": 1,
            },
            "its receiver is gone",
        ),
        ({"fault": "rpc-hold", "api": "Fetch", "count": 0, "at": 1}, "greater than or equal to 1"),
        ({"fault": "rpc-hold", "api": "Fetch", "until": {"api": "Produces"}, "at": 1}, "did you mean Produce?"),
        ({"fault": "rpc-cut", "api": "Fetch", "direction": "answer", "at": 1}, "'request' or 'response'"),
        ({"fault": "rpc-cut", "api": "Fetch", "messages": -1, "at": 1}, "greater than or equal to 0"),
        ({"fault": "disk-error", "target": "b1", "calls": ["fsnyc"], "at": 1}, "'fsync'"),
        ({"fault": "disk-error", "target": "b1", "probability": 0, "at": 1}, "greater than 0"),
        ({"fault": "power-loss", "target": "b1", "mode": "half", "at": 1}, "'all', 'torn' or 'none'"),
        ({"fault": "bandwidth", "target": "b1", "rate": "64 furlongs", "at": 1}, "write 64KiB/s"),
        ({"fault": "bandwidth", "target": "b1", "rate": 0, "at": 1}, "at least 1 byte per second"),
        ({"fault": "slow-link", "target": "b1", "latency": 0, "at": 1}, "changes nothing"),
        ({"fault": "isolate", "target": "b1", "from": "the boss", "at": 1}, "`peers`, `everyone` or a selector"),
        ({"fault": "kill", "target": "b1", "as": "two words", "at": 1}, "pattern"),
        ({"at": 1, "sequence": []}, "at least 1"),
        ({"at": 1, "for": 3, "sequence": [{"fault": "kill", "target": "b1"}]}, "as long as its steps"),
        ({"at": 1, "sequence": [{"fault": "kill", "target": "b1", "at": 3}]}, "must not have `at` or `repeat`"),
    ],
)
def test_a_wrong_entry_is_told_what_is_wrong(written: dict[str, Any], told: str) -> None:
    assert told in problem(**written)


@pytest.mark.parametrize(
    ("wrong", "right"), [("isolat", "isolate"), ("kil", "kill"), ("oneway", "one-way"), ("xyz", None)]
)
def test_a_misspelt_fault_finds_the_nearest(wrong: str, right: str | None) -> None:
    assert nearest_fault(wrong) == right


@pytest.mark.parametrize(
    ("written", "rate"),
    [("64KiB/s", 65_536), ("1MB/s", 1_000_000), ("1.5kB", 1_500), (2048, 2048), ("1GiB/s", 2**30)],
)
def test_rates_are_written_with_units_or_as_bytes_per_second(written: str | int, rate: int) -> None:
    entry = ENTRY.validate_python({"fault": "bandwidth", "target": "b1", "rate": written, "at": 1})
    assert isinstance(entry, Bandwidth) and entry.rate == rate
    assert ENTRY.validate_python(entry.model_dump(mode="json", by_alias=True)) == entry


def test_every_selector_of_a_fault_is_told_by_its_name_in_the_suite() -> None:
    hold = {"fault": "rpc-hold", "api": "Fetch", "from": "b1", "to": "all controllers", "at": 1}
    assert targets_of(ENTRY.validate_python(hold)) == {"from": "b1", "to": "all controllers"}
    slow = {"fault": "slow-link", "target": "b1", "to": "b2", "at": 1}
    assert targets_of(ENTRY.validate_python(slow)) == {"target": "b1", "to": "b2"}
    cut = {"fault": "isolate", "target": "b1", "from": "everyone", "at": 1}
    assert targets_of(ENTRY.validate_python(cut)) == {"target": "b1"}


def test_every_fault_name_is_known_to_the_schema() -> None:
    schema = str(ENTRY.json_schema())
    assert all(f"'const': '{name}'" in schema for name in FAULT_NAMES)
