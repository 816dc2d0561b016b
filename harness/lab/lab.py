"""Bring up and take down the local lab: namespace hosts on one Linux machine, driven over SSH like rented ones.

    lab = lab_up(controllers=3, brokers=3)        # persists until lab_down, also after its starter ends
    lab.inventory()                               # its hosts, as an inventory would name them
    lab.network                                   # how to reach them (network.py)
    lab_down()

    with private_lab(controllers=3, brokers=3) as lab:   # dies with this process, by any death
        ...

`supervisor.py` describes what hosts are made of, and why nothing is left behind: one supervisor process holds
everything. Where namespaces are impossible the lab is a reduced one (`reduced_lab.py`), and reports that. This module
is the caller's side: it has files prepared (`lab_files.py`), starts the supervisor, reads and removes its state. State
(`plan.json`, `holder.json`, keys, logs) lives in the user's runtime directory, under the lab's name; the hosts' files
live on disk under /var/tmp, because a runtime directory is often a small tmpfs.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import secrets
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from squall.harness.errors import UsageError
from squall.harness.hosts.network import LabNetwork, LoopbackNetwork, process_started
from squall.harness.lab.lab_files import SSHD_CONFIG, LabPlan, host_address, prepare, sockets_of, write_json
from squall.harness.lab.lab_requirements import SYSTEM_PATH, check_machine
from squall.harness.lab.owned import (
    DirectoryNotOurs,
    make_owned,
    mark_of,
    private_directory,
    refuse_foreign,
    remove_owned,
)
from squall.harness.lab.process_reaper import end_all_at_home
from squall.harness.lab.reduced_lab import prepare_reduced, reduced_hosts, refuse_between_racks
from squall.harness.names import checked_lab_name
from squall.harness.scenario.inventory import HostSpec, Inventory
from squall.harness.scenario.lab_topology import NO_RACKS, LabTopology, Racks

DEFAULT_NAME = "default"
STATE = "lab"
DATA = "data of lab"
"""The kinds in the marks of a lab's two directories (owned.py)."""
DATA_ROOT = Path("/var/tmp")
HELD_BY = "holder.json"
"""A file among the hosts' files: which processes hold the lab, in case its state is lost."""
FIRST_HOST = 11
START_SECONDS = 90.0
STOP_SECONDS = 15.0
SUPERVISOR = "squall.harness.lab.supervisor"
REDUCED_SUPERVISOR = "squall.harness.lab.reduced_supervisor"


@dataclass(frozen=True)
class Lab:
    """A running lab. A frozen value: it may be pickled and passed to worker processes."""

    name: str
    directory: Path
    """Keys, logs and state, in the user's runtime directory."""
    data: Path
    """The hosts' files, one directory per host."""
    hosts: tuple[HostSpec, ...]
    supervisor: int
    network: LabNetwork | LoopbackNetwork
    up_seconds: float
    racks: Racks = NO_RACKS
    rootless: bool = False
    reduced: str = ""
    """Why its hosts are only processes of this machine; empty for a complete lab."""

    def inventory(self) -> Inventory:
        return Inventory(f"lab {self.name}", self.hosts)

    def host_files(self, name: str) -> Path:
        """Return where host `name`'s /etc, /var, /root … lie on this machine."""
        return self.data / name

    def is_alive(self) -> bool:
        return process_started(self.network.holder) == self.network.holder_started


@dataclass(frozen=True)
class LabStatus:
    """The report of `squall lab status` about one lab."""

    lab: Lab
    answering: dict[str, bool]
    """For every host whether its sshd sends its greeting."""


# --- Up, down, status -----------------------------------------------------------------------------------------


