"""`squall watch`: one page that shows what a log went through, from a simulated seed or from a run's directory."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from squall.harness.cli.run.check import run_directory
from squall.harness.errors import UsageError
from squall.harness.simulation.explain.watched import watch_seed
from squall.harness.simulation.run.buggified import named_places
from squall.harness.simulation.run.recipe import parse_recipe
from squall.harness.simulation.run.run import SimOptions
from squall.harness.simulation.run.scenarios import find_scenario
from squall.harness.terminal.known_mutants import refuse_unknown_mutants
from squall.harness.terminal.paths import free_name, shown_path
from squall.nemesis.core.durations import parse_seconds
from squall.results.checkers.common.text import several
from squall.results.history.ill_formed import IllFormedHistory
from squall.results.history.manifest import Manifest
from squall.results.verdict.verdict import EXIT_CODES
from squall.results.watch.model import Watched, part_of
from squall.results.watch.of_run import watch_run
from squall.results.watch.page import page_of

_SEED = re.compile(r"\d+([@+].*)?")
_LOG = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)")


@dataclass(frozen=True)
class WatchOptions:
    """The arguments of `squall watch`. `what` is a seed, a recipe, or a run; times are texts such as 9.6s."""

    what: str
    suite: str | None = None
    mutants: tuple[str, ...] = ()
    swarm: bool = False
    buggify: str = ""
    log: str | None = None
    since: str | None = None
    until: str | None = None
    out: Path | None = None


def watch(asked: WatchOptions, console: Console) -> int:
    """Write the page. Return the exit status: 0, or 2 for a run whose records cannot be read."""
    log = _log(asked.log)
    since, until = _microseconds("--from", asked.since), _microseconds("--until", asked.until)
    if since is not None and until is not None and since >= until:
        raise UsageError(f"--from {asked.since} is not before --until {asked.until}")
    try:
        watched, name = _of_seed(asked, log) if _SEED.fullmatch(asked.what) else _of_run(asked, log)
    except IllFormedHistory as trouble:
        console.print(f"UNKNOWN   {trouble}", markup=False)
        return EXIT_CODES["unknown"]
    if (since is not None and since > watched.ends) or (until is not None and until < watched.begins):
        span = f"from {watched.begins / 1e6:.3f} s to {watched.ends / 1e6:.3f} s"
        raise UsageError("--from and --until leave nothing of the run", remedy=f"it lasts {span}")
    if since is not None or until is not None:
        watched = part_of(watched, watched.begins if since is None else since, watched.ends if until is None else until)
    page = page_of(watched)
    path = asked.out or free_name(Path(f"watch-{name}.html"))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")
    steps, operations = several(len(watched.steps), "step"), several(len(watched.operations), "operation")
    messages = "not recorded" if watched.messages is None else f"{len(watched.messages):,}"
    for label, words in (
        ("watch", f"{watched.log}: {watched.broken or 'nothing broke'}"),
        ("shows", f"{steps}, {operations}, messages: {messages}"),
        ("page", f"{shown_path(path)}, {len(page.encode()) / 1e6:.1f} MB; open it in a browser"),
    ):
        console.print(f"{label:<11}{words}", markup=False, highlight=False)
    return 0


def _of_seed(asked: WatchOptions, log: tuple[str, int] | None) -> tuple[Watched, str]:
    refuse_unknown_mutants(asked.mutants)
    named_places(asked.buggify)
    suite = asked.suite or "swarm"
    scenario, said = find_scenario(suite, swarm=asked.swarm)
    recipe = parse_recipe(suite, asked.what)
    options = SimOptions(
        swarm=asked.swarm, mutants=asked.mutants, said=said, buggify=asked.buggify, kinds=recipe.kinds,
        continuations=recipe.continuations,
    )  # fmt: skip
    watched = watch_seed(scenario, recipe.seed, options, log)
    command = f"squall watch {asked.what} --suite {said}" + "".join(f" --mutant {one}" for one in asked.mutants)
    facts = (*watched.facts, ("from", command + " --swarm" * asked.swarm))
    return replace(watched, facts=facts), f"{scenario.scenario}-{recipe.seed}"


def _of_run(asked: WatchOptions, log: tuple[str, int] | None) -> tuple[Watched, str]:
    if asked.suite or asked.mutants or asked.swarm or asked.buggify:
        raise UsageError(
            f"{asked.what}: --suite, --mutant, --swarm and --buggify belong to a seed, and this is a run's directory"
        )
    run = run_directory(Path(asked.what))
    manifest = Manifest.load(run)
    try:
        return watch_run(run, log), f"{manifest.scenario}-{manifest.seed}"
    except KeyError as unknown:
        known = ", ".join(f"{topic}-{number}" for topic, number in manifest.topic_partitions[:8]) or "none"
        raise UsageError(f"--log: the run has no topic-partition {unknown.args[0]}", remedy=f"it has {known}") from None


def _log(text: str | None) -> tuple[str, int] | None:
    if text is None:
        return None
    found = _LOG.fullmatch(text)
    if found is None:
        raise UsageError(f"--log: {text!r} names no topic-partition", remedy="such as --log events-0")
    return found["topic"], int(found["partition"])


def _microseconds(option: str, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        seconds = parse_seconds(text)
    except ValueError as wrong:
        raise UsageError(f"{option}: {text!r} {wrong}", remedy=f"such as {option} 9.6s") from None
    assert isinstance(seconds, float)
    return round(seconds * 1_000_000)
