"""A file with the trace hash of each seed: what another machine, commit or cluster must repeat bit for bit.

A line is a seed with its verdict and the hash over everything that was delivered, in the order of the seeds:

    17 valid cdac3a8a53166eef5aa659dc8fee476a
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from squall.harness.errors import UsageError
from squall.harness.simulation.run.run import SimResult
from squall.results.checkers.common.text import several
from squall.results.history.whole_file import write_whole

SHOWN = 5
REMEDY = "name a file that --traces has written"


@dataclass(frozen=True)
class TraceComparison:
    """The seeds of both sides: `differing` have another verdict or another hash."""

    same: int
    differing: tuple[int, ...]
    only_here: int
    only_there: int

    def words(self, path: Path) -> str:
        """Say how the traces compare with those of a file."""
        total = self.same + len(self.differing)
        if not total:
            return f"none of these seeds is in {path}"
        some = ", ".join(map(str, self.differing[:SHOWN])) + " …" * (len(self.differing) > SHOWN)
        said = f"{len(self.differing):,} of {several(total, 'seed')} differ from {path}: {some}"
        if not self.differing:
            said = f"{several(total, 'seed')}, each as in {path}"
        apart = [(self.only_here, "only here"), (self.only_there, "only there")]
        return "; ".join([said, *(f"{number:,} {where}" for number, where in apart if number)])


def write_traces(path: Path, results: Iterable[SimResult]) -> None:
    """Write the traces of these results. Raises OSError."""
    ordered = sorted(results, key=lambda one: one.seed)
    write_whole(path, "".join(f"{one.seed} {one.verdict} {one.digest or '-'}\n" for one in ordered))


def make_place(path: Path) -> None:
    """Make sure, before hours are spent, that the file can be written. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.open("ab").close()


def read_traces(path: Path) -> dict[int, tuple[str, str]]:
    """Read a file of traces: verdict and hash by seed. Raises UsageError."""
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as trouble:
        problem = trouble.strerror if isinstance(trouble, OSError) else "is not text"
        raise UsageError(f"--same-as {path}: {problem}", remedy=REMEDY) from None
    traces = {}
    for number, line in enumerate(lines, 1):
        words = line.split()
        if len(words) != 3 or not words[0].removeprefix("-").isdecimal():
            raise UsageError(f"--same-as {path}: line {number}: is not 'SEED VERDICT HASH'", remedy=REMEDY)
        traces[int(words[0])] = (words[1], words[2])
    return traces


def compare_traces(results: Iterable[SimResult], there: Mapping[int, tuple[str, str]]) -> TraceComparison:
    """Compare seeds with those of a file."""
    here = {one.seed: (one.verdict, one.digest or "-") for one in results}
    both = here.keys() & there.keys()
    differing = tuple(sorted(seed for seed in both if here[seed] != there[seed]))
    return TraceComparison(len(both) - len(differing), differing, len(here) - len(both), len(there) - len(both))