def lab_up(
    controllers: int = 3,
    brokers: int = 3,
    clients: int = 0,
    *,
    zookeeper: int = 0,
    racks: Racks = NO_RACKS,
    name: str = DEFAULT_NAME,
    owner: int | None = None,
    data_root: Path = DATA_ROOT,
    read_only: tuple[str, ...] = (),
    sshd_config: str = SSHD_CONFIG,
    reduced: bool = False,
) -> Lab:
    """Bring a lab up and return once every host's sshd accepts connections.

    It persists until `lab_down`, or, with `owner`, until the process of that id ends. `read_only` names further
    directories of this machine that the hosts see; `sshd_config` imitates unusual sshd settings of distributions.
    Without root the lab is made in a user namespace (supervisor.py). Where there is none, or with `reduced`, it is a
    reduced one, which ignores `read_only` and `sshd_config`. Raises UsageError where this machine cannot do it.
    """
    directory = lab_directory(name)
    why = check_machine(reduced=reduced)
    if why:
        refuse_between_racks(racks, why)
    data = Path(data_root).resolve() / f"squall-lab-{name}-{secrets.token_hex(4)}"
    _claim(name, directory, data)
    started = time.monotonic()
    try:
        make_owned(data, DATA, name, mode=0o700 if why else 0o711, state=str(directory))
        shape = LabTopology(controllers=controllers, brokers=brokers, zookeeper=zookeeper, clients=clients)
        hosts = lab_hosts(shape, directory, racks)
        hosts = reduced_hosts(hosts) if why else hosts
        if why:
            prepare_reduced(name, directory, data, hosts, racks=racks, why=why)
        else:
            prepare(LabPlan(name, directory, data, hosts, racks, os.geteuid() != 0, read_only, sshd_config))
        _start_supervisor(directory, owner, REDUCED_SUPERVISOR if why else SUPERVISOR)
    except BaseException:
        _remove(name, directory, data)
        raise
    _note(directory, up_seconds=time.monotonic() - started)
    return _load(directory)


def _claim(name: str, directory: Path, data: Path) -> None:
    """Make the directory of a new lab, exclusively. Raises UsageError if there is a lab of that name."""
    with _alone():
        _remove_leftovers()
        try:
            make_owned(directory, STATE, name, data=str(data), maker=os.getpid(), started=process_started(os.getpid()))
        except FileExistsError:
            remedy = f"take it down first: {_down_command(name)}"
            raise UsageError(f"lab {name} is already up", remedy=remedy) from None


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Let only one process at a time make labs or remove what is left of them.

    Otherwise a new directory could be removed as the leftover that was there before.
    """
    descriptor = os.open(state_root(), os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def private_lab(controllers: int = 3, brokers: int = 3, clients: int = 0, *, racks: Racks = NO_RACKS) -> Iterator[Lab]:
    """Provide a lab for the length of the block. If this process dies inside it, the lab dies too."""
    name = f"run-{secrets.token_hex(4)}"
    lab = lab_up(controllers, brokers, clients, racks=racks, name=name, owner=os.getpid())
    try:
        yield lab
    finally:
        lab_down(lab.name)


def lab_down(name: str = DEFAULT_NAME) -> bool:
    """End a lab with all its processes and remove its files. Return False if there was none of that name.

    Only directories that Squall has made are removed (owned.py). Leftovers of an earlier `lab_down` that was killed, of
    this lab or of others, are removed, too. Raises UsageError.
    """
    directory = lab_directory(name)
    remove_leftovers(but=name)
    if not directory.exists() and not directory.is_symlink():
        return False
    refuse_foreign(directory, STATE, name)
    data, reduced = _data_of(directory, name), _is_reduced(directory)
    with contextlib.suppress(FileNotFoundError, ValueError, KeyError):
        holder = json.loads((directory / "holder.json").read_text())
        _end(holder["supervisor"], holder["supervisor_started"])
        _await_gone(holder["holder"], holder["holder_started"])
    _remove(name, directory, data, reduced=reduced)
    return True


def lab_status() -> list[LabStatus]:
    """Return every running lab of this user, with which hosts respond. Remove the leftovers of labs that have ended."""
    remove_leftovers()
    found = []
    for directory in sorted(state_root().glob("*/holder.json")):
        with contextlib.suppress(UsageError, FileNotFoundError):
            lab = _load(directory.parent)
            found.append(LabStatus(lab, {host.name: _answers(lab, host) for host in lab.hosts}))
    return found


def find_lab(name: str = DEFAULT_NAME) -> Lab | None:
    """Return the lab of that name if it is up."""
    directory = lab_directory(name)
    with contextlib.suppress(UsageError, FileNotFoundError):
        return _load(directory)
    return None


def standing_lab(name: str) -> Lab:
    """Return the lab of that name. Raises UsageError, naming those that are up, if there is none."""
    lab = find_lab(name)
    if lab is None:
        up = ", ".join(status.lab.name for status in lab_status()) or "none is"
        raise UsageError(f"lab {name} is not up ({up})", remedy=f"bring it up: {up_command(name)}")
    return lab


def enter_lab_network(lab: Lab) -> None:
    """Move this process into the lab's switch: first thing in a worker process, before threads start."""
    lab.network.enter()


def remove_leftovers(but: str | None = None) -> None:
    """Remove the directories of labs whose processes have ended, except those of lab `but`.

    A supervisor killed with SIGKILL leaves them, and so does a `lab up` or `lab down` that is killed half way. What
    cannot be removed is left for the `lab down` of that name, which reports why.
    """
    with _alone():
        _remove_leftovers(but)


