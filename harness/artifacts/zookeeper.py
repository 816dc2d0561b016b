"""How a ZooKeeper server is started: its configuration file and its command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from squall.harness.artifacts.java import command

MAIN_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
VERSION = "zookeeper-3.9.3"
"""The list of jars that a server needs."""
QUICK = {"tickTime": "200", "initLimit": "25", "syncLimit": "10", "minSessionTimeout": "400"}
"""Settings that make faults show soon, for one machine."""
AS_SHIPPED = {"tickTime": "2000", "initLimit": "10", "syncLimit": "5"}


@dataclass(frozen=True)
class Server:
    """One server of an ensemble and where it listens."""

    number: int
    host: str
    client_port: int
    peer_port: int
    election_port: int

    @property
    def address(self) -> tuple[str, int]:
        return self.host, self.client_port


def configuration(server: Server, ensemble: Sequence[Server], data: str, settings: Mapping[str, str]) -> str:
    """Return the content of `zoo.cfg`; beside it, `data`/myid must hold the number of the server."""
    lines = {
        "dataDir": data,
        "clientPort": str(server.client_port),
        "clientPortAddress": server.host,
        "maxClientCnxns": "0",
        "maxSessionTimeout": "60000",
        "admin.enableServer": "false",
        "4lw.commands.whitelist": "ruok,srvr,mntr",
    }
    lines |= settings
    if len(ensemble) > 1:
        lines |= {f"server.{one.number}": f"{one.host}:{one.peer_port}:{one.election_port}" for one in ensemble}
    return "".join(f"{key}={value}\n" for key, value in lines.items())


def start_command(config: str, jars: Sequence[Path], *, heap_mb: int = 256, request_max: int = 0) -> list[str]:
    """Return the command line of a server. `request_max` is `jute.maxbuffer`, 0 for ZooKeeper's default of 1 MB."""
    return command(MAIN_CLASS, jars, [config], options=java_options(heap_mb=heap_mb, request_max=request_max))


def java_options(*, heap_mb: int = 256, request_max: int = 0) -> list[str]:
    """Return the options of the virtual machine of a server."""
    options = [f"-Xmx{heap_mb}m", "-XX:+UseSerialGC" if heap_mb <= 1024 else "-XX:+UseParallelGC"]
    options += ["-XX:TieredStopAtLevel=1"] if heap_mb <= 1024 else []
    options += [f"-Djute.maxbuffer={request_max}"] if request_max else []
    options += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true"]
    return options
