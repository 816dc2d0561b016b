"""The host agent: answers verbs, one JSON object per line, on standard input and output.

    → {"op": 7, "verb": "net.drop", "args": {"id": "f1", "sources": ["10.77.0.12"], "ttl": 15}}
    ← {"op": 7, "ok": true, "result": {"sources": ["10.77.0.12/32"]}}
    ← {"op": 8, "ok": false, "kind": "unknown_process", "error": "no process 'nod' is defined; known are node"}

Each request gets one response. Responses may be out of order: each request has its own thread, because a slow probe
must not delay a heal. The agent exits when standard input ends; open faults remain, and the keeper ends them.

A control process that is killed while its network is down may end the connection with a reset that never arrives (TCP
does not repeat a reset). Neither sshd nor the agent would ever notice, as long as they have nothing to send. So the
agent sends an empty response (`{}`) every `KNOCK_S` seconds: the kernel of a living control machine resets the
connection, that of a dead one does not acknowledge, and in both cases sshd ends the agent's standard input.

    python3 -u -m squall.nemesis.agent --state DIR [--name HOST] [--control-port 22] [--listen 0.0.0.0:7465] [--lab]
        [--reduced ADDRESS] [--lock TOKEN]

With a token the agent changes nothing after the host's lock has another token (`host_lock.py`).

Several agents may serve one host at once (a new SSH connection while the old one is dying): the journal's lock
serializes their changes. Uses only the standard library; needs Python 3.11 or newer. docs/architecture.md has the table
of verbs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import shutil
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from squall.nemesis.agent.clock.clock_driver import DriverProcess
from squall.nemesis.agent.clock.clock_faults import clock_verbs, why_no_monotonic
from squall.nemesis.agent.clock.clock_look import LONGEST_WATCH
from squall.nemesis.agent.clock.clocks import HOOK, MachineClock, ProcessClocks
from squall.nemesis.agent.clock.device import LAB_MARKER, RealClockDevice
from squall.nemesis.agent.core.arguments import number, required, text
from squall.nemesis.agent.core.disk_launch import Watches
from squall.nemesis.agent.core.disk_rules import DiskState
from squall.nemesis.agent.core.durable import fill_reserve
from squall.nemesis.agent.core.host_lock import lock_here
from squall.nemesis.agent.core.journal import Journal, boot_id
from squall.nemesis.agent.core.manager import FaultManager, FaultVerb
from squall.nemesis.agent.core.names import checked_process
from squall.nemesis.agent.core.processes import Definition, Processes, state_of
from squall.nemesis.agent.core.programs import command
from squall.nemesis.agent.core.reduced import not_offered
from squall.nemesis.agent.core.verb_error import VerbError
from squall.nemesis.agent.core.verbs import TERM
from squall.nemesis.agent.disk.disk_faults import (
    FailDisk,
    RestartPolicy,
    SlowDisk,
    calls_under_way,
    checked_calls,
    refuse_what_cannot_be_watched,
)
from squall.nemesis.agent.disk.power import Losses, NodeFiles, PowerLoss, WipeDisk
from squall.nemesis.agent.disk_verbs import DiskVerbs
from squall.nemesis.agent.guard.keeper import Guard, Keeper, KeeperLocks
from squall.nemesis.agent.net.drop import Drop
from squall.nemesis.agent.net.network import Network
from squall.nemesis.agent.network_verbs import NetworkVerbs
from squall.nemesis.agent.probe.host_samples import HostSamples, probe_metrics
from squall.nemesis.agent.probe.link_latency import LatencyProbe
from squall.nemesis.agent.probe.probe_auth import ProbeKeys
from squall.nemesis.agent.probe.probes import Prober, UdpResponder, knock
from squall.nemesis.agent.probe.train_probe import TrainProbe
from squall.nemesis.agent.process.signals import Kill, Pause, Terminate, identity_in
from squall.nemesis.agent.process_verbs import ProcessVerbs
from squall.nemesis.agent.rpc.rpc import checked_ports

PROBE_PORT = 7465
KNOCK_S = 3.0
CHANGES_NOTHING = frozenset({"info", "journal", "proc.status"})
"""Besides `probe.…`: verbs that are answered whichever token the host's lock has."""
Arguments = dict[str, Any]


