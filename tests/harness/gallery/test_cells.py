"""Cells: an entry's schedule over other versions. Which are chosen, what is refused, and the tables of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from squall.harness.cli.main import status_of
from squall.harness.errors import UsageError
from squall.harness.gallery.cells import chosen_cells, found_table, stated_table
from squall.harness.gallery.core.entry import BROKEN, Entry
from squall.harness.gallery.entries import chosen, load_entry
from squall.harness.gallery.history import write_minimal
from squall.harness.gallery.verify import ArmResult
from squall.harness.gallery.verify import status_of as status_of_results
from squall.harness.systems.kafka.versions import VERSIONS
from squall.results.check import verdict_of
from tests.facts import naming
from tests.harness.gallery.editing import edited

WITH_CELLS = ("T1a", "T1b", "T2", "T3")
CELL = {"version": "4.1.2", "client": "java 4.1.2", "expects": "bug", "rate": {"seen": 1, "of": 1}}


@pytest.fixture(scope="module")
def t2() -> Entry:
    return chosen(["T2"])[0]


def rendered(table: Table) -> list[str]:
    console = Console(width=200, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(table)
    return console.export_text().splitlines()


def test_a_cell_has_the_schedule_and_the_settings_of_the_client_of_its_name(t2: Entry) -> None:
    arms = {arm.name: arm for arm in chosen_cells([t2], [])}
    java, librdkafka = arms["kafka-4.1.2-java-4.1.2"], arms["kafka-3.9.2-librdkafka-2.16.0"]
    assert t2.twin.client is not None
    assert (java.client.settings, librdkafka.client.settings) == (t2.twin.client.settings, t2.client.settings)
    assert (java.schedule, java.cluster) == (t2.schedule, t2.cluster)
    assert (java.words, java.expects) == ("Apache Kafka 4.1.2, Java producer 4.1.2", "invalid")
    assert arms["kafka-4.2.0-java-4.2.0"].expects == "valid"


@pytest.mark.parametrize("name", WITH_CELLS)
def test_every_version_runs_with_both_clients(name: str) -> None:
    found = {(one.version, one.client.name) for one in chosen([name])[0].cells}
    assert found == {(version, client) for version in VERSIONS for client in ("java", "librdkafka")}


@pytest.mark.parametrize("name", WITH_CELLS)
def test_the_entry_and_its_twin_are_among_the_cells(name: str) -> None:
    entry = chosen([name])[0]
    cells = chosen_cells([entry], [])
    for arm in (entry.arm("broken"), entry.arm("twin")):
        (same,) = [one for one in cells if one.runs_as(arm)]
        assert same.expects == arm.expects


def test_patterns_choose_cells_of_all_entries_named() -> None:
    entries = chosen(["T2", "T3"])
    names = [(arm.entry.name, arm.name) for arm in chosen_cells(entries, ["kafka-4.1.2-*", "*-3.9.2-java-3.9.2"])]
    assert names == [
        (entry, cell)
        for entry in ("T2", "T3")
        for cell in ("kafka-4.1.2-librdkafka-2.16.0", "kafka-4.1.2-java-4.1.2", "kafka-3.9.2-java-3.9.2")
    ]


def test_a_pattern_that_matches_nothing_is_refused_with_the_names_there_are(t2: Entry) -> None:
    with pytest.raises(UsageError, match=naming("kafka-5*", "kafka-4.1.2-java-4.1.2")):
        chosen_cells([t2], ["kafka-4.1.2-*", "kafka-5*"])


def test_an_entry_without_cells_has_no_table() -> None:
    with pytest.raises(UsageError, match=naming("D1")):
        chosen_cells(chosen(["D1"]), [])


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ([CELL | {"version": "4.1"}], ("cells[0].version", "4.1", "4.1.2")),
        ([CELL | {"client": "java"}], ("cells[0].client", "'java'", "java 4.1.2")),
        ([CELL | {"client": "kafka-python 2.0"}], ("cells[0].client", "kafka-python")),
        ([CELL | {"client": {"name": "java", "version": "4.1.2", "settings": {"acks": "1"}}}], ("cells[0].client",)),
        ([CELL | {"client": "nats.go 1.0"}], ("cells[0].client", "nats.go", "librdkafka", "java")),
        ([CELL | {"expects": "broken"}], ("cells[0].expects", "broken", "bug")),
        ([CELL, CELL], ("cells[1]", "4.1.2", "twice")),
    ],
)
def test_what_is_wrong_with_a_cell_is_named(cells: list[object], words: tuple[str, ...], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=naming(*words)) as caught:
        load_entry(edited("T2", tmp_path, cells=cells))
    assert f"{tmp_path / 'T2.yaml'}:" in str(caught.value)


def test_cells_are_for_kafka_alone(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=naming("cells", "etcd")):
        load_entry(edited("E1", tmp_path, cells=[CELL]))


def test_the_table_of_what_is_stated_has_a_row_a_version_and_client(t2: Entry) -> None:
    heading, *rows = rendered(stated_table([t2, *chosen(["T3"])]))
    assert heading.split() == ["system", "client", "T2", "T3"]
    assert len(rows) == len(t2.cells)
    (row,) = [one for one in rows if one.startswith("Apache Kafka 4.1.2") and "Java" in one]
    assert "bug" in row and "ok" in row, "T2's late markers end the next transaction there, and T3's position does not"


def test_the_table_of_what_came_out_counts_runs_and_names_what_is_against_the_expectation(
    t2: Entry, tmp_path: Path
) -> None:
    for name in ("broken", "twin"):
        write_minimal(tmp_path / name, t2, name)  # type: ignore[arg-type]
    invalid, valid = verdict_of(tmp_path / "broken"), verdict_of(tmp_path / "twin")
    arms = {arm.name: arm for arm in chosen_cells([t2], [])}
    bug, ok = arms["kafka-4.1.2-java-4.1.2"], arms["kafka-4.2.0-java-4.2.0"]
    results = [ArmResult(bug, invalid, 1.0, tmp_path), ArmResult(ok, invalid, 1.0, tmp_path)]
    _, earlier, later = rendered(found_table(results))
    assert earlier.split()[-2:] == ["bug", "✔"]
    assert later.endswith("ok ✘ invalid (aborted_read (1))") or "ok ✘ invalid" in later
    again = [*results, ArmResult(bug, None, 1.0, tmp_path, "a hold was never met"), ArmResult(ok, valid, 1.0, tmp_path)]
    _, earlier, later = rendered(found_table(again))
    assert "bug ✔ 1 of 2, ? 1 of 2" in earlier and "ok ✔ 1 of 2, ✘ 1 of 2" in later
    assert [status_of_results(some) for some in (results[:1], results, again[2:])] == [0, 1, 2]


def test_a_run_of_a_cell_states_the_command_that_repeats_it(t2: Entry, tmp_path: Path) -> None:
    write_minimal(tmp_path, t2, BROKEN)
    assert json.loads((tmp_path / "run.json").read_text())["command"] == "squall gallery --verify T2"


@pytest.mark.parametrize("words", [["--cell", "kafka-*"], ["--verify", "T2", "--cell", "kafka-*"], ["D1", "--table"]])
def test_cells_are_chosen_of_a_table_that_is_run(words: list[str]) -> None:
    assert status_of(["gallery", *words]) == 254


def test_the_command_prints_what_is_stated(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["gallery", "--table"]) == 0
    said = capsys.readouterr().out
    assert all(words in said for words in ("T1a", "T3", "Apache Kafka 3.9.2", "Java producer 4.0.2", "bug", "ok"))
