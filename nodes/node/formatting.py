"""Format a directory before a node's first start, as `kafka-storage format` does (KIP-853).

Only a quorum of dynamic voters needs it, to set the initial voters:

* `STANDALONE`: this controller alone; others are added later (AddRaftVoter);
* `initial_controllers("1@host:9093:directory-id,…")`: all of these, each formatted with the same list;
* `NO_INITIAL_CONTROLLERS`: this node joins an existing quorum, and begins as an observer of it.

An unformatted directory is the last of these, so brokers and later controllers need no formatting. The id of the
directory is in `meta.properties`, the voters are in the bootstrap snapshot (`nodes/raft/bootstrap.py`). Both are lost
with the directory, so a controller that lost its disk does not take itself for the voter it was.
"""

from __future__ import annotations

from dataclasses import dataclass

from squall.nodes.config import NodeConfig
from squall.nodes.node.identity import NodeError, write_identity
from squall.nodes.node.settings import raft_config
from squall.nodes.ports import Disk, NullTrace, Rng
from squall.nodes.protocol.topic_partition import parse_id, random_id
from squall.nodes.raft.bootstrap import write_bootstrap_snapshot
from squall.nodes.raft.config import Voter
from squall.nodes.raft.voters import VoterSet
from squall.nodes.storage.checkpoints import META_PROPERTIES


@dataclass(frozen=True, slots=True)
class InitialVoters:
    """The initial voters: `listed`, this node alone (`standalone`), or none that are known here."""

    listed: tuple[Voter, ...] = ()
    standalone: bool = False


STANDALONE = InitialVoters(standalone=True)
NO_INITIAL_CONTROLLERS = InitialVoters()


def initial_controllers(text: str) -> InitialVoters:
    """Parse `id@host:port:directory-id,…`, as Kafka writes it. Raises ValueError."""
    found = [_initial_controller(part.strip()) for part in text.split(",") if part.strip()]
    if not found:
        raise ValueError("no voter is named; give at least one id@host:port:directory-id")
    for number, one in enumerate(found):
        for other in found[:number]:
            if one.id == other.id or one.directory_id == other.directory_id:
                raise ValueError(f"controllers {other.id} and {one.id} have the same id or directory; all must differ")
    return InitialVoters(tuple(sorted(found, key=lambda one: one.id)))


def _initial_controller(part: str) -> Voter:
    number, at, place = part.partition("@")
    host_and_port, _, directory = place.rpartition(":")
    host, _, port = host_and_port.rpartition(":")
    if not at or not number.isdecimal() or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"{part!r} is not id@host:port:directory-id")
    try:
        return Voter(int(number), host.strip("[]"), int(port), parse_id(directory))
    except ValueError:
        raise ValueError(f"{part!r}: {directory!r} is not a directory id (22 characters of base64)") from None


def format_directory(config: NodeConfig, initial: InitialVoters, *, disk: Disk, rng: Rng, now_ms: int) -> bytes:
    """Write the files for the first start; return the id of the directory. Raises NodeError."""
    if disk.exists(META_PROPERTIES):
        raise NodeError(
            f"{config.log_dirs}/{META_PROPERTIES}: the directory is formatted already; format an empty one, or leave it"
        )
    wanted = initial.standalone or bool(initial.listed)
    if wanted and not (config.is_controller and config.has_dynamic_voters):
        raise NodeError(
            f"node {config.node_id}: only a controller with controller.quorum.bootstrap.servers begins with voters; "
            "use --no-initial-controllers, or set that key in place of controller.quorum.voters"
        )
    own = next((one for one in initial.listed if one.id == config.node_id), None)
    advertised = config.advertised_controller
    if own is not None and advertised is not None and (own.host, own.port) != (advertised.host, advertised.port):
        raise NodeError(
            f"node {config.node_id} advertises {advertised}, but is to begin as {own.id}@{own.host}:{own.port}; "
            "make the two agree"
        )
    if initial.listed and own is None:
        raise NodeError(
            f"node {config.node_id} is not among the initial controllers; add it, or use --no-initial-controllers"
        )
    identity = random_id(rng) if own is None else own.directory_id
    raft = raft_config(config, identity)
    voters = VoterSet(initial.listed)
    if initial.standalone and raft.address is not None:
        voters = VoterSet((Voter(config.node_id, *raft.address, identity),))
    if wanted:
        write_bootstrap_snapshot(disk, raft.directory, voters, node_id=config.node_id, now_ms=now_ms, trace=NullTrace())
    write_identity(config, disk, identity)  # last: a directory with this file is formatted
    return identity
