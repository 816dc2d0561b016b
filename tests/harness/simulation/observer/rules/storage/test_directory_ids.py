"""DIRECTORY as the observer asserts it: a node uses the id in its directory, and the id stays."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.storage.directory_ids import DirectoryIds
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.disk import SimDisk
from squall.nodes.node.identity import write_identity
from squall.nodes.storage.checkpoints import META_PROPERTIES

FIRST, OTHER = bytes(15) + b"\x01", bytes(15) + b"\x02"
CONFIG: Any = SimpleNamespace(cluster_id="squall", node_id=1)


class Host:
    """A host whose directory has an id, unless that is None."""

    def __init__(self, stored: bytes | None = FIRST) -> None:
        self.disk = SimDisk(Random(1))
        if stored is not None:
            write_identity(CONFIG, self.disk, stored)
        self.incarnation = 0
        self.rule = DirectoryIds(SimpleNamespace())  # type: ignore[arg-type]

    def starts(self, identity: bytes = FIRST, **config: Any) -> None:
        """Take the first turn of a process that uses this id."""
        self.incarnation += 1
        self.turns(identity, **config)

    def turns(self, identity: bytes = FIRST, **config: Any) -> None:
        broker = SimpleNamespace(config=SimpleNamespace(directory_id=identity))
        node: Any = SimpleNamespace(broker=broker, config=SimpleNamespace(**{**vars(CONFIG), **config}))
        self.rule.turned(SimpleNamespace(name="b1", incarnation=self.incarnation, disk=self.disk), node)  # type: ignore[arg-type]


def test_an_id_that_is_not_written_down_breaks_it() -> None:
    with pytest.raises(InvariantBroken, match=r"^DIRECTORY: b1 uses .*, and its meta.properties says None"):
        Host(None).starts()


@pytest.mark.parametrize("config", [{"cluster_id": "other"}, {"node_id": 2}])
def test_a_node_in_a_directory_of_another_breaks_it(config: dict[str, Any]) -> None:
    with pytest.raises(InvariantBroken, match=r"^DIRECTORY: b1 uses .*=(other|2), and its .* says (squall|1)$"):
        Host().starts(**config)


def test_another_id_at_the_next_start_breaks_it() -> None:
    host = Host()
    host.starts()
    write_identity(CONFIG, host.disk, OTHER)
    with pytest.raises(InvariantBroken, match=r"^DIRECTORY: b1 uses the directory id .*Ag, and used .*AQ before$"):
        host.starts(OTHER)


def test_the_same_id_at_each_start_is_sound() -> None:
    host = Host()
    host.starts()
    host.starts()


def test_only_the_first_turn_of_a_process_is_looked_at() -> None:
    host = Host()
    host.starts()
    host.disk.remove(META_PROPERTIES)
    host.turns()


def test_a_file_that_a_power_loss_may_take_breaks_it() -> None:
    host = Host(None)
    file = host.disk.open(META_PROPERTIES, create=True)
    file.append(b"cluster.id=squall\nnode.id=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\n")
    with pytest.raises(InvariantBroken, match=r"^DIRECTORY: a power loss may take the meta.properties of b1"):
        host.starts()
    file.sync()
    host.disk.sync_directory("")
    host.starts()


def test_a_disk_that_was_wiped_has_another_id() -> None:
    host = Host()
    host.starts()
    host.disk.wipe()
    write_identity(CONFIG, host.disk, OTHER)
    host.starts(OTHER)


def test_a_node_that_keeps_no_directory_has_none() -> None:
    host = Host(None)
    node: Any = SimpleNamespace(broker=None, config=CONFIG)
    host.rule.turned(SimpleNamespace(name="c1", incarnation=1, disk=host.disk), node)  # type: ignore[arg-type]
