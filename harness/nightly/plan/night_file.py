"""Read the file of a night: which suites and other parts, where, within which budget.

    night: nightly
    suites: [nightly.yaml, {suite: two-hop-failover.yaml, only: [two-hop-failover]}]
    world: hosts                     # or simulation
    budget: {time: 6h, money: 12}
    price_per_hour: 1.30
    clusters: [inventory-a.yaml, inventory-b.yaml]
    hooks: {provision: ./up.sh, teardown: ./down.sh, timeout: 10m}
    parts:
      - {simulate: worlds, seeds: 500}
      - {mutants: 2}
      - {forge: 10}
      - {command: "squall bench interpreter", name: interpreter, usual: 1m}
    quarantine:
      - {scenario: clock-skew, owner: ann, reason: "clock of host b3", until: 2026-12-24}

A file without `night:` is a suite, and a night is made of its scenarios. Suites are named from where the file lies.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from squall.harness.errors import UsageError
from squall.harness.nightly.ledger.items import Item
from squall.harness.scenario.plan import refuse_what_simulation_cannot
from squall.harness.scenario.quarantine import Quarantined
from squall.harness.scenario.suite import Scenario, Suite
from squall.harness.scenario.suites import is_file_name, load_named
from squall.harness.scenario.system_refusals import refuse_what_system_lacks
from squall.harness.yaml_source import load_yaml
from squall.nemesis.core.durations import Duration
from squall.results.trends.quarantine import QuarantineEntry

SET_UP_SECONDS = 25.0
"""How long deployment, final reads and the check usually take beside the load, if nothing is known of the past."""
SIMULATED_SECONDS = 3.0
SEED_SECONDS = 2.0
FORGED_SECONDS = 6.0
MUTANTS_SECONDS = 90.0

World = Literal["hosts", "simulation"]


@dataclass(frozen=True)
class Hooks:
    """The commands of a night; an empty one means that there is none."""

    provision: str = ""
    teardown: str = ""
    gone: str = ""
    webhook: str = ""
    timeout_s: float = 600.0

    def named(self) -> Mapping[str, str]:
        """The hooks that exist, by the option that names them."""
        every = {
            "--provision": self.provision,
            "--teardown": self.teardown,
            "--gone": self.gone,
            "--webhook": self.webhook,
        }
        return {name: command for name, command in every.items() if command}


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class BudgetOptions(_Part):
    """How much a night may use."""

    time: Duration | None = None
    money: float | None = Field(default=None, gt=0)


class HookOptions(_Part):
    """Commands that a night runs."""

    provision: str = ""
    teardown: str = ""
    gone: str = Field(default="", description="gets unreachable hosts as JSON, prints the names of those that are gone")
    webhook: str = ""
    timeout: Duration = 600.0


class NamedSuite(_Part):
    """Some scenarios of a suite."""

    suite: str
    only: tuple[str, ...] = ()


class OtherPart(_Part):
    """A part of the night beside scenarios of suites: exactly one of the first four."""

    simulate: str = ""
    mutants: int = Field(default=0, ge=0)
    forge: int = Field(default=0, ge=0)
    command: str = ""
    seeds: int = Field(default=100, ge=1)
    name: str = Field(default="", pattern=r"^$|^[A-Za-z0-9][A-Za-z0-9._-]*$")
    usual: Duration | None = None
    expect: Literal["valid", "invalid", "unknown"] = "valid"

    @model_validator(mode="after")
    def _is_one_thing(self) -> OtherPart:
        if sum(map(bool, (self.simulate, self.mutants, self.forge, self.command))) != 1:
            raise ValueError("needs exactly one of simulate, mutants, forge and command")
        return self


def _as_suite(value: object) -> object:
    return {"suite": value} if isinstance(value, str) else value


class NightFile(_Part):
    """A night as its file states it."""

    night: str = Field(min_length=1, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    suites: tuple[Annotated[NamedSuite, BeforeValidator(_as_suite)], ...] = ()
    world: World = "hosts"
    budget: BudgetOptions = BudgetOptions()
    price_per_hour: float = Field(default=0.0, ge=0)
    clusters: tuple[str, ...] = ()
    hooks: HookOptions = HookOptions()
    parts: tuple[OtherPart, ...] = ()
    quarantine: tuple[Quarantined, ...] = ()
    retry: int = Field(default=1, ge=0, le=1, description="how often an unknown or an error is retried")
    repeat: int = Field(default=1, ge=1, le=1000)

    @model_validator(mode="after")
    def _of_something(self) -> NightFile:
        if not self.suites and not self.parts:
            raise ValueError("has nothing to run; list suites under `suites`, or other work under `parts`")
        return self

    def commands(self) -> Hooks:
        """The hooks that the file names."""
        one = self.hooks
        return Hooks(one.provision, one.teardown, one.gone, one.webhook, one.timeout)

    def entries(self) -> list[QuarantineEntry]:
        """The quarantine list."""
        return [QuarantineEntry(one.scenario, one.owner, one.reason, one.until) for one in self.quarantine]


def load_night(word: str, system: str | None = None) -> tuple[NightFile, list[Suite]]:
    """Load a night's file with its suites, or a suite by file or name as a night; all test this system if one is named.

    Raises UsageError.
    """
    night, suites = _as_written(word)
    return night, [suite.on_system(system) for suite in suites]


def _as_written(word: str) -> tuple[NightFile, list[Suite]]:
    path = Path(word)
    if is_file_name(word):
        source = load_yaml(path)
        if isinstance(source.data, Mapping) and "night" in source.data:
            night = source.validated(NightFile)
            suites = []
            for number, one in enumerate(night.suites):
                try:
                    suites += list(_suites_of(one, path.parent))
                except UsageError as wrong:
                    raise source.error(("suites", number), str(wrong)) from None
            return night, suites
    suite = load_named(word)
    return NightFile(night=path.stem, suites=(NamedSuite(suite=word),)), [suite]


def _suites_of(named: NamedSuite, beside: Path) -> Iterator[Suite]:
    word = named.suite
    suite = load_named(str(beside / word) if is_file_name(word) and (beside / word).exists() else word)
    if not named.only:
        yield suite
    for name in named.only:
        yield suite.only(name)


# -- items ------------------------------------------------------------------------------------------------------------


def items_of(
    night: NightFile, suites: Sequence[Suite], *, seed: int, world: World, repeat: int = 1
) -> tuple[list[Item], list[tuple[str, str]]]:
    """Return the items of a night, and the scenarios that this world or their system cannot have, with the reason.

    Raises UsageError if two items would have the same name.
    """
    items: list[Item] = []
    impossible: list[tuple[str, str]] = []
    for suite in suites:
        for scenario in suite.scenarios:
            try:
                refuse_world(suite, scenario, world)
            except UsageError as refusal:
                impossible.append((scenario.scenario, str(refusal).splitlines()[0]))
                continue
            items += _of_scenario(suite, scenario, seed, world, repeat)
    items += [_of_part(number, part, seed) for number, part in enumerate(night.parts, 1)]
    seen: set[str] = set()
    for one in items:
        if one.id in seen:
            raise UsageError(f"{night.night}: two parts of the night are called {one.id}", remedy="give one a `name`")
        seen.add(one.id)
    return items, impossible


def refuse_world(suite: Suite, scenario: Scenario, world: World) -> None:
    """Raise UsageError for a scenario that this world, or on hosts its system, cannot have."""
    named = suite.said or str(suite.path)
    if world == "simulation":
        if scenario.idle_nemesis:
            raise UsageError(
                f"{named}: scenario {scenario.scenario}: a nemesis that does nothing is a control of hosts"
            )
        refuse_what_simulation_cannot(named, scenario)
    elif scenario.swarm:
        raise UsageError(f"{named}: scenario {scenario.scenario} draws its faults, which only the simulation does")
    else:
        refuse_what_system_lacks(suite.path, scenario)


def _of_scenario(suite: Suite, scenario: Scenario, seed: int, world: World, repeat: int) -> Iterator[Item]:
    named = suite.said or str(suite.path)
    seeds = [
        one + turn * scenario.repeat * (not scenario.seeds)
        for turn in range(repeat)
        for one in scenario.seeds_from(seed)
    ]
    for number, one in enumerate(seeds, 1):
        words: dict[str, Any] = (
            {
                "kind": "simulation",
                "usual_s": SIMULATED_SECONDS,
                "repeat": f"squall simulate {named} --only {scenario.scenario} --seed {one}"
                + " --no-observer" * (scenario.expect.verdict == "invalid"),
            }
            if world == "simulation"
            else {
                "kind": "scenario",
                "usual_s": SET_UP_SECONDS + scenario.time.load,
                "repeat": f"squall run {named} --only {scenario.scenario} --seed {one}"
                + f" --system {suite.system}" * bool(suite.system),
            }
        )
        yield Item(
            id=scenario.scenario if len(seeds) == 1 else f"{scenario.scenario}-{number}",
            name=scenario.scenario,
            suite=named,
            system=suite.system,
            tested=scenario.cluster.system.name,
            seed=one,
            expected=scenario.expect.verdict,
            anomalies=scenario.expect.anomalies,
            **words,
        )


def _of_part(number: int, part: OtherPart, seed: int) -> Item:
    if part.simulate:
        name = part.name or re.sub("[^A-Za-z0-9._-]", "-", f"simulate-{Path(part.simulate).stem}")
        return Item(
            id=name, kind="campaign", name=name, suite=part.simulate, seed=seed, seeds=part.seeds, expected=part.expect,
            usual_s=part.usual or SEED_SECONDS * part.seeds,
            repeat=f"squall simulate {part.simulate} --seed {seed} --seeds {part.seeds}",
        )  # fmt: skip
    if part.mutants:
        name = part.name or "mutants"
        return Item(
            id=name, kind="mutants", name=name, seed=1, seeds=part.mutants, expected=part.expect,
            usual_s=part.usual or MUTANTS_SECONDS * part.mutants,
            repeat=f"squall mutants --verify --seeds {part.mutants}",
        )  # fmt: skip
    if part.forge:
        name = part.name or "forge"
        return Item(
            id=name, kind="forge", name=name, seeds=part.forge, expected=part.expect,
            usual_s=part.usual or FORGED_SECONDS * part.forge, repeat=f"squall forge --verify --seeds {part.forge}",
        )  # fmt: skip
    name = part.name or f"command-{number}"
    return Item(
        id=name, kind="command", name=name, command=part.command, expected=part.expect,
        usual_s=part.usual or 60.0, repeat=part.command,
    )  # fmt: skip
