"""An exhaustive model of one topic-partition around the controller's real `decide`: three brokers, any order of events.

Breadth first over all states, so the way to a violation is a shortest one. What is modelled beside the controller:

* a leader appends (few records in all), followers fetch one record at a time and cut what the leader has not;
* the leader knows a follower's log end from its fetches in this epoch, and knows it still when the follower is gone;
* the leader's high watermark is the least known log end of the ISR, and stands still below min ISR (rule 10) unless the
  model is told otherwise; what it ever covered is *committed*;
* the leader has followers put out of the ISR at any time, and takes one in that has reached its high watermark and
  the start of its epoch (rule 19);
* brokers crash, keeping any prefix of their log (*lossy* unless that is all), or stop cleanly; the controller fences
  whom it likes, dead or alive; whoever is down registers again once it is fenced, and is unfenced later.

Metadata reaches brokers at once, with one exception: a leader may learn of another min ISR (`edits`) later than it gets
the answer to a proposal, which does not come through metadata; that is what `changes.settings_changed` moves the
partition epoch for.

Checked in every state (names as in the TLA+ specification of KIP-966): LeaderCompleteness, LeaderCandidateCompleteness:
the leader, and every member of ISR and ELR, has all that is committed, unless it is down.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from squall.nodes.controller.elections import Decision, Rules, decide
from squall.nodes.metadata.topic import PartitionRegistration, RareFields

BROKERS = (0, 1, 2)
UP, DOWN_CLEANLY, DOWN = 0, 1, 2
NOBODY = -1


@dataclass(frozen=True)
class Setting:
    """What the model may do, and which rules hold in it."""

    elr: bool = True
    last_known_leader: bool = False
    unclean_election: bool = False
    frozen_below_min_isr: bool = True
    unclean_restart_is_noticed: bool = True
    min_isr: int = 2
    records: int = 2
    fencings: int = 2
    lossy: int = 1
    kills: int = 0
    """Crashes that lose nothing; the controller cannot tell them from lossy ones."""
    edits: tuple[int, ...] = ()
    """Values that min ISR is changed to, one after the other, at any time."""
    edit_moves_partition_epoch: bool = True


class State(NamedTuple):
    leader: int = 0
    isr: tuple[int, ...] = BROKERS
    elr: tuple[int, ...] = ()
    known: tuple[int, ...] = ()
    fenced: tuple[int, ...] = ()
    status: tuple[int, ...] = (UP, UP, UP)
    logs: tuple[tuple[int, ...], ...] = ((), (), ())
    told: tuple[int, ...] = (0, 0, 0)
    """Log ends that the leader has been told in its epoch."""
    committed: tuple[int, ...] = ()
    high_watermark: int = 0
    """The leader's own. A new leader's may lag: it is taken to begin at 0."""
    epoch_start: int = 0
    appended: int = 0
    fencings: int = 0
    lossy: int = 0
    kills: int = 0
    edits: int = 0
    edits_known: int = 0
    """As many of the edits have reached the leader."""


@dataclass(frozen=True)
class Outcome:
    """`trace` is a shortest way to a violation, None if the whole space has none. `leaderless`: a state was reached
    in which everybody is up and unfenced, and still nobody leads."""

    states: int
    trace: tuple[str, ...] | None
    leaderless: bool


def explore(setting: Setting) -> Outcome:
    """Every state that can be reached, or a shortest way to the first violation."""
    start = State()
    came_from: dict[State, tuple[State, str] | None] = {start: None}
    waiting = deque([start])
    leaderless = False
    while waiting:
        state = waiting.popleft()
        leaderless = leaderless or (state.leader == NOBODY and state.status == (UP, UP, UP) and not state.fenced)
        for step, following in steps(setting, state):
            if following in came_from:
                continue
            came_from[following] = (state, step)
            if violated(following):
                return Outcome(len(came_from), trace(came_from, following), leaderless)
            waiting.append(following)
    return Outcome(len(came_from), None, leaderless)


def violated(state: State) -> bool:
    candidates = {*state.isr, *state.elr, state.leader} - {NOBODY}
    end = len(state.committed)
    return any(state.logs[one][:end] != state.committed for one in candidates if state.status[one] == UP)


def trace(came_from: dict[State, tuple[State, str] | None], state: State) -> tuple[str, ...]:
    found = []
    while (before := came_from[state]) is not None:
        state, step = before
        found.append(step)
    return tuple(reversed(found))


# -- steps ---------------------------------------------------------------------------------------------------------


def steps(setting: Setting, state: State) -> Iterator[tuple[str, State]]:
    if state.leader != NOBODY and state.status[state.leader] == UP:
        yield from leader_steps(setting, state)
    for broker in BROKERS:
        if broker not in state.fenced and state.fencings < setting.fencings:
            yield f"fence {broker}", fence(setting, state, broker)
        if state.status[broker] == UP:
            yield from ends(setting, state, broker)
            if broker in state.fenced:
                yield f"unfence {broker}", unfence(setting, state, broker)
        elif broker in state.fenced:
            yield f"{broker} registers", register(setting, state, broker)
    if state.edits < len(setting.edits):
        yield f"min ISR becomes {setting.edits[state.edits]}", edit(setting, state)


def leader_steps(setting: Setting, state: State) -> Iterator[tuple[str, State]]:
    leader = state.leader
    log = state.logs[leader]
    if state.appended < setting.records:
        yield (
            "append",
            state._replace(logs=put(state.logs, leader, (*log, state.appended)), appended=state.appended + 1),
        )
    yield from advance(setting, state)
    if state.edits_known < state.edits:
        yield "the leader hears of the edit", state._replace(edits_known=state.edits)
    for follower in without(BROKERS, leader):
        if state.status[follower] == UP:
            yield from fetch(state, follower)
    if leader in state.fenced or (state.edits_known < state.edits and setting.edit_moves_partition_epoch):
        return
    for follower in without(BROKERS, leader):
        alive = follower not in state.fenced and state.status[follower] == UP
        in_sync = state.told[follower] >= max(state.high_watermark, state.epoch_start)
        if follower in state.isr:
            yield f"out of the ISR: {follower}", decided(setting, state, without(state.isr, follower))
        elif alive and in_sync:
            yield f"into the ISR: {follower}", decided(setting, state, (*state.isr, follower))


def advance(setting: Setting, state: State) -> Iterator[tuple[str, State]]:
    own = len(state.logs[state.leader])
    least = min(own if member == state.leader else state.told[member] for member in state.isr)
    enough = len(state.isr) >= min_isr(setting, state.edits_known) or not setting.frozen_below_min_isr
    if least > state.high_watermark and enough:
        covered = state.logs[state.leader][:least]
        committed = covered if least > len(state.committed) else state.committed
        yield f"high watermark {least}", state._replace(high_watermark=least, committed=committed)


def fetch(state: State, follower: int) -> Iterator[tuple[str, State]]:
    log, own = state.logs[state.leader], state.logs[follower]
    common = 0
    while common < min(len(log), len(own)) and log[common] == own[common]:
        common += 1
    if common < len(own):
        yield f"{follower} truncates", state._replace(logs=put(state.logs, follower, own[:common]))
    elif common < len(log) or state.told[follower] < common:
        logs = put(state.logs, follower, log[: common + 1])
        yield f"{follower} fetches", state._replace(logs=logs, told=put(state.told, follower, common))


def ends(setting: Setting, state: State, broker: int) -> Iterator[tuple[str, State]]:
    """The broker's process ends, in one of three ways. Only what is followed by a fencing is of interest."""
    log = state.logs[broker]
    if state.fencings >= setting.fencings and broker not in state.fenced:
        return
    yield f"{broker} stops cleanly", state._replace(status=put(state.status, broker, DOWN_CLEANLY))
    if state.kills < setting.kills:
        yield f"{broker} is killed", state._replace(status=put(state.status, broker, DOWN), kills=state.kills + 1)
    for kept in range(len(log)) if state.lossy < setting.lossy else ():
        yield (
            f"{broker} loses power, keeps {kept}",
            state._replace(
                status=put(state.status, broker, DOWN),
                logs=put(state.logs, broker, log[:kept]),
                lossy=state.lossy + 1,
            ),
        )


