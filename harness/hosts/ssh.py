"""Run commands on one host over SSH (`Remote`), with a deadline on everything.

    with Remote(spec, network) as host:
        result = host.run(["uname", "-m"])          # Result(exit_status, stdout, stderr)
        host.put(Path("bundle.tar"), "/tmp/bundle.tar")
        session = host.open_channel(["python3", "-u", "agent.py"])     # lines in, lines out

fabric's `Connection` does authentication, on sockets made here; commands run on plain channels, because fabric's `run`
polls and has no deadline for opening a session (paramiko's own default is an hour). What matters:

* TCP_NODELAY: without it Nagle and delayed ACKs make every command cost 48 ms instead of 3.
* TCP_USER_TIMEOUT and TCP keepalive: a peer that vanished is noticed after five seconds. Paramiko's own
  keepalive never notices.
* The end of a stream without an exit status is not a result. It is `ConnectionLost`: whether the command ran is
  unknown, and only idempotent commands may be retried.
* Commands run under the host's own `timeout`, so that a command abandoned here does not continue there.
* Host keys are checked against a known_hosts file, always. `trust` stores a key, on a person's command.

All errors are an `SshError` (`ssh_access.py`), a UsageError that names the host, what happened and what to do.
"""

from __future__ import annotations

import contextlib
import io
import logging
import select
import shlex
import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeVar

import fabric
import paramiko

from squall.harness.errors import UsageError
from squall.harness.hosts.network import MachineNetwork, Network
from squall.harness.hosts.ssh_access import (
    CONNECT_SECONDS,
    CommandFailed,
    CommandTimedOut,
    ConnectionLost,
    HostKeyChanged,
    HostKeyUnknown,
    NotLetIn,
    RefuseUnknown,
    SshError,
    SudoRefused,
    Unreachable,
    load_key,
    open_socket,
    reason_of,
    resolve,
    trust,
)
from squall.harness.scenario.inventory import HostSpec

__all__ = [
    "CommandFailed",
    "CommandTimedOut",
    "ConnectionLost",
    "HostKeyChanged",
    "HostKeyUnknown",
    "LineChannel",
    "NotLetIn",
    "Remote",
    "Result",
    "SshError",
    "SudoRefused",
    "Unreachable",
    "on_all",
    "trust",
]

COMMAND_SECONDS = 30.0
CHUNK = 1 << 16
TIMED_OUT_STATUS = 124
MOST_AT_ONCE = 32

Answer = TypeVar("Answer")

# Exceptions report all failures; paramiko's own log lines on stderr would repeat them without the host's name.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


@dataclass(frozen=True)
class Result:
    """How a command ended."""

    exit_status: int
    stdout: str
    stderr: str

    @property
    def ok(self) -> bool:
        return self.exit_status == 0


