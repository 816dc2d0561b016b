"""`python -m squall.nodes --config node.properties`: run one node as a process.

Order of start: configuration, data directory (locked, so that no second process writes into it), listening sockets
bound, logs loaded, and only then connections accepted (BL-01).

SIGTERM and SIGINT stop it cleanly. A broker first hands over its leaderships and serves meanwhile, for at most
`controlled.shutdown.timeout.ms` (CS-01 to CS-06); a second signal ends the handover, and the node stops cleanly at
once.

Exit codes: 0 after a clean stop. 254 for an unusable configuration or host; one line on stderr states the file, key or
listener, and the remedy. 255 for a fault of the node, with a traceback, or of its disk, with one line: there is one log
directory, and a node whose last one fails must halt before it reports anything based on a failed write.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TextIO

from squall.nodes.config import Address, ConfigError, Endpoint, NodeConfig
from squall.nodes.mutants import MUTANTS, Mutants
from squall.nodes.node.base import BaseNode
from squall.nodes.node.metrics.collector import Collector
from squall.nodes.node.node import Node, NodeError
from squall.nodes.node.zookeeper_node import ZooKeeperNode
from squall.nodes.ports import Disk, NullTrace, Trace
from squall.nodes.server.clock import SystemWallClock, monotonic_us, seeded_rng
from squall.nodes.server.connection_limits import (
    ConnectionLimits,
    most_connections,
    most_open_files,
    raise_descriptor_limit,
)
from squall.nodes.server.disk import RealDisk
from squall.nodes.server.log import say
from squall.nodes.server.memory import FreezeReplayed, tune_memory
from squall.nodes.server.metrics_endpoint import MetricsEndpoint, busy_us
from squall.nodes.server.shell import Shell
from squall.nodes.server.trace import ControlTrace, FileTrace
from squall.nodes.server.zookeeper.session import WireSession
from squall.nodes.storage.errors import DiskFailure

EXIT_OK = 0
EXIT_USAGE = 254
EXIT_CRASH = 255


class CannotStart(Exception):
    """The host does not provide what the configuration requires."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        config = _read_config(Path(options.config))
        mutants = Mutants(frozenset(options.mutant))
        lock = _lock_directory(config)
        sockets = bind_listeners(config)
        metrics_socket = bind_metrics(config)
        trace = _open_trace(options, config.node_id)
    except (ConfigError, CannotStart, ValueError, OSError) as error:
        print(f"squall-node: {error}", file=sys.stderr)
        return EXIT_USAGE
    try:
        ledger = Path(options.ledger) if options.ledger else None
        asyncio.run(_serve(config, mutants, sockets, metrics_socket, trace, ledger))
    except NodeError as error:
        print(f"squall-node: {error}", file=sys.stderr)
        return EXIT_USAGE
    except DiskFailure as failure:
        say(
            f"node {config.node_id} halts, its log directory failed: {config.log_dirs}/{failure}; "
            "free space on the disk or replace it, then start the node again"
        )
        return EXIT_CRASH
    except BaseException:
        say(f"node {config.node_id} stops because of an internal error:\n{traceback.format_exc()}")
        return EXIT_CRASH
    finally:
        if isinstance(trace, FileTrace):
            trace.close()
        lock.close()
    return EXIT_OK


class _Parser(argparse.ArgumentParser):
    """Exits with the node's exit code for bad usage instead of argparse's."""

    def error(self, message: str):  # type: ignore[no-untyped-def]
        self.print_usage(sys.stderr)
        self.exit(EXIT_USAGE, f"{self.prog}: {message}\n")


def _parser() -> argparse.ArgumentParser:
    mutants = "\n".join(f"  {name:<24} {about}" for name, about in sorted(MUTANTS.items()))
    parser = _Parser(
        prog="squall-node",
        description="A Kafka-compatible broker, controller, or both.",
        epilog=f"keys of the configuration file:\n{NodeConfig.describe()}\n\nmutants (seeded bugs):\n{mutants}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--config", required=True, metavar="FILE", help="node.properties, with Kafka's names")
    parser.add_argument("--mutant", action="append", default=[], metavar="NAME", help="switch a seeded bug on")
    traces = parser.add_mutually_exclusive_group()
    traces.add_argument("--trace", metavar="FILE", help="append a trace of protocol actions, as JSON lines")
    traces.add_argument(
        "--control-trace", metavar="FILE", help="the same of control events only: elections, ISR changes, commits"
    )
    parser.add_argument(
        "--ledger", metavar="FILE", help="write down what is fsynced, so that a power loss can be played"
    )
    return parser


def _open_trace(options: argparse.Namespace, node: int) -> Trace:
    if options.trace:
        return FileTrace(Path(options.trace), node)
    return ControlTrace(Path(options.control_trace), node) if options.control_trace else NullTrace()


