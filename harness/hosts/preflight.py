"""`squall inventory check`: check what every host can do before a run needs it.

    report = check(inventory, network)
    report.rows        one `HostReport` per host, each a list of `Finding`s in the order of `COLUMNS`
    report.control     what the control node itself needs (Java for the checker)
    report.ok          whether a run can start

    refuse_unfit(remotes, probes, faults=True)        before a run starts anything: disk, root, firewall
    refuse_unwatchable_disks(remotes)                 where faults are about disk calls
    refuse_unable(found, verbs)                       once agents respond: verbs that one of them cannot carry out
    refuse_busy_ports(remotes)                        once nodes left over from other runs have been ended

A finding states what was found, whether that is good enough, and, if not, what to do. Later findings of a host are left
out where an earlier one makes them impossible: an unreachable host has no disk.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from squall.harness.errors import UsageError
from squall.harness.hosts.deploy import Probe, probe
from squall.harness.hosts.network import Network
from squall.harness.hosts.ssh import Remote, on_all
from squall.harness.hosts.ssh_access import SshError
from squall.harness.hosts.system import BROKER_PORT, CONTROLLER_PORT, METRICS_PORT
from squall.harness.scenario.inventory import HostSpec, Inventory
from squall.nemesis import agent

COLUMNS = ("ssh", "python", "architecture", "disk", "root", "firewall", "links", "disk calls", "ports")
LEAST_FREE_BYTES = 2 << 30
OLDEST_JAVA = 17

WORKING_FIREWALL = (
    "PATH=$PATH:/usr/sbin:/sbin; nft list tables >/dev/null && echo nft || (iptables -w -S >/dev/null && echo iptables)"
)

BUSY_PORTS = """
import json, socket, sys
busy = []
for port in map(int, sys.argv[2:]):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((sys.argv[1], port))
        except OSError:
            busy.append(port)
print(json.dumps(busy))
"""


@dataclass(frozen=True)
class Finding:
    """One check on one host."""

    what: str
    ok: bool
    said: str
    remedy: str | None = None


@dataclass(frozen=True)
class HostReport:
    """All findings about one host."""

    host: HostSpec
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        return all(finding.ok for finding in self.findings)

    def find(self, what: str) -> Finding | None:
        return next((finding for finding in self.findings if finding.what == what), None)


@dataclass(frozen=True)
class Report:
    """The result of checking all hosts and this machine."""

    rows: tuple[HostReport, ...]
    control: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        return all(row.ok for row in self.rows) and all(one.ok for one in self.control)

    def error(self) -> UsageError | None:
        """Return all bad findings as one error, for a command that cannot continue; None if there are none."""
        wrong = [_as_error(row.host.described(), one) for row in self.rows for one in row.findings]
        wrong += [_as_error("control node", one) for one in self.control]
        found = [error for error in wrong if error is not None]
        return UsageError.joined(found) if found else None


def check(inventory: Inventory, network: Network | None = None, *, least_free: int = LEAST_FREE_BYTES) -> Report:
    """Check all hosts in parallel, and this machine."""
    remotes = [Remote(host, network) for host in inventory.hosts]
    try:
        rows = on_all(remotes, lambda remote: check_host(remote, least_free=least_free))
    finally:
        for remote in remotes:
            remote.close()
    return Report(tuple(rows.values()), (check_java(),))


def refuse_unfit(
    remotes: Sequence[Remote], probes: Mapping[str, Probe], *, faults: bool, least_free: int = LEAST_FREE_BYTES
) -> None:
    """Raise one UsageError for all hosts that lack disk or root or, if faults are planned, a firewall."""

    def look(remote: Remote) -> list[Finding]:
        found = [_disk(remote, probes[remote.name], least_free), *_root_findings(remote)]
        return [one for one in found if faults or one.what != "firewall"]

    _refuse_bad(on_all(remotes, look), remotes)


def refuse_unwatchable_disks(remotes: Sequence[Remote]) -> None:
    """Raise one UsageError for all hosts on which a node's disk calls cannot be watched."""
    _refuse_bad(on_all(remotes, lambda remote: [disk_calls_finding(remote)]), remotes)