class Remote:
    """One host. Connects when first used, or by `connect`; after a loss the next use connects again."""

    def __init__(self, spec: HostSpec, network: Network | None = None) -> None:
        self.spec = spec
        self.network: Network = network if network is not None else MachineNetwork()
        self._connection: fabric.Connection | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Remote:
        self.connect()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def name(self) -> str:
        return self.spec.name

    def address(self) -> str:
        """The host's plain IPv4 address. Raises Unreachable if its name has none."""
        return resolve(self.spec)

    def connect(self, timeout: float = CONNECT_SECONDS) -> None:
        """Open the connection unless it is open. Raises SshError."""
        with self._lock:
            self._transport(timeout)

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.client.close()
                self._connection = None

    # --- Commands ---------------------------------------------------------------------------------------------

    def run(
        self,
        command: str | Sequence[str],
        *,
        timeout: float = COMMAND_SECONDS,
        sudo: bool = False,
        stdin: bytes | IO[bytes] | None = None,
        stdout: IO[bytes] | None = None,
        check: bool = False,
    ) -> Result:
        """Run an argv, or a line of shell, to its end and return how it ended.

        `stdout`, if given, receives the output instead of the result. With `check` a status other than 0 raises
        CommandFailed. Also raises CommandTimedOut, ConnectionLost, SudoRefused and the errors of `connect`.
        """
        line = self._command_line(command, timeout, sudo)
        deadline = time.monotonic() + timeout + 5.0
        channel = self._open_session()
        try:
            result = self._exchange(channel, line, stdin, stdout, deadline)
        except (EOFError, OSError, paramiko.SSHException) as trouble:
            raise self._lost(command, trouble) from None
        finally:
            channel.close()
        self._judge(command, result, timeout, sudo, check)
        return result

    def put(self, source: Path | bytes, target: str, *, mode: int = 0o644, sudo: bool = False) -> None:
        """Write a file on the host, atomically."""
        quoted, temporary = shlex.quote(target), shlex.quote(target + ".new")
        line = f"cat >{temporary} && chmod {mode:o} {temporary} && mv -f {temporary} {quoted}"
        with io.BytesIO(source) if isinstance(source, bytes) else source.open("rb") as content:
            self.run(line, stdin=content, timeout=300, sudo=sudo, check=True)

    def get(self, source: str, target: Path, *, sudo: bool = False) -> None:
        """Read a file of the host into `target`, atomically."""
        temporary = target.with_name(target.name + ".new")
        with temporary.open("wb") as content:
            self.run(["cat", "--", source], stdout=content, timeout=300, sudo=sudo, check=True)
        temporary.rename(target)

    def open_channel(self, command: str | Sequence[str], *, sudo: bool = False) -> LineChannel:
        """Start a program and exchange lines with it for as long as it lives.

        The program replaces the login shell by `exec`, which not every shell does on its own. So it leads its process
        group, and a signal to that group reaches it.
        """
        channel = self._open_session()
        channel.exec_command(f"exec {self._command_line(command, None, sudo)}")
        return LineChannel(self.spec, channel)

    # --- The connection ---------------------------------------------------------------------------------------

    def _open_session(self) -> paramiko.Channel:
        with self._lock:
            transport = self._transport(CONNECT_SECONDS)
            try:
                return transport.open_session(timeout=CONNECT_SECONDS)
            except (EOFError, OSError, paramiko.SSHException):
                transport.close()  # the connection died unnoticed; one new attempt shows whether the host did
            try:
                return self._transport(CONNECT_SECONDS).open_session(timeout=CONNECT_SECONDS)
            except (EOFError, OSError, paramiko.SSHException) as trouble:
                raise Unreachable(self.spec, f"no session could be opened: {reason_of(trouble)}") from None

    def _transport(self, timeout: float) -> paramiko.Transport:
        if self._connection is not None:
            transport = self._connection.client.get_transport()
            if transport is not None and transport.is_active():
                return transport
            self._connection.client.close()
            self._connection = None
        connection = self._authenticated(open_socket(self.spec, self.network, timeout), timeout)
        self._connection = connection
        transport = connection.client.get_transport()
        assert transport is not None
        return transport

    def _authenticated(self, connected: socket.socket, timeout: float) -> fabric.Connection:
        connection = fabric.Connection(
            self.spec.address,
            user=self.spec.user,
            port=self.spec.port,
            config=fabric.Config(overrides={"load_ssh_configs": False}, lazy=True),
            connect_kwargs={
                **self._credentials(),
                "sock": connected,
                "timeout": timeout,
                "banner_timeout": timeout,
                "auth_timeout": timeout,
            },
        )
        connection.client.set_missing_host_key_policy(RefuseUnknown(self.spec))
        with contextlib.suppress(FileNotFoundError):
            connection.client.load_host_keys(str(self.spec.known_hosts.expanduser()))
        try:
            connection.open()
        except BaseException as trouble:
            connection.client.close()
            connected.close()
            raise self._explained(trouble) from None
        return connection

    def _credentials(self) -> dict[str, object]:
        if self.spec.key_file is None:
            return {"allow_agent": True, "look_for_keys": True}
        return {"pkey": load_key(self.spec), "allow_agent": False, "look_for_keys": False}

    def _explained(self, trouble: BaseException) -> BaseException:
        """Convert an exception of `connection.open` to an error with a remedy."""
        spec = self.spec
        if isinstance(trouble, paramiko.BadHostKeyException):
            return HostKeyChanged(
                spec,
                f"host key differs from the one in {spec.known_hosts.name}. Someone may be listening in, or the "
                "host was reinstalled.",
                remedy=f"If you trust it: {spec.command('squall', 'inventory', 'trust')}",
            )
        if isinstance(trouble, paramiko.AuthenticationException):
            with_key = f"with key {spec.key_file}" if spec.key_file else "with any key of ~/.ssh or the agent"
            return NotLetIn(
                spec,
                f"user {spec.user} was not let in {with_key}",
                remedy=f"add the public key to ~{spec.user}/.ssh/authorized_keys there, or mend ansible_user "
                "and ansible_ssh_private_key_file",
            )
        if isinstance(trouble, (paramiko.SSHException, OSError, EOFError)):
            if "No authentication methods" in str(trouble):
                return NotLetIn(spec, "there is no key to offer", remedy="set ansible_ssh_private_key_file")
            return Unreachable(spec, f"no SSH session on port {spec.port}: {reason_of(trouble)}")
        return trouble

    # --- One command ------------------------------------------------------------------------------------------

    def _command_line(self, command: str | Sequence[str], timeout: float | None, sudo: bool) -> str:
        argv = ["sh", "-c", command] if isinstance(command, str) else list(command)
        if timeout is not None:
            argv = ["timeout", "-k", "2", f"{timeout:g}", *argv]
        if sudo and self.spec.user != "root":
            if not self.spec.sudo:
                raise SudoRefused(
                    self.spec,
                    f"root is needed, but user {self.spec.user} has ansible_become: false",
                    remedy="remove ansible_become, or log in as root",
                )
            argv = ["sudo", "-n", "--", *argv]
        return shlex.join(argv)

    def _exchange(
        self,
        channel: paramiko.Channel,
        line: str,
        stdin: bytes | IO[bytes] | None,
        stdout: IO[bytes] | None,
        deadline: float,
    ) -> Result:
        channel.settimeout(max(deadline - time.monotonic(), 0.1))
        channel.exec_command(line)
        out = stdout if stdout is not None else io.BytesIO()
        err = io.BytesIO()
        _feed(channel, stdin)
        _drain(channel, out, err, deadline)
        if not channel.status_event.wait(max(deadline - time.monotonic(), 0)) or channel.exit_status < 0:
            raise EOFError("no exit status came")
        text = out.getvalue().decode(errors="replace") if isinstance(out, io.BytesIO) else ""
        return Result(channel.exit_status, text, err.getvalue().decode(errors="replace"))

    def _judge(self, command: str | Sequence[str], result: Result, timeout: float, sudo: bool, check: bool) -> None:
        if sudo and not result.ok:
            self._refuse_if_no_sudo(result.stderr)
        if result.exit_status == TIMED_OUT_STATUS:
            raise CommandTimedOut(self.spec, f"{_shown(command)} was ended after {timeout:g} s")
        if check and not result.ok:
            last = (result.stderr or result.stdout).strip().splitlines()[-3:]
            said = ": " + " / ".join(last) if last else ""
            raise CommandFailed(self.spec, f"{_shown(command)} ended with status {result.exit_status}{said}")

    def _refuse_if_no_sudo(self, stderr: str) -> None:
        who = f"user {self.spec.user}"
        if "password is required" in stderr or "a terminal is required" in stderr:
            problem = f"sudo asks {who} for a password"
        elif "must have a tty" in stderr:
            problem = f"sudo insists on a terminal for {who} (`requiretty` in its sudoers file)"
        elif "not in the sudoers file" in stderr or "may not run" in stderr:
            problem = f"{who} may not use sudo"
        elif "sudo: not found" in stderr or "sudo: command not found" in stderr:
            problem = "there is no sudo"
        else:
            return
        raise SudoRefused(
            self.spec,
            problem,
            remedy=f"give the user sudo without a password ({self.spec.user} ALL=(ALL) NOPASSWD: ALL), or log in "
            "as root",
        )

    def _lost(self, command: str | Sequence[str], trouble: BaseException) -> ConnectionLost:
        return ConnectionLost(
            self.spec,
            f"the connection was lost during {_shown(command)}; whether it ran is unknown ({reason_of(trouble)})",
        )


