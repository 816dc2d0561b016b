"""Verify the checkers with forged histories: each anomaly found by name, and nothing else flagged.

A *row* is one case with many seeds. An injection must be found in every history and, if its family is exact, without
any other anomaly. In a near-miss or the clean history nothing may be found.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace

from squall.results.synthetic.forge_catalogue import FAMILIES, Case, Found

CLEAN = "clean"


@dataclass(frozen=True)
class Question:
    """One row to compute: a case of a kind of history (None: the clean one), and how many seeds, from `first` on."""

    kind: str
    case: str | None
    seeds: int
    first: int = 0

    def parts(self, most: int) -> list[Question]:
        """Divide it into questions of at most so many seeds."""
        end = self.first + self.seeds
        return [replace(self, first=one, seeds=min(most, end - one)) for one in range(self.first, end, most)]


@dataclass(frozen=True)
class CaseResult:
    """The result: in how many histories the checker was right, and its findings in the others."""

    kind: str
    case: str
    expected: str | None
    seeds: int
    right: int
    said: Counter[str] = field(default_factory=Counter)
    first_wrong: int | None = None

    @property
    def is_right(self) -> bool:
        return self.right == self.seeds > 0


def questions(seeds: int, clean: int, kinds: Sequence[str] = tuple(FAMILIES)) -> list[Question]:
    """Return every injection, every near-miss and the clean history of some kinds."""
    cases = [Question(kind, one.name, seeds) for kind in kinds for one in FAMILIES[kind].cases]
    return cases + [Question(kind, None, clean) for kind in kinds]


def answered(question: Question) -> CaseResult:
    """Forge and check each history of a row."""
    family = FAMILIES[question.kind]
    case = None if question.case is None else family.case(question.case)
    right, said, first_wrong = 0, Counter[str](), None
    for seed in range(question.first, question.first + question.seeds):
        found = family.found(family.healthy(seed) if case is None else case.history(seed))
        if _is_right(found, case, exact=family.exact):
            right += 1
            continue
        said.update([", ".join(sorted(found)) or "nothing"])
        first_wrong = seed if first_wrong is None else first_wrong
    expected = None if case is None else case.anomaly
    return CaseResult(question.kind, question.case or CLEAN, expected, question.seeds, right, said, first_wrong)


def joined(parts: Sequence[CaseResult]) -> CaseResult:
    """Join the results of a question's parts."""
    wrong = [one.first_wrong for one in parts if one.first_wrong is not None]
    return replace(
        parts[0],
        seeds=sum(one.seeds for one in parts),
        right=sum(one.right for one in parts),
        said=sum((one.said for one in parts), Counter[str]()),
        first_wrong=min(wrong, default=None),
    )


def _is_right(found: Found, case: Case | None, *, exact: bool) -> bool:
    if case is None or case.anomaly is None:
        return not found
    return set(found) == {case.anomaly} if exact else case.anomaly in found


def verified(asked: Sequence[Question], processes: int = 1) -> Iterator[CaseResult]:
    """Compute the rows and yield them in their order."""
    if processes == 1:
        yield from map(answered, asked)
        return
    with ProcessPoolExecutor(processes, initializer=_leave_interrupts_to_parent) as pool:
        try:
            # Not `map`, which cancels what is left: a pool whose processes have ended fails at a cancelled future, and
            # leaves those that have not.
            for row in [pool.submit(answered, question) for question in asked]:
                yield row.result()
        except BaseException:  # interrupted or closed: the remaining rows are no longer needed
            for process in list(getattr(pool, "_processes", {}).values()):
                process.terminate()
            raise


def _leave_interrupts_to_parent() -> None:
    """Ignore Ctrl-C in a child, which reaches the whole process group; end at once when the parent terminates it.

    The command's own handler of SIGTERM raises KeyboardInterrupt, which a pool's process takes for an error of the row.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
