"""The state of each log, folded from steps, and parts of a run that begin with it."""

from __future__ import annotations

from dataclasses import replace

from squall.results.watch.model import LogState, Message, Operation, Step, Watched, last_part_of, part_of, states_at

STEPS = (
    Step(10, "b1", "leader", "leads", (0, 0, 0)),
    Step(20, "b1", "append", "appends", (0, 4, 0)),
    Step(21, "b2", "append", "appends", (0, 4, 0)),
    Step(25, "b1", "high_watermark", "moves", (5, 5, 0)),
    Step(30, "b1", "death", "dies"),
    Step(40, "b2", "truncate", "truncates", (3, 5, 3)),
    Step(40, "b2", "leader", "leads", (1, 3, 3)),
    Step(50, "b2", "append", "appends", (3, 3, 1)),
)
ACKNOWLEDGED = Operation(19, 26, 0, "process 0: send 0·4, ok, offset 4", "ok", 4, "0·4")
WHOLE = Watched(
    title="t", log="events-0", lanes=("clients", "b1", "b2"), begins=0, ends=60, steps=STEPS,
    operations=(ACKNOWLEDGED, Operation(45, None, 0, "process 0: send 0·5", "", None, "0·5")),
    messages=(Message(20, 21, "b1", "b2", "Fetch", "records 0–4", True),),
)  # fmt: skip


def test_a_truncated_log_continues_in_another_epoch() -> None:
    states = states_at(STEPS, 60)
    assert states["b2"].runs == ((0, 3, 0), (3, 4, 1))
    assert (states["b2"].role, states["b2"].epoch, states["b2"].end) == ("leader", 1, 4)
    assert not states["b1"].up and states["b1"].end == 5 and states["b1"].high_watermark == 5


def test_the_state_before_an_instant_leaves_out_its_steps() -> None:
    assert states_at(STEPS, 40)["b2"].end == 5


def test_an_end_beyond_what_was_appended_has_an_unknown_epoch() -> None:
    state = LogState(runs=((0, 5, 2),)).after(Step(0, "b1", "follower", "follows", (3, 8, 1)))
    assert state.runs == ((0, 5, 2), (5, 8, -1))


def test_a_lower_end_at_a_start_is_a_loss() -> None:
    assert LogState(runs=((0, 5, 2),)).after(Step(0, "b1", "follower", "follows", (3, 2, 1))).runs == ((0, 2, 2),)


def test_a_part_begins_with_the_state_and_the_acknowledgements_before_it() -> None:
    part = part_of(WHOLE, 35, 55)
    assert part.states == states_at(STEPS, 35)
    assert part.acknowledged == (ACKNOWLEDGED,)
    assert [step.at for step in part.steps] == [40, 40, 50]
    assert [one.value for one in part.operations] == ["0·5"] and part.messages == ()
    assert states_at(part.steps, 60, part.states) == states_at(STEPS, 60)


def test_a_part_of_a_part_keeps_both_states() -> None:
    again = part_of(part_of(WHOLE, 15, 60), 35, 60)
    assert (again.states, again.acknowledged) == (states_at(STEPS, 35), (ACKNOWLEDGED,))


def test_a_run_that_is_too_large_keeps_its_end_and_says_so() -> None:
    part = last_part_of(WHOLE, 4)
    assert part.begins == 40 and part.ends == 60 and len(part.notes) == 1
    assert last_part_of(WHOLE, 100) == WHOLE
    assert last_part_of(replace(WHOLE, messages=None), 100).messages is None
