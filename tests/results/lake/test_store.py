"""The laws of the lake: idempotent, atomic, for several at once, and damage is named and set aside."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
from datetime import date
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from squall.results.history.ill_formed import IllFormedHistory
from squall.results.lake import store
from squall.results.lake.entry import Entry
from squall.results.lake.schema import TABLES, columns_of
from squall.results.lake.store import Lake, LakeTrouble
from tests.waiting import wait_until

TODAY = date(2026, 11, 24)


def entry(key: str, day: str = "2026-11-24", *, verdict: str = "valid", seconds: int = 1) -> Entry:
    series = [{"second": float(one), "operation": "send", "outcome": "ok", "operations": 1} for one in range(seconds)]
    rows: dict[str, Any] = {"runs": [{"scenario": "smoke", "verdict": verdict}], "throughput": series}
    return Entry.of(key, day, f"{day}T01:00:00+00:00", rows)


def verdicts(lake: Lake, since: str = "") -> dict[str, str]:
    rows = lake.table("runs", columns=["key", "verdict"], since=since).to_pylist()
    assert len({one["key"] for one in rows}) == len(rows), "a key has one row"
    return {one["key"]: one["verdict"] for one in rows}


def files(lake: Lake, pattern: str) -> list[Path]:
    return sorted(lake.root.glob(f"v1/{pattern}"))


def test_rows_can_be_read_before_and_after_they_are_compacted(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.add(entry("a"))
    lake.add(entry("b", "2026-11-23", verdict="invalid", seconds=3))
    before = verdicts(lake)
    done = lake.compact(today=TODAY)
    assert (done.entries, done.periods) == (2, 2)
    assert verdicts(lake) == before == {"a": "valid", "b": "invalid"}
    assert lake.table("throughput").num_rows == 4
    assert not files(lake, "incoming/*")
    assert verdicts(lake, since="2026-11-24") == {"a": "valid"}


def test_an_entry_replaces_all_rows_of_its_key(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.add(entry("a", seconds=5))
    lake.add(entry("b"))
    lake.compact(today=TODAY)
    lake.add(entry("a", verdict="unknown", seconds=2))
    for _ in range(2):
        assert verdicts(lake) == {"a": "unknown", "b": "valid"}
        assert lake.table("throughput").num_rows == 3
        lake.compact(today=TODAY)


def test_an_entry_of_another_day_replaces_the_one_before(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.add(entry("a", "1970-01-01", seconds=4))
    lake.compact(today=TODAY)
    lake.add(entry("a", "2026-11-20"))
    lake.compact(today=TODAY)
    assert lake.table("runs", columns=["key", "date"]).to_pylist() == [{"key": "a", "date": "2026-11-20"}]
    assert lake.table("throughput").num_rows == 1


def test_days_of_a_month_that_is_long_over_become_one_part(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    for day in range(1, 29):
        lake.add(entry(f"old-{day}", f"2026-08-{day:02}"))
    lake.add(entry("new", "2026-11-24"))
    lake.compact(today=date(2026, 8, 29))
    assert len(files(lake, "runs/period=*")) == 29
    lake.compact(today=TODAY)
    lake.add(entry("late", "2026-08-30"))
    lake.compact(today=TODAY)
    assert {one["key"] for one in lake.table("runs", since="2026-08-30").to_pylist()} == {"late", "new"}
    assert len(verdicts(lake)) == 30
    assert [one.name for one in lake.parts()["runs"][0].parents[0:1]] == ["period=2026-08"]


def test_parts_that_were_replaced_stay_for_readers_until_the_next_compaction(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    paths = []
    for number in range(3):
        lake.add(entry(str(number)))
        lake.compact(today=TODAY)
        paths.append(lake.parts()["runs"][0])
    assert [path.exists() for path in paths] == [False, True, True]


def test_a_column_that_older_parts_lack_is_null_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake(tmp_path)
    whole = TABLES["runs"]
    older = store.TABLES | {"runs": type(whole)("runs", "", whole.columns[:-1])}  # type: ignore[operator]
    with monkeypatch.context() as patched:
        patched.setattr(store, "TABLES", older)
        made = entry("old")
        made.tables["runs"].pop("recorded")
        lake.add(made)
        lake.compact(today=TODAY)
    lake.add(entry("new"))
    lake.compact(today=TODAY)
    assert lake.table("runs", columns=["key", "recorded"]).column_names == ["key", "recorded"]
    assert verdicts(lake) == {"old": "valid", "new": "valid"}


# -- trouble ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is not JSON"),
        (b'{"key": "x"}', "is not an entry"),
        (b'{"key":"x","date":"2026-11-24","recorded":"","schema":0,"tables":{}}', "has schema 0"),
        (b'{"key":"x","date":"2026-11-24","recorded":"","tables":{"cats":{}}}', "a table 'cats'"),
        (b'{"key":"x","date":"2026-11-24","recorded":"","tables":{"runs":{"seed":[1]}}}', "without a key"),
        (
            b'{"key":"x","date":"d","recorded":"","tables":{"runs":{"key":["x"],"date":["d"],"seed":["seven"]}}}',
            r"runs\.seed",
        ),
        (
            b'{"key":"x","date":"d","recorded":"","tables":{"runs":{"key":["x"],"date":["d"],"cat":[1]}}}',
            "a column 'cat'",
        ),
        (
            b'{"key":"x","date":"d","recorded":"","tables":{"runs":{"key":["x","y"],"date":["d"]}}}',
            "different lengths",
        ),
    ],
)
def test_an_entry_that_cannot_be_read_is_set_aside_and_named(tmp_path: Path, content: bytes, problem: str) -> None:
    said: list[str] = []
    lake = Lake(tmp_path, said.append)
    lake.add(entry("good"))
    (tmp_path / "v1/incoming/bad.entry.json").write_bytes(content)
    lake.compact(today=TODAY)
    assert verdicts(lake) == {"good": "valid"}
    (line,) = said
    assert re.search(rf"bad\.entry\.json: set aside, .*{problem}", line)
    with pytest.raises(IllFormedHistory, match=problem):
        Entry.load(files(lake, "set-aside/*")[0])


@pytest.mark.parametrize(
    "content",
    [
        b'{"key":"x","date":"2026-11-24","recorded":"","schema":2,"tables":{}}',
        b'{"key":"x","date":"2026-11-24","recorded":"","schema":2,"tables":{"cats":{"key":["x"],"date":["d"]}}}',
        b'{"name":"of another shape","schema":2}',
    ],
)
def test_entries_of_a_newer_schema_stay_where_they_are_and_are_counted(tmp_path: Path, content: bytes) -> None:
    said: list[str] = []
    lake = Lake(tmp_path, said.append)
    lake.add(entry("good"))
    paths = [tmp_path / f"v1/incoming/newer-{number}.entry.json" for number in range(3)]
    for path in paths:
        path.write_bytes(content)
    assert verdicts(lake) == {"good": "valid"}
    lake.compact(today=TODAY)
    lake.rebuild([entry("again")])
    lake.prune(before=date(2026, 11, 1), keep_invalid=False)
    assert [path.read_bytes() for path in paths] == [content] * 3
    assert not files(lake, "set-aside/*")
    assert said == ["3 entries are of schema 2: a newer Squall wrote them, and their rows are missing here"]
    paths[0].unlink()
    assert verdicts(lake) == {"good": "valid", "again": "valid"}
    assert said[1:] == ["2 entries are of schema 2: a newer Squall wrote them, and their rows are missing here"]


def test_a_damaged_part_is_set_aside_and_its_rows_come_back_with_their_entries(tmp_path: Path) -> None:
    said: list[str] = []
    lake = Lake(tmp_path, said.append)
    entries = [entry("a"), entry("b")]
    lake.rebuild(entries)
    (part,) = lake.parts()["runs"]
    part.write_bytes(part.read_bytes()[:200])
    assert lake.rebuild(entries) == 2
    assert verdicts(lake) == {"a": "valid", "b": "valid"}
    assert "set aside" in said[0] and files(lake, "set-aside/*")


def test_a_manifest_that_cannot_be_read_is_named_with_the_remedy(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.rebuild([entry("a")])
    (tmp_path / "v1/manifest.json").write_text("{")
    with pytest.raises(LakeTrouble, match=r"manifest\.json: cannot be read .* squall lake rebuild"):
        lake.table("runs")


def _compact_and_die(root: Path, calls: int) -> None:
    """Compact, and die at the so-manieth change of the file system."""
    left = [calls]

    def counting(real: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **named)

        return call

    for name in ("replace", "unlink", "mkdir", "rmdir"):
        setattr(Path, name, counting(getattr(Path, name)))
    store.pq.write_table = counting(store.pq.write_table)
    Lake(root).compact(today=TODAY)


def test_a_compaction_that_is_killed_at_any_point_loses_and_doubles_nothing(tmp_path: Path) -> None:
    expected = {"a": "valid", "b": "unknown", "c": "valid", "old": "valid"}
    survived = False
    for calls in range(40):
        lake = Lake(tmp_path / str(calls))
        lake.rebuild([entry("a"), entry("b"), entry("old", "2026-11-20")])
        lake.add(entry("b", verdict="unknown", seconds=2))
        lake.add(entry("c", "2026-11-23"))
        child = multiprocessing.get_context("fork").Process(target=_compact_and_die, args=(lake.root, calls))
        child.start()
        child.join(30)
        assert verdicts(lake) == expected, calls
        lake.compact(today=TODAY)
        assert verdicts(lake) == expected, calls
        assert lake.table("throughput").num_rows == 5
        assert not list(lake.root.rglob("*.new")), calls
        if child.exitcode == 0:
            survived = True
            break
    assert survived and calls > 5, "it died at each of several points, and at last at none"


def _compact_for_ever(root: Path) -> None:
    lake = Lake(root)
    number = 0
    while True:
        lake.add(entry("rewritten", f"2026-11-{1 + number % 3:02}", seconds=1 + number % 4))
        lake.compact(today=TODAY)
        number += 1


def until_changed(lake: Lake) -> None:
    seen = lake.periods()
    wait_until(lambda: lake.periods() != seen, "it compacts")


def test_a_compaction_that_is_killed_at_a_random_instant_loses_and_doubles_nothing(tmp_path: Path) -> None:
    lake, rng = Lake(tmp_path), Random(20)
    expected = {"rewritten": "valid"}
    for kill in range(20):
        for number in range(3):
            key = f"{kill}-{number}"
            lake.add(entry(key, f"2026-11-{1 + number:02}"))
            expected[key] = "valid"
        child = multiprocessing.get_context("fork").Process(target=_compact_for_ever, args=(tmp_path,))
        child.start()
        until_changed(lake)
        child.join(rng.random() * 0.05)
        assert child.exitcode is None
        os.kill(child.pid or 0, signal.SIGKILL)
        child.join(30)
        assert verdicts(lake) == expected, kill
    for draft in tmp_path.rglob("incoming/.*.new"):  # of a writer that was killed; a fresh one may still be completed
        os.utime(draft, (0, 0))
    lake.compact(today=TODAY)
    assert verdicts(lake) == expected
    assert not list(tmp_path.rglob("*.new")) and not files(lake, "incoming/*") and not files(lake, "set-aside/*")


def test_a_lake_of_a_newer_schema_is_neither_read_nor_written(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.rebuild([entry("a")])
    manifest = tmp_path / "v1/manifest.json"
    newer = manifest.read_text().replace('"schema":1', '"schema":2')
    manifest.write_text(newer)
    lake.add(entry("b"))
    for use in (lambda: lake.table("runs"), lake.compact, lambda: lake.prune(before=TODAY, keep_invalid=False)):
        with pytest.raises(LakeTrouble, match="has schema 2, this Squall reads 1"):
            use()
    assert manifest.read_text() == newer and files(lake, "incoming/*")


def test_a_compaction_sets_a_damaged_part_aside_and_goes_on(tmp_path: Path) -> None:
    said: list[str] = []
    lake = Lake(tmp_path, said.append)
    lake.rebuild([entry("a"), entry("other", "2026-11-20")])
    part = next(path for path in lake.parts()["runs"] if "2026-11-24" in str(path))
    part.write_bytes(b"PAR1 and nothing more")
    with pytest.raises(LakeTrouble, match=r"part-.*\.parquet: cannot be read.*squall lake rebuild"):
        lake.table("runs")
    assert lake.rebuild([entry("b")]) == 1
    assert "set aside" in said[0] and part.name in said[0]
    assert verdicts(lake) == {"b": "valid", "other": "valid"}


def campaign(key: str, day: str, seeds: int = 1) -> Entry:
    return Entry.of(key, day, f"{day}T01:00:00+00:00", {"campaigns": [{"kind": "simulate", "seeds": seeds}]})


def test_a_campaign_is_replaced_and_pruned_like_a_run(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.rebuild([campaign("c", "2026-08-01"), campaign("d", "2026-08-02")])
    lake.rebuild([campaign("c", "2026-11-20", seeds=2)])
    rows = lake.table("campaigns", columns=["key", "date", "seeds"]).to_pylist()
    assert sorted((one["key"], one["date"], one["seeds"]) for one in rows) == [
        ("c", "2026-11-20", 2),
        ("d", "2026-08-02", 1),
    ]
    assert lake.prune(before=date(2026, 11, 1), keep_invalid=True) == 1
    assert [one["key"] for one in lake.table("campaigns").to_pylist()] == ["c"]


def test_a_night_rewrites_its_own_parts_only(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.rebuild([entry(f"n{day}", f"2026-11-{day:02}") for day in range(1, 24)])
    before = lake.periods()
    for number in range(60):
        lake.add(entry(f"tonight-{number}", "2026-11-24"))
    assert lake.compact(today=TODAY).periods == 1
    after = lake.periods()
    assert {period for period in after if after[period] != before.get(period)} == {"2026-11-24"}


def _write_many(root: Path, worker: int) -> None:
    lake = Lake(root)
    for number in range(20):
        lake.add(entry(f"{worker}-{number}", f"2026-11-{1 + number % 3:02}"))
        if number % 5 == worker:
            lake.compact(today=TODAY)


def test_several_processes_write_and_compact_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_write_many, args=(tmp_path, one)) for one in range(4)]
    for one in workers:
        one.start()
    for one in workers:
        one.join(60)
    assert [one.exitcode for one in workers] == [0] * 4
    lake = Lake(tmp_path)
    assert len(verdicts(lake)) == 80
    lake.compact(today=TODAY)
    assert len(verdicts(lake)) == 80


def test_pruning_removes_old_rows_and_keeps_what_was_not_valid(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.rebuild(
        [
            entry("old", "2026-08-01"),
            entry("old-invalid", "2026-08-02", verdict="invalid"),
            entry("edge", "2026-11-01"),
            entry("new"),
        ]
    )
    assert lake.prune(before=date(2026, 11, 1), keep_invalid=True) == 1
    assert set(verdicts(lake)) == {"old-invalid", "edge", "new"}
    assert lake.prune(before=date(2026, 11, 1), keep_invalid=False) == 1
    assert set(verdicts(lake)) == {"edge", "new"}
    assert lake.table("throughput").num_rows == 2


@settings(max_examples=30, deadline=None)
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(
                st.sampled_from("abc"), st.sampled_from(["2026-11-24", "2026-11-23", "2026-08-05"]), st.integers(0, 3)
            ),
            st.just("compact"),
        ),
        max_size=12,
    )
)
def test_a_lake_is_a_dictionary_whatever_is_compacted_when(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Any]
) -> None:
    lake, model = Lake(tmp_path_factory.mktemp("lake")), {}
    for step in steps:
        if step == "compact":
            lake.compact(today=TODAY)
        else:
            key, day, seconds = step
            lake.add(entry(key, day, seconds=seconds))
            model[key] = (day, seconds)
        found = {one["key"]: one["date"] for one in lake.table("runs").to_pylist()}
        assert found == {key: day for key, (day, _) in model.items()}
        assert lake.table("throughput").num_rows == sum(seconds for _, seconds in model.values())


def test_every_column_of_every_table_says_what_it_means() -> None:
    for table in TABLES.values():
        assert table.meaning
        for column in table.columns:
            assert column.meaning, f"{table.name}.{column.name}"


def test_a_row_with_an_unknown_column_is_refused() -> None:
    with pytest.raises(KeyError, match="runs has no column cat"):
        columns_of("runs", [{"key": "a", "cat": 1}])
