"""Compare guided with random exploration: how many mutants each finds at equal processor time.

For each mutant, both arms get the same processor seconds and the same scenarios, and stop at the first invalid run. The
guided arm begins with a corpus that was built on healthy nodes, whose time is stated apart: it replays the runs that
together cover everything seen, those that add most first, then goes on guided. The random arm runs plain seeds of the
scenarios in turn. A mutant is a name, and `run` gets it; a loader of generated mutants may take its place.

    python -m squall.harness.simulation.exploration.comparison --seconds 60 --corpus corpus MUTANT…
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from squall.harness.simulation.exploration.corpus import Corpus, cover
from squall.harness.simulation.exploration.explorer import Explorer, for_processor_seconds
from squall.nodes.mutants import MUTANTS

SCENARIOS = ("swarm-unclean", "swarm-min-isr-1", "swarm-rf-2", "swarm-combined", "swarm-elr-switch")
"""Short ones, so that a minute of processor time is several runs."""
REQUIRED_RATIO = 1.5


@dataclass(frozen=True)
class Arm:
    """What one exploration found: the name of the breach, or nothing, after so many runs and seconds."""

    found: str
    runs: int
    processor_s: float

    def __str__(self) -> str:
        return f"{self.found or '-':12} {self.runs:3} runs {self.processor_s:6.1f} s"


@dataclass(frozen=True)
class Compared:
    """Both arms on one mutant."""

    mutant: str
    guided: Arm
    random: Arm


def explore_mutant(mutant: str, seconds: float, *, seed: int, scenarios: Sequence[str], corpus: Path | None) -> Arm:
    """Search for a breach of this mutant: guided by a corpus, or at random if there is none."""
    own = Corpus()
    healthy = Corpus(corpus) if corpus is not None else Corpus()
    own.kept, own.seen = healthy.kept, healthy.seen
    replayed = cover(own.kept)
    explorer = Explorer(scenarios, seed, own, mutants=(mutant,), guided=corpus is not None, replayed=replayed)
    for explored in explorer.explore(for_processor_seconds(seconds)):
        if explored.result.verdict == "invalid":
            progress = explorer.progress
            return Arm(", ".join(explored.result.broken), progress.runs, progress.processor_s)
    return Arm("", explorer.progress.runs, explorer.progress.processor_s)


def summary(compared: Sequence[Compared]) -> str:
    """Return the table and the ratio, with what it means."""
    lines = [f"{'mutant':34} {'guided':32} random"]
    lines += [f"{one.mutant:34} {one.guided!s:32} {one.random}" for one in compared]
    guided = sum(bool(one.guided.found) for one in compared)
    random = sum(bool(one.random.found) for one in compared)
    ratio = guided / random if random else float("inf") if guided else 1.0
    enough = "as required" if ratio >= REQUIRED_RATIO else f"less than {REQUIRED_RATIO}: it must change"
    lines.append(f"found      guided {guided}, random {random} of {len(compared)}: ratio {ratio:.2f}, {enough}")
    return "\n".join(lines)


def main() -> None:
    """Compare on the mutants given, by default all named ones."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("mutants", nargs="*", default=list(MUTANTS))
    parser.add_argument("--seconds", type=float, default=60.0, help="processor seconds for each mutant and arm")
    parser.add_argument("--seed", type=int, default=1_000_000, help="the first seed of both arms")
    parser.add_argument("--corpus", type=Path, required=True, help="a corpus that was built on healthy nodes")
    asked = parser.parse_args()
    compared = []
    for mutant in asked.mutants:
        arms = [
            explore_mutant(mutant, asked.seconds, seed=asked.seed, scenarios=SCENARIOS, corpus=corpus)
            for corpus in (asked.corpus, None)
        ]
        compared.append(Compared(mutant, *arms))
        print(f"{mutant:34} {arms[0]!s:32} {arms[1]}", flush=True)
    print(summary(compared))


if __name__ == "__main__":
    main()