def refuse_unable(found: Mapping[str, Mapping[str, object]], verbs: Iterable[str]) -> None:
    """Raise one UsageError for all hosts that cannot carry out one of these verbs. `found` are responses of `info`."""
    wanted = tuple(verbs)
    wrong = []
    for host, info in sorted(found.items()):
        reasons = info.get("unable")
        for verb, reason in sorted(reasons.items()) if isinstance(reasons, Mapping) else ():
            if verb in wanted:
                remedy = f"leave out faults that need {verb}, or take another host"
                wrong.append(UsageError(f"{host}: {verb}: {reason}", remedy=remedy))
    if wrong:
        raise UsageError.joined(wrong)


def refuse_busy_ports(remotes: Sequence[Remote]) -> None:
    """Raise one UsageError for all hosts on which another process listens on a node's port."""
    _refuse_bad(on_all(remotes, lambda remote: [_ports(remote)]), remotes)


def _refuse_bad(found: Mapping[str, list[Finding]], remotes: Sequence[Remote]) -> None:
    named = ((remote.spec.described(), one) for remote in remotes for one in found[remote.name])
    wrong = [error for who, one in named if (error := _as_error(who, one)) is not None]
    if wrong:
        raise UsageError.joined(wrong)


def check_host(remote: Remote, *, least_free: int = LEAST_FREE_BYTES) -> HostReport:
    """Check everything about one host. A failure becomes a finding, never an exception."""
    findings: list[Finding] = []
    try:
        remote.connect()
        findings.append(Finding("ssh", True, f"{remote.spec.user}@{remote.address()}:{remote.spec.port}"))
        findings += _python_findings(remote, least_free)
        findings += _root_findings(remote)
        findings.append(_links(remote))
        findings.append(replace(disk_calls_finding(remote), ok=True))  # a host may lack it: few runs need it
        findings.append(_ports(remote))
    except SshError as trouble:
        missing = next(column for column in COLUMNS if column not in {one.what for one in findings})
        findings.append(Finding(missing, False, trouble.problem.partition(": ")[2], trouble.remedy))
    return HostReport(remote.spec, tuple(findings))


def _python_findings(remote: Remote, least_free: int) -> Iterable[Finding]:
    found = probe(remote)
    yield Finding("python", True, ".".join(map(str, found.python)))
    yield Finding("architecture", True, f"{found.machine} {found.libc}")
    yield _disk(remote, found, least_free)


def _disk(remote: Remote, found: Probe, least_free: int) -> Finding:
    """Check the free space where nodes will write: the data directories, or the home directory."""
    free = {found.home: found.free_bytes}
    if remote.spec.data_dirs:
        script = "import json, shutil, sys; print(json.dumps({p: shutil.disk_usage(p).free for p in sys.argv[1:]}))"
        answer = remote.run([found.executable, "-c", script, *remote.spec.data_dirs])
        if not answer.ok:
            last = (answer.stderr.strip().splitlines() or ["no reason given"])[-1]
            return Finding("disk", False, last, "make the directory, or mend `data_dirs`")
        free = json.loads(answer.stdout)
    where = min(free, key=lambda path: free[path])
    said = f"{free[where] / 2**30:.1f} GiB free in {where}"
    if free[where] < least_free:
        return Finding("disk", False, said, f"at least {least_free / 2**30:.1f} GiB are needed; set `data_dirs`")
    return Finding("disk", True, said)


def _root_findings(remote: Remote) -> Iterable[Finding]:
    """Check for root, by login or by sudo, and for a firewall that can cut networks.

    Skipped in a reduced lab: its agents refuse what would need them.
    """
    if remote.spec.reduced:
        yield from (Finding(what, True, "none: reduced") for what in ("root", "firewall"))
        return
    remote.run(["true"], sudo=True, check=True)
    yield Finding("root", True, "login" if remote.spec.user == "root" else "sudo")
    answer = remote.run(WORKING_FIREWALL, sudo=True)
    found = answer.stdout.strip()
    if found:
        yield Finding("firewall", True, found)
    else:
        last = (answer.stderr.strip().splitlines() or ["neither nft nor iptables works"])[-1]
        yield Finding("firewall", False, last, "install it there: sudo apt-get install nftables")


