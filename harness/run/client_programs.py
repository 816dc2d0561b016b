"""Find the program that is the client of a run's workload: that of the suite, or the one that the system brings.

A program of the suite is started as the suite says, where the load is made: from the directory in which Squall runs, or
on client hosts, where it must already be. A system's program lies in the system's library; client hosts see that
directory, or get a copy (`hosts/libraries.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from squall.harness.hosts.client_bundle import ClientHost
from squall.harness.hosts.libraries import place_library
from squall.harness.hosts.ssh import on_all
from squall.harness.hosts.system import ClientSystem, FetchedSystem, System
from squall.harness.scenario.suite import Scenario
from squall.workloads.clients.programs.client import ProgramChoice
from squall.workloads.clients.programs.options import ProgramOptions
from squall.workloads.workload import PROGRAM


def local_program(scenario: Scenario, system: System) -> ProgramChoice | None:
    """Return the program of clients on this machine; None if the workload's clients are no programs."""
    programs = str(system.library().directory) if isinstance(system, FetchedSystem) else ""
    return _choice(scenario, system, programs)


def programs_on(scenario: Scenario, system: System, clients: Sequence[ClientHost]) -> dict[str, ProgramChoice]:
    """Return the programs of clients on these hosts, by host; none if the workload's clients are no programs.

    Blocking: hosts that do not see the system's library get a copy. Raises UsageError.
    """
    if scenario.load.client != PROGRAM:
        return {}
    places = dict.fromkeys([client.name for client in clients], "")
    if not _options(scenario).command and isinstance(system, FetchedSystem):
        library, probes = system.library(), {client.name: client.deployed.probe for client in clients}
        remotes = [client.remote for client in clients]
        places = on_all(remotes, lambda remote: place_library(remote, probes[remote.name], library))
    found = {name: _choice(scenario, system, place) for name, place in places.items()}
    return {name: choice for name, choice in found.items() if choice is not None}


def _options(scenario: Scenario) -> ProgramOptions:
    """Return what the suite says of the program."""
    return getattr(scenario.load, PROGRAM, None) or ProgramOptions()


def _choice(scenario: Scenario, system: System, programs: str) -> ProgramChoice | None:
    if scenario.load.client != PROGRAM:
        return None
    said = _options(scenario)
    command = said.command
    if not command and isinstance(system, ClientSystem):
        command = system.client_program(scenario.load.name, programs)
    return ProgramChoice(command, dict(said.settings), said.answer) if command else None
