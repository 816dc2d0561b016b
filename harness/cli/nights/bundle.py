"""`squall bundle`: one archive of a run, to hand to somebody else."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from squall.harness.errors import UsageError
from squall.harness.terminal.console import console

EXAMPLES = (
    "Examples: squall bundle runs/latest · squall bundle runs/torn-tail/2026-11-24T02-00-00 --out torn-tail.tar.gz"
)
RUNS = Path("runs")
ENDINGS = (".tar.gz", ".tgz")


def bundle(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="the directory of a run")],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="the archive; by default SCENARIO-seed-SEED.tar.gz here")
    ] = None,
) -> int:
    """Archive a run: manifest, schedule, history, verdict, report, shortened logs, versions; without secrets."""
    from squall.harness.run.run_archive import archive_run
    from squall.results.history.ill_formed import IllFormedHistory
    from squall.results.history.manifest import Manifest
    from squall.results.history.store import NoSuchRun, find_run

    try:
        directory = find_run(run, RUNS)
        manifest = Manifest.load(directory)
        target = out or Path(f"{manifest.scenario}-seed-{manifest.seed}.tar.gz")
        if not target.name.endswith(ENDINGS):
            raise UsageError(f"--out {target}: must end with .tar.gz", remedy=f"name it {target.stem}.tar.gz")
        target.parent.mkdir(parents=True, exist_ok=True)
        done = archive_run(directory, target)
    except NoSuchRun as missing:
        raise UsageError(str(missing)) from None
    except IllFormedHistory as trouble:
        raise UsageError(str(trouble), remedy="only a run with its manifest can be archived") from None
    to = console()
    for remark in done.remarks:
        to.print(f"{'':<11}{remark}", markup=False, soft_wrap=True)
    size = done.path.stat().st_size / 2**20
    to.print(f"{'bundle':<11}{done.path}: {done.files} files, {size:.1f} MB", markup=False, soft_wrap=True)
    to.print(f"{'check':<11}tar xf {done.path}; its README.txt has the commands", markup=False, soft_wrap=True)
    return 0
