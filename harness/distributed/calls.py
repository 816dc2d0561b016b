"""Carry out calls on a Spark cluster: one job, answers as they come, and nothing of Squall installed on the workers.

Squall travels as an archive (`archive.py`); the workers need Python of this version with the libraries that Squall
depends on. A call is a function of a module with arguments that can be pickled; a worker carries it out in a process of
its own (`call_runner.py`). So the answer is that of the same code here, and a call that ends its process is an answer
too: `Ended.problem` says how.

Calls travel in shares, and a share's answers arrive together. There are at most `MOST_SHARES`: a few calls arrive one
by one, and a hundred thousand in shares of fifty, since Spark's driver spends a millisecond and some memory on each.
What a lost worker did not finish is done again by another one. If no worker is left for `ALONE_SECONDS`, the job ends
with SparkTrouble; what has arrived by then stays.
"""

from __future__ import annotations

import pickle
import shutil
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from squall.harness.distributed.archive import write_archive
from squall.harness.distributed.call_process import LACK, VALUE
from squall.results.checkers.common.text import several
from squall.results.checkers.engine.cluster import SparkTrouble
from squall.results.checkers.engine.spark import SparkEngine

if TYPE_CHECKING:
    from pyspark import Accumulator

MOST_SHARES: Final = 2_000
ALONE_SECONDS: Final = 60.0

Call = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function of a module, and its arguments."""
Say = Callable[[str], None]


@dataclass(frozen=True)
class Ended:
    """How a call ended: with a value, or with a problem in words."""

    value: Any = None
    problem: str = ""


class CallsOnSpark:
    """A session on a cluster for many calls. Use as a context. `say` gets a line about what the user should know."""

    def __init__(self, engine: SparkEngine, say: Say) -> None:
        self._engine = engine
        self._say = say
        self._scratch = Path(tempfile.mkdtemp(prefix="squall-archive-"))
        try:
            self._archive = engine.add_archive(write_archive(self._scratch))
        except BaseException:
            shutil.rmtree(self._scratch, ignore_errors=True)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self._scratch, ignore_errors=True)

    def run(self, calls: Sequence[Call]) -> Generator[tuple[int, Ended], None, None]:
        """Yield the number of each call and how it ended, as they end. Closing the generator ends the job.

        Raises SparkTrouble if the cluster cannot carry calls out, or not to the end.
        """
        numbered = [(number, pickle.dumps(call)) for number, call in enumerate(calls)]
        lacks = set[str]()
        watch = None if self._engine.is_local else _Watch(self._engine.executors, self._say)
        for number, answer in self._engine.spread(shares(numbered), _work(self._archive), "calls", watch):
            kind, found = pickle.loads(answer)
            if kind == LACK:
                lacks.add(found)
            elif kind == VALUE:
                yield number, Ended(found)
            else:
                yield number, Ended(problem=found)
        if lacks:
            raise SparkTrouble("\n".join(["not every worker can carry out calls:", *sorted(lacks)]))


def shares(calls: Sequence[tuple[int, bytes]]) -> list[list[tuple[int, bytes]]]:
    """Divide calls into shares of equal size, in their order."""
    size = -(-len(calls) // MOST_SHARES) or 1
    return [list(calls[begin : begin + size]) for begin in range(0, len(calls), size)]


@dataclass
class _Watch:
    """Reports workers that are lost, and ends the job if none is left."""

    executors: Callable[[], int]
    say: Say
    clock: Callable[[], float] = time.monotonic
    _most: int = 0
    _seen: float = field(init=False)

    def __post_init__(self) -> None:
        self._seen = self.clock()

    def __call__(self) -> None:
        there = self.executors()
        if there < self._most:
            self.say(f"{several(self._most - there, 'executor')} of the cluster lost; what they began is done again")
        self._most = there
        if there:
            self._seen = self.clock()
        elif self.clock() - self._seen > ALONE_SECONDS:
            raise SparkTrouble(f"the cluster has had no executor for {ALONE_SECONDS:g} s")


def _work(archive: str) -> Callable[[Accumulator[Any]], Callable[[Iterable[Any]], None]]:
    """Return what makes the function that a Python worker applies to shares.

    The function travels by value and imports nothing of Squall, which is not there before the archive is.
    """

    def work_of(arrived: Accumulator[Any]) -> Callable[[Iterable[Any]], None]:
        def work(given: Iterable[Any]) -> None:
            import importlib.util
            import sys
            from pathlib import Path

            from pyspark import SparkFiles

            package = Path(SparkFiles.get(archive))
            name = f"squall_call_runner_{archive}"
            if name not in sys.modules:
                path = package / "squall" / "harness" / "distributed" / "call_runner.py"
                spec = importlib.util.spec_from_file_location(name, path)
                assert spec is not None and spec.loader is not None
                module = importlib.util.module_from_spec(spec)
                spec.loader.exec_module(module)
                sys.modules[name] = module
            runner = sys.modules[name].runner_in(package)
            for share in given:
                arrived.add(list(runner.answers(share)))

        return work

    return work_of
