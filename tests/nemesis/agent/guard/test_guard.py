"""Faults end in time whatever is killed, stopped, emptied, filled or thrown at what ends them (HX-04, HX-11).

What ends faults is the keeper; what keeps that alive are two sentries and any live agent. Here each of them is hurt in
each way in turn, and the fault must be over at most five seconds after its time to live.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from squall.nemesis.agent.core.durable import PIECES, RESERVE
from squall.nemesis.agent.guard.sentries import PROGRAM as SENTRY
from squall.nemesis.agent.probe.probe_auth import ECHO, HEADER, HEARD, QUESTION, Key, ProbeKeys
from squall.nemesis.agent.probe.probes import KEPT_NONCES, MOST_SENDERS, UdpResponder
from tests.nemesis.agent.conftest import ADDRESSES, PROBE_PORT, RunningAgent

TTL = 1.5
LATEST = TTL + 5.0
Wait = Callable[..., float]
FLOOD: tuple[bytes, ...] = (
    b"{}",
    b"[]",
    b"",
    b"null",
    b'{"from": 1}',
    b'{"heard": {}}',
    b"[" * 2000,
    b'{"a":' * 400,
    b"\xff" * 2048,
    b"train 00000000 x\n",
    b'{"heard": "n"}',
    b'{"echo": "x"}',
    b"SQ1",
    b"SQ1" + bytes(HEADER),
)


@pytest.fixture
def paused(agent: RunningAgent, wait_until: Wait) -> RunningAgent:
    """A host whose node is paused, with everything at work that will end that."""
    agent.define(["/bin/sleep", "1000"])
    agent.call("proc.start", name="node")
    agent.call("proc.pause", id="f1", name="node", ttl=TTL)
    wait_until(lambda: len(agent.sentry_pids()) == 2, "two sentries are there")
    return agent


def letter(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def node_pid(agent: RunningAgent) -> int:
    return int(json.loads((agent.state / "processes" / "node.running").read_text())["pid"])


def loses_control_process(agent: RunningAgent) -> None:
    assert agent.process.stdin
    agent.process.stdin.close()


def runs(agent: RunningAgent) -> bool:
    return letter(node_pid(agent)) in ("S", "R")


def told_of(agent: RunningAgent) -> str:
    """For whoever reads a failure: what keeper and sentries are doing."""
    pids = {"keeper": agent.keeper_pid(), **{f"sentry {pid}": pid for pid in agent.sentry_pids()}}
    states = ", ".join(f"{name} {letter(pid) or 'gone'}" for name, pid in pids.items())
    log = (agent.state / "keeper.log").read_text(errors="replace")[-2000:]
    return f"{states}; open: {[path.name for path in copies(agent)]}; keeper.log: {log}"


def ends_in_time(agent: RunningAgent, wait_until: Wait) -> None:
    try:
        wait_until(lambda: runs(agent), "the process goes on", timeout=LATEST)
    except AssertionError as late:
        raise AssertionError(f"{late}\n{told_of(agent)}") from None
    wait_until(lambda: not list((agent.state / "journal").glob("*.json")), "the journal is empty")


# --- who is killed or stopped ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
@pytest.mark.parametrize("agent_lives", [False, True], ids=["agent-dead", "agent-alive"])
def test_a_fault_ends_in_time_though_the_keeper_is_struck(
    paused: RunningAgent, wait_until: Wait, number: signal.Signals, agent_lives: bool
) -> None:
    if not agent_lives:
        paused.kill()
    os.kill(paused.keeper_pid(), number)
    ends_in_time(paused, wait_until)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_a_fault_ends_in_time_though_keeper_and_one_sentry_are_struck(
    paused: RunningAgent, wait_until: Wait, number: signal.Signals
) -> None:
    paused.kill()
    for pid in (paused.sentry_pids()[0], paused.keeper_pid()):
        os.kill(pid, number)
    ends_in_time(paused, wait_until)


def test_a_live_agent_replaces_all_others(paused: RunningAgent, wait_until: Wait) -> None:
    paused.kill_keepers()
    ends_in_time(paused, wait_until)


def test_an_agent_without_control_process_replaces_all_others(paused: RunningAgent, wait_until: Wait) -> None:
    """Seed 168693670 of the kill storm: control process, keeper and both sentries were killed at once."""
    loses_control_process(paused)
    paused.kill_keepers()
    ends_in_time(paused, wait_until)
    assert paused.process.wait(timeout=5) == 0, "it goes when no fault is open"


def test_one_agent_stays_without_control_process_while_a_fault_is_open(
    agent: RunningAgent, start_agent: Callable[..., RunningAgent], wait_until: Wait
) -> None:
    """A fault that does not heal must not collect an agent of every control process that tried."""
    agent.define(["/bin/sleep", "1000"])
    agent.call("proc.start", name="node")
    agent.call("proc.pause", id="f1", name="node", ttl=60)
    agents = [agent, *(start_agent(state=agent.state) for _ in range(2))]
    for one in agents:
        loses_control_process(one)
    wait_until(lambda: sum(one.process.poll() is not None for one in agents) == 2, "two have gone")
    start_agent(state=agent.state).call("heal")
    wait_until(lambda: all(one.process.poll() is not None for one in agents), "and the third")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_the_keeper_replaces_its_sentries(agent: RunningAgent, wait_until: Wait, number: signal.Signals) -> None:
    agent.define(["/bin/sleep", "1000"])
    agent.call("proc.start", name="node")
    agent.call("proc.pause", id="f1", name="node", ttl=60)
    agent.kill()
    before = agent.sentry_pids()
    for pid in before:
        os.kill(pid, number)
    wait_until(lambda: not set(before) & set(agent.sentry_pids()) and len(agent.sentry_pids()) == 2, "both are new")
    wait_until(lambda: not any(letter(pid) for pid in before), "the old ones are gone")


def test_a_keeper_whose_heart_does_not_beat_is_replaced(paused: RunningAgent, wait_until: Wait) -> None:
    """As if it hung in the kernel: it is there and not stopped, but nothing moves."""
    paused.call("proc.pause", id="f1", name="node", ttl=60)
    paused.kill()
    struck = paused.keeper_pid()
    (paused.state / "keeper.beat").unlink()
    (paused.state / "keeper.beat").mkdir()  # its beats go nowhere
    wait_until(lambda: paused.keeper_pid() != struck and paused.keeper_lives(), "another is there", timeout=12)


def test_sentries_go_when_nothing_is_open(paused: RunningAgent, wait_until: Wait) -> None:
    sentries = paused.sentry_pids()
    paused.kill()
    wait_until(lambda: not paused.keeper_lives(), "the keeper has gone")
    wait_until(lambda: not any(letter(pid) for pid in sentries), "so have its sentries", timeout=9)


def test_a_keeper_that_is_stopped_with_nothing_to_keep_does_not_stay(agent: RunningAgent, wait_until: Wait) -> None:
    """Found by the kill storm."""
    wait_until(lambda: len([pid for pid in agent.sentry_pids() if letter(pid)]) == 2, "two sentries are there")
    keeper, sentries = agent.keeper_pid(), agent.sentry_pids()
    os.kill(keeper, signal.SIGSTOP)
    agent.kill()
    wait_until(lambda: letter(keeper) in ("", "Z"), "it is ended")
    wait_until(lambda: not any(letter(pid) for pid in sentries), "so are its sentries", timeout=12)


def test_a_sentry_that_is_stopped_with_nothing_to_keep_does_not_stay(agent: RunningAgent, wait_until: Wait) -> None:
    """The other one ends it."""
    wait_until(lambda: len([pid for pid in agent.sentry_pids() if letter(pid)]) == 2, "two sentries are there")
    keeper, sentries = agent.keeper_pid(), agent.sentry_pids()
    os.kill(sentries[1], signal.SIGSTOP)
    os.kill(keeper, signal.SIGKILL)
    agent.kill()
    wait_until(lambda: not any(letter(pid) for pid in sentries), "both have ended", timeout=12)


def test_a_keeper_that_is_stopped_before_it_is_on_duty_does_not_stay(
    agent: RunningAgent, program: Path, wait_until: Wait
) -> None:
    """Seed 195122226 of the kill storm."""
    command = [
        sys.executable,
        "-u",
        str(program),
        "--state",
        str(agent.state),
        "--name",
        "h1",
        "--lab",
        "--keeper",
        "1",
    ]
    late = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        os.kill(late.pid, signal.SIGSTOP)
        wait_until(lambda: letter(late.pid) == "T", "it is stopped")
        loses_control_process(agent)
        wait_until(lambda: late.poll() is not None, "the keeper that goes off duty ends it")
    finally:
        late.kill()
        late.wait()


def sentry_in_haste(state: Path) -> subprocess.Popen[bytes]:
    """A sentry of this host that looks ten times a second: `sleep 1` sleeps for a tenth of a second."""
    tools = state / "tools"
    tools.mkdir()
    (tools / "sleep").write_text("#!/bin/sh\nexec /bin/sleep 0.1\n")
    (tools / "sleep").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
    return subprocess.Popen(["/bin/sh", str(SENTRY), str(state), "/bin/false"], env=environment)


@pytest.mark.parametrize("holds_the_lock", [True, False], ids=["holds-the-lock", "gave-the-lock-back"])
def test_a_keeper_that_is_stopped_while_it_ends_does_not_stay(
    tmp_path: Path, wait_until: Wait, holds_the_lock: bool
) -> None:
    """Seed 987147876 of the kill storm: no fault was open, no agent was left, and the keeper was about to exit."""
    command = [sys.executable, "-c", "import time; time.sleep(1000)", "--state", str(tmp_path), "--keeper", "9"]
    keeper = subprocess.Popen(command)
    try:
        os.kill(keeper.pid, signal.SIGSTOP)
        wait_until(lambda: letter(keeper.pid) == "T", "it is stopped")
        if holds_the_lock:
            started = Path(f"/proc/{keeper.pid}/stat").read_text().rpartition(")")[2].split()[19]
            (tmp_path / "keeper.lock").write_text(f"{keeper.pid} {started}\n")
        sentry = sentry_in_haste(tmp_path)
        assert sentry.wait(timeout=15) == 0
        assert keeper.wait(timeout=5) == -signal.SIGKILL
    finally:
        keeper.kill()
        keeper.wait()


def test_a_sentry_spares_stopped_processes_that_are_no_keepers_of_its_host(tmp_path: Path, wait_until: Wait) -> None:
    idle = [sys.executable, "-c", "import time; time.sleep(1000)", "--state"]
    others = [subprocess.Popen([*idle, *words]) for words in ((str(tmp_path),), (f"{tmp_path}2", "--keeper", "9"))]
    try:
        for one in others:
            os.kill(one.pid, signal.SIGSTOP)
        sentry = sentry_in_haste(tmp_path)
        assert sentry.wait(timeout=15) == 0
        assert [letter(one.pid) for one in others] == ["T", "T"]
    finally:
        for one in others:
            one.kill()
            one.wait()


def test_an_agent_that_goes_leaves_nobody_stopped_behind(agent: RunningAgent, wait_until: Wait) -> None:
    """Seed 105479310 of the kill storm: nothing was open on the host, and all but the agent were killed or stopped."""
    wait_until(lambda: len([pid for pid in agent.sentry_pids() if letter(pid)]) == 2, "two sentries are there")
    struck = [agent.keeper_pid(), *agent.sentry_pids()]
    for pid, number in zip(struck, (signal.SIGSTOP, signal.SIGKILL, signal.SIGSTOP), strict=True):
        os.kill(pid, number)
    loses_control_process(agent)
    assert agent.process.wait(timeout=30) == 0
    wait_until(lambda: not any(letter(pid) for pid in (*struck, *agent.sentry_pids())), "all have ended", timeout=30)
    wait_until(lambda: not agent.keeper_lives(), "so has the keeper that ended them")


def test_who_is_stopped_with_the_journals_lock_in_hand_is_ended(paused: RunningAgent, wait_until: Wait) -> None:
    paused.kill()
    hold = (
        "import fcntl, os, signal, sys; f = open(sys.argv[1]); fcntl.flock(f, 2); os.kill(os.getpid(), signal.SIGSTOP)"
    )
    holder = subprocess.Popen([sys.executable, "-c", hold, str(paused.state / "journal.lock")])
    try:
        wait_until(lambda: letter(holder.pid) == "T", "it holds the lock and is stopped")
        ends_in_time(paused, wait_until)
    finally:
        holder.kill()
        holder.wait()


# --- what happens to the journal ------------------------------------------------------------------------------------


def copies(agent: RunningAgent) -> list[Path]:
    return sorted(agent.state.glob("journal*/*.json"))


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"id": "f1"}', "null", "[" * 5000], ids=repr)
def test_a_damaged_entry_is_healed_at_once_as_anything_it_could_be(
    agent: RunningAgent, wait_until: Wait, content: str
) -> None:
    agent.define(["/bin/sleep", "1000"])
    agent.call("proc.start", name="node")
    agent.call("proc.pause", id="f1", name="node", ttl=600)
    agent.kill()
    for path in copies(agent):
        path.write_text(content)
    ends_in_time(agent, wait_until)


@pytest.mark.parametrize(
    ("verb", "arguments"), [("proc.kill", {}), ("clock.set", {"offset_s": 3600}), ("host.command", {})]
)
def test_a_damaged_entry_of_another_kind_is_healed_too(
    agent: RunningAgent, wait_until: Wait, tmp_path: Path, verb: str, arguments: dict[str, Any]
) -> None:
    agent.define(["/bin/sleep", "1000"])
    agent.call("proc.start", name="node")
    sign = tmp_path / "sign"
    command = {"inject": f"touch {sign}", "heal": f"rm -f {sign}"} if verb == "host.command" else {"name": "node"}
    agent.call(verb, id="f1", ttl=600, **command, **arguments)
    for path in copies(agent):
        path.write_text("")
    wait_until(lambda: agent.call("journal")["entries"] == [], "healed")
    assert agent.state_of() == "running"
    assert abs(agent.call("probe.clock", name="node")["offset_s"]) < 0.05
    assert not sign.exists()


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("how", ["emptied", "removed"])
def test_one_damaged_copy_of_an_entry_changes_nothing(agent: RunningAgent, which: int, how: str) -> None:
    agent.define(["/bin/sleep", "1000"])
    agent.call("proc.start", name="node")
    agent.call("proc.pause", id="f1", name="node", ttl=600)
    path = copies(agent)[which]
    path.write_text("") if how == "emptied" else path.unlink()
    (entry,) = agent.call("journal")["entries"]
    assert (entry["id"], entry["verb"]) == ("f1", "proc.pause")
    assert agent.state_of() == "stopped"
    assert agent.call("heal", id="f1") == {"healed": ["f1"]}
    assert agent.state_of() == "running"


def test_an_entry_beside_a_damaged_one_keeps_its_time(agent: RunningAgent, wait_until: Wait) -> None:
    for name in ("node", "other"):
        agent.define(["/bin/sleep", "1000"], name=name)
        agent.call("proc.start", name=name)
        agent.call("proc.pause", id=f"of-{name}", name=name, ttl=600)
    for path in agent.state.glob("journal*/of-node.json"):
        path.write_text("")
    wait_until(lambda: agent.state_of() == "running", "what the damaged entry may have been is healed")
    assert agent.state_of("other") == "stopped"


# --- a full disk ----------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[tuple[Path, Path, list[str]]]:
    """A state directory on a file system of 4 MiB of its own: as the agent sees it, as we do, and how to get there."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount")
    state = tmp_path / "small"
    state.mkdir()
    script = f"mount -t tmpfs -o size=4m none {state} && echo && exec sleep 600"
    holder = subprocess.Popen(["unshare", "--mount", "--", "sh", "-c", script], stdout=subprocess.PIPE)
    assert holder.stdout is not None and holder.stdout.readline()
    yield state, Path(f"/proc/{holder.pid}/root{state}"), ["nsenter", "--mount", "-t", str(holder.pid), "--"]
    holder.kill()
    holder.wait()