def _remove_leftovers(but: str | None = None) -> None:
    for directory in state_root().iterdir():
        if directory.name != but and _is_left_over(directory):
            with contextlib.suppress(UsageError):
                _remove(directory.name, directory, _data_of(directory, directory.name), reduced=_is_reduced(directory))
    for data in DATA_ROOT.glob("squall-lab-*"):
        told = mark_of(data, DATA)
        if told is not None and not Path(str(told["state"])).exists() and not _held(data):
            with contextlib.suppress(UsageError, TimeoutError):
                end_all_at_home(data)
                remove_owned(data, DATA, str(told["name"]), last=(HELD_BY,))


def _is_left_over(directory: Path) -> bool:
    """Return whether a lab's state is there without its processes."""
    told = mark_of(directory, STATE)
    if told is None:
        return False
    try:
        facts = json.loads((directory / "holder.json").read_text())
        return process_started(facts["holder"]) != facts["holder_started"]
    except FileNotFoundError:  # its start is still going on, or was killed
        return process_started(int(told["maker"])) != told["started"]
    except (OSError, ValueError, KeyError):
        return False


def _held(data: Path) -> bool:
    """Return whether the lab of these files runs although its state is lost, as after an emptied runtime directory."""
    try:
        facts = json.loads((data / HELD_BY).read_text())
        return process_started(facts["holder"]) == facts["holder_started"]
    except FileNotFoundError:
        return False
    except (OSError, ValueError, KeyError):
        return True


def _data_of(directory: Path, name: str) -> Path | None:
    """Return where the hosts' files of a lab lie, if they exist. Raises DirectoryNotOurs for any other place."""
    told = mark_of(directory, STATE)
    if told is None:
        return None
    data = Path(str(told.get("data", "")))
    if not data.is_absolute() or re.fullmatch(rf"squall-lab-{re.escape(name)}-[0-9a-f]{{8}}", data.name) is None:
        raise DirectoryNotOurs(f"{directory}: its mark names {data}, which is not a directory of lab files")
    refuse_foreign(data, DATA, name)
    return data if data.exists() else None


def _is_reduced(directory: Path) -> bool:
    with contextlib.suppress(OSError, ValueError):
        return bool(json.loads((directory / "plan.json").read_text()).get("reduced"))
    return True  # unknown: then search for processes with a HOME in its hosts' directories


def lab_directory(name: str) -> Path:
    """Return where the state of a lab of that name lies, or would lie. Raises UsageError for an invalid name."""
    return state_root() / checked_lab_name(name)


