"""A run that passed keeps what a check or a report reads; its logs and packets go."""

from __future__ import annotations

from pathlib import Path

from squall.harness.nightly.results.trimming import trim


def test_logs_and_packets_go_and_everything_else_stays(tmp_path: Path) -> None:
    kept = ("run.json", "verdict.json", "history.parquet", "report.html", "nodes/b1/node.properties", "timeline.txt")
    gone = ("worker-0.log", "nodes/b1/node.log", "nodes/b1/node.log.1", "nodes/b1/capture.pcap")
    for name in (*kept, *gone):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("12345")
    assert trim(tmp_path) == 5 * len(gone)
    assert sorted(str(one.relative_to(tmp_path)) for one in tmp_path.rglob("*") if one.is_file()) == sorted(kept)
    assert trim(tmp_path) == 0 and trim(tmp_path / "missing") == 0


def test_a_simulated_run_goes_whole_since_its_seed_repeats_it(tmp_path: Path) -> None:
    run = tmp_path / "seed-1"
    run.mkdir()
    (run / "run.json").write_text("12345")
    assert trim(run, whole=True) == 5 and not run.exists()
