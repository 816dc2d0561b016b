"""Look at everything that a night needs before anything is spent: hooks, disk, lake, Java, hosts.

All that is wrong is reported together, as one error.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from squall.harness.errors import UsageError
from squall.harness.hosts.host_locks import owners_of
from squall.harness.hosts.network import MachineNetwork
from squall.harness.hosts.preflight import check
from squall.harness.lab.lab import standing_lab
from squall.harness.lab.lab_requirements import check_machine
from squall.harness.nightly.conduct import Cluster
from squall.harness.nightly.hooks import missing_program
from squall.harness.nightly.ledger.items import Item
from squall.harness.nightly.plan.night_file import Hooks
from squall.harness.scenario.inventory import load_inventory
from squall.results.checkers.engine.cluster import SparkTrouble, require_master
from squall.results.checkers.engine.spark import LOCAL_MASTER, require_java

LEAST_FREE_BYTES: Final = 1 << 30


@dataclass(frozen=True)
class Needs:
    """What a night needs."""

    items: Sequence[Item]
    clusters: Sequence[Cluster]
    hooks: Hooks
    runs: Path
    night: Path
    lake: Path | None
    in_process: bool = False
    spark_master: str | None = None
    waits: bool = False
    """Whether it waits for hosts in use."""


def preflight(needs: Needs, say: Callable[[str], None], *, hosts: bool = True) -> None:
    """Look at everything, and say it. Raises UsageError with all that is wrong.

    Without `hosts`, those of inventories are not contacted: they do not exist before the provision hook has run.
    """
    wrong: list[UsageError] = []
    for what, look in _looks(needs, hosts):
        try:
            said = look()
        except UsageError as trouble:
            wrong.append(trouble)
            said = "✘"
        say(f"{'preflight':<11}{what}: {said}")
    if wrong:
        raise UsageError.joined(wrong)


def _looks(needs: Needs, hosts: bool) -> Iterator[tuple[str, Callable[[], str]]]:
    on_hosts = any(one.kind == "scenario" for one in needs.items)
    yield "hooks", lambda: _hooks(needs.hooks)
    for place in dict.fromkeys((needs.runs, needs.night)):
        yield f"disk of {place}", lambda place=place: _disk(place)  # type: ignore[misc]
    if needs.lake is not None:
        lake = needs.lake
        yield f"lake {lake}", lambda: _writable(lake)
    if not on_hosts:
        return
    if not needs.in_process:
        yield "checker", lambda: _checker(needs.spark_master)
    for cluster in needs.clusters:
        if cluster.inventory is not None and hosts:
            yield f"cluster {cluster.name}", lambda cluster=cluster: _inventory(cluster.inventory, needs.waits)  # type: ignore[misc]
        elif cluster.lab is not None:
            yield f"lab {cluster.lab}", lambda cluster=cluster: f"{len(standing_lab(cluster.lab).hosts)} hosts, up"  # type: ignore[misc]
        elif cluster.inventory is None:
            yield "labs", _labs


def _hooks(hooks: Hooks) -> str:
    missing = [f"{option} {command!r}" for option, command in hooks.named().items() if missing_program(command)]
    if missing:
        raise UsageError(
            f"{', '.join(missing)}: there is no such program", remedy="name one by its path, or put it on the PATH"
        )
    if hooks.provision and not hooks.teardown:
        raise UsageError("--provision without --teardown: nothing would ever end the hosts", remedy="name both")
    return ", ".join(hooks.named()) or "none"


def _disk(place: Path) -> str:
    _writable(place)
    free = shutil.disk_usage(place).free
    if free < LEAST_FREE_BYTES:
        raise UsageError(
            f"{place}: {free / 2**30:.1f} GiB are free, a night needs {LEAST_FREE_BYTES / 2**30:.0f}",
            remedy="free some space",
        )
    return f"{free / 2**30:.0f} GiB free"


def _writable(place: Path) -> str:
    try:
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as trouble:
        reason = os.strerror(trouble.errno) if trouble.errno else str(trouble)
        raise UsageError(f"{place}: cannot be written: {reason}", remedy="name another place") from None
    return "can be written"


def _checker(spark_master: str | None) -> str:
    try:
        require_java()
        require_master(spark_master or LOCAL_MASTER)
    except SparkTrouble as trouble:
        raise UsageError(str(trouble), remedy="--in-process checks without Spark") from None
    return spark_master or LOCAL_MASTER


def _inventory(path: Path, waits: bool) -> str:
    inventory, network = load_inventory(path), MachineNetwork()
    if inventory.lab is not None:
        return _labs()
    report = check(inventory, network)
    if (wrong := report.error()) is not None:
        raise wrong
    with contextlib.suppress(OSError):
        for owner in owners_of(inventory, network):
            if not waits:
                raise UsageError(f"{owner.host}: in use by {owner}", remedy="wait for it: --wait")
    return f"{len(report.rows)} hosts, fit"


def _labs() -> str:
    check_machine()
    return "can be made here"
