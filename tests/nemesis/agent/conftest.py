"""Real agents, run as on a host: from their shipped directory, with the system's Python, over pipes.

They run with `--lab` and SQUALL_NO_REAL_CLOCK, so that nothing here can touch this machine's clock.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from squall.harness.hosts.deploy import AGENT, add_agent
from tests.waiting import wait_until

AGENT_DIRECTORY = Path(__file__).resolve().parents[3] / "nemesis" / "agent"
PROBE_PORT = 17465
SESSION_KEY = "5e" * 32
ADDRESSES = {"h1": "10.99.7.1", "h2": "10.99.7.2"}
"""Of the two hosts in network namespaces of their own, joined by a virtual cable (`inside`)."""

WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_agents = itertools.count()


def next_address() -> str:
    """One of loopback that no other agent has had, in this worker or in one beside it."""
    number = next(_agents)
    return f"127.{10 + WORKER}.{number // 250}.{number % 250 + 1}"


class Refused(Exception):
    """The agent answered no."""

    def __init__(self, kind: str, error: str) -> None:
        super().__init__(error)
        self.kind = kind
        self.error = error


class RunningAgent:
    """An agent process and its channel."""

    def __init__(
        self, program: Path, state: Path, address: str, name: str, prefix: Sequence[str], options: Sequence[str] = ()
    ) -> None:
        self.state = state
        self.address = address
        self.name = name
        listen = f"{address}:{PROBE_PORT}"
        command = [*prefix, sys.executable, "-u", str(program), "--state", str(state), "--name", name]
        self.process = subprocess.Popen(
            [*command, "--listen", listen, "--lab", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "SQUALL_NO_REAL_CLOCK": "1"},
        )
        self._ops = itertools.count(1)
        self.call("journal")  # answered once the keeper is on duty
        self.call("probe.key", key=SESSION_KEY)

    def call(self, verb: str, **arguments: Any) -> dict[str, Any]:
        answer = self.exchange(json.dumps({"op": next(self._ops), "verb": verb, "args": arguments}))
        if answer["ok"]:
            return answer["result"]
        raise Refused(answer["kind"], answer["error"])

    def exchange(self, line: str) -> dict[str, Any]:
        assert self.process.stdin
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        while not (answer := self.receive()):
            pass
        return answer

    def receive(self) -> dict[str, Any]:
        """The next line of its output; an empty one asks for no attention."""
        assert self.process.stdout
        return json.loads(self.process.stdout.readline())

    def define(self, argv: Sequence[str], name: str = "node", **more: Any) -> dict[str, Any]:
        return self.call("proc.define", name=name, argv=list(argv), **more)

    def state_of(self, name: str = "node") -> str:
        return self.call("proc.status", name=name)["state"]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def keeper_pid(self) -> int:
        return int((self.state / "keeper.lock").read_text().split()[0])

    def sentry_pids(self) -> list[int]:
        """Of those that keep the keeper alive."""
        with contextlib.suppress(FileNotFoundError):
            return [int(word) for word in (self.state / "sentries").read_text().split()[::2]]
        return []

    def kill_keepers(self) -> None:
        """The keeper and its sentries, so that nothing but what the test is about is left to end a fault."""
        for pid in (*self.sentry_pids(), self.keeper_pid(), *self.sentry_pids()):
            kill_quietly(pid)
        wait_until(lambda: not self.keeper_lives(), "the keeper is dead")

    def keeper_lives(self) -> bool:
        with open(self.state / "keeper.lock", "a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def await_due(self, id: str) -> float:
        """Wait until the open fault's time to live is over; returns when that was, by `time.monotonic`."""
        (path,) = (self.state / "journal").glob(f"*{id}*.json")
        deadline: float = json.loads(path.read_text())["deadline"]
        wait_until(lambda: time.monotonic() >= deadline, f"{id} is due", timeout=60)
        return deadline

    def await_keeper(self, turns: int = 1, after: float = 0.0) -> None:
        """Wait until the keeper has completed as many turns that began from now on (from `after` seconds from now on).

        Faults that change nothing show it: only the keeper ends them. One that was opened after another had ended
        ends in a later turn.
        """
        for number in range(turns + 1):
            id = f"turn{number}"
            self.call("host.command", id=id, inject="true", heal="true", ttl=max(0.05, after))
            wait_until(lambda id=id: not self.has_open(id), f"the keeper has ended {id}")  # type: ignore[misc]
            after = 0.0

    def has_open(self, id: str) -> bool:
        return any(entry["id"] == id for entry in self.call("journal")["entries"])

    def clean_up(self) -> None:
        self.kill()
        for pid in self.sentry_pids():
            kill_quietly(pid)
        for path in (self.state / "processes").glob("*.running"):
            kill_quietly(json.loads(path.read_text())["pid"])
        if self.keeper_lives():
            kill_quietly(self.keeper_pid())


