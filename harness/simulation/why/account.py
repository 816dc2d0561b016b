"""Say in words where a failure was decided: a sentence, a table of probabilities, and how many clean runs to believe.

baked in   between 2.9942 s and 2.9948 s the probability rises from 40 % to 100 %: b3 leads epoch 1, …
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from squall.harness.simulation.explain.traced import RunTrace
from squall.harness.simulation.why.continuations import Parent
from squall.harness.simulation.why.events import NamedEvent, most_telling
from squall.harness.simulation.why.search import Change, Instant
from squall.results.checkers.common.text import several
from squall.results.trends.findability import BELIEVED, Findability

BAR = 20
LIKELY = 0.8


@dataclass(frozen=True)
class Explanation:
    """What `squall why` found. `events` are those during the decisive change, `complete` is false if time ran out."""

    parent: Parent
    trace: RunTrace
    instants: tuple[Instant, ...]
    decisive: Change | None
    others: tuple[Change, ...]
    events: tuple[NamedEvent, ...]
    complete: bool = True


def percent(probability: float) -> str:
    """Format 0.04 as `4 %`."""
    return f"{100 * probability:.0f} %"


def sentence(found: Explanation) -> str:
    """Say where the failure was decided."""
    if found.decisive is not None:
        named = " and ".join(event.text for event in most_telling(list(found.events)))
        return f"{_changes(found.decisive, found.parent)}: {named or 'no event of the trace lies there'}"
    low, high = (pick(one.probability for one in found.instants) for pick in (min, max))
    if low >= LIKELY:
        share = "all" if low == 1 else f"at least {percent(low)} of the"
        return (
            f"the failure was likely from the start: {share} continuations fail from every instant, so the scenario "
            "decides it, and not what was drawn in this run"
        )
    return f"no instant stands out: the probability lies between {percent(low)} and {percent(high)} throughout"


def other_lines(found: Explanation) -> list[str]:
    """Say where else the probability changed."""
    return [_changes(change, found.parent) for change in found.others]


def _changes(change: Change, parent: Parent) -> str:
    before, after = parent.shown(change.before.at), parent.shown(change.after.at)
    digits = 4 if change.length < 10_000 else 2
    way = "rises" if change.rise > 0 else "falls"
    return (
        f"between {before:.{digits}f} s and {after:.{digits}f} s the probability {way} from "
        f"{percent(change.before.probability)} to {percent(change.after.probability)}"
    )


def table(found: Explanation) -> list[str]:
    """Return the probability at each instant, a line each."""
    lines = [f"{'time':>12}  {'P(bug)':>6}  95 % interval   runs"]
    for instant in found.instants:
        time = "start" if instant.at == 0 else f"{found.parent.shown(instant.at):.4f} s"
        interval = f"{percent(instant.interval.low)} to {percent(instant.interval.high)}"
        bar = "█" * round(BAR * instant.probability)
        mark = "▶" if found.decisive is not None and instant == found.decisive.after else " "
        lines.append(
            f"{time:>12}  {percent(instant.probability):>6}  {interval:<14} {instant.runs:>5} {mark} {bar}".rstrip()
        )
    return lines


def failure_name(parent: Parent) -> str:
    """Return the name of what counts as the same failure."""
    return " or ".join(parent.same.names) or "any failure"


def same_failure(parent: Parent) -> str:
    """Say what counts as the same failure."""
    names = failure_name(parent)
    if parent.horizon is None:
        return f"{names} by the end of the run"
    return (
        f"{names} by {parent.shown(parent.horizon):.2f} s, {(parent.horizon - parent.ended) / 1e6:.2f} s after this one"
    )


def findability_of(found: Explanation) -> str:
    """Say how many clean seeds it takes, by the continuations from the start of the world."""
    start = found.instants[0]
    seen, runs = (start.failed, start.runs) if start.failed else (1, start.runs + 1)
    return findability_words(failure_name(found.parent), seen, runs)


def findability_words(name: str, seen: int, runs: int) -> str:
    """Say how often a failure showed, and after how many clean seeds a fix may be believed."""
    needed = Findability(seen, runs).clean_runs_needed()
    seeds = several(needed, "clean seed")
    return f"{name} in {seen:,} of {several(runs, 'run')}: believe a fix after {seeds} ({percent(BELIEVED)} sure)"


def examples(found: Explanation) -> list[tuple[str, str]]:
    """Return a failing and a passing continuation from around the decision, each as (recipe, outcome)."""
    change = found.decisive
    instant = found.instants[0] if change is None else change.before
    chosen = []
    for outcome, words in ((True, "fails alike"), (False, "does not fail alike")):
        if outcome in instant.outcomes:
            chosen.append((instant.outcomes.index(outcome), words))
    return [(continuation_recipe(found.parent, instant.at, number), words) for number, words in chosen]


def continuation_recipe(parent: Parent, at: int, number: int) -> str:
    """Return the recipe of one continuation, as `squall simulate --recipe` reads it."""
    return str(parent.continued(at, number)).partition(" ")[2]


def account(found: Explanation, heading: Sequence[str] = ()) -> str:
    """Return everything as text, for a file."""
    lines = [*heading, "", *table(found), "", f"baked in: {sentence(found)}"]
    lines += [f"  {event.at / 1e6:.6f} s  {event.text}" for event in found.events]
    lines += [f"also {line}" for line in other_lines(found)]
    return "\n".join(lines) + "\n"
