"""What a loss of power takes from a broker's directory: what lies beyond the recovery points, and nothing else."""

from __future__ import annotations

import struct
from pathlib import Path

from squall.harness.gallery.kafka.power import CHECKPOINT, drop_unflushed, recovery_points


def batch(offset: int, size: int = 80) -> bytes:
    return struct.pack(">qi", offset, size - 12) + bytes(size - 12)


def directory(data: Path, name: str, *offsets: int, padding: int = 0) -> Path:
    there = data / name
    there.mkdir()
    (there / "00000000000000000000.log").write_bytes(b"".join(map(batch, offsets)) + bytes(padding))
    (there / "00000000000000000000.index").write_bytes(b"index")
    (there / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    return there


def test_without_a_checkpoint_all_of_a_log_is_gone_and_the_metadata_log_stays(tmp_path: Path) -> None:
    log, metadata = directory(tmp_path, "events-0", 0, 1, 5), directory(tmp_path, "__cluster_metadata-0", 0, 1)
    assert drop_unflushed(tmp_path) == 240
    assert (log / "00000000000000000000.log").stat().st_size == 0
    assert sorted(path.name for path in log.iterdir()) == ["00000000000000000000.log", "leader-epoch-checkpoint"]
    assert (metadata / "00000000000000000000.log").stat().st_size == 160
    assert (metadata / "00000000000000000000.index").exists()


def test_a_log_is_cut_at_its_recovery_point(tmp_path: Path) -> None:
    log, whole = directory(tmp_path, "a-0", 0, 1, 5, padding=40), directory(tmp_path, "b-3", 0, 1)
    (tmp_path / CHECKPOINT).write_text("0\n2\na 0 5\nb 3 2\n")
    assert recovery_points(tmp_path) == {"a-0": 5, "b-3": 2}
    assert drop_unflushed(tmp_path) == 80 + 40
    assert (log / "00000000000000000000.log").read_bytes() == batch(0) + batch(1)
    assert (whole / "00000000000000000000.log").stat().st_size == 160
