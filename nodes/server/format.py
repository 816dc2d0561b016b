"""`python -m squall.nodes.server.format --config node.properties …`: format a node's directory (KIP-853).

The counterpart of `kafka-storage format`; `squall.nodes.node.formatting` describes what it writes and which nodes need
it. Exit codes: 0, or 254 with one line on stderr that states what is unusable and the remedy.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from squall.nodes.config import ConfigError, NodeConfig
from squall.nodes.node.formatting import (
    NO_INITIAL_CONTROLLERS,
    STANDALONE,
    InitialVoters,
    format_directory,
    initial_controllers,
)
from squall.nodes.node.identity import NodeError
from squall.nodes.protocol.topic_partition import format_id
from squall.nodes.server.clock import SystemWallClock, seeded_rng
from squall.nodes.server.disk import RealDisk

EXIT_OK, EXIT_USAGE = 0, 254


def format_node(config: NodeConfig, initial: InitialVoters) -> bytes:
    """Format the directory of a node that is not running. Returns the directory's id. Raises NodeError and OSError."""
    disk = RealDisk(Path(config.log_dirs))
    return format_directory(config, initial, disk=disk, rng=seeded_rng(), now_ms=SystemWallClock().now_ms())


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        config = NodeConfig.parse(Path(options.config).read_text(encoding="utf-8"), options.config)
        identity = format_node(config, _initial(options))
    except (ConfigError, NodeError, ValueError, OSError) as error:
        print(f"squall-format: {error}", file=sys.stderr)
        return EXIT_USAGE
    print(f"formatted {config.log_dirs}: node.id={config.node_id} directory.id={format_id(identity)}")
    return EXIT_OK


def _initial(options: argparse.Namespace) -> InitialVoters:
    if options.standalone:
        return STANDALONE
    if options.initial_controllers is None:
        return NO_INITIAL_CONTROLLERS
    try:
        return initial_controllers(options.initial_controllers)
    except ValueError as wrong:
        raise ValueError(f"--initial-controllers: {wrong}") from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="squall-format", description="Make a node's directory ready.")
    parser.add_argument("--config", required=True, metavar="FILE", help="node.properties of the node")
    choice = parser.add_mutually_exclusive_group(required=True)
    choice.add_argument("--standalone", action="store_true", help="this controller alone votes to begin with")
    choice.add_argument(
        "--initial-controllers", metavar="ID@HOST:PORT:DIRECTORY,…", help="these vote to begin with, this one of them"
    )
    choice.add_argument("--no-initial-controllers", action="store_true", help="join the quorum that there is")
    return parser


if __name__ == "__main__":
    sys.exit(main())
