"""`squall lab`: bring labs up and down, show their hosts and round trips, open a shell on a host.

Links between racks are shown as configured and as measured, side by side. A link that is much faster than configured,
or on which no response arrives, makes the command fail: every run on such a lab would claim too much.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import ValidationError

from squall.harness.errors import UsageError
from squall.harness.scenario.lab_topology import NAMED_PROFILES, LabTopology, LinkProfile, Racks
from squall.harness.terminal.console import console

if TYPE_CHECKING:
    from rich.console import Console

    from squall.harness.lab.lab import Lab
    from squall.harness.lab.round_trips import RoundTrip

STANDARD_PORT = 22
LEAST_SHARE_OF_ASKED = 0.9
"""The least share of a configured latency to measure: clock errors and a median of few may lower it.

Longer is no error: a machine may be busy.
"""

lab_app = typer.Typer(
    help="The local lab: hosts in network namespaces, reached over SSH.", epilog="Example: squall lab up --name mine"
)

NameOption = Annotated[str, typer.Option(help="labs of different names run side by side")]


@lab_app.command(
    "up",
    epilog="Examples: squall lab up --brokers 5 · squall lab up --racks 3 --between-racks 2ms · "
    "squall lab up --racks 3 --between-racks latency=2ms,jitter=0.5ms,loss=0.001 --link r1-r3=20ms · "
    "squall lab up --inventory lab.yaml",
)
def lab_up_command(
    controllers: Annotated[int | None, typer.Option(min=0, show_default="3; 0 with --zookeeper")] = None,
    brokers: Annotated[int | None, typer.Option(min=1, show_default="3")] = None,
    zookeeper: Annotated[
        int | None, typer.Option(min=0, show_default="0", help="servers of an ensemble, in place of controllers")
    ] = None,
    clients: Annotated[int | None, typer.Option(min=0, show_default="0", help="hosts that make the load")] = None,
    racks: Annotated[int | None, typer.Option(min=1, help="spread hosts over this many racks")] = None,
    between_racks: Annotated[
        str | None,
        typer.Option(
            metavar="PROFILE",
            help="a latency one way (2ms), key=value,… of latency, jitter, distribution, loss and bandwidth, or one of "
            + ", ".join(NAMED_PROFILES),
        ),
    ] = None,
    link: Annotated[
        list[str] | None,
        typer.Option(metavar="RACK-RACK=PROFILE", help="another profile between two racks, such as r1-r3=20ms"),
    ] = None,
    inventory: Annotated[
        Path | None, typer.Option("--inventory", "-i", metavar="FILE", help="use the shape under `lab:` in this file")
    ] = None,
    reduced: Annotated[
        bool, typer.Option("--reduced", help="make hosts of plain processes, as where namespaces are forbidden")
    ] = False,
    name: NameOption = "default",
) -> int:
    """Bring a lab up; it stays until `squall lab down`."""
    from squall.harness.lab.lab import lab_up

    told: dict[str, object] = {
        "controllers": controllers,
        "brokers": brokers,
        "zookeeper": zookeeper,
        "clients": clients,
        "racks": racks,
        "between_racks": between_racks,
        "links": dict(_link(text) for text in link) if link else None,
    }
    given = {key: value for key, value in told.items() if value is not None}
    shape = shape_from_options(given) if inventory is None else shape_from_file(inventory, given)
    lab = lab_up(
        shape.controllers,
        shape.brokers,
        shape.clients,
        zookeeper=shape.zookeeper,
        racks=shape.in_racks(),
        name=name,
        reduced=reduced,
    )
    out = console()
    out.print(f"{'lab':<11}{len(lab.hosts)} hosts up in {lab.up_seconds:.1f} s" + _without_root(lab))
    for host in lab.hosts:
        rack = f"{host.rack:<4}" if host.rack is not None else ""
        out.print(f"{'':<11}{host.name:<6} {host.address:<14} {rack}{' '.join(host.groups)}")
    held = show_racks(out, lab)
    show_what_it_lacks(out, lab)
    out.print(f"{'':<11}run there: squall run SUITE --lab {lab.name}")
    return 0 if held else 1


@lab_app.command("down", epilog="Example: squall lab down --name default")
def lab_down_command(
    name: NameOption = "default",
    force: Annotated[bool, typer.Option("--force", help="also while a run is under way on the lab")] = False,
) -> None:
    """Take a lab down and end every process in it."""
    from squall.harness.lab.lab import lab_down
    from squall.harness.lab.lab_lock import locked_for_its_end

    with locked_for_its_end(name, force=force, say=lambda text: console().print(text, markup=False)):
        gone = lab_down(name)
    console().print(f"{'lab':<11}{name} is down" if gone else f"{'lab':<11}there was no lab {name}")


@lab_app.command("status", epilog="Example: squall lab status")
def lab_status_command() -> int:
    """List the labs that are up, whether their hosts respond, and the round trips between their racks."""
    from squall.harness.lab.lab import lab_status

    out, labs, held = console(), lab_status(), True
    if not labs:
        out.print(f"{'lab':<11}none is up; start one: squall lab up")
    for status in labs:
        answering = sum(status.answering.values())
        all_told = f"{answering} of {len(status.answering)} hosts answer"
        out.print(f"{'lab':<11}{status.lab.name}: {all_told}{_without_root(status.lab)}")
        for host in status.lab.hosts:
            state = "✔ answers" if status.answering[host.name] else "✘ silent"
            rack = f"{host.rack:<4}" if host.rack is not None else ""
            out.print(f"{'':<11}{host.name:<6} {host.address:<14} {rack}{state}")
        held = show_racks(out, status.lab) and held
        show_what_it_lacks(out, status.lab)
    return 0 if held else 1


@lab_app.command(
    "ssh",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    epilog="Examples: squall lab ssh b1 · squall lab ssh b1 nft list ruleset · squall lab ssh --name mine c1 ps",
)
def lab_ssh_command(
    host: Annotated[str, typer.Argument(metavar="HOST", help="as `squall lab status` names it")],
    command: Annotated[list[str] | None, typer.Argument(metavar="COMMAND", help="a shell by default")] = None,
    name: NameOption = "default",
) -> None:
    """Open a shell on a host of a lab as root (in a reduced lab as yourself), or run one command."""
    from squall.harness.lab.lab import standing_lab
    from squall.harness.lab.lab_requirements import SYSTEM_PATH

    lab = standing_lab(name)
    argv = ssh_arguments(lab, host, command or [])
    sys.stdout.flush()
    try:
        os.execvpe(argv[0], argv, os.environ | {"PATH": f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}"})
    except FileNotFoundError:
        raise UsageError(f"{argv[0]} is not installed", remedy="sudo apt-get install openssh-client") from None


def ssh_arguments(lab: Lab, host: str, command: list[str]) -> list[str]:
    """Return the command of OpenSSH's client, with the lab's key and none of the user's settings.

    Raises UsageError for an unknown host.
    """
    spec = lab.inventory().host(host)
    options = {
        "UserKnownHostsFile": spec.known_hosts,
        "IdentitiesOnly": "yes",
        "StrictHostKeyChecking": "yes",
        "LogLevel": "ERROR",
    }
    words = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
    words += ["-p", str(spec.port)] if spec.port != STANDARD_PORT else []
    to = f"{spec.user}@{spec.address}"
    return [*lab.network.command_prefix(), "ssh", "-F", "none", "-i", str(spec.key_file), *words, to, *command]


# --- Shapes --------------------------------------------------------------------------------------------------------


def shape_from_options(given: dict[str, object]) -> LabTopology:
    """Return the shape that options ask for. Raises UsageError."""
    try:
        return LabTopology.model_validate(given)
    except ValidationError as invalid:
        found = []
        for error in invalid.errors(include_url=False):
            where = "--" + ".".join(str(part) for part in error["loc"]).replace("_", "-") if error["loc"] else "lab up"
            said = error["msg"].removeprefix("Value error, ")
            found.append(UsageError(f"{where}: {error['input']!r} {said}" if error["loc"] else f"{where}: {said}"))
        raise UsageError.joined(found) from None


def shape_from_file(file: Path, given: dict[str, object]) -> LabTopology:
    """Return the shape under `lab:` of an inventory. Raises UsageError."""
    from squall.harness.scenario.inventory import load_inventory

    if given:
        option = "--" + next(iter(given)).replace("_", "-")
        raise UsageError(
            f"--inventory {file} and {option} both say what the lab is like", remedy="leave one of them out"
        )
    shape = load_inventory(file).lab
    if shape is None:
        raise UsageError(
            f"{file} lists hosts that are there already, and no lab to bring up",
            remedy="give it `lab:` instead of `all:`",
        )
    return shape


def _link(text: str) -> tuple[str, str]:
    racks, equals, profile = text.partition("=")
    if not equals:
        raise UsageError(f"--link: {text!r} must be two racks and what lies between them, as r1-r3=20ms")
    return racks, profile


# --- What is shown -------------------------------------------------------------------------------------------------


def show_racks(out: Console, lab: Lab) -> bool:
    """Print measured round trips beside the configured ones. Return whether all are as they should be."""
    from squall.harness.lab.round_trips import measured_round_trips

    if not lab.racks.count:
        return True
    held, label = True, "round trip"
    for trip in measured_round_trips(lab.hosts, lab.network):
        good, said = judged(trip, lab.racks)
        held = held and good
        out.print(f"{label:<11}{said}", markup=False)
        label = ""
    return held


def judged(trip: RoundTrip, racks: Racks) -> tuple[bool, str]:
    """Return whether a measured round trip is long enough, and its line.

    Jitter only adds, and its effect on a median of few is chance; so it is shown but does not decide.
    """
    profile = racks.profile(trip.source, trip.target)
    where = f"within {trip.source}" if trip.source == trip.target else f"{trip.source}-{trip.target}"
    least = 2 * profile.latency if profile is not None else 0.0
    good = trip.seconds is not None and trip.seconds >= LEAST_SHARE_OF_ASKED * least
    measured = "no answer" if trip.seconds is None else f"{trip.seconds * 1000:.2f} ms"
    wanted = "" if profile is None else f" · asked for {_asked(profile)} ({profile.described()} one way)"
    return good, f"{'✔' if good else '✘'} {where:<10} {measured:>10} {'-'.join(trip.hosts)}{wanted}"


def _asked(profile: LinkProfile) -> str:
    return f"{profile.round_trip * 1000:g} ms" + (" in the mean" if profile.jitter else "")


def show_what_it_lacks(out: Console, lab: Lab) -> None:
    """Print why a lab is reduced, and what it cannot do."""
    from squall.harness.lab.reduced_lab import LACKS

    label = "reduced"
    for line in (lab.reduced, *LACKS) if lab.reduced else ():
        out.print(f"{label:<11}{line}", markup=False, style="yellow")
        label = ""


def _without_root(lab: Lab) -> str:
    if lab.reduced:
        return " · REDUCED: its hosts are plain processes"
    told = "made without root: what that leaves out, `squall inventory check` and `squall faults` tell"
    return f" · {told}" if lab.rootless else ""
