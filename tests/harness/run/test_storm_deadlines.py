"""How the kill storm judges what it sees: each fault by its own time to live."""

from __future__ import annotations

import json
import time

from tests.harness.run.kill_storm import Sight
from tests.harness.run.storm_deadlines import GRACE_S, LONGEST_S, TTL_MARGIN_S, Deadlines, OpenFault, longest_ttl

STRUCK = 1000.0
LONGEST_TTL_S = LONGEST_S + TTL_MARGIN_S
RESTART = OpenFault("3-restart.json", "proc.term", STRUCK + 14)


def drop(deadline: float) -> OpenFault:
    return OpenFault("1-halves.json", "net.drop", deadline)


def test_a_clean_restart_is_open_as_long_as_the_stop_may_take() -> None:
    """9.3 s after the strike, 5.3 s after a fault without extra time: what seed 402187940 found is in time."""
    deadlines = Deadlines(STRUCK)
    missing = ["missing: process running python"]
    assert deadlines.late("b1", STRUCK + 9.3, [RESTART], missing) == []
    assert deadlines.late("b1", STRUCK + 14 + GRACE_S, [RESTART], missing) == []
    assert len(deadlines.late("b1", STRUCK + 14.1 + GRACE_S, [RESTART], missing)) == 2


def test_a_fault_is_late_five_seconds_after_its_own_deadline() -> None:
    deadlines = Deadlines(STRUCK)
    assert deadlines.late("b1", STRUCK + 5.9, [drop(STRUCK + 1)], []) == []
    found = deadlines.late("b1", STRUCK + 6.1, [drop(STRUCK + 1), RESTART], [])
    assert found == ["b1: 1-halves.json (net.drop) is open 5.1 s after its time to live"]


def test_a_deadline_later_than_its_verb_orders_is_a_failure() -> None:
    assert Deadlines(STRUCK).late("b1", STRUCK, [drop(STRUCK + LONGEST_TTL_S)], []) == []
    found = Deadlines(STRUCK).late("b1", STRUCK, [drop(STRUCK + LONGEST_TTL_S + 1)], [])
    assert found == ["b1: 1-halves.json (net.drop) has 5.0 s left, and was ordered for at most 4 s"]
    assert longest_ttl("proc.term") == 14.0


def test_an_entry_that_cannot_be_read_is_due_when_the_strike_is_over() -> None:
    emptied = OpenFault.of("1-halves.json", ["", "{"])
    assert Deadlines(STRUCK).late("b1", STRUCK + GRACE_S, [emptied], []) == []
    assert Deadlines(STRUCK).late("b1", STRUCK + GRACE_S + 0.1, [emptied], [])


def test_the_copy_counts_where_the_entry_cannot_be_read() -> None:
    copy = json.dumps({"verb": "net.drop", "deadline": 7.5})
    assert OpenFault.of("1-halves.json", ["", copy]) == OpenFault("1-halves.json", "net.drop", 7.5)


def test_a_restart_excuses_no_mark_but_a_missing_node() -> None:
    deadlines, at = Deadlines(STRUCK), STRUCK + LONGEST_TTL_S + GRACE_S + 0.1
    rule = "left: rules table inet squall"
    assert deadlines.late("b1", at, [RESTART], ["missing: process running python"]) == []
    assert deadlines.late("b1", at, [RESTART], [rule]) == [f"b1: 5.1 s after the time to live: {rule}"]
    assert deadlines.late("b2", at, [], ["missing: process running python"])


def test_lateness_is_of_the_latest_fault_of_all() -> None:
    deadlines = Deadlines(STRUCK)
    deadlines.late("b1", STRUCK + 2, [drop(STRUCK + 1)], [])
    deadlines.late("b1", STRUCK + 2.5, [], [])
    deadlines.late("b2", STRUCK + 1, [drop(STRUCK + 3)], [])
    deadlines.late("b2", STRUCK + 2, [], [])
    lateness = deadlines.lateness
    assert (lateness.faults, lateness.seen_open, lateness.gone) == (2, 1.0, 1.5)


def test_a_look_at_a_host_tells_entries_with_their_deadlines() -> None:
    entry = json.dumps({"id": "1", "verb": "net.drop", "deadline": 7.5})
    uptime = time.clock_gettime(time.CLOCK_BOOTTIME)
    seen = Sight.seen(
        f"queue noqueue\nnow {uptime}\nentry 1.json {entry}\nentry 1.json \nprocess S (sleeping) sleep 9\n"
    )
    assert seen.lines == {"queue noqueue", "open fault 1.json", "process running sleep 9"}
    assert seen.faults == (OpenFault("1.json", "net.drop", 7.5),)
    assert abs(seen.at - time.monotonic()) < 1