class LineChannel:
    """A running program whose standard input and output carry lines. One reader and one writer at a time."""

    def __init__(self, spec: HostSpec, channel: paramiko.Channel) -> None:
        self._spec = spec
        self._channel = channel
        self._buffer = bytearray()

    def send_line(self, line: bytes, timeout: float = COMMAND_SECONDS) -> None:
        """Send one line. Raises ConnectionLost."""
        try:
            self._channel.settimeout(timeout)
            self._channel.sendall(line + b"\n")
        except (OSError, EOFError) as trouble:
            raise ConnectionLost(self._spec, f"the session's input is closed ({reason_of(trouble)})") from None

    def receive_line(self, timeout: float | None = COMMAND_SECONDS) -> bytes:
        """Return the next line, without its end. Raises TimeoutError, and ConnectionLost when no more can come."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            line, end, rest = self._buffer.partition(b"\n")
            if end:
                self._buffer = rest
                return bytes(line)
            self._channel.settimeout(None if deadline is None else max(deadline - time.monotonic(), 0.001))
            try:
                data = self._channel.recv(CHUNK)
            except TimeoutError:
                raise TimeoutError(f"{self._spec.name} sent no line within {timeout:g} s") from None
            if not data:
                raise ConnectionLost(self._spec, f"the session ended{self._last_words()}")
            self._buffer += data

    def end_input(self) -> None:
        """Close the program's standard input; it may continue to write."""
        with contextlib.suppress(OSError, EOFError):
            self._channel.shutdown_write()

    def close(self) -> None:
        self._channel.close()

    def lost(self, reason: str) -> ConnectionLost:
        """Return the error for a session abandoned for another reason than its end."""
        return ConnectionLost(self._spec, reason)

    def _last_words(self) -> str:
        """Return the last line that the program left on standard error, if it has arrived."""
        if not self._channel.recv_stderr_ready():
            return ""
        words = self._channel.recv_stderr(CHUNK).decode(errors="replace").strip().splitlines()
        return f": {words[-1]}" if words else ""


