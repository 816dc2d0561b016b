"""What `ApacheKafka` makes of an inventory and a suite: configurations, a launcher, and refusals before the start."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

import pytest

from squall.harness.errors import UsageError
from squall.harness.hosts.deploy import HostKind, HostPaths
from squall.harness.hosts.system import ClusterSettings, NodePlan
from squall.harness.scenario.inventory import HostSpec, Inventory
from squall.harness.systems.kafka import system
from squall.harness.systems.kafka.system import ApacheKafka
from squall.harness.systems.kafka.versions import VERSIONS, jar_list, settings_of

THREE = Inventory(
    "inventory.yaml",
    (
        HostSpec("c1", "10.0.0.1", ("controllers",)),
        HostSpec("b1", "10.0.0.2", ("brokers",), rack="r1"),
        HostSpec("b2", "10.0.0.3", ("brokers",)),
        HostSpec("load1", "10.0.0.9", ("clients",)),
    ),
)
COMBINED = Inventory("inventory.yaml", (HostSpec("n1", "10.0.0.1", ("controllers", "brokers")),))


def configure(inventory: Inventory = THREE, jvm: str = "", **settings: object) -> dict[str, NodePlan]:
    places = {one.name: HostPaths("/usr/bin/python3", "/root", "/root/.squall/bundles/x") for one in inventory.hosts}
    return ApacheKafka(jvm=jvm).configure(inventory, places, ClusterSettings("run-1", **settings))  # type: ignore[arg-type]


def properties(plan: NodePlan) -> dict[str, str]:
    text = next(text for path, text in plan.files.items() if path.endswith(".properties"))
    return dict(line.split("=", 1) for line in text.splitlines())


def launcher(plan: NodePlan) -> str:
    return next(text for path, text in plan.files.items() if path.endswith(".sh"))


def test_nodes_have_the_ids_roles_and_ports_that_ours_have() -> None:
    plans = configure()
    assert {name: (plan.node_id, plan.roles, plan.process.ports) for name, plan in plans.items()} == {
        "c1": (101, ("controller",), (9093,)),
        "b1": (1, ("broker",), (9092,)),
        "b2": (2, ("broker",), (9092,)),
    }
    assert properties(plans["b1"])["controller.quorum.voters"] == "101@10.0.0.1:9093"
    assert properties(plans["b1"])["broker.rack"] == "r1"


def test_a_host_of_both_groups_has_one_node_of_both_roles() -> None:
    (plan,) = configure(COMBINED).values()
    found = properties(plan)
    assert found["listeners"] == "PLAINTEXT://10.0.0.1:9092,CONTROLLER://10.0.0.1:9093"
    assert (found["process.roles"], found["offsets.topic.replication.factor"]) == ("broker,controller", "1")


def test_settings_of_the_suite_take_precedence_over_the_usual_ones() -> None:
    found = properties(configure(config={"log.retention.ms": 5000, "unclean.leader.election.enable": True})["b1"])
    assert (found["log.retention.ms"], found["unclean.leader.election.enable"]) == ("5000", "true")


@pytest.mark.parametrize(
    ("size", "key"), [(4096, "internal.metadata.log.segment.bytes"), (8 << 20, "metadata.log.segment.bytes")]
)
def test_a_small_metadata_segment_goes_by_kafkas_internal_key(size: int, key: str) -> None:
    assert properties(configure(config={"metadata.log.segment.bytes": size})["c1"])[key] == str(size)


def test_features_and_the_cluster_id_become_arguments_of_the_format() -> None:
    plan = configure(config={"eligible.leader.replicas.version": 0, "cluster.id": "mine"})["c1"]
    assert "--cluster-id=mine --feature eligible.leader.replicas.version=0" in launcher(plan)
    assert not {"cluster.id", "eligible.leader.replicas.version"} & properties(plan).keys()


def test_dynamic_voters_are_formatted_once_and_never_claimed_again() -> None:
    plan = configure(dynamic_voters=True)["c1"]
    assert properties(plan)["controller.quorum.bootstrap.servers"] == "10.0.0.1:9093"
    first, again = (line for line in launcher(plan).splitlines() if "StorageTool" in line)
    assert "--initial-controllers 101@10.0.0.1:9093:" in first
    assert "--no-initial-controllers" in again and " --initial-controllers" not in again


def test_options_of_the_java_machine_replace_the_usual_ones() -> None:
    assert "-Xmx256m" in launcher(configure()["b1"])
    text = launcher(configure(jvm="-Xmx1g -XX:+UseG1GC")["b1"])
    assert "java -Xmx1g -XX:+UseG1GC" in text and "256m" not in text


FAKE_JAVA = """\
#!/bin/sh
exec >>"$NOTED"
for one in "$@"; do case "$one" in kafka.*|format) printf "%s " "$one";; esac; done
echo $$
[ -e "$0.broken" ] || exit 0
printf 'Exception: Invalid value\\n\\tat kafka.tools.StorageTool.main\\n' >&2
exit 1
"""
"""Notes what it is asked to run, and its pid; broken, it fails as a Java program does."""


def test_the_launcher_formats_an_emptied_directory_and_becomes_the_node(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    fake = tmp_path / "bin" / "java"
    fake.write_text(FAKE_JAVA)
    fake.chmod(0o755)
    places = {"n1": HostPaths("/usr/bin/python3", str(tmp_path), str(tmp_path / "bundle"), programs=str(tmp_path))}
    (plan,) = ApacheKafka().configure(COMBINED, places, ClusterSettings("run-1")).values()
    Path(plan.process.data).mkdir(parents=True)
    for path, text in plan.files.items():
        Path(path).write_text(text)

    def ran(*argv: str) -> tuple[str, list[str]]:
        noted = tmp_path / "noted"
        noted.write_text("")
        environment = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "NOTED": str(noted)}
        node = subprocess.Popen(argv, env=environment, stderr=subprocess.PIPE, text=True)
        said = node.communicate()[1]
        return said, noted.read_text().replace(f" {node.pid}\n", " SELF\n").splitlines()

    said, noted = ran(*plan.preparation)
    assert (said, noted[0].rpartition(" ")[0]) == ("", "kafka.tools.StorageTool format")
    emptied = ran(*plan.process.argv)[1]
    assert [line.split()[0] for line in emptied] == ["kafka.tools.StorageTool", "kafka.Kafka"]
    Path(plan.process.data, "meta.properties").touch()
    assert ran(*plan.process.argv)[1] == ["kafka.Kafka SELF"]
    (tmp_path / "bin" / "java.broken").touch()
    assert ran(*plan.preparation)[0] == "Exception: Invalid value\n", "the reason, and no stack"


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"mutants": ("hw-before-isr-ack",)}, "cluster.mutants: kafka: it has no seeded bugs"),
        ({"disk_calls": ("fsync",)}, "faults of the disk calls fsync"),
        ({"config": {"replica.lag.time.maxms": 1}}, "did you mean `replica.lag.time.max.ms`?"),
        ({"config": {"turn.bytes.max": 1}}, "Apache Kafka 4.4.0 has no such setting"),
        ({"config": {"listeners": "PLAINTEXT://:1"}}, "follows from the hosts"),
        ({"config": {"broker.rack": "a\nb"}}, "follows from the hosts"),
        ({"config": {"log.dir.failure.timeout.ms": "1\n2"}}, "a value is one line"),
    ],
)
def test_what_it_cannot_do_is_refused(settings: dict[str, object], problem: str) -> None:
    with pytest.raises(UsageError) as refused:
        configure(**settings)
    assert problem in str(refused.value)


def test_a_cluster_needs_both_roles() -> None:
    with pytest.raises(UsageError, match="at least one controller and one broker"):
        configure(Inventory("inventory.yaml", (HostSpec("b1", "10.0.0.2", ("brokers",)),)))


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_has_its_jars_and_its_settings(version: str) -> None:
    assert {"process.roles", "log.dirs"} <= settings_of(version)
    names = [one.coordinates.file_name for one in system.pinned_jars(jar_list(version))]
    assert f"kafka_2.13-{version}.jar" in names and any(name.startswith("slf4j-simple") for name in names)


def test_a_fetch_makes_a_library_of_the_jars_even_without_shared_classes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jar = tmp_path / "some.jar"
    jar.write_bytes(b"a jar")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(system, "jars", lambda name: (jar,))
    monkeypatch.setattr(system, "java", lambda oldest: Path("/bin/true"))
    monkeypatch.setattr(system, "make_archive", no_archive)
    said: list[str] = []
    for _ in range(2):
        kafka = ApacheKafka()
        kafka.fetch(said.append)
    assert (kafka.library().directory / "some.jar").read_bytes() == b"a jar"
    assert [line.strip() for line in said] == [
        "kafka      preparing 1 jars of version 4.4.0, once",
        "nodes will start slowly: no archive of shared classes: no room",
    ]


def test_a_bundle_has_the_agent_and_the_program_that_describes_logs() -> None:
    bundle = ApacheKafka().bundle(HostKind.here())
    with tarfile.open(fileobj=io.BytesIO(bundle.archive)) as content:
        names = content.getnames()
    assert {"agent/agent.py", "lib/squall/nodes/server/digest.py"} <= set(names)


def no_archive(*_: object) -> None:
    raise system.NoArchive("no room")