def state_root() -> Path:
    """Return the user's runtime directory for labs, made if need be, readable only by the user. Raises UsageError.

    Without XDG_RUNTIME_DIR its name is predictable for others, so it is only used if the user alone owns it.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and os.access(runtime, os.W_OK):
        root = Path(runtime) / "squall"
    elif os.geteuid() == 0:
        root = Path("/run/squall")
    else:
        root = Path(f"/tmp/squall-{os.geteuid()}")
    return private_directory(root, remedy="set XDG_RUNTIME_DIR to a directory of your own, with mode 0700")


def lab_hosts(shape: LabTopology, directory: Path, racks: Racks | None = None) -> tuple[HostSpec, ...]:
    """Return the hosts of a lab of that shape, distributed over its racks, or over these."""
    python = str(Path(getattr(sys, "_base_executable", sys.executable)).resolve())
    racks = shape.in_racks() if racks is None else racks
    dealt: Counter[str] = Counter()
    hosts = []
    for number, (name, group) in enumerate(shape.names()):
        rack = racks.dealt(dealt[group])
        dealt[group] += 1
        hosts.append(
            HostSpec(
                name=name,
                address=host_address(FIRST_HOST + number, rack),
                groups=(group,),
                key_file=directory / "id_ed25519",
                known_hosts=directory / "known_hosts",
                python=python,
                rack=rack,
            )
        )
    return tuple(hosts)


# --- The supervisor, seen from outside ------------------------------------------------------------------------


def _start_supervisor(directory: Path, owner: int | None, program: str) -> None:
    """Start the supervisor in a new session and wait until it reports."""
    reader, writer = os.pipe()
    with (directory / "supervisor.log").open("wb") as log:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", program, str(directory), str(writer)),
                *([str(owner)] if owner is not None else []),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(writer,),
            start_new_session=True,
            cwd="/",
            env=os.environ | {"PATH": SYSTEM_PATH},
        )
    os.close(writer)
    heard = b""
    try:
        if select.select([reader], [], [], START_SECONDS)[0]:
            heard = os.read(reader, 4096)
    finally:
        os.close(reader)
        if heard != b"ready":  # also after an interrupt: a half-started supervisor takes its hosts down with it
            process.kill()
            process.wait()
    if heard != b"ready":
        last = (directory / "supervisor.log").read_text(errors="replace").strip().splitlines()[-5:]
        reason = heard.decode(errors="replace") or "its supervisor gave no sign of life"
        raise UsageError(f"the lab did not come up: {reason}", remedy="\n    ".join(last) or None)


def _load(directory: Path) -> Lab:
    """Return the lab whose state is in `directory`. Raises UsageError if its processes have ended."""
    plan = json.loads((directory / "plan.json").read_text())
    holder = json.loads((directory / "holder.json").read_text())
    hosts = tuple(
        HostSpec(
            name=host["name"],
            address=host["address"],
            groups=tuple(host["groups"]),
            key_file=directory / "id_ed25519",
            known_hosts=directory / "known_hosts",
            port=host.get("port", 22),
            user=host.get("user", "root"),
            python=host["python"],
            rack=host.get("rack"),
            reduced=bool(plan.get("reduced")),
        )
        for host in plan["hosts"]
    )
    lab = Lab(
        name=plan["name"],
        directory=directory,
        data=Path(plan["data"]),
        hosts=hosts,
        supervisor=holder["supervisor"],
        network=_network_of(plan, holder, directory),
        up_seconds=holder.get("up_seconds", 0.0),
        racks=Racks.model_validate(plan.get("racks", {})),
        rootless=plan.get("rootless", False),
        reduced=plan.get("reduced", ""),
    )
    if not lab.is_alive():
        raise UsageError(f"lab {lab.name} is no longer up", remedy=f"start it again: {up_command(lab.name)}")
    return lab


def _network_of(plan: dict[str, Any], holder: dict[str, Any], directory: Path) -> LabNetwork | LoopbackNetwork:
    held = holder["holder"], holder["holder_started"]
    if plan.get("reduced"):
        return LoopbackNetwork(*held)
    return LabNetwork(*held, sockets_of(directory) if plan.get("rootless", False) else None)


def _note(directory: Path, **facts: object) -> None:
    holder = json.loads((directory / "holder.json").read_text()) | facts
    write_json(Path(json.loads((directory / "plan.json").read_text())["data"]) / HELD_BY, holder)
    write_json(directory / "holder.json", holder)


def _answers(lab: Lab, host: HostSpec) -> bool:
    with lab.network.socket() as probe:
        probe.settimeout(2)
        try:
            probe.connect((host.address, host.port))
            return probe.recv(4) == b"SSH-"
        except OSError:
            return False


def _end(pid: int, started: int) -> None:
    """Send SIGTERM, then SIGKILL if that does not suffice, to exactly this process."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process_started(pid) != started:
            return
        with contextlib.suppress(ProcessLookupError):
            handle = os.pidfd_open(pid)
            signal.pidfd_send_signal(handle, number)
            select.select([handle], [], [], 2.0)
            os.close(handle)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)  # if this very process started it


def _await_gone(pid: int, started: int) -> None:
    """Return once the lab's init has ended, and with it everything inside its pid namespace."""
    with contextlib.suppress(ProcessLookupError):
        handle = os.pidfd_open(pid)
        try:
            if process_started(pid) == started and not select.select([handle], [], [], STOP_SECONDS)[0]:
                raise UsageError(f"the lab's processes did not end within {STOP_SECONDS:g} s (init is {pid})")
        finally:
            os.close(handle)


def _remove(name: str, directory: Path, data: Path | None, *, reduced: bool = False) -> None:
    """Remove a lab's files after its supervisor has ended; first end processes that escaped from a reduced lab.

    The state goes last, including the mark that names the hosts' files: after an interruption the next attempt finds
    what is left.
    """
    if reduced and data is not None:
        end_all_at_home(data)
    if data is not None:
        remove_owned(data, DATA, name, last=(HELD_BY,))
    remove_owned(directory, STATE, name, last=("plan.json", "holder.json"))


def up_command(name: str) -> str:
    """Return the command that brings up the lab of this name."""
    return "squall lab up" if name == DEFAULT_NAME else f"squall lab up --name {name}"


def _down_command(name: str) -> str:
    return "squall lab down" if name == DEFAULT_NAME else f"squall lab down --name {name}"
