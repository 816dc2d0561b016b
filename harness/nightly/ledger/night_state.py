"""The state of a night as a fold over its ledger: what is done, what is to do, what was spent, how it ends. Pure.

An attempt that began and did not end was interrupted with its night: the item is run again from the start, and the
attempt does not count. An ending is retried only if it is unknown or an error, as often as the plan allows; both
attempts stay. What was found invalid stays invalid, whatever a repetition would say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from squall.harness.errors import USAGE_EXIT_STATUS
from squall.harness.nightly.ledger.items import Item
from squall.harness.nightly.ledger.ledger import (
    Begun,
    Choice,
    Ended,
    Event,
    Finished,
    LeftOut,
    Lost,
    Note,
    Omission,
    Planned,
    Provisioned,
    Session,
    TornDown,
)

RETRIED = ("unknown", "error")

Excuses = Callable[[str, str], bool]
"""Whether quarantine excuses this ending of the scenario of this name."""


def _nothing_is_excused(name: str, ending: str) -> bool:
    return False


@dataclass(frozen=True)
class ItemState:
    """A chosen item, its ended attempts in order, and an attempt that began and has not ended."""

    choice: Choice
    ended: tuple[Ended, ...] = ()
    open: Begun | None = None
    begun: int = 0
    """How many attempts were begun; each has the next number."""
    left_out: str = ""
    over_budget: bool = False
    """Whether it was left out because the time was over."""

    @property
    def item(self) -> Item:
        return self.choice.item

    @property
    def last(self) -> Ended | None:
        return self.ended[-1] if self.ended else None

    @property
    def as_expected(self) -> bool:
        return self.last is not None and self.last.as_expected

    @property
    def flaky(self) -> bool:
        """Whether it ended as expected only when it was retried."""
        return self.as_expected and len(self.ended) > 1

    def is_due(self, retries: int) -> bool:
        """Whether an attempt at it should begin now."""
        if self.left_out or self.open is not None:
            return False
        last = self.last
        if last is None:
            return True
        return not last.as_expected and last.outcome.ending in RETRIED and len(self.ended) <= retries


@dataclass(frozen=True)
class NightState:
    """A night."""

    plan: Planned
    items: Mapping[str, ItemState]
    sessions: int = 0
    spent_s: float = 0.0
    """How long the earlier sessions lasted, together with what is known of this one."""
    provisioned: tuple[Provisioned, ...] = ()
    torn_down: tuple[TornDown, ...] = ()
    lost: tuple[Lost, ...] = ()
    notes: tuple[str, ...] = ()
    finished: int | None = None

    @property
    def left_out(self) -> tuple[Omission, ...]:
        """What the plan left out, and what was left out later."""
        later = tuple(
            Omission(item=one.item, seconds=one.choice.seconds, value=one.choice.value, why=one.left_out)
            for one in self.items.values()
            if one.left_out and not one.ended
        )
        return (*self.plan.left_out, *later)

    @property
    def due(self) -> list[ItemState]:
        """The items to run, in the order of the plan; retries after all others."""
        due = [one for one in self.items.values() if one.is_due(self.plan.retries)]
        return sorted(due, key=lambda one: len(one.ended))

    def status(self, excuses: Excuses = _nothing_is_excused, problems: Sequence[str] = ()) -> int:
        """Return the exit status: violations before refusals before unknowns. `problems` are those of the quarantine.

        What the budget left out does not count: it is its user's choice. A chosen item that was not run otherwise does.
        """
        ends = [one for one in self.items.values() if not one.as_expected and (one.ended or not one.over_budget)]
        endings = {
            one.last.outcome.ending if one.last is not None else "unknown"
            for one in ends
            if one.last is None or not excuses(one.item.name, one.last.outcome.ending)
        }
        if endings & {"valid", "invalid"}:
            return 1
        if "refused" in endings:
            return USAGE_EXIT_STATUS
        nothing_ran = not any(one.ended for one in self.items.values())
        return 2 if endings or problems or nothing_ran else 0


@dataclass
class _Fold:
    """The state under construction."""

    plan: Planned
    items: dict[str, ItemState] = field(default_factory=dict)
    sessions: list[tuple[float, float]] = field(default_factory=list)
    provisioned: list[Provisioned] = field(default_factory=list)
    torn_down: list[TornDown] = field(default_factory=list)
    lost: list[Lost] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    finished: int | None = None

    def take(self, event: Event) -> None:
        if isinstance(event, Session):
            self.items = {name: replace(one, open=None) for name, one in self.items.items()}
            self.sessions.append((event.at, event.at))
            self.finished = None
        elif self.sessions:
            began, ended = self.sessions[-1]
            self.sessions[-1] = (began, max(ended, event.at))
        if isinstance(event, Begun):
            self._change(event.item, open=event, begun=event.attempt)
        elif isinstance(event, Ended):
            self._change(event.item, open=None, ended=(*self.items[event.item].ended, event))
        elif isinstance(event, LeftOut):
            self._change(event.item, left_out=event.why, over_budget=event.budget)
        elif isinstance(event, Provisioned):
            self.provisioned.append(event)
        elif isinstance(event, TornDown):
            self.torn_down.append(event)
        elif isinstance(event, Lost):
            self.lost.append(event)
        elif isinstance(event, Note):
            self.notes.append(event.text)
        elif isinstance(event, Finished):
            self.finished = event.status

    def _change(self, item: str, **changes: object) -> None:
        self.items[item] = replace(self.items[item], **changes)  # type: ignore[arg-type]


def fold(events: Iterable[Event]) -> NightState:
    """Return the state after these events, of which the first is the plan. Raises ValueError if it is not."""
    first, *rest = events
    if not isinstance(first, Planned):
        raise ValueError("the first event of a ledger is its plan")
    state = _Fold(first, {one.item.id: ItemState(one) for one in first.chosen})
    for event in rest:
        state.take(event)
    return NightState(
        plan=first,
        items=state.items,
        sessions=len(state.sessions),
        spent_s=sum(max(0.0, ended - began) for began, ended in state.sessions),
        provisioned=tuple(state.provisioned),
        torn_down=tuple(state.torn_down),
        lost=tuple(state.lost),
        notes=tuple(state.notes),
        finished=state.finished,
    )