def _read_config(path: Path) -> NodeConfig:
    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8"
        raise CannotStart(f"{path}: cannot be read: {reason}; name an existing file with --config") from None
    return NodeConfig.parse(content, str(path))


def _lock_directory(config: NodeConfig) -> TextIO:
    """Keep any other process out of the directory as long as this one runs."""
    directory = Path(config.log_dirs)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = (directory / ".lock").open("w")
    except OSError as error:
        raise CannotStart(f"log.dirs={directory}: {error.strerror}; name a directory that can be written") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise CannotStart(f"log.dirs={directory}: in use by another process; stop it or use another one") from None
    return lock


def bind_listeners(config: NodeConfig) -> list[tuple[Endpoint, socket.socket]]:
    """Bind a socket for each listener, not yet accepting. Raises CannotStart, which names the listener."""
    bound: list[tuple[Endpoint, socket.socket]] = []
    for endpoint in config.listeners:
        try:
            bound.append((endpoint, _bind(endpoint)))
        except OSError as error:
            for _, other in bound:
                other.close()
            raise CannotStart(
                f"listeners: cannot listen on {endpoint}: {_reason(error)}; free the port or change the entry"
            ) from None
    return bound


def bind_metrics(config: NodeConfig) -> socket.socket | None:
    """Bind the socket of the metrics; None if they are not served. Raises CannotStart."""
    address = config.metrics_listener
    if address is None:
        return None
    try:
        return _bind(address)
    except OSError as error:
        raise CannotStart(
            f"metrics.listener={address}: cannot listen: {_reason(error)}; free the port or change the entry"
        ) from None


def _reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)


def _bind(endpoint: Endpoint | Address) -> socket.socket:
    host = endpoint.host or "0.0.0.0"
    family, kind, protocol, _, address = socket.getaddrinfo(host, endpoint.port, type=socket.SOCK_STREAM)[0]
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError:
        bound.close()
        raise
    return bound


async def _serve(
    config: NodeConfig,
    mutants: Mutants,
    sockets: list[tuple[Endpoint, socket.socket]],
    metrics_socket: socket.socket | None,
    trace: Trace,
    ledger: Path | None,
) -> None:
    roles = ",".join(config.process_roles)
    say(f"node {config.node_id} ({roles}) starts in {config.log_dirs}")
    for name in sorted(mutants.names):
        say(f"node {config.node_id} runs with MUTANT {name}: {MUTANTS[name]}")
    descriptors = raise_descriptor_limit()
    limits = ConnectionLimits(
        min(config.max_connections, most_connections(descriptors)),
        config.max_connections_per_ip,
        [one.listener for one in config.control_listeners],
    )
    disk = RealDisk(Path(config.log_dirs), ledger, open_files_max=most_open_files(descriptors))
    node = _node(config, mutants, disk, trace, lambda: shell.wake())
    tune_memory()
    freeze = FreezeReplayed()
    shell = Shell(
        node,
        config.socket_request_max_bytes,
        idle=trace.flush if isinstance(trace, FileTrace) else None,
        iterated=lambda: freeze(node.image.last_offset),
        limits=limits,
    )
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, shell.ask_to_stop)
    for endpoint, bound in sockets:
        await shell.listen(endpoint.listener, bound)
        say(f"node {config.node_id} listens on {endpoint.listener}://{endpoint.host}:{bound.getsockname()[1]}")
    metrics = await _serve_metrics(node, shell, metrics_socket)
    try:
        await shell.run()
    finally:
        if metrics is not None:
            metrics.close()
    say(f"node {config.node_id} has stopped cleanly")


def _node(config: NodeConfig, mutants: Mutants, disk: Disk, trace: Trace, wake: Callable[[], None]) -> BaseNode:
    """Return the node; `wake` is called when its session with an ensemble has something to deliver."""
    ports: dict[str, Any] = {
        "disk": disk,
        "clock": SystemWallClock(),
        "rng": seeded_rng(),
        "trace": trace,
        "now": monotonic_us(),
        "mutants": mutants,
        "stopwatch": monotonic_us,
    }
    if not config.uses_zookeeper:
        return Node(config, **ports)
    ensemble = config.zookeeper_connect
    servers = [(one.host, one.port) for one in ensemble.servers]
    session = WireSession(
        servers, config.zookeeper_session_timeout_ms, wake, monotonic_us, chroot=ensemble.chroot, say=say
    )
    return ZooKeeperNode(config, session, **ports)


async def _serve_metrics(node: BaseNode, shell: Shell, bound: socket.socket | None) -> MetricsEndpoint | None:
    if bound is None:
        return None
    endpoint = MetricsEndpoint(Collector(node, SystemWallClock(), monotonic_us(), busy_us()), shell.iterations)
    await endpoint.start(bound)
    host, port = bound.getsockname()[:2]
    say(f"node {node.config.node_id} shows metrics on http://{host}:{port}/metrics")
    return endpoint


if __name__ == "__main__":
    sys.exit(main())
