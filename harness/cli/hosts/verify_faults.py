"""Run `squall faults --verify` on hosts. Exit status: 0 if all that these hosts can do was verified, else 1."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from squall.harness.catalogue.abilities import Abilities, ask_hosts
from squall.harness.catalogue.trial_results import print_results, result_line, save_results
from squall.harness.catalogue.trials import Result, Trial, chosen_rows, skipped, trial_of, why_not
from squall.harness.catalogue.verifying import Verification, VerificationDisplay, plan_of
from squall.harness.errors import UsageError
from squall.harness.hosts.host_locks import HostLocks
from squall.harness.run.run_hosts import hosts_of
from squall.harness.scenario.inventory import Inventory
from squall.harness.terminal.paths import shown_path
from squall.nemesis.catalogue import CatalogueRow
from squall.results.history.store import claim_run

RESULTS_FILE = "verification.json"


class VerifyFaults:
    """One verification, and its results so far."""

    def __init__(
        self,
        only: Sequence[str],
        *,
        inventory: Inventory | None,
        lab: str | None,
        seed: int,
        runs_directory: Path,
        json_file: Path | None,
        idle_nemesis: bool,
        console: Console,
        wait: float | None = None,
    ) -> None:
        self.wait = wait
        self.rows = chosen_rows(only)
        self.inventory = inventory
        self.lab = lab
        self.seed = seed
        self.runs_directory = runs_directory
        self.json_file = json_file
        self.idle_nemesis = idle_nemesis
        self.console = console
        self.results: list[Result] = []
        self.total = sum(not row.why_not for row in self.rows)
        self.began = time.monotonic()
        self.source = ""
        self.directory: Path | None = None

    def run(self) -> int:
        """Carry it out, print and save the results. Return the exit status."""
        try:
            with HostLocks("squall faults --verify", wait=self.wait, say=self._say) as locks:
                asyncio.run(self._run(locks))
        except (KeyboardInterrupt, asyncio.CancelledError):
            self.console.print("interrupted: all hosts were healed; what had been done by then:", markup=False)
            self._conclude()
            raise KeyboardInterrupt from None
        self._conclude()
        return 0 if all(one.outcome != "failed" for one in self.results) and self._complete() else 1

    def _complete(self) -> bool:
        return len(self.results) == len(self.rows)

    def _say(self, text: str) -> None:
        self.console.print(text, markup=False, soft_wrap=True)

    async def _run(self, locks: HostLocks) -> None:
        task = asyncio.current_task()
        assert task is not None
        with contextlib.suppress(NotImplementedError, ValueError):
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        clients = any(row.clients for row in self.rows)
        display = VerificationDisplay(self.console)
        shape = plan_of((), self.seed, self.runs_directory.resolve(), clients=clients)
        async with hosts_of(shape, self.inventory, display, locks, self.lab) as hosts:
            abilities = await ask_hosts(hosts.inventory, hosts.network)
            self.source = abilities.source
            trials = self._doable(hosts.inventory, abilities)
            at_the_end = [row for row in self.rows if row.in_every_run]
            if not trials and not at_the_end:
                return
            plan = plan_of(
                trials, self.seed, self.runs_directory.resolve(), clients=clients, idle_nemesis=self.idle_nemesis
            )
            plan = dataclasses.replace(plan, directory=claim_run(plan.directory))
            self.directory = plan.directory
            run = Verification(
                plan, hosts, display, trials, command="squall faults --verify", begin=self._begin, tell=self._tell
            )
            try:
                await run.run()
            except UsageError:
                run.discard_if_empty()
                raise
            for row in at_the_end:
                self._tell(run.result_of_quiet(row))
            for trouble in run.facts.trouble:
                self.console.print(f"trouble    {trouble}", markup=False)

    def _doable(self, inventory: Inventory, abilities: Abilities) -> list[Trial]:
        """Return the trials that these hosts can do; all other rows become results at once."""
        trials = []
        for row in self.rows:
            if row.why_not:
                self.results.append(skipped(row, row.why_not))
            if not row.trial:
                continue
            trial = trial_of(row, inventory, self.seed)
            if reason := why_not(trial, abilities):
                self._tell(skipped(row, reason, trial.what))
            else:
                trials.append(trial)
        return trials

    def _begin(self, trial: Trial) -> None:
        if self.console.is_terminal:
            self.console.print(f"trial  {'':7} {_told(trial.row)}: {trial.what} …", end="\r", markup=False)

    def _tell(self, result: Result) -> None:
        self.results.append(result)
        done = len(self.results) - sum(bool(row.why_not) for row in self.rows)
        self.console.print(result_line(result, done, self.total), soft_wrap=True)

    def _conclude(self) -> None:
        self.results.sort(key=lambda one: one.number)
        self.console.print()
        print_results(self.console, self.results)
        took = time.monotonic() - self.began
        self.console.print(f"{'took':<7}{took:.0f} s", markup=False)
        files = [self.json_file] if self.json_file is not None else []
        files += [self.directory / RESULTS_FILE] if self.directory is not None and self.directory.exists() else []
        for path in files:
            save_results(path, self.results, self.source, self.seed, took)
            self.console.print(f"{'kept':<7}{shown_path(path)}", markup=False)


def _told(row: CatalogueRow) -> str:
    return f"row {row.number}  {row.name}"