def fence(setting: Setting, state: State, broker: int) -> State:
    fenced = tuple(sorted((*state.fenced, broker)))
    after = state._replace(fenced=fenced, fencings=state.fencings + 1, edits_known=state.edits)
    if broker not in state.isr and broker != state.leader:
        return after
    return decided(setting, after, without(state.isr, broker))


def register(setting: Setting, state: State, broker: int) -> State:
    lost = setting.elr and state.status[broker] == DOWN and setting.unclean_restart_is_noticed
    after = state._replace(status=put(state.status, broker, UP), told=put(state.told, broker, 0))
    if lost and broker in (*state.isr, *state.elr):
        return decided(setting, after, without(state.isr, broker), lost=(broker,))
    return after


def unfence(setting: Setting, state: State, broker: int) -> State:
    after = state._replace(fenced=without(state.fenced, broker))
    return decided(setting, after, after.isr) if after.leader == NOBODY else after


def edit(setting: Setting, state: State) -> State:
    """As `changes.settings_changed`."""
    after = decided(setting, state._replace(edits=state.edits + 1), state.isr)
    return after._replace(elr=(), known=()) if after.isr else after


# -- the controller ------------------------------------------------------------------------------------------------


def decided(setting: Setting, state: State, isr: tuple[int, ...], *, lost: tuple[int, ...] = ()) -> State:
    rare = RareFields(elr=state.elr, last_known_elr=state.known)
    registration = PartitionRegistration(BROKERS, state.isr, state.leader, 0, 0, rare)
    rules = Rules(
        min_isr=min_isr(setting, state.edits),
        eligible_leaders=setting.elr,
        unclean=setting.unclean_election,
        last_known_leader=setting.last_known_leader,
    )
    return follow(state, decide(registration, isr, lambda broker: broker not in state.fenced, rules, lost=lost))


def follow(state: State, decision: Decision) -> State:
    after = state._replace(
        leader=decision.leader,
        isr=tuple(sorted(decision.isr)),
        elr=tuple(sorted(decision.elr)),
        known=decision.last_known_elr,
    )
    if decision.leader == state.leader or decision.leader == NOBODY:
        return after
    epoch_start = len(state.logs[decision.leader])
    return after._replace(told=(0, 0, 0), high_watermark=0, epoch_start=epoch_start, edits_known=state.edits)


def min_isr(setting: Setting, edits: int) -> int:
    return (setting.min_isr, *setting.edits)[edits]


def without(numbers: tuple[int, ...], one: int) -> tuple[int, ...]:
    return tuple(number for number in numbers if number != one)


def put(values: tuple[Any, ...], index: int, value: Any) -> tuple[Any, ...]:
    return (*values[:index], value, *values[index + 1 :])