def fill(directory: Path) -> None:
    """Not a byte is left."""
    with open(directory / "filler", "wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue


@pytest.mark.parametrize("verb", ["proc.pause", "proc.kill"])
@pytest.mark.parametrize("keeper", ["lives", "is killed"])
def test_a_full_disk_prevents_no_healing(
    small_disk: Any, start_agent: Callable[..., RunningAgent], wait_until: Wait, verb: str, keeper: str
) -> None:
    state, seen, prefix = small_disk
    agent = start_agent(state=state, prefix=prefix)
    agent.state = seen
    agent.define(["/bin/sleep", "1000"])
    agent.call("proc.start", name="node")
    agent.call(verb, id="f1", name="node", ttl=TTL)
    fill(seen)
    assert os.statvfs(seen).f_bfree == 0
    agent.kill()
    if keeper == "is killed":
        os.kill(agent.keeper_pid(), signal.SIGKILL)
    ends_in_time(agent, wait_until)


def test_without_room_to_heal_it_no_fault_is_injected(
    small_disk: Any, start_agent: Callable[..., RunningAgent], refused: type[Exception]
) -> None:
    state, seen, prefix = small_disk
    agent = start_agent(state=state, prefix=prefix)
    agent.state = seen
    agent.define(["/bin/sleep", "1000"])
    agent.call("proc.start", name="node")
    fill(seen)
    for piece in (seen / RESERVE).iterdir():  # each keeps its room, which the keeper would else fill up again
        piece.rename(seen / f"filler-{piece.name}")
    with pytest.raises(refused, match="no fault is injected"):
        agent.call("proc.pause", id="f1", name="node", ttl=TTL)
    assert agent.state_of() == "running"


def test_the_reserve_is_filled_up_when_there_is_room_again(
    small_disk: Any, start_agent: Callable[..., RunningAgent], wait_until: Wait
) -> None:
    state, seen, prefix = small_disk
    agent = start_agent(state=state, prefix=prefix)
    agent.state = seen
    for piece in (seen / RESERVE).iterdir():
        piece.unlink()
    wait_until(lambda: len(list((seen / RESERVE).glob("[0-9]*"))) == PIECES, "it is full", timeout=15)


# --- what is thrown at the keeper's port ----------------------------------------------------------------------------


def test_a_flood_of_nonsense_neither_ends_the_keeper_nor_holds_up_healing(
    paused: RunningAgent, wait_until: Wait
) -> None:
    keeper, rng = paused.keeper_pid(), random.Random(7)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as flood:
        flood.connect((paused.address, PROBE_PORT))
        deadline = time.monotonic() + LATEST
        while not runs(paused):
            assert time.monotonic() < deadline, "the fault is still there"
            for one in FLOOD:
                flood.send(one)
            flood.send(rng.randbytes(rng.randrange(2048)))
    assert paused.keeper_pid() == keeper
    assert paused.keeper_lives()


def test_no_datagram_without_a_key_is_answered(agent: RunningAgent) -> None:
    stranger = Key(b"s" * 32)
    sealed = [stranger.seal(kind, json.dumps(["heard", "n"]).encode()) for kind in (ECHO, QUESTION, HEARD)]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.settimeout(0.5)
        one.connect((agent.address, PROBE_PORT))
        for datagram in (*FLOOD, *sealed):
            one.send(datagram)
        with pytest.raises(TimeoutError):
            one.recv(1 << 16)
    assert agent.call("probe.reach", targets={"self": agent.address}) == {"self": True}


class TestEar:
    @pytest.fixture
    def keys(self, tmp_path: Path) -> ProbeKeys:
        return ProbeKeys(tmp_path)

    @pytest.fixture
    def responder(self, keys: ProbeKeys) -> Iterator[UdpResponder]:
        responder = UdpResponder("127.0.0.1", 0, keys)
        yield responder
        responder.close()

    def test_a_forged_sender_is_not_believed(self, responder: UdpResponder, keys: ProbeKeys) -> None:
        true = keys.own().seal(HEARD, json.dumps(["n", "b1", 0]).encode())
        forged = true.replace(b'"b1"', b'"b2"')
        for datagram in (true, forged):
            assert responder.answer(datagram) is None
        assert responder.heard("n") == {"b1": 1}
        assert responder.ignored["wrong seal"] == 1

    def test_a_datagram_that_is_repeated_counts_once(self, responder: UdpResponder, keys: ProbeKeys) -> None:
        datagram = keys.own().seal(HEARD, json.dumps(["n", "b1", 2]).encode())
        for _ in range(5):
            responder.answer(datagram)
        assert responder.heard("n") == {"b1": 1}

    def test_no_answer_is_larger_than_what_it_answers_but_to_our_own_key(
        self, responder: UdpResponder, keys: ProbeKeys
    ) -> None:
        session = keys.add("ab" * 32)
        echo = session.seal(ECHO, b"x" * 500)
        assert len(responder.answer(echo) or b"") == len(echo)
        for number in range(100):
            responder.answer(session.seal(HEARD, json.dumps(["n", f"h{number}", 0]).encode()))
        question = json.dumps(["heard", "n"]).encode()
        assert responder.answer(session.seal(QUESTION, question)) is None
        assert responder.answer(keys.own().seal(QUESTION, question)) is not None

    def test_what_is_remembered_is_bounded(self, responder: UdpResponder, keys: ProbeKeys) -> None:
        key = keys.own()
        for number in range(KEPT_NONCES + 50):
            responder.answer(key.seal(HEARD, json.dumps([f"n{number}", "h", 0]).encode()))
        assert responder.heard("n0") == {}
        for number in range(MOST_SENDERS + 50):
            responder.answer(key.seal(HEARD, json.dumps(["last", f"h{number}", 0]).encode()))
        assert len(responder.heard("last")) == MOST_SENDERS

    @pytest.mark.parametrize("body", [b"{}", b"[" * 900, b"[1,2,3]", b'["n","h",9]', b'["n","' + b"h" * 500 + b'",0]'])
    def test_nonsense_with_a_true_seal_is_counted_and_ignored(
        self, responder: UdpResponder, keys: ProbeKeys, body: bytes
    ) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
            for kind in (HEARD, QUESTION, b"t", b"?"):
                one.sendto(keys.own().seal(kind, body), responder.address())
            deadline = time.monotonic() + 30
            while responder.ignored.total() < 4 and time.monotonic() < deadline:
                responder.listen(0.2)
        assert responder.ignored.total() == 4

    def test_it_listens_at_the_hosts_own_address(self, keys: ProbeKeys) -> None:
        responder = UdpResponder("127.9.9.9", 0, keys)
        assert responder.address()[0] == "127.9.9.9"
        responder.close()

    def test_where_the_host_does_not_have_that_address_it_listens_at_all(self, keys: ProbeKeys) -> None:
        responder = UdpResponder("192.0.2.1", 0, keys)
        assert responder.address()[0] == "0.0.0.0"
        responder.close()


# --- what the kernel ends by itself ---------------------------------------------------------------------------------


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes namespaces and rules")
@pytest.mark.parametrize(
    ("verb", "arguments"),
    [("net.drop", {"sources": [ADDRESSES["h2"]]}), ("net.drop", {"sources": ["*"]}),
     ("net.drop_port", {"port": 9, "peers": ["*"]})],
)  # fmt: skip
def test_rules_end_by_the_kernels_clock_though_everything_of_ours_is_dead(
    start_agent: Callable[..., RunningAgent],
    inside: dict[str, list[str]],
    wait_until: Wait,
    verb: str,
    arguments: dict[str, Any],
) -> None:
    h1 = start_agent(name="h1", address=ADDRESSES["h1"], prefix=inside["h1"])
    h1.call(verb, id="f1", ttl=2.0, **arguments)
    h1.kill()
    h1.kill_keepers()
    knock = "import socket; s = socket.socket(); s.settimeout(0.4); print(s.connect_ex(('{}', 9)))"

    def heard() -> bool:
        """Whether a connection is refused, as by a host that hears it and has nobody at that port."""
        command = [*inside["h2"], sys.executable, "-c", knock.format(ADDRESSES["h1"])]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "111"

    assert not heard()
    wait_until(heard, "packets pass again", timeout=LATEST)
    assert not h1.keeper_lives()


# --- what starts a process ------------------------------------------------------------------------------------------


def test_a_process_whose_pid_was_not_kept_never_begins(agent: RunningAgent, tmp_path: Path) -> None:
    """Or whoever heals next would start a second one."""
    from squall.nemesis.agent.core.process_launch import start_held
    from squall.nemesis.agent.core.processes import Definition

    sign, log = tmp_path / "sign", tmp_path / "log"
    told = Definition("node", ["/bin/sh", "-c", f"touch {sign}"], {}, str(tmp_path), str(log), "SIGTERM")
    pids: list[int] = []

    def lose(pid: int) -> None:
        pids.append(pid)
        raise KeyboardInterrupt

    with open(log, "ab") as said, pytest.raises(KeyboardInterrupt):
        start_held(told, said, lose)
    deadline = time.monotonic() + 5
    while letter(pids[0]) not in ("", "Z"):
        assert time.monotonic() < deadline
    assert not sign.exists()


def test_a_keeper_is_limited_in_nothing_by_a_flood(agent: RunningAgent) -> None:
    """Its memory after 20 000 datagrams is what it was, give or take a megabyte."""
    keeper = agent.keeper_pid()

    def resident() -> int:
        return int(Path(f"/proc/{keeper}/statm").read_text().split()[1]) * resource.getpagesize()

    before = resident()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as flood:
        flood.connect((agent.address, PROBE_PORT))
        for number in range(20_000):
            flood.send(b'{"nonce": "%d", "from": "%s"}' % (number, b"x" * 1000))
    assert agent.call("probe.reach", targets={"self": agent.address}, timeout=5) == {"self": True}
    assert resident() - before < 1 << 20


# --- what systemd's timer calls -------------------------------------------------------------------------------------


def heal_due(agent: RunningAgent, program: Path) -> None:
    options = ["--state", str(agent.state), "--listen", f"{agent.address}:{PROBE_PORT}", "--lab", "--heal-due"]
    subprocess.run([sys.executable, "-u", str(program), *options], check=True, timeout=30)


def test_heal_due_heals_what_is_due_when_all_others_are_dead(paused: RunningAgent, program: Path) -> None:
    paused.kill()
    paused.kill_keepers()
    paused.await_due("f1")
    assert not runs(paused)
    heal_due(paused, program)
    assert runs(paused)
    assert not copies(paused)


def test_heal_due_leaves_what_is_not_due_to_a_new_keeper(agent: RunningAgent, program: Path, wait_until: Wait) -> None:
    agent.define(["/bin/sleep", "1000"])
    agent.call("proc.start", name="node")
    agent.call("proc.pause", id="f1", name="node", ttl=600)
    agent.kill()
    agent.kill_keepers()
    heal_due(agent, program)
    assert agent.keeper_lives()
    assert not runs(agent)
    assert len([pid for pid in agent.sentry_pids() if letter(pid)]) == 2
