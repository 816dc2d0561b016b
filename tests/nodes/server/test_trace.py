"""The trace of a node on a host (HX-05): what a control trace keeps, and that no trace ends a node."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from squall.nodes.server.trace import LOST, STARTED, ControlTrace, FileTrace


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines() if line]


def test_a_control_trace_keeps_nothing_per_record(tmp_path: Path) -> None:
    trace = ControlTrace(tmp_path / "trace", 7)
    trace.event("append", broker=7, topic="events", partition=0, first=0, last=9)
    trace.event("high_watermark", broker=7, topic="events", partition=0, offset=10)
    trace.event("fsync", node=7, durable=3)
    trace.event("high_watermark", node=7, epoch=2, offset=3)
    trace.event("leader", broker=7, topic="events", partition=0, epoch=1, topic_id=bytes(16))
    trace.close()
    kept = lines(tmp_path / "trace")
    assert [one["event"] for one in kept] == [STARTED, "high_watermark", "leader"]
    assert kept[1]["offset"] == 3
    assert kept[2]["topic_id"] == "00" * 16
    assert kept[0]["pid"] == os.getpid()


def test_half_a_line_of_a_killed_process_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text('{"event": "state"}\n{"eve')
    FileTrace(path, 1).close()
    assert path.read_text().splitlines()[1] == '{"eve'
    assert json.loads(path.read_text().splitlines()[2])["event"] == STARTED


def test_a_full_disk_costs_lines_and_never_the_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = FileTrace(tmp_path / "trace", 1)
    trace.flush()
    with Path("/dev/full").open("a") as full:
        monkeypatch.setattr(trace, "_file", full)
        trace.event("state", epoch=1)
        trace.event("state", epoch=2)
        trace.flush()
    trace.event("state", epoch=3)
    trace.close()
    trace.close()
    kept = [one for one in lines(tmp_path / "trace") if one["event"] != STARTED]
    assert [(one["event"], one.get("epoch", one.get("lines"))) for one in kept] == [("state", 3), (LOST, 2)]