def _links(remote: Remote) -> Finding:
    """Find out by trying how links can be made slow or narrow. A host may lack it: few runs need it."""
    if remote.spec.reduced:
        return Finding("links", True, "as they are: reduced")
    trial = _program("link.nfqueue", "net.empty_tables", "core.socket_room")
    answer = remote.run([remote.spec.python, "-"], stdin=trial, sudo=remote.spec.sudo)
    if not answer.ok:
        last = (answer.stderr.strip().splitlines() or ["no reason given"])[-1]
        return Finding("links", True, f"not tried: {last}")
    driver, cannot = json.loads(answer.stdout)
    return Finding("links", True, f"NFQUEUE by {driver}" if driver else f"as they are: {cannot}")


def _program(main: str, *imported: str) -> bytes:
    """Return a module of the agent, with its imports, as one program for a host that has no agent yet."""
    directory = Path(agent.__file__).parent
    lines = ["import sys, types"]
    for module in imported:
        source = directory.joinpath(*module.split(".")).with_suffix(".py").read_text(encoding="utf-8")
        name = f"{agent.__name__}.{module}"
        lines.append(f"sys.modules[{name!r}] = types.ModuleType({name!r})")
        lines.append(f"exec({source!r}, vars(sys.modules[{name!r}]))")
    program = directory.joinpath(*main.split(".")).with_suffix(".py").read_text(encoding="utf-8")
    lines.append(f"exec(compile({program!r}, {main!r}, 'exec'), {{'__name__': '__main__'}})")
    return "\n".join(lines).encode()


def disk_calls_finding(remote: Remote) -> Finding:
    """Find out by trying whether a node's disk calls can be watched, so that they can be made to fail."""
    trial = _program("disk.seccomp")
    answer = remote.run([remote.spec.python, "-"], stdin=trial, sudo=remote.spec.sudo)
    if answer.ok:
        return Finding("disk calls", True, "can be watched")
    said = (answer.stdout.strip() or answer.stderr.strip()).splitlines() or ["no reason given"]
    return Finding("disk calls", False, said[-1], "leave faults about disk calls out, or use a newer kernel")


def _ports(remote: Remote) -> Finding:
    wanted = [("brokers", BROKER_PORT), ("controllers", CONTROLLER_PORT)]
    ports = [str(port) for group, port in wanted if group in remote.spec.groups]
    ports += [str(METRICS_PORT)] if ports else []
    address = remote.spec.address if remote.spec.reduced else ""  # every other host has its ports to itself
    answer = remote.run([remote.spec.python, "-c", BUSY_PORTS, address, *ports], check=True)
    busy = json.loads(answer.stdout)
    if busy:
        said = f"port {', '.join(map(str, busy))} in use"
        return Finding("ports", False, said, "end what listens there (`ss -ltnp` names it)")
    return Finding("ports", True, f"{', '.join(ports)} free" if ports else "none needed")


def check_java(
    *, which: Callable[[str], str | None] = shutil.which, run: Callable[..., object] = subprocess.run
) -> Finding:
    """Check for Java on the control node: the checker runs on Spark, which needs it."""
    home = os.environ.get("JAVA_HOME")
    java = which(f"{home}/bin/java") if home else which("java")
    remedy = f"install a Java {OLDEST_JAVA} runtime: sudo apt-get install openjdk-17-jre-headless"
    if java is None:
        where = f"JAVA_HOME={home} has none" if home else "not found"
        return Finding("java", False, where, remedy)
    try:
        done = run([java, "-version"], capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError) as trouble:
        return Finding("java", False, f"{java} does not run: {trouble}", remedy)
    said = str(getattr(done, "stderr", "")) + str(getattr(done, "stdout", ""))
    match = re.search(r'version "(?:1\.)?(\d+)', said)
    if match is None or int(match.group(1)) < OLDEST_JAVA:
        version = match.group(1) if match else "unknown"
        return Finding("java", False, f"{java} is version {version}", remedy)
    return Finding("java", True, f"{match.group(1)} ({java})")


def _as_error(who: str, finding: Finding) -> UsageError | None:
    if finding.ok:
        return None
    return UsageError(f"{who}: {finding.what}: {finding.said}", remedy=finding.remedy)
