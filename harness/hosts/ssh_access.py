"""Connect to a host's SSH port and verify its key: errors, sockets, keys, known_hosts.

The basis of `ssh.py`. All trouble with a host is an `SshError`, which names the host, what happened and what to do
about it. `trust` is the only way a host key gets into a known_hosts file, and it only runs on a person's command.
"""

from __future__ import annotations

import contextlib
import errno
import socket

import paramiko
from paramiko.hostkeys import HostKeyEntry, HostKeys

from squall.harness.errors import UsageError
from squall.harness.hosts.network import MachineNetwork, Network
from squall.harness.scenario.inventory import HostSpec

CONNECT_SECONDS = 10.0
USER_TIMEOUT_MS = 5000


class SshError(UsageError):
    """A failure between the control process and one host; `host` is its name."""

    def __init__(self, spec: HostSpec, problem: str, *, remedy: str | None = None) -> None:
        super().__init__(f"{spec.described()}: {problem}", remedy=remedy)
        self.host = spec.name


class Unreachable(SshError):
    """No connection was established. A later attempt may succeed."""


class HostKeyUnknown(SshError):
    """No person has confirmed this host's key yet."""


class HostKeyChanged(SshError):
    """The host shows another key than the trusted one."""


class NotLetIn(SshError):
    """The host refused the user or the key."""


class SudoRefused(SshError):
    """The user may not become root without a password."""


class ConnectionLost(SshError):
    """The connection ended under a command whose outcome is therefore unknown."""


class CommandTimedOut(SshError):
    """The command was ended by the host after its time was up."""


class CommandFailed(SshError):
    """A command that has to succeed did not."""


def resolve(spec: HostSpec) -> str:
    try:
        found = socket.getaddrinfo(spec.address, spec.port, socket.AF_INET, socket.SOCK_STREAM)
    except OSError as trouble:
        raise Unreachable(
            spec,
            f"its name has no IPv4 address ({reason_of(trouble)})",
            remedy="set ansible_host to its address",
        ) from None
    return str(found[0][4][0])


def open_socket(spec: HostSpec, network: Network, timeout: float = CONNECT_SECONDS) -> socket.socket:
    """Return a connected socket that sends at once and notices a vanished peer. Raises Unreachable."""
    address = resolve(spec)
    made = network.socket()
    try:
        made.settimeout(timeout)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, USER_TIMEOUT_MS)
        made.connect((address, spec.port))
    except OSError as trouble:
        made.close()
        raise _no_connection(spec, trouble, timeout) from None
    return made


def _no_connection(spec: HostSpec, trouble: OSError, timeout: float) -> Unreachable:
    if isinstance(trouble, ConnectionRefusedError):
        return Unreachable(
            spec, f"connection refused on port {spec.port}", remedy="start sshd there, or set ansible_port"
        )
    if isinstance(trouble, TimeoutError):
        problem = f"no answer on port {spec.port} within {timeout:g} s"
    elif trouble.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH):
        problem = f"there is no way to it ({reason_of(trouble)})"
    else:
        problem = f"no connection to port {spec.port} ({reason_of(trouble)})"
    return Unreachable(spec, problem, remedy="is the machine on, and ansible_host its address?")


def load_key(spec: HostSpec) -> paramiko.PKey:
    """Return the host's private key. Raises NotLetIn if the file holds none that can be used."""
    assert spec.key_file is not None
    try:
        return paramiko.PKey.from_path(spec.key_file)
    except (paramiko.PasswordRequiredException, TypeError):
        problem, remedy = "is protected by a passphrase", "ssh-add it, and leave ansible_ssh_private_key_file out"
    except OSError as trouble:
        problem, remedy = f"cannot be read ({reason_of(trouble)})", "mend ansible_ssh_private_key_file"
    except (paramiko.SSHException, ValueError):
        problem, remedy = "is not a private key", "mend ansible_ssh_private_key_file"
    raise NotLetIn(spec, f"key {spec.key_file} {problem}", remedy=remedy)


def trust(spec: HostSpec, network: Network | None = None) -> str:
    """Fetch the host's key and store it in its known_hosts file in place of any other. Return the key's fingerprint."""
    connected = open_socket(spec, network or MachineNetwork())
    transport = paramiko.Transport(connected)
    try:
        transport.start_client(timeout=CONNECT_SECONDS)
        key = transport.get_remote_server_key()
    except (paramiko.SSHException, OSError, EOFError) as trouble:
        raise Unreachable(spec, f"no SSH session on port {spec.port}: {reason_of(trouble)}") from None
    finally:
        transport.close()
        connected.close()
    _store_key(spec, key)
    return key.fingerprint


def _store_key(spec: HostSpec, key: paramiko.PKey) -> None:
    path = spec.known_hosts.expanduser()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lines = path.read_text().splitlines() if path.exists() else []
    name = spec.address if spec.port == 22 else f"[{spec.address}]:{spec.port}"
    kept = [line for line in lines if not _is_about(line, name)]
    temporary = path.with_name(path.name + ".new")
    temporary.write_text("\n".join([*kept, f"{name} {key.get_name()} {key.get_base64()}"]) + "\n")
    temporary.replace(path)


def _is_about(line: str, name: str) -> bool:
    with contextlib.suppress(Exception):  # a line that paramiko cannot read is not one of this module's
        entry = HostKeyEntry.from_line(line)
        if entry is not None and entry.hostnames is not None:
            keys = HostKeys()
            keys._entries.append(entry)  # type: ignore[attr-defined]  # the only way to match hashed names
            return keys.lookup(name) is not None
    return False


class RefuseUnknown(paramiko.MissingHostKeyPolicy):
    """Refuses a host whose key is not trusted yet, naming the command that would trust it."""

    def __init__(self, spec: HostSpec) -> None:
        self._spec = spec

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:
        raise HostKeyUnknown(
            self._spec,
            f"its host key ({key.fingerprint}) is not in {self._spec.known_hosts}",
            remedy=f"If you trust it: {self._spec.command('squall', 'inventory', 'trust')}",
        )


def reason_of(trouble: BaseException) -> str:
    if isinstance(trouble, OSError) and trouble.strerror:
        return trouble.strerror
    return str(trouble) or type(trouble).__name__