def parse_options(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="squall's host agent")
    parser.add_argument("--state", type=Path, required=True, help="directory for journal, processes, clocks")
    parser.add_argument("--name", default=socket.gethostname(), help="this host's name in probes")
    parser.add_argument("--control-port", type=int, default=None, help="SSH port, exempt from every rule")
    parser.add_argument("--listen", default=f"0.0.0.0:{PROBE_PORT}", help="ADDRESS:PORT for probes (UDP)")
    parser.add_argument("--lab", action="store_true", help="never touch the machine's clock")
    parser.add_argument("--reduced", metavar="ADDRESS", help="a reduced lab's host of this address (reduced.py)")
    parser.add_argument("--lock", metavar="TOKEN", help="change nothing unless the host's lock has this token")
    parser.add_argument("--keeper", type=int, metavar="DESCRIPTOR", help=argparse.SUPPRESS)
    parser.add_argument("--heal-due", action="store_true", help="end what is due, start a keeper if need be, and go")
    return parser.parse_args(argv)


def control_port(options: argparse.Namespace) -> int:
    """The port to exempt: the given one, else the port of this SSH session, else 22."""
    if options.control_port:
        return int(options.control_port)
    connection = os.environ.get("SSH_CONNECTION", "").split()
    return int(connection[3]) if len(connection) == 4 else 22