# --- Several hosts at once ------------------------------------------------------------------------------------


def on_all(remotes: Iterable[Remote], work: Callable[[Remote], Answer]) -> dict[str, Answer]:
    """Do `work` on all hosts in parallel. Return the results by host name. All hosts' errors come as one UsageError."""
    listed = list(remotes)
    if not listed:
        return {}
    with ThreadPoolExecutor(min(len(listed), MOST_AT_ONCE), thread_name_prefix="hosts") as pool:
        futures = {remote.name: pool.submit(work, remote) for remote in listed}
    wrong = [trouble for future in futures.values() if (trouble := future.exception()) is not None]
    for trouble in wrong:
        if not isinstance(trouble, UsageError):
            raise trouble
    if wrong:
        raise UsageError.joined([trouble for trouble in wrong if isinstance(trouble, UsageError)])
    return {name: future.result() for name, future in futures.items()}


# --- Details --------------------------------------------------------------------------------------------------


def _feed(channel: paramiko.Channel, stdin: bytes | IO[bytes] | None) -> None:
    if isinstance(stdin, bytes):
        channel.sendall(stdin)
    elif stdin is not None:
        while chunk := stdin.read(CHUNK):
            channel.sendall(chunk)
    channel.shutdown_write()


def _drain(channel: paramiko.Channel, out: IO[bytes], err: IO[bytes], deadline: float) -> None:
    """Read both outputs as they come, so that neither can fill up and stall the command."""
    poll = select.poll()
    poll.register(channel.fileno(), select.POLLIN)
    while True:
        took = False
        if channel.recv_ready():
            out.write(channel.recv(CHUNK))
            took = True
        if channel.recv_stderr_ready():
            err.write(channel.recv_stderr(CHUNK))
            took = True
        if took:
            continue
        if channel.eof_received or channel.closed:
            if not channel.recv_ready() and not channel.recv_stderr_ready():
                return
            continue
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError("no answer in time")
        poll.poll(remaining * 1000)


def _shown(command: str | Sequence[str]) -> str:
    text = command if isinstance(command, str) else shlex.join(command)
    return f"`{text if len(text) <= 70 else text[:69] + '…'}`"
