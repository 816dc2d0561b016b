"""The guard of a night: a process of its own that runs the teardown hook exactly once, whatever happens to the night.

    ROUND/guard.json        what to do: the command, its time limit, the deadline, the night's process
    ROUND/armed             the guard is there; nothing is provisioned before
    ROUND/provision.json    the process of the provision hook
    ROUND/teardown.claimed  the process that creates this file runs the hook
    ROUND/teardown.log      what the hook printed
    ROUND/teardown.json     the hook has ended: status, seconds

The night holds one end of a pipe to the guard. It writes `end` when all is done; if it dies, by any signal, the pipe
closes. In both cases the guard ends processes of attempts that the night left behind, and runs the hook. After the
deadline it ends the night first. It is the leader of a session of its own, so that neither Ctrl-C nor a closed terminal
reaches it. If the guard itself was killed, the night runs the hook, or the next `squall nightly` does.

Standard library only: it starts in a fraction of a second, and needs nothing that may be gone later.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ORDER, ARMED, PROVISION = "guard.json", "armed", "provision.json"
CLAIM, DONE, LOG = "teardown.claimed", "teardown.json", "teardown.log"
END = b"end\n"
GRACE_SECONDS = 90.0
"""How long a process has to heal its hosts and to end, before it is killed."""
LOOK_SECONDS = 0.05


def main(folder: Path) -> int:
    """Watch the night whose pipe is standard input; then tear down. Return the hook's status."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    order = json.loads((folder / ORDER).read_text())
    write(folder / ARMED, str(os.getpid()))
    said = wait_for_the_night(0, order["deadline_s"])
    if said == "deadline":
        said = end_night(order["pid"], order["pid_started"])
    if said != "end":
        end_provisioning(folder)
        end_attempts(Path(order["ledger"]))
    return tear_down(folder)


def wait_for_the_night(pipe: int, deadline_s: float | None) -> str:
    """Return `end` when the night says so, `gone` when it is, `deadline` when its time is over."""
    until = None if deadline_s is None else time.monotonic() + deadline_s
    heard = b""
    while END not in heard:
        left = None if until is None else max(0.0, until - time.monotonic())
        if not select.select([pipe], [], [], left)[0]:
            return "deadline"
        some = os.read(pipe, 64)
        if not some:
            return "gone"
        heard += some
    return "end"


def end_night(pid: int, pid_started: int) -> str:
    """Ask the night to end, and kill it if it takes too long. Return `end` if it ended in order, else `gone`."""
    if started(pid) == pid_started:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    said = wait_for_the_night(0, GRACE_SECONDS)
    if said == "deadline":
        end_process(pid, pid_started, group=False)
        return "gone"
    return said


def tear_down(folder: Path) -> int:
    """Run the hook, unless another process does or did. Return its status; 0 if there was nothing to do."""
    draft = folder / f".{CLAIM}.{os.getpid()}.{time.monotonic_ns()}"
    draft.write_text(json.dumps({"pid": os.getpid(), "pid_started": started(os.getpid())}))
    try:
        os.link(draft, folder / CLAIM)  # with its content, or not at all
    except FileExistsError:
        return 0
    finally:
        draft.unlink()
    return run_hook(folder)


def run_hook(folder: Path) -> int:
    """Run the hook and write down how it ended."""
    order = json.loads((folder / ORDER).read_text())
    began = time.monotonic()
    with (folder / LOG).open("ab") as log:
        hook = subprocess.Popen(
            ["/bin/sh", "-c", order["command"]],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=os.environ | order["environment"],
            cwd=order["cwd"], start_new_session=True,
        )  # fmt: skip
        try:
            status: int | str = hook.wait(order["timeout_s"])
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(hook.pid, signal.SIGKILL)
            hook.wait()
            status = "timeout"
    done = {"status": status, "seconds": round(time.monotonic() - began, 1)}
    write(folder / DONE, json.dumps(done))
    return 0 if status == 0 else 1


def write(target: Path, text: str) -> None:
    """Write a file whole or not at all."""
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    draft.write_text(text)
    draft.replace(target)


def claimer_is_alive(folder: Path) -> bool:
    """Whether the process that claimed the teardown still exists."""
    try:
        claim = json.loads((folder / CLAIM).read_text())
        return started(claim["pid"]) == claim["pid_started"]
    except (OSError, ValueError, KeyError):
        return False


def end_provisioning(folder: Path) -> None:
    """End a provision hook that is under way: what it makes after the teardown would stay."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        hook = json.loads((folder / PROVISION).read_text())
        end_process(hook["pid"], hook["pid_started"], group=True)


def end_attempts(ledger: Path) -> None:
    """End the processes of attempts that began and did not end."""
    begun: dict[tuple[str, int], dict[str, Any]] = {}
    with contextlib.suppress(OSError):
        for line in ledger.read_bytes().split(b"\n"):
            with contextlib.suppress(ValueError, KeyError, TypeError):
                event = json.loads(line)
                if event["event"] == "begun":
                    begun[event["item"], event["attempt"]] = event
                elif event["event"] == "ended":
                    begun.pop((event["item"], event["attempt"]), None)
    for event in begun.values():
        end_process(event["pid"], event["pid_started"], group=True)


def end_process(pid: int, pid_started: int, *, group: bool) -> None:
    """End a process, or the group it leads: asked first, killed if it takes too long."""
    send = os.killpg if group else os.kill
    for number, seconds in ((signal.SIGTERM, GRACE_SECONDS), (signal.SIGKILL, GRACE_SECONDS)):
        if started(pid) != pid_started:
            break
        with contextlib.suppress(ProcessLookupError):
            send(pid, number)
        until = time.monotonic() + seconds
        while started(pid) == pid_started and time.monotonic() < until:
            time.sleep(LOOK_SECONDS)
    if group and started(pid) in (None, pid_started):  # members that outlived their leader; no group that took its id
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)


def started(pid: int) -> int | None:
    """Return when a process started, in ticks since boot; None if there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
