"""What a load worker tells the control process of its progress."""

from __future__ import annotations

import json

from squall.harness.load.worker import LoadProgress
from squall.workloads.core.operation import INFO, OK, POLL, SEND, Completion, Event, Operation


def test_progress_counts_by_function_and_outcome_errors_records_latencies() -> None:
    progress = LoadProgress()
    send, poll = Operation(SEND, 0, 0, 0, 1000, "events", 0, 7), Operation(POLL, 1, 1, 1, 1000, "events", 0)
    for event in (
        Event(send, 2000),
        Event(poll, 2000),
        Event(send, 2000, Completion(OK, offset=0), 51_000),
        Event(poll, 2000, Completion(OK, offsets=(0, 1), values=(7, 8)), 52_000),
        Event(send, 60_000),
        Event(send, 60_000, Completion(INFO, error="timed_out"), 70_000),
    ):
        progress.note(event)
    told = json.loads(json.dumps(progress.look()))
    assert told["counts"] == {"send.ok": 1, "send.info": 1, "poll.ok": 1}
    assert (told["errors"], told["records"], told["latencies_us"]) == ({"timed_out": 1}, 2, [50])
    assert progress.look()["latencies_us"] == []
