"""Supervise a reduced lab: two processes adopt orphans, and end everything when either of them dies.

    supervisor                       waits for its owner, a signal, or the holder's death
      holder                         waits for the supervisor's death, or an sshd's; reaps orphans
        sshd, one per host           of the ordinary user, at its own address on the loopback interface
          sessions, agents, …        and all their children

There is no pid namespace whose first process would end all others. Instead both processes are *subreapers*: an orphan
becomes the holder's child, or, if that is dead, the supervisor's; so everything that was ever started on a host
descends from both. Each watches the other by a pidfd. The survivor kills all descendants, stopped ones included,
repeatedly until there are none (`process_reaper.py`).

Two things are not guaranteed. If *both* are killed with SIGKILL before either could act, the sshds die
(PR_SET_PDEATHSIG), and what was started through them stays until the user's next `squall lab up` or `down`, which finds
it by its HOME (`lab.py`). And a process that a user of a host has started as another user, with sudo, has to be ended
by that user.

Run as `python -m squall.harness.lab.reduced_supervisor STATE READY_FD [OWNER_PID]`, like `supervisor.py`.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from squall.harness.hosts.kernel import KERNEL, Pipe, fork
from squall.harness.lab.process_reaper import bury, end_all_below
from squall.harness.lab.supervisor import OPEN_FILES, await_sshd, write_holder

START_SECONDS = 60.0


def main(arguments: list[str]) -> None:
    """Bring the lab of STATE/plan.json up and hold it until its end (see the module)."""
    state, ready = Path(arguments[0]), int(arguments[1])
    owner = [os.pidfd_open(int(arguments[2]))] if len(arguments) > 2 else []
    KERNEL.adopt_orphans()
    wake = wakened_by(signal.SIGTERM, signal.SIGINT)
    try:
        holder = start_holder(json.loads((state / "plan.json").read_text()), ready)
        write_holder(state, holder)
    except Exception as trouble:
        traceback.print_exc()
        end_all_below()
        os.write(ready, f"{type(trouble).__name__}: {trouble}".encode())
        return
    os.write(ready, b"ready")
    os.close(ready)
    select.select([wake, os.pidfd_open(holder), *owner], [], [])
    end_all_below()


def wakened_by(*signals: int) -> int:
    """Return a descriptor that becomes readable once one of these signals has come."""
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    for number in signals:
        signal.signal(number, lambda *_: None)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    return reader


def start_holder(plan: dict[str, Any], ready: int) -> int:
    """Start the holder. Return its pid, once every host accepts connections."""
    pipe, ourselves = Pipe(), os.pidfd_open(os.getpid())

    def hold() -> NoReturn:
        os.close(ready)
        os.close(pipe.reader)
        run_holder(plan, pipe, ourselves)

    holder = fork(hold, name="squall-reduced", dies_with_parent=False)
    os.close(ourselves)
    pipe.only_hear()
    answer = pipe.hear(START_SECONDS, "the lab's holder")
    if answer != "ready":
        raise RuntimeError(answer)
    return holder


# --- The holder ---------------------------------------------------------------------------------------------------


def run_holder(plan: dict[str, Any], pipe: Pipe, supervisor: int) -> NoReturn:
    """Start every host's sshd, and reap children until the supervisor or an sshd has died."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    KERNEL.adopt_orphans()
    wake = wakened_by(signal.SIGCHLD)
    try:
        allow_many_files()
        sshds = [start_sshd(plan["sshd"], host) for host in plan["hosts"]]
        started = {sshd.pid: host for sshd, host in zip(sshds, plan["hosts"], strict=True)}
        for host in plan["hosts"]:
            await_sshd(host["address"], host["name"], port=host["port"], check=lambda: refuse_dead(started))
        refuse_dead(started)  # another process may have sent the greeting
        pipe.say("ready")
        os.close(pipe.writer)
        bury_until(wake, supervisor, set(started))
    except Exception as trouble:
        traceback.print_exc()
        pipe.say(f"{type(trouble).__name__}: {trouble}")
    end_all_below()
    os._exit(0)


def allow_many_files() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def start_sshd(program: str, host: dict[str, Any]) -> subprocess.Popen[bytes]:
    """Start a host's sshd. Keep the result as long as its end matters (see `bury`)."""
    directory = Path(host["directory"])
    argv: Sequence[str] = [program, "-D", "-e", "-f", str(directory / "sshd_config")]
    with (directory / "sshd.log").open("ab") as log:
        return subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=KERNEL.die_with_parent
        )


def refuse_dead(started: Mapping[int, dict[str, Any]]) -> None:
    """Raise RuntimeError if one of these sshds has ended, with its last line of output."""
    for pid in bury():
        if pid in started:
            host = started[pid]
            said = (Path(host["directory"]) / "sshd.log").read_text(errors="replace").strip().splitlines()
            raise RuntimeError(f"sshd of {host['name']} ended: {said[-1] if said else 'it gave no reason'}")


def bury_until(wake: int, supervisor: int, vital: set[int]) -> None:
    """Reap children until the supervisor or one of the `vital` children has ended."""
    while True:
        readable = select.select([wake, supervisor], [], [])[0]
        if wake in readable:
            os.read(wake, 4096)
        if bury() & vital or supervisor in readable:
            return


if __name__ == "__main__":
    main(sys.argv[1:])
