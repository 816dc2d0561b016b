"""Ending processes where no namespace does it: whatever they did to get away, and nobody else's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from squall.harness.hosts.network import process_started
from squall.harness.lab.process_reaper import at_home, descendants, end_all, end_all_at_home
from tests.waiting import wait_until

SECONDS = 10.0

# Starts one that sleeps, one in a session of its own whose parent is gone, one that is stopped and one that ignores
# requests; then says that they are there, waits for a line, ends all, and says how many are left.
FAMILY = """
import os, sys
from squall.harness.hosts.kernel import KERNEL
from squall.harness.lab.process_reaper import descendants, end_all_below
KERNEL.adopt_orphans()
os.system("sleep 1000 & setsid -f sleep 1000; sh -c 'kill -STOP $$' & (trap '' TERM HUP INT; sleep 1000 &)")
print(*descendants(os.getpid()), flush=True)
sys.stdin.readline()
end_all_below()
print(len(descendants(os.getpid())), flush=True)
"""


def test_all_descendants_end_the_orphaned_the_stopped_and_the_deaf() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", FAMILY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as family:
        assert family.stdin is not None and family.stdout is not None
        pids = [int(word) for word in family.stdout.readline().split()]
        assert len(pids) >= 4 and all(process_started(pid) is not None for pid in pids)
        family.stdin.write("end\n")
        family.stdin.flush()
        assert family.stdout.readline() == "0\n"
        assert all(process_started(pid) is None for pid in pids)


def test_who_lives_elsewhere_is_let_be_and_nobodys_children_are_buried(tmp_path: Path) -> None:
    resident = sleeper(f"{tmp_path}/b1/home")
    other = sleeper(f"{tmp_path}-2/b1/home")  # begins with the same letters
    try:
        assert at_home(tmp_path) == [resident.pid]
        end_all_at_home(tmp_path)
        assert resident.wait(SECONDS) == -signal.SIGKILL
        assert other.poll() is None
    finally:
        for one in (resident, other):
            one.kill()
            one.wait()


def test_one_that_was_started_meanwhile_is_found_in_the_next_round() -> None:
    first = subprocess.Popen(["sleep", "1000"])
    second = subprocess.Popen(["sleep", "1000"])
    rounds = iter([[first.pid], [second.pid], []])
    end_all(lambda: next(rounds))
    assert first.wait(SECONDS) == second.wait(SECONDS) == -signal.SIGKILL


def test_what_is_gone_or_another_users_is_nobody_to_wait_for() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    end_all(lambda: [gone.pid])  # would never return if it counted


def test_a_corpse_is_no_descendant() -> None:
    dead = subprocess.Popen(["true"])
    os.waitid(os.P_PID, dead.pid, os.WEXITED | os.WNOWAIT)
    assert dead.pid not in descendants(os.getpid())
    dead.wait()


def sleeper(home: str) -> subprocess.Popen[bytes]:
    """One whose HOME that is. It is so only once it has become another program."""
    process = subprocess.Popen(["sleep", "1000"], env={"HOME": home})
    environment = Path(f"/proc/{process.pid}/environ")
    wait_until(lambda: home.encode() in environment.read_bytes(), "it has become another program", SECONDS)
    return process
