"""Starting a node: options, and what stops it from starting, in one line with the remedy and exit code 254."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from squall.nodes.config import NodeConfig
from tests.clusters import Cluster, free_ports

pytestmark = pytest.mark.xdist_group("clusters")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "squall.nodes", *arguments]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60)


def write(directory: Path, **changes: str) -> Path:
    """A valid configuration of a combined node, with these keys changed (dots for underscores)."""
    client, control = free_ports(2)
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{control}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{control}",
        "log.dirs": str(directory / "data"),
    } | {key.replace("_", "."): value for key, value in changes.items()}
    path = directory / "node.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    return path


def refusal(*arguments: str) -> str:
    """The one line a node says that cannot start."""
    ended = run(*arguments)
    assert ended.returncode == 254, ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr
    return ended.stderr.strip().splitlines()[-1]


def test_help_lists_every_key_and_mutant() -> None:
    ended = run("--help")
    assert ended.returncode == 0
    assert NodeConfig.describe() in ended.stdout
    assert "ack-before-replication" in ended.stdout


def test_a_missing_option_is_bad_usage() -> None:
    assert "--config" in refusal()


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert f"{tmp_path}/none.properties: cannot be read: No such file" in refusal(
        "--config", str(tmp_path / "none.properties")
    )


def test_a_wrong_value_is_named_with_file_line_and_key(tmp_path: Path) -> None:
    path = write(tmp_path, num_partitions="many")
    assert f"{path}:7: num.partitions=many: must be a whole number" in refusal("--config", str(path))


def test_an_unknown_mutant_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    said = refusal("--config", str(write(tmp_path)), "--mutant", "no-such-bug")
    assert "unknown mutant 'no-such-bug'" in said
    assert "truncate-to-hw" in said


def test_a_port_in_use_names_the_listener(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        [control] = free_ports(1)
        path = write(tmp_path, listeners=f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{control}")
        said = refusal("--config", str(path))
    assert f"cannot listen on PLAINTEXT://127.0.0.1:{port}: Address already in use" in said
    assert "free the port or change the entry" in said


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    said = refusal("--config", str(write(tmp_path, log_dirs=str(tmp_path / "file" / "data"))))
    assert f"log.dirs={tmp_path}/file/data: Not a directory" in said


def test_a_second_process_keeps_out_of_a_directory_in_use() -> None:
    with Cluster.combined() as cluster:
        cluster.wait_until_ready()
        said = refusal("--config", str(cluster.brokers[0].config_path))
        assert "in use by another process" in said
        assert cluster.brokers[0].pid is not None


@pytest.mark.parametrize(
    ("key", "changed"),
    [("node.id", {"node_id": "2"}), ("cluster.id", {"cluster_id": "another"})],
)
def test_a_directory_of_another_node_is_not_touched(tmp_path: Path, key: str, changed: dict[str, str]) -> None:
    with Cluster.combined() as cluster:
        cluster.wait_until_ready()
        node = cluster.brokers[0]
        assert node.stop() == 0
        before = (node.directory / "data" / "meta.properties").read_text()
        [control] = free_ports(1)
        path = write(
            tmp_path,
            log_dirs=str(node.directory / "data"),
            controller_quorum_voters=f"1@127.0.0.1:{control},2@127.0.0.1:{control + 1}",
            **changed,
        )
        said = refusal("--config", str(path))
        assert f"meta.properties: {key}=" in said
        assert "belongs to another node" in said
        assert (node.directory / "data" / "meta.properties").read_text() == before


def test_a_broker_whose_id_is_taken_is_refused_by_the_controller(tmp_path: Path) -> None:
    """BL-05."""
    with Cluster(brokers=1, controllers=1) as cluster:
        cluster.wait_until_ready()
        [port] = free_ports(1)
        twin = cluster.brokers[0].config_path.read_text()
        lines = [line for line in twin.splitlines() if not line.startswith(("listeners=", "log.dirs=", "metrics."))]
        lines += [
            f"listeners=PLAINTEXT://127.0.0.1:{port}",
            f"log.dirs={tmp_path / 'twin'}",
            "initial.broker.registration.timeout.ms=1000",
        ]
        path = tmp_path / "twin.properties"
        path.write_text("\n".join(lines) + "\n")
        said = refusal("--config", str(path))
        assert "DUPLICATE_BROKER_REGISTRATION" in said
        assert "node.id=1" in said
