"""Lines of node logs in a run's time: believed where they can be, and never out of the log's own order.

In these tests the run's clock shows 0 where the host's wall clock shows `WALL`; the logs were fetched at 600 s.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from squall.harness.hosts.clocks import ClockReading
from squall.harness.timeline.log_alignment import Disturbance, LogAligner, disturbances, stamp_of
from squall.nemesis.options import ClockFreeze, ClockSkew, ClockStrobe
from squall.results.history.segments import FaultWindow

SECOND = 1_000_000_000
WALL = 1_795_000_000 * SECOND
READING = ClockReading(offset=-WALL, error=0, taken=600 * SECOND)


def clock(**options: Any) -> ClockSkew:
    return ClockSkew(fault="clock", target="b1", **options)


def placed(*shown: float | None, disturbed: list[Disturbance] | None = None) -> list[tuple[float, bool]]:
    """Where lines come to stand that are stamped with these seconds of the run, as their clock told them."""
    placing = LogAligner(READING, disturbed or [])
    places = [placing.place(None if one is None else WALL + round(one * SECOND)) for one in shown]
    return [(place.moment / SECOND, place.certain) for place in places]


def set_from(since: float, until: float, options: ClockSkew | ClockStrobe | ClockFreeze) -> list[Disturbance]:
    return [Disturbance(round(since * SECOND), round(until * SECOND), options, READING)]


def test_a_true_stamp_is_believed() -> None:
    assert placed(1.0, 2.5) == [(1.0, True), (2.5, True)]


def test_a_line_without_a_stamp_belongs_to_the_line_above() -> None:
    assert placed(1.0, None, 2.0) == [(1.0, True), (1.0, True), (2.0, True)]


def test_a_clock_that_is_ahead_is_subtracted_in_the_window_of_its_fault() -> None:
    ahead = set_from(100, 200, clock(offset=3600))
    assert placed(50, 3750, 250, disturbed=ahead) == [(50, True), (150, False), (250, True)]


def test_a_clock_that_is_behind_is_added() -> None:
    behind = set_from(100, 200, clock(offset=-3600))
    assert placed(50, -3450, 250, disturbed=behind) == [(50, True), (150, False), (250, True)]


def test_a_clock_that_drifts_is_read_at_its_rate() -> None:
    drifting = set_from(100, 200, clock(offset=0, rate=1.5))
    assert placed(50, 160, disturbed=drifting) == [(50, True), (140, False)]


def test_a_clock_set_to_a_moment_is_read_from_there() -> None:
    to = set_from(100, 200, clock(time="2038-01-19T03:14:07Z"))
    in_2038 = 2_147_483_647 - WALL / SECOND
    assert placed(50, in_2038 + 30, disturbed=to) == [(50, True), (130, False)]


def test_a_strobed_clock_shows_either() -> None:
    strobed = set_from(100, 200, ClockStrobe(fault="clock-strobe", target="b1", offset=3600))
    assert placed(50, 120, 3730, 140, disturbed=strobed) == [(50, True), (120, False), (130, False), (140, False)]


def test_what_a_clock_that_stands_still_stamped_is_somewhere_in_its_window() -> None:
    frozen = set_from(100, 200, ClockFreeze(fault="clock-freeze", target="b1"))
    assert placed(50, 100, 100, 250, disturbed=frozen) == [(50, True), (100, False), (100, False), (250, True)]


def test_what_no_reading_explains_stands_right_after_the_line_above() -> None:
    """As when somebody else set the clock."""
    assert placed(50, 3, 60) == [(50, True), (50, False), (60, True)]
    assert placed(50, 9000, 60) == [(50, True), (50, False), (60, True)]


def test_of_two_possible_readings_the_earlier_one_is_taken_and_marked() -> None:
    """A line stamped 160 after a window 100–105 with a clock 55 s ahead: written at 105, or undisturbed at 160."""
    ahead = set_from(100, 105.5, clock(offset=55))
    assert placed(50, 160, disturbed=ahead) == [(50, True), (105, False)]
    assert placed(50, 110, 160, disturbed=ahead) == [(50, True), (110, True), (160, True)], "the window is over"


def test_milliseconds_may_go_back_within_what_is_known_of_the_clock() -> None:
    assert placed(1.0, 0.9995) == [(1.0, True), (1.0, True)]


@pytest.mark.parametrize("seed", range(200))
def test_no_log_is_reordered_by_clocks_and_a_certain_place_is_the_true_one(seed: int) -> None:
    chance = random.Random(seed)
    options = chance.choice(
        [
            clock(offset=chance.choice([-3600, -20, 20, 3600]), rate=chance.choice([1.0, 0.9, 1.1])),
            ClockStrobe(fault="clock-strobe", target="b1", offset=chance.choice([-3600, 5, 3600])),
            ClockFreeze(fault="clock-freeze", target="b1"),
        ]
    )
    since = chance.uniform(50, 100)
    until = since + chance.uniform(1, 60)
    times = sorted(chance.uniform(0, 300) for _ in range(40))
    stamps = [shown_by(options, since, time, chance) if since <= time <= until else time for time in times]
    places = placed(*stamps, disturbed=set_from(since, until, options))
    assert [moment for moment, _ in places] == sorted(moment for moment, _ in places)
    for true, (moment, certain) in zip(times, places, strict=True):
        assert not certain or abs(true - moment) < 0.01, f"seed {seed}: {true} placed at {moment}"


def shown_by(options: ClockSkew | ClockStrobe | ClockFreeze, since: float, time: float, chance: random.Random) -> float:
    match options:
        case ClockFreeze():
            return since
        case ClockStrobe():
            return time + chance.choice([0, options.offset])
        case ClockSkew():
            return since + options.offset + (time - since) * options.rate


def test_only_faults_that_set_this_hosts_clock_disturb_it() -> None:
    windows = [
        FaultWindow(id="1", fault="clock", targets=("b1",), summary="", injected=5, healed=9, took=True, undone=True),
        FaultWindow(id="2", fault="clock", targets=("b2",), summary="", injected=5, healed=9, took=True, undone=True),
        FaultWindow(id="3", fault="kill -9", targets=("b1",), summary="", injected=5, healed=9, took=True, undone=True),
        FaultWindow(id="4", fault="clock", targets=("b1",), summary="", injected=20, healed=29, undone=False),
        FaultWindow(id="5", fault="clock", targets=("b1",), summary=""),
    ]
    found = disturbances(windows, {window.id: clock() for window in windows if window.id != "3"}, "b1", READING)
    assert [one.since for one in found] == [5, 20]
    assert found[0].until == 9
    assert found[1].covers(10**15), "a clock that was not seen to be right again is trusted no more"


@pytest.mark.parametrize(
    ("line", "stamp", "text"),
    [
        ("2026-11-21T21:11:41.740+00:00 node 101 starts", 1_795_295_501_740_000_000, "node 101 starts"),
        ("2026-11-21T22:11:41.740+01:00 node 101 starts", 1_795_295_501_740_000_000, "node 101 starts"),
        ("[60] 2026/11/21 21:11:41.740000 [INF] Starting", 1_795_295_501_740_000_000, "[INF] Starting"),
        (
            '{"level":"info","ts":"2026-11-21T21:11:41.740Z"}',
            1_795_295_501_740_000_000,
            '{"level":"info","ts":"2026-11-21T21:11:41.740Z"}',
        ),
        (
            '{"level":"warn","ts":1795295501.740000}',
            1_795_295_501_740_000_000,
            '{"level":"warn","ts":1795295501.740000}',
        ),
        ('{"level":"warn","ts":"soon"}', None, '{"level":"warn","ts":"soon"}'),
        ("Traceback (most recent call last):", None, "Traceback (most recent call last):"),
        ("2026-11-21T21:11:41 no zone", None, "2026-11-21T21:11:41 no zone"),
        ("0123456789012345678901234 digits", None, "0123456789012345678901234 digits"),
        ("", None, ""),
    ],
)
def test_a_stamp_is_a_moment_with_its_zone(line: str, stamp: int | None, text: str) -> None:
    assert stamp_of(line) == (stamp, text)
