"""`squall forge`: make histories without a cluster, for authors of checks and for the checks' negative controls.

It writes the directory of a run that `squall check` reads, healthy or with one anomaly or near-miss; lists all cases;
or runs all cases through the checks and prints the outcome.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import track

from squall.harness.distributed.calls import CallsOnSpark, calls_on
from squall.harness.errors import UsageError
from squall.harness.lake.adding import RowsAdder
from squall.harness.lake.rows import of_cases
from squall.harness.terminal.time_left import time_left
from squall.harness.yaml_source import suggestion
from squall.results.checkers.common.text import grouped, several
from squall.results.checkers.engine.cluster import SparkTrouble
from squall.results.lake.store import Lake
from squall.results.synthetic.forge_catalogue import FAMILIES, LOG, Case, Family
from squall.results.synthetic.forge_lake import RUNS_A_NIGHT, forge_runs
from squall.results.synthetic.forge_nights import forge_nights
from squall.results.synthetic.forge_verify import CLEAN, CaseResult, Question, answered, joined, questions, verified

MOST_IN_ONE_PIECE = 200_000
"""The most operations of a kind whose history is forged in one piece of plain objects."""
SEEDS_IN_A_CALL = 50
"""How many histories of a case one call on a cluster forges and checks."""
IN_PARTS = ("log", "registers", "list-append")


def forge_run(
    out: Path, *, operations: int, seed: int, case_name: str | None, kind: str | None, console: Console
) -> int:
    """Forge the run and describe it."""
    family, case = chosen(case_name, kind)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out}: already exists and is not empty", remedy="name a directory that is new")
    if operations > MOST_IN_ONE_PIECE and (family.kind not in IN_PARTS or (case and family.kind == "list-append")):
        raise UsageError(
            f"--operations {operations}: {family.kind} is forged in one piece, up to {grouped(MOST_IN_ONE_PIECE)}"
        )
    began = time.perf_counter()
    with _in_one_step(out.resolve()) as draft:
        count = family.write(draft, seed, operations, case)
    what = "healthy" if case is None else case.name
    must = "valid" if case is None or case.anomaly is None else f"invalid with {case.anomaly}"
    seconds = time.perf_counter() - began
    console.print(f"{'forged':<11}{what}: {several(count, 'operation')} of kind {family.kind}, {seconds:.1f} s")
    console.print(f"{'must be':<11}{must}")
    console.print(f"{'judge':<11}squall check {out}", markup=False)
    return 0


def forge_lake(out: Path, *, runs: int, seed: int, console: Console) -> int:
    """Forge a lake of so many runs, for dashboards and queries."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out}: already exists and is not empty", remedy="name a directory that is new")
    began = time.perf_counter()
    with _in_one_step(out.resolve()) as draft:
        lake = Lake(draft)
        for entry in track(
            forge_runs(runs, seed=seed), "runs", runs, console=console, transient=True, disable=not console.is_terminal
        ):
            lake.add(entry, durably=False)
        for entry in forge_nights(-(-runs // RUNS_A_NIGHT), seed=seed):
            lake.add(entry, durably=False)
        lake.compact()
    console.print(f"{'forged':<11}{several(runs, 'run')} in a lake, {time.perf_counter() - began:.1f} s")
    console.print(f"{'look':<11}squall runs --lake {out}", markup=False)
    return 0


@contextmanager
def _in_one_step(out: Path) -> Iterator[Path]:
    """Provide a directory that replaces `out` when the work is done, unless `out` has content by then.

    Raises UsageError.
    """
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
        draft.chmod(0o755)
    except OSError as trouble:
        in_the_way = isinstance(trouble, FileExistsError)  # a file in place of a directory
        reason = os.strerror(errno.ENOTDIR) if in_the_way else trouble.strerror or str(trouble)
        raise UsageError(f"{out}: cannot be made: {reason}", remedy="name a directory that can be written") from None
    try:
        yield draft
        draft.rename(out)  # replaces an empty directory, never one with content
    except OSError as trouble:
        if trouble.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, errno.EBUSY):
            raise
        raise UsageError(f"{out}: is in use by another", remedy="name a directory that is new") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def chosen(case_name: str | None, kind: str | None) -> tuple[Family, Case | None]:
    """Return the family, and the case by its name or its anomaly's. Raises UsageError."""
    if kind is not None and kind not in FAMILIES:
        raise UsageError(f"--kind {kind}: unknown kind of history{suggestion(kind, FAMILIES)}")
    if case_name is None:
        return FAMILIES[kind or LOG], None
    families = list(FAMILIES.values()) if kind is None else [FAMILIES[kind]]
    listed = [(family, one) for family in families for one in family.cases]
    for family, one in listed:
        if one.name == case_name:
            return family, one
    for family, one in listed:
        if one.anomaly == case_name:
            return family, one
    names = {name for _, one in listed for name in (one.name, one.anomaly) if name is not None}
    near = suggestion(case_name, names)
    if not near.startswith("; did you mean"):
        near = ""
    raise UsageError(f"{case_name!r}: nothing of that name can be forged{near}", remedy="see squall forge --list")


def list_cases(console: Console) -> int:
    """List every case: its kind, what it is, its required result."""
    for kind, family in FAMILIES.items():
        console.print(f"{kind:<19}{'healthy':<68}valid", markup=False)
        for one in family.cases:
            console.print(f"{'':<19}{one.name:<68}{one.anomaly or 'valid'}", markup=False)
    return 0


def verify(
    *,
    seeds: int,
    clean: int,
    kind: str | None,
    processes: int,
    console: Console,
    spark_master: str | None = None,
    lake: Path | None = None,
) -> int:
    """Run every case through its check and print a table, here or on a cluster.

    Return 1 if an anomaly is missed or anything else is flagged. Interrupted, it sums up the cases that ended and
    raises KeyboardInterrupt. If the cluster gives up, or cannot say how a case ended, the status is 2.
    """
    if kind is not None and kind not in FAMILIES:
        raise UsageError(f"--kind {kind}: unknown kind of history{suggestion(kind, FAMILIES)}")
    began = time.perf_counter()
    rows: list[CaseResult] = []
    lake_rows = RowsAdder(lake, console, "forge")
    asked = questions(seeds, clean, tuple(FAMILIES) if kind is None else (kind,))
    ended = gave_up = False
    with (
        _answers(asked, processes, spark_master, console) as answers,
        contextlib.suppress(KeyboardInterrupt),
        time_left(console, "verify", len(asked), "cases") as advance,
    ):
        try:
            for row in answers:
                rows.append(row)
                console.print(_line(row), markup=False, style=None if row.is_right else "bold red")
                advance()
        except SparkTrouble as trouble:
            if not rows:
                raise
            gave_up = True
            console.print(f"{'cluster':<11}{trouble}", markup=False, soft_wrap=True)
        ended = True
    _print_totals(rows, time.perf_counter() - began, console)
    all_ended = ended and len(rows) == len(asked)
    lake_rows.add(lambda: of_cases(rows, engine=spark_master or "local", ended=all_ended))
    if not all_ended:
        console.print(f"interrupted: {several(len(rows), 'case')} ended", markup=False)
        if not gave_up and not ended:
            raise KeyboardInterrupt
    if not all(row.is_right for row in rows):
        return 1
    return 0 if all_ended else 2


@contextmanager
def _answers(
    asked: Sequence[Question], processes: int, spark_master: str | None, console: Console
) -> Iterator[Iterator[CaseResult]]:
    """Provide the answers as they come: from this host's cores or from a cluster. Raises UsageError."""
    if spark_master is None:
        yield verified(asked, processes)
        return
    with calls_on(spark_master, lambda line: console.print(f"{'cluster':<11}{line}", markup=False)) as calls:
        yield _verified_on_spark(asked, calls, console)


def _verified_on_spark(asked: Sequence[Question], calls: CallsOnSpark, console: Console) -> Iterator[CaseResult]:
    """Answer questions on a cluster, in parts; yield each when its last part is there. A lost part leaves it out."""
    parts = [(number, part) for number, one in enumerate(asked) for part in one.parts(SEEDS_IN_A_CALL)]
    missing = Counter(number for number, _ in parts)
    found: dict[int, list[CaseResult]] = defaultdict(list)
    for place, ended in calls.run(answered, (), [part for _, part in parts]):
        number, part = parts[place]
        if ended.problem:
            case = f"{part.kind} {part.case or CLEAN}, seeds from {part.first} on"
            console.print(f"{'unknown':<11}{case}: {ended.problem.strip()}", markup=False, soft_wrap=True)
            continue
        found[number].append(ended.value)
        missing[number] -= 1
        if not missing[number]:
            yield joined(found[number])


def _line(row: CaseResult) -> str:
    mark = "✔" if row.is_right else "✘"
    if row.expected is None:
        told = f"{'nothing':<26}{grouped(row.seeds - row.right)} of {grouped(row.seeds)} flagged"
    else:
        told = f"{row.expected:<26}{grouped(row.right)} of {grouped(row.seeds)} found"
    wrong = "" if row.is_right else f"; said: {dict(row.said)}, first with seed {row.first_wrong}"
    return f"{mark} {row.kind:<19}{row.case:<68}{told}{wrong}"


def _print_totals(rows: Sequence[CaseResult], seconds: float, console: Console) -> None:
    wanted = [row for row in rows if row.expected is not None]
    near = [row for row in rows if row.expected is None and row.case != CLEAN]
    clean = [row for row in rows if row.case == CLEAN]
    classes = {row.expected for row in wanted}
    found = f"{grouped(sum(row.right for row in wanted))} of {grouped(sum(row.seeds for row in wanted))} found"
    console.print()
    console.print(
        f"{several(len(classes), 'class', 'classes')} of anomalies, {several(len(wanted), 'injection')}: {found}"
    )
    for what, some in (("near-misses", near), ("clean histories", clean)):
        flagged = sum(row.seeds - row.right for row in some)
        console.print(f"{grouped(sum(row.seeds for row in some))} {what}: {grouped(flagged)} flagged")
    console.print(f"{seconds:.0f} s")
