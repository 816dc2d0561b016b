"""Client hosts as the sampler of hosts sees them: they answer `probe.samples` by a program of their own.

The program (`sampling.py`) is part of the bundle that makes a client host ready, and runs beside the load workers for
as long as it is asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final

from squall.harness.hosts.client_bundle import ClientHost
from squall.harness.hosts.ssh import LineChannel
from squall.harness.hosts.ssh_access import SshError
from squall.harness.load.remote_load import RemoteWorker
from squall.harness.load.sampling import SHARED, WITHOUT_NETWORK
from squall.nemesis.core.ports import HostUnreachable, VerbFailed

ANSWER_SECONDS: Final = 4.0
"""Less than the sampler waits, so that two exchanges never overlap."""


class ClientSamples:
    """One client host. Implements `Host` for the one verb."""

    def __init__(self, host: ClientHost, pid_files: Sequence[str], *, shared: bool) -> None:
        self._host = host
        self._pid_files = pid_files
        self._shared = shared
        self._channel: LineChannel | None = None

    @property
    def name(self) -> str:
        return self._host.name

    @property
    def address(self) -> str:
        return self._host.remote.spec.address

    async def call(self, verb: str, **arguments: object) -> dict[str, object]:
        """Return a sample. Raises VerbFailed for another verb, and HostUnreachable."""
        if verb != "probe.samples":
            raise VerbFailed(self.name, verb, "unknown_verb", "client hosts are only sampled")
        return await asyncio.to_thread(self._exchange)

    def close(self) -> None:
        """End the program."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _exchange(self) -> dict[str, object]:
        try:
            channel = self._channel or self._host.remote.open_channel(self._command())
            self._channel = channel
            channel.send_line(b"", ANSWER_SECONDS / 2)
            found = json.loads(channel.receive_line(ANSWER_SECONDS / 2))
        except (SshError, OSError, ValueError) as trouble:
            self.close()
            raise HostUnreachable(self.name, str(trouble).splitlines()[0]) from None
        if not isinstance(found, dict):
            raise HostUnreachable(self.name, "its sample is not an object")
        return found

    def _command(self) -> list[str]:
        place = self._host.deployed.place
        flags = [SHARED] * self._shared + [WITHOUT_NETWORK] * bool(self._host.remote.spec.reduced)
        program = [place.python, "-m", "squall.harness.load.sampling", *flags, *self._pid_files]
        return ["env", f"PYTHONPATH={place.library}", *program]


def client_samples(
    workers: Sequence[RemoteWorker], nodes: Mapping[str, object], *, shared: bool
) -> dict[str, ClientSamples]:
    """Return the hosts of load workers by name, without those that are sampled as hosts of nodes."""
    files: dict[str, list[str]] = {}
    for one in workers:
        files.setdefault(one.host.name, []).append(str(PurePosixPath(one.directory) / "worker.pid"))
    hosts = {one.host.name: one.host for one in workers}
    return {name: ClientSamples(host, files[name], shared=shared) for name, host in hosts.items() if name not in nodes}


def close_all(samples: Mapping[str, ClientSamples]) -> None:
    for one in samples.values():
        with contextlib.suppress(OSError):
            one.close()
