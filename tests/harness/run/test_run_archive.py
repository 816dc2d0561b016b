"""An archive of a run: enough to check it elsewhere, short, without secrets, and what is left out is listed."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from squall.harness.cli.main import status_of
from squall.harness.run.run_archive import LOG_BYTES, archive_run
from squall.harness.run.run_manifest import scenario_hash
from squall.harness.scenario.suites import load_named
from squall.results.check import check_run
from squall.results.checkers.engine.engines import InProcess
from squall.results.history.manifest import Manifest
from squall.results.synthetic.forge import forge_run, healthy


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A judged run with logs that are long, private, and packets."""
    made = forge_run(tmp_path / "runs" / "smoke" / "1", healthy(3, partition=0), seed=7, scenario="smoke")
    scenario = load_named("smoke").scenarios[0]
    manifest = Manifest.load(made).with_changes(
        suite="smoke", scenario_hash=scenario_hash(scenario), command="squall run x"
    )
    manifest.save(made)
    check_run(made, InProcess())
    host = made / "nodes" / "b1"
    host.mkdir(parents=True)
    (host / "node.log").write_text("first line\n" + "x" * (3 * LOG_BYTES) + "\nlast line\n")
    (host / "node.properties").write_text("ssl.keystore.password=hunter2\nbroker.id=1\n")
    (host / "key.txt").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n-----END OPENSSH PRIVATE KEY-----\n")
    (host / "capture.pcap").write_bytes(b"packets" * 1000)
    return made


def unpacked(archive: Path, directory: Path) -> Path:
    with tarfile.open(archive) as opened:
        opened.extractall(directory, filter="data")
    (inside,) = directory.iterdir()
    return inside


def test_an_archived_run_is_checked_elsewhere_with_the_same_verdict(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive_run(run, tmp_path / "a.tar.gz")
    inside = unpacked(tmp_path / "a.tar.gz", tmp_path / "elsewhere")
    before = status_of(["check", str(run), "--in-process"])
    (inside / "verdict.json").unlink()
    assert status_of(["check", str(inside), "--in-process"]) == before
    assert {"run.json", "verdict.json", "report.html", "packages.txt", "README.txt"} <= {
        one.name for one in inside.iterdir()
    }


def test_its_scenario_can_be_simulated_and_planned(run: Path, tmp_path: Path) -> None:
    archive_run(run, tmp_path / "a.tar.gz")
    inside = unpacked(tmp_path / "a.tar.gz", tmp_path / "elsewhere")
    again = load_named(str(inside / "scenario.yaml")).scenarios[0]
    assert scenario_hash(again) == Manifest.load(run).scenario_hash
    assert "squall simulate" in (inside / "README.txt").read_text()


def test_secrets_stay_here_and_what_is_not_as_it_was_is_listed(run: Path, tmp_path: Path) -> None:
    done = archive_run(run, tmp_path / "a.tar.gz")
    inside = unpacked(tmp_path / "a.tar.gz", tmp_path / "elsewhere")
    assert (inside / "nodes/b1/node.properties").read_text() == "ssl.keystore.password=(removed)\nbroker.id=1\n"
    assert "abc" not in (inside / "nodes/b1/key.txt").read_text()
    log = (inside / "nodes/b1/node.log").read_text()
    assert log.startswith("first line") and log.endswith("last line\n") and len(log) < 3 * LOG_BYTES
    assert not (inside / "nodes/b1/capture.pcap").exists()
    listed = sorted(remark.split(":")[0] + remark.partition("nodes")[2] for remark in done.remarks)
    assert len(listed) == 4 and all(remark in (inside / "README.txt").read_text() for remark in done.remarks)
    with tarfile.open(tmp_path / "a.tar.gz") as opened:
        assert {(one.uname, one.uid) for one in opened.getmembers()} == {("", 0)}


def test_a_suite_that_has_changed_is_said_to_be_missing(run: Path, tmp_path: Path) -> None:
    Manifest.load(run).with_changes(scenario_hash="other").save(run)
    assert any("smoke has changed" in one for one in archive_run(run, tmp_path / "a.tar.gz").remarks)


def test_squall_bundle_names_the_archive_and_refuses_what_is_no_run(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert status_of(["bundle", str(run)]) == 0
    assert (tmp_path / "smoke-seed-7.tar.gz").exists() and "smoke-seed-7.tar.gz" in capsys.readouterr().out
    assert status_of(["bundle", str(run), "--out", "a.zip"]) == 254
    assert "must end with .tar.gz" in capsys.readouterr().err
    assert status_of(["bundle", str(tmp_path / "no-run")]) == 254