class Agent:
    """The verbs of one host."""

    def __init__(self, options: argparse.Namespace) -> None:
        options.state.mkdir(parents=True, exist_ok=True)
        state = options.state.resolve()
        self.reduced: str | None = options.reduced
        self.listen: str = f"{self.reduced}:{PROBE_PORT}" if self.reduced else options.listen
        address, _, port = self.listen.rpartition(":")
        self.name: str = options.name
        self.lab: bool = options.lab or self.reduced is not None or LAB_MARKER.exists()
        self.state = state
        self.token: str | None = options.lock
        self.host_lock = lock_here(reduced=self.reduced is not None)
        self.locks = KeeperLocks(state)
        self.journal = Journal(state)
        self.processes = Processes(state)
        self.network = Network(control_port(options))
        keys = ProbeKeys(state)
        self.prober = Prober(address, int(port), keys)
        trains = TrainProbe(self.prober, int(port))
        self.network_verbs = NetworkVerbs(state, self.journal, self.network, self.processes, trains)
        self.clocks = ProcessClocks(state) if self.lab else MachineClock(state, RealClockDevice(), DriverProcess(state))
        self.responder: Callable[[], UdpResponder] = lambda: UdpResponder(address, int(port), keys)
        self.losses = Losses(state)
        self.disk = DiskState(state)
        self.restart_policy = RestartPolicy(self.processes, Watches(state))
        process_verbs = ProcessVerbs(
            state, self.journal, self.processes, self.disk, self.restart_policy, host=self.name, lab=self.lab
        )
        disk_verbs = DiskVerbs(state, self.journal, self.processes, self.disk, self.restart_policy, self.losses)
        faults: dict[str, FaultVerb] = {
            "net.drop": Drop(self.network),
            **self.network_verbs.faults,
            "proc.kill": Kill(self.processes),
            TERM: Terminate(self.processes),
            "proc.pause": Pause(self.processes),
            "proc.power_loss": PowerLoss(self.processes, self.losses),
            "disk.wipe": WipeDisk(self.processes, self.losses),
            "disk.error": FailDisk(self.processes, self.disk, self.restart_policy),
            "disk.slow": SlowDisk(self.processes, self.disk, self.restart_policy),
            **process_verbs.faults,
            **disk_verbs.faults,
            **clock_verbs(self.processes, self.clocks),
        }
        self.refused = not_offered(faults) if self.reduced else {}
        self.guard = Guard.of(state, self.own_command(), self.locks)
        self.manager = FaultManager(self.journal, faults, self.guard.ensure_all)
        self.verbs: dict[str, Callable[[Arguments], Arguments]] = {
            "proc.define": self.define,
            "proc.start": self.start,
            "proc.stop": self.stop,
            "proc.status": self.status,
            "proc.resume": self.heal,
            "net.allow": self.heal,
            "clock.clear": self.heal,
            "heal": self.heal,
            "journal": self.list_journal,
            "info": self.info,
            "probe.key": lambda arguments: self.prober.use(arguments.get("key")),
            "probe.send": self.probe_send,
            "probe.heard": self.probe_heard,
            "probe.reach": self.probe_reach,
            "probe.port": self.probe_port,
            "probe.clock": self.probe_clock,
            "probe.disk": self.probe_disk,
            "probe.samples": HostSamples(self.processes, shared=self.lab, own_network=not self.reduced).answer,
            "probe.metrics": probe_metrics,
            **process_verbs.others,
            **disk_verbs.probes,
            **self.network_verbs.probes,
            "probe.latency": LatencyProbe(self.prober, int(port)).answer,
        }
        for verb in faults:
            self.verbs[verb] = self._injecting(verb)
        self.verbs[TERM] = self.terminate

    def _injecting(self, verb: str) -> Callable[[Arguments], Arguments]:
        return lambda arguments: self.manager.inject(verb, arguments)

    def own_command(self) -> list[str]:
        """The command that starts a process like this one. The keeper gets this agent's options, so that it heals by
        the same means.
        """
        options = ["--state", str(self.state), "--name", self.name, "--listen", self.listen]
        options += ["--control-port", str(self.network.control_port), *(["--lab"] if self.lab else [])]
        options += ["--reduced", self.reduced] if self.reduced else []
        return [*command("agent"), *options]

    def heal_due(self) -> None:
        """Do the keeper's work if no keeper works: for the systemd timer, and at boot. Raises VerbError."""
        with self.journal.locked():
            works = self.locks.keeper_works()
        if works:
            return
        if self.journal.expired():
            self.manager.heal_expired()
        with self.journal.locked():
            if self.journal.entries():
                self.guard.ensure_keeper()
                self.guard.sentries.ensure()
            else:
                self.guard.timer.stop()

    def start_what_heals(self) -> None:
        """Start a keeper, and reserve room to heal if the disk has any. Without room the agent still answers verbs and
        heals on request; only injecting is refused (`Guard.ensure_all`).
        """
        with contextlib.suppress(OSError):
            self.guard.heartbeat.reserve()
            self.guard.sentries.reserve()
        fill_reserve(self.state)
        with contextlib.suppress(VerbError, OSError):
            self.guard.ensure_keeper()

    def call(self, verb: str, arguments: Arguments) -> Arguments:
        """Carry out a verb. Raises VerbError."""
        if verb not in self.verbs:
            raise VerbError("unknown_verb", f"no verb {verb!r}; known are {', '.join(sorted(self.verbs))}")
        if not isinstance(arguments, dict):
            raise VerbError("bad_argument", f"args: {arguments!r} must be a mapping")
        if verb in self.refused:
            raise VerbError("unsupported", self.refused[verb])
        self._refuse_if_not_ours(verb)
        return self.verbs[verb](arguments)

    def _refuse_if_not_ours(self, verb: str) -> None:
        """Refuse a change from an owner that has lost this host: it would affect another owner's run."""
        if self.token is None or verb in CHANGES_NOTHING or verb.startswith("probe."):
            return
        if not self.host_lock.is_held_by(self.token):
            raise VerbError("lock_lost", f"{verb} is refused: the caller no longer holds this host's lock")

    def define(self, arguments: Arguments) -> Arguments:
        name = checked_process(arguments.get("name"))
        argv = required(arguments, "argv", list, "a list of texts")
        env = {key: str(value) for key, value in (arguments.get("env") or {}).items()}
        definition = Definition(
            name=name,
            argv=[str(word) for word in argv],
            env=self.clocks.environment(name, env),
            cwd=str(arguments.get("cwd") or self.state),
            log=str(arguments.get("log") or self.state / f"{name}.log"),
            stop_signal=str(arguments.get("stop_signal") or "SIGTERM"),
            data=str(arguments.get("data") or ""),
            ledger=str(arguments.get("ledger") or ""),
            ports=checked_ports(arguments.get("ports") or []),
            config=str(arguments.get("config") or ""),
            disk_calls=checked_calls(arguments.get("disk_calls") or []),
        )
        refuse_what_cannot_be_watched(definition)
        return {
            "name": name,
            "log": definition.log,
            "clock": self.clock_method(),
            "replaced": self._replace(definition),
        }

    def _replace(self, definition: Definition) -> int | None:
        """Store the definition. First end a process that still runs by a different definition of this name."""
        name = definition.name
        leftover = None
        with self.journal.locked():
            if name in self.processes.names() and self.processes.definition(name) != definition:
                leftover = self.processes.alive(name)
                self.processes.ask_to_stop(name)
                self.manager.forget(name)
            if leftover is not None:
                self.processes.see_it_stopped(leftover, timeout=5)
            self.processes.define(definition)
        return leftover.pid if leftover else None

    def start(self, arguments: Arguments) -> Arguments:
        name = text(arguments, "name")
        self.processes.definition(name)
        with self.journal.locked():
            self.manager.forget(name)
            identity = self.processes.start(name)
        return {"pid": identity.pid, "started": identity.started}

    def stop(self, arguments: Arguments) -> Arguments:
        name = text(arguments, "name")
        timeout = number({"timeout": 10, **arguments}, "timeout")
        with self.journal.locked():
            identity = self.processes.ask_to_stop(name)
            self.manager.forget(name)
        if identity is None:
            return {"pid": None, "by_itself": True}
        return {"pid": identity.pid, "by_itself": self.processes.see_it_stopped(identity, timeout)}

    def terminate(self, arguments: Arguments) -> Arguments:
        """As `stop`, but a fault: if no caller starts the process, it restarts when its time to live is over."""
        timeout = number({"timeout": 10, **arguments}, "timeout")
        answer = self.manager.inject(TERM, arguments)
        entry = self.journal.find(text(arguments, "id"))
        return {**answer, "by_itself": entry is None or self.processes.see_it_stopped(identity_in(entry), timeout)}

    def status(self, arguments: Arguments) -> Arguments:
        name = text(arguments, "name")
        self.processes.definition(name)
        identity = self.processes.identity(name)
        if identity is None or state_of(identity) == "absent":
            return {"state": "absent", "pid": None, "started": None}
        return {"state": state_of(identity), "pid": identity.pid, "started": identity.started}

    def heal(self, arguments: Arguments) -> Arguments:
        return {"healed": self.manager.heal(text(arguments, "id") if arguments.get("id") is not None else None)}

    def list_journal(self, arguments: Arguments) -> Arguments:
        now = self.journal.monotonic()
        return {
            "entries": [
                {"id": entry.id, "verb": entry.verb, "left_s": round(entry.deadline - now, 3)}
                | {key: value for key, value in entry.arguments.items() if key in ("name", "sources", "offset_s")}
                for entry in self.journal.entries()
            ]
        }

    def info(self, arguments: Arguments) -> Arguments:
        with self.journal.locked():
            keeper_lives = self.locks.keeper_works()
        return {
            "name": self.name,
            "hostname": socket.gethostname(),
            "python": platform.python_version(),
            "architecture": platform.machine(),
            "kernel": platform.release(),
            "boot": boot_id(),
            "root": os.geteuid() == 0,
            "cpus": os.cpu_count(),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            "free_disk_bytes": shutil.disk_usage(self.state).free,
            "network": self.network.method(),
            "links": self.network_verbs.queue_rules.driver()[0],
            "control_port": self.network.control_port,
            "clock": self.clock_method(),
            "lab": self.lab,
            "keeper": keeper_lives,
            "probe": self.listen,
            "unable": self.unable(),
        }

    def unable(self) -> dict[str, str]:
        """Verbs that this host cannot carry out, and why."""
        no_monotonic = why_no_monotonic(self.clocks)
        unable = {"clock.monotonic": no_monotonic} if no_monotonic else {}
        return {**unable, **self.network_verbs.unable(), **self.refused}

    def clock_method(self) -> str:
        """`shim`, `hook` (Python processes only) or `machine`."""
        if isinstance(self.clocks, MachineClock):
            return "machine"
        return "shim" if self.clocks.shim_loads() else "hook" if HOOK.exists() else "none"

    def probe_send(self, arguments: Arguments) -> Arguments:
        targets = required(arguments, "targets", dict, "a mapping of names to addresses")
        return self.prober.send(targets, text(arguments, "nonce"), str(arguments.get("source") or self.name))

    def probe_heard(self, arguments: Arguments) -> Arguments:
        timeout = number({"timeout": 0.3, **arguments}, "timeout")
        return {"heard": self.prober.heard(text(arguments, "nonce"), timeout, arguments.get("expect") or [])}

    def probe_reach(self, arguments: Arguments) -> Arguments:
        targets = required(arguments, "targets", dict, "a mapping of names to addresses")
        return dict(self.prober.reach(targets, number({"timeout": 1.0, **arguments}, "timeout")))

    def probe_port(self, arguments: Arguments) -> Arguments:
        targets = required(arguments, "targets", dict, "a mapping of names to ADDRESS:PORT")
        return dict(knock(targets, number({"timeout": 1.0, **arguments}, "timeout")))

    def probe_clock(self, arguments: Arguments) -> Arguments:
        name = text(arguments, "name")
        watch = min(number({"watch_s": 0.0, **arguments}, "watch_s"), LONGEST_WATCH)
        return self.clocks.offset(self.processes.definition(name), self.processes.alive(name), watch)

    def revive(self) -> list[str]:
        """Restart processes that ended with the watch of their disk. Returns what was done."""
        return self.restart_policy.revive_all(self.journal)

    def probe_disk(self, arguments: Arguments) -> Arguments:
        """What the disk faults of a process have done: how many calls this fault has struck, what it has taken, and, by
        the node's ledger if it keeps one, what a power failure would take now.

        Losses are [size now, size before] by file, and [first missing offset, end of the missing range] by log.
        """
        id, definition = text(arguments, "id"), self.processes.definition(text(arguments, "name"))
        struck: Arguments = {"open": self.journal.find(id) is not None, "met": self.disk.met(id)}
        if definition.disk_calls:
            struck["under_way"] = calls_under_way(self.processes.alive(definition.name))
        if not definition.data:
            if definition.disk_calls:
                return struck
            raise VerbError("unsupported", f"{definition.name} was defined without `data`")
        files, loss = NodeFiles(Path(definition.data), Path(definition.ledger)), self.losses.of(id)
        known = files.unsynced_bytes() if Path(definition.ledger).is_file() else None
        return {
            **struck,
            "files": len(files.files()),
            "unsynced_bytes": known,
            "lost_bytes": loss.bytes if loss else None,
            "lost": loss.files if loss else None,
            "lost_offsets": loss.offsets if loss else None,
        }