def kill_quietly(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> bytes | None:
    """The clock shim as the control node ships it; None without a C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    library = tmp_path_factory.mktemp("shim") / "clockshim.so"
    source = AGENT_DIRECTORY / "clock" / "clockshim.c"
    warnings = ["-Wall", "-Wextra", "-Werror"]
    command = [compiler, "-O2", *warnings, "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"]
    subprocess.run(command, check=True)
    return library.read_bytes()


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory, shim: bytes | None) -> Path:
    """The agent as shipped to a host."""
    files: dict[str, bytes] = {}
    add_agent(files, AGENT_DIRECTORY)
    if shim is not None:
        files[f"{AGENT}/clock/clockshim.so"] = shim
    bundle = tmp_path_factory.mktemp("host")
    for name, content in files.items():
        path = bundle / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return bundle / "agent" / "agent.py"


def package_of(program: Path) -> Path:
    """Where the modules of a shipped agent lie."""
    return program.parent / "squall" / "nemesis" / "agent"


@pytest.fixture
def start_agent(program: Path, tmp_path: Path) -> Iterator[Callable[..., RunningAgent]]:
    """Starts agents, each a host of its own unless given the `state` of another."""
    started: list[RunningAgent] = []

    def start(
        state: Path | None = None,
        address: str | None = None,
        name: str = "h1",
        prefix: Sequence[str] = (),
        program: Path = program,
        options: Sequence[str] = (),
    ) -> RunningAgent:
        address = address or next_address()
        agent = RunningAgent(program, state or tmp_path / name, address, name, prefix, options)
        started.append(agent)
        return agent

    yield start
    for agent in started:
        agent.clean_up()


@pytest.fixture
def agent(start_agent: Callable[..., RunningAgent]) -> RunningAgent:
    return start_agent()


@pytest.fixture
def refused() -> type[Refused]:
    return Refused


@pytest.fixture(name="wait_until")
def _wait_until() -> Callable[..., float]:
    return wait_until


@pytest.fixture
def inside() -> Iterator[dict[str, list[str]]]:
    """The command prefix that enters each host's namespace."""
    holders = {
        name: subprocess.Popen(["unshare", "--net", "--", "sh", "-c", "echo; exec sleep 600"], stdout=subprocess.PIPE)
        for name in ADDRESSES
    }
    for holder in holders.values():
        assert holder.stdout is not None
        holder.stdout.readline()
    prefixes = {name: ["nsenter", "--net", "-t", str(holder.pid)] for name, holder in holders.items()}
    cable = ["ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns"]
    subprocess.run([*prefixes["h1"], *cable, str(holders["h2"].pid)], check=True)
    for name, address in ADDRESSES.items():
        for command in ("link set lo up", f"addr add {address}/24 dev eth0", "link set eth0 up"):
            subprocess.run([*prefixes[name], "ip", *command.split()], check=True)
    yield prefixes
    for holder in holders.values():
        holder.kill()
        holder.wait()
