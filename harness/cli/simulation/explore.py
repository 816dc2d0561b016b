"""`squall explore`: run seeds for a time; print how much behaviour of the nodes they showed, and how much is left."""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from squall.harness.cli.simulation.simulate import EXIT
from squall.harness.errors import UsageError
from squall.harness.lake.adding import RowsAdder
from squall.harness.lake.rows import Rows, of_seeds
from squall.harness.simulation.exploration.corpus import Corpus
from squall.harness.simulation.exploration.estimate import chao1
from squall.harness.simulation.exploration.explorer import Explored, Explorer, Progress, for_seconds
from squall.harness.simulation.run.scenarios import find_scenario
from squall.nemesis.core.durations import parse_duration
from squall.results.checkers.common.text import several

REPORT_SECONDS = 10.0
DEFAULT_SCENARIOS = ("worlds",)
POINTS = 5


@dataclass(frozen=True)
class ExploreOptions:
    """The arguments of `squall explore`."""

    scenarios: tuple[str, ...] = ()
    duration: str = "10m"
    seed: int | None = None
    """The first seed; by default the one after the highest in the corpus."""
    corpus: Path | None = None
    processes: int | None = None
    until_failure: bool = False
    lake: Path | None = None
    """Where a row about it is added; None for nowhere."""


def explore(asked: ExploreOptions, console: Console) -> int:
    """Explore, and return the status of the worst verdict as `simulate` does.

    If interrupted, it sums up what it did and raises KeyboardInterrupt.
    """
    scenarios = asked.scenarios or DEFAULT_SCENARIOS
    for name in scenarios:
        find_scenario(name)  # a wrong name is refused before the first run
    corpus = Corpus(asked.corpus)
    until = for_seconds(_seconds(asked.duration))
    seed = 1 + max((kept.seed for kept in corpus.kept), default=0) if asked.seed is None else asked.seed
    explorer = Explorer(scenarios, seed, corpus)
    if corpus.kept:
        told = f"{several(len(corpus.kept), 'seed')}, {len(corpus.seen):,} features"
        console.print(f"{'corpus':<11}{told}", highlight=False)
    verdicts = ["valid"]
    rows, known, ended = RowsAdder(asked.lake, console, "explore"), len(corpus.seen), False
    with contextlib.suppress(KeyboardInterrupt):
        _explore(asked, explorer, until, verdicts, console)
        ended = True
    console.print(summary(explorer.progress, corpus), markup=False, highlight=False)
    rows.add(lambda: _rows(seed, scenarios, explorer.progress, corpus, known, ended=ended))
    if not ended:
        raise KeyboardInterrupt
    return max((EXIT[verdict] for verdict in verdicts), key=lambda status: (status == 1, status))


def _rows(seed: int, scenarios: Sequence[str], progress: Progress, corpus: Corpus, known: int, *, ended: bool) -> Rows:
    """Return the row of the lake: verdicts of all runs, and how many features they showed that none had shown."""
    failed = [one.result for one in progress.failed]
    row = of_seeds(
        failed,
        scenario=" ".join(scenarios),
        first_seed=seed,
        seeds=progress.runs,
        valid=progress.runs - len(failed),
        processor_s=progress.processor_s,
        simulated_s=None,
        behaviours=len(corpus.seen),
        new_behaviours=len(corpus.seen) - known,
        estimated_behaviours=chao1(corpus.seen.values()).estimated,
        engine="local",
        mutants=[],
        ended=ended,
    )
    return {"campaigns": [row]} if progress.runs else {}


def _seconds(text: str) -> float:
    try:
        seconds = parse_duration(text)
    except ValueError as wrong:
        raise UsageError(f"--for: {text!r} {wrong}", remedy="such as --for 10m") from None
    assert isinstance(seconds, float)
    return seconds


def _explore(
    asked: ExploreOptions,
    explorer: Explorer,
    until: Callable[[Progress], bool],
    verdicts: list[str],
    console: Console,
) -> None:
    reported = time.monotonic()
    runs = explorer.explore(until, asked.processes or os.cpu_count() or 1)
    with contextlib.closing(runs):
        for explored in runs:
            verdicts.append(explored.result.verdict)
            if explored.result.verdict != "valid":
                console.print(violation(explored), markup=False, highlight=False)
                if asked.until_failure:
                    return
            if time.monotonic() - reported >= REPORT_SECONDS:
                reported = time.monotonic()
                console.print(line(explorer.progress, explorer.corpus), markup=False, highlight=False)


def violation(explored: Explored) -> str:
    """Describe a run that is not valid."""
    result = explored.result
    words = [f"{result.verdict.upper()}  {explored}: {', '.join(result.broken)}", f"  {result.problem}"]
    words += [f"    {said}" for said in result.witness[:12]]
    words.append(f"  Repeat with: squall simulate {explored.scenario} --seed {result.seed}")
    return "\n".join(words)


def line(progress: Progress, corpus: Corpus) -> str:
    """Return the progress in one line."""
    richness = chao1(corpus.seen.values())
    return (
        f"{'explore':<11}{several(progress.runs, 'run')}, {progress.processor_s:,.0f} s of processor time, "
        f"{richness}, {rate(progress):.1f} new a minute, {_failures(progress)}"
    )


def _failures(progress: Progress) -> str:
    verdicts = Counter(one.result.verdict for one in progress.failed)
    return f"{verdicts['invalid']:,} invalid, {verdicts['unknown']:,} unknown"


def rate(progress: Progress) -> float:
    """Return the new features per minute of processor time over the last fifth of the runs."""
    curve = progress.curve
    if len(curve) < 2:
        return 0.0
    before, last = curve[-max(2, len(curve) // 5)], curve[-1]
    return 60 * (last.features - before.features) / max(1e-9, last.processor_s - before.processor_s)


def summary(progress: Progress, corpus: Corpus) -> str:
    """Return what was done, the accumulation curve, and the seeds that are not valid."""
    lines = [line(progress, corpus)]
    curve = progress.curve
    if curve:
        points = [curve[(len(curve) - 1) * number // POINTS] for number in range(1, POINTS + 1)]
        told = ", ".join(f"{point.features:,} after {point.processor_s:,.0f} s" for point in dict.fromkeys(points))
        lines.append(f"{'curve':<11}{told}")
        lines.append(f"{'new':<11}{several(len(corpus.kept), 'seed')} showed something that none before had shown")
    lines += [f"{one.result.verdict:<11}{', '.join(one.result.broken)} ({one})" for one in progress.failed]
    return "\n".join(lines)