class Channel:
    """Serves requests and responses on standard input and output."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._writing = threading.Lock()

    def serve(self) -> None:
        """Serve until standard input ends. Requests received before that are still carried out (10 s at most)."""
        threading.Thread(target=self._knock, name="knock", daemon=True).start()
        threads: list[threading.Thread] = []
        for line in sys.stdin:
            if not line.strip():
                continue
            thread = threading.Thread(target=self._answer, args=(line,), daemon=True)
            thread.start()
            threads = [one for one in threads if one.is_alive()] + [thread]
        deadline = time.monotonic() + 10
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _answer(self, line: str) -> None:
        op = None
        try:
            request = json.loads(line)
            op = request["op"]
            result = self._agent.call(request["verb"], request.get("args") or {})
            answer = {"op": op, "ok": True, "result": result}
        except VerbError as trouble:
            answer = {"op": op, "ok": False, "kind": trouble.kind, "error": trouble.error}
        except (ValueError, KeyError, TypeError) as trouble:
            error = f"{type(trouble).__name__}: {trouble} in {line.strip()[:200]}"
            answer = {"op": op, "ok": False, "kind": "bad_argument", "error": error}
        except Exception as trouble:
            answer = {"op": op, "ok": False, "kind": "failed", "error": f"{type(trouble).__name__}: {trouble}"}
        self._write(answer)

    def _knock(self) -> None:
        """Show whether the other end is still there; standard input ends if it is not."""
        with contextlib.suppress(OSError, ValueError):
            while True:
                time.sleep(KNOCK_S)
                self._write({})

    def _write(self, answer: Arguments) -> None:
        with self._writing:
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


def main(argv: list[str]) -> int:
    options = parse_options(argv)
    agent = Agent(options)
    if options.keeper is not None:
        Keeper(agent.journal, agent.manager, agent.guard, agent.responder, agent.revive).keep(options.keeper)
        return 0
    if options.heal_due:
        agent.heal_due()
        return 0
    with agent.locks.join_agents():
        with agent.journal.locked():
            agent.start_what_heals()
        agent.guard.watch_in_thread(agent.journal)
        Channel(agent).serve()
        agent.guard.leave(agent.journal)
    return 0
