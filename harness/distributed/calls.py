"""Carry out calls on a Spark cluster: one job, answers as they come, and nothing of Squall installed on the workers.

Squall travels as an archive (`archive.py`); the workers need Python of this version with the libraries that Squall
depends on. A call is a function of a module with arguments that can be pickled; a worker carries it out in a process
beside it (`call_runner.py`). So the answer is that of the same code here, and a call that ends its process is an answer
too: `Ended.problem` says how.

Calls travel in shares, and a share's answers arrive together. There are at most `MOST_SHARES`: a few calls arrive one
by one, and a hundred thousand in shares of fifty, since Spark's driver spends time and memory on each share.
What a lost worker did not finish is done again by another one. If no worker is left for `ALONE_SECONDS`, the job ends
with SparkTrouble; what has arrived by then stays.
"""

from __future__ import annotations

import contextlib
import pickle
import shutil
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from squall.harness.distributed import call_runner
from squall.harness.distributed.archive import write_archive
from squall.harness.distributed.call_process import LACK, VALUE
from squall.harness.distributed.call_runner import Share
from squall.harness.errors import UsageError
from squall.results.checkers.common.text import several
from squall.results.checkers.engine.cluster import SparkTrouble
from squall.results.checkers.engine.spark import SparkEngine

if TYPE_CHECKING:
    from pyspark import Accumulator

MOST_SHARES: Final = 2_000
ALONE_SECONDS: Final = 60.0

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
        self._archive = ""
        try:
            if not engine.is_local:  # workers of `local[…]` are this interpreter with what is installed here
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

    def run(
        self, function: Callable[..., Any], common: tuple[Any, ...], items: Sequence[Any]
    ) -> Generator[tuple[int, Ended], None, None]:
        """Call `function(*common, item)` for each item; yield the item's number and how the call ended, as they end.

        The function is one of a module. Closing the generator ends the job. Raises SparkTrouble if the cluster cannot
        carry calls out, or not to the end.
        """
        lacks = set[str]()
        given = shares(pickle.dumps((function, common)), [pickle.dumps(item) for item in items])
        watch = None if self._engine.is_local else _Watch(self._engine.executors, self._say)
        with contextlib.closing(self._engine.spread(given, _work(self._archive), "calls", watch)) as answers:
            for number, answer in _in_words(answers):
                kind, found = pickle.loads(answer)
                if kind == LACK:
                    lacks.add(found)
                elif kind == VALUE:
                    yield number, Ended(found)
                else:
                    yield number, Ended(problem=found)
        if lacks:
            raise SparkTrouble("\n".join(["not every worker can carry out calls:", *sorted(lacks)]))


@contextmanager
def calls_on(master: str, say: Say) -> Iterator[CallsOnSpark]:
    """Open a session on a cluster. Raises UsageError if it cannot be used."""
    try:
        with SparkEngine(master) as engine, CallsOnSpark(engine, say) as calls:
            yield calls
    except SparkTrouble as trouble:
        raise UsageError(str(trouble)) from None


def _in_words(answers: Iterator[Any]) -> Iterator[Any]:
    """Yield the same; Spark's own exceptions become SparkTrouble with their first line."""
    try:
        yield from answers
    except SparkTrouble:
        raise
    except Exception as trouble:
        raise SparkTrouble(f"Spark gave up: {str(trouble).strip().splitlines()[0]}") from trouble


def shares(function: bytes, items: Sequence[bytes]) -> list[Share]:
    """Divide calls into shares of equal size, in their order. Each share has the function once."""
    numbered = list(enumerate(items))
    size = -(-len(items) // MOST_SHARES) or 1
    return [(function, numbered[begin : begin + size]) for begin in range(0, len(items), size)]


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
            self.say(f"{several(self._most - there, 'executor')} lost: what was unfinished there is done again")
        self._most = there
        if there:
            self._seen = self.clock()
        elif self.clock() - self._seen > ALONE_SECONDS:
            raise SparkTrouble(f"the cluster has had no executor for {ALONE_SECONDS:g} s")


def _work(archive: str) -> Callable[[Accumulator[Any]], Callable[[Iterable[Share]], None]]:
    """Return what makes the function that a Python worker applies to shares.

    The function travels by value and imports nothing of Squall, which is not there before the archive is.
    """
    here = str(Path(call_runner.__file__).resolve())

    def work_of(arrived: Accumulator[Any]) -> Callable[[Iterable[Share]], None]:
        def work(given: Iterable[Share]) -> None:
            import importlib.util
            import sys
            from pathlib import Path

            from pyspark import SparkFiles

            package = Path(SparkFiles.get(archive)) if archive else None
            path = here if package is None else str(package / "squall" / "harness" / "distributed" / "call_runner.py")
            name = f"squall_call_runner_{archive}"
            if name not in sys.modules:
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
