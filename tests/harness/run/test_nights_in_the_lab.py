"""A night on hosts: killed half-way, resumed, ended; a host that is lost; runs in the lake and in JUnit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import xmlschema

from squall.harness.hosts.ssh import Remote
from squall.harness.lab.lab import Lab, lab_down, lab_up
from squall.results.history.manifest import Manifest
from squall.results.lake.store import Lake
from tests.harness.nightly.nights import SQUALL, night_json, squall, the_night
from tests.harness.nightly.test_guard import await_true
from tests.labs import need_lab

pytestmark = [pytest.mark.lab, pytest.mark.full, pytest.mark.timeout(600), pytest.mark.xdist_group("nights")]

SCHEMA = xmlschema.XMLSchema(Path(__file__).parents[1] / "nightly" / "junit.xsd")
NAME = f"nights-{os.getpid()}"
SCENARIO = """
  - scenario: {name}
    cluster:
      controllers: 1
      brokers: 3
      topics: {{events: {{partitions: 2, replication_factor: 3, min_insync_replicas: 2}}}}
      config: {{broker.session.timeout.ms: 2000, broker.heartbeat.interval.ms: 300, replica.lag.time.max.ms: 1500}}
    workload: {{name: log, producers: 2, consumers: 1, rate: 200/s, acks: all}}
    nemesis: [{{fault: pause, target: leader of events/0, at: 2s, for: 3s}}]
    time: {{load: 10s, settle: 10s}}
    min_acknowledged: 100
    expect: {expect}
"""


TAKE_BACK = """
mine=$(readlink /proc/self/ns/net)
for one in /proc/[0-9]*; do
    [ "$(readlink $one/ns/net)" = "$mine" ] && [ "${one#/proc/}" != $$ ] && kill -9 "${one#/proc/}"
done
"""
"""Ends every process of a lab's host, sshd included: nothing answers there any more."""


@pytest.fixture
def lab() -> Iterator[Lab]:
    need_lab()
    try:
        yield lab_up(1, 3, name=NAME, owner=os.getpid())
    finally:
        lab_down(NAME)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    scenarios = [("first", "valid"), ("second", "valid"), ("third", "unknown")]
    text = "suite: short\nscenarios:" + "".join(SCENARIO.format(name=name, expect=wanted) for name, wanted in scenarios)
    (tmp_path / "short.yaml").write_text(text)
    return tmp_path


def test_a_night_in_a_lab_is_killed_half_way_resumed_and_ended(lab: Lab, place: Path) -> None:
    words = ("nightly", "short.yaml", "--lab", NAME, "--in-process", "--seed", "5", "--budget", "20m", "--retry", "0")
    hooks = ("--provision", "echo up >> calls", "--teardown", "echo down >> calls", "--wait", "60")
    with (place / "said").open("w") as out:
        night = subprocess.Popen([*SQUALL, *words, *hooks], cwd=place, stdout=out, stderr=out)
    await_true(lambda: "first " in (place / "said").read_text().partition("night  ")[2], 120)
    running = place.glob("runs/second/*/run.json")
    await_true(lambda: any(Manifest.load(one.parent).load_started for one in place.glob("runs/second/*/run.json")), 60)
    night.send_signal(signal.SIGKILL)
    night.wait()
    await_true(lambda: (place / "calls").read_text().split() == ["up", "down"], 120)
    done = squall(place, *words, *hooks, GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(place / "step.md"))
    assert done.returncode == 1, done.stdout
    assert (place / "calls").read_text().split() == ["up", "down"] * 2
    verdicts = {one["id"]: (one["verdict"], one["as_expected"]) for one in night_json(place)["items"]}
    assert verdicts == {"first": ("valid", True), "second": ("valid", True), "third": ("valid", False)}, done.stdout
    assert night_json(place)["sessions"] == 2 and len(list(running)) <= 2
    SCHEMA.validate(str(the_night(place) / "junit.xml"))
    assert "::error title=third,file=short.yaml::valid where unknown is expected" in done.stdout
    assert "| third | valid |" in (place / "step.md").read_text()
    rows = Lake(place / "runs" / "lake").table("runs").to_pylist()
    ended = [(row["scenario"], row["as_expected"]) for row in rows if row["night"] == the_night(place).name]
    assert sorted(ended) == [("first", True), ("second", True), ("third", False)]
    passed, failed = (Path(one["directory"]) for one in night_json(place)["items"] if one["id"] in ("first", "third"))
    assert not list(passed.glob("nodes/*/node.log")) and list(failed.glob("nodes/*/node.log")), "logs of what failed"
    assert squall(place, "show", str(passed)).returncode == 0
    suite = json.loads(next((the_night(place) / "items" / "third").glob("attempt-1.json")).read_text())
    assert suite["items"][0]["verdict"] == "valid" and not (place / "runs" / "suite.json").exists()


@pytest.fixture
def rented() -> Iterator[Lab]:
    """Hosts that a provision hook names: a controller and one broker more than a scenario needs."""
    need_lab()
    try:
        yield lab_up(1, 4, name=f"rented-{os.getpid()}", owner=os.getpid())
    finally:
        lab_down(f"rented-{os.getpid()}")


def ansible_inventory(lab: Lab) -> dict[str, object]:
    """What `ansible-inventory --list` would print of these hosts, and a group that is none of ours."""
    common = {
        "ansible_user": lab.inventory().hosts[0].user,
        "ansible_ssh_private_key_file": f"{lab.directory}/id_ed25519",
        "known_hosts": f"{lab.directory}/known_hosts",
        "price_per_hour": 0.25,
        "zone": "a",
    }
    names = {
        group: [one.name for one in lab.hosts if one.name.startswith(group[0])] for group in ("controllers", "brokers")
    }
    return {
        "_meta": {"hostvars": {one.name: {"ansible_host": one.address, **common} for one in lab.hosts}},
        "monitoring": {"hosts": ["b1"]},
        **{group: {"hosts": hosts} for group, hosts in names.items()},
    }


def test_a_rented_host_that_is_taken_back_ends_its_scenario_and_not_the_night(rented: Lab, place: Path) -> None:
    (place / "hosts.json").write_text(json.dumps(ansible_inventory(rented)))
    words = ("nightly", "short.yaml", "--in-process", "--seed", "5", "--lake", "lake")
    hooks = ("--provision", "echo up >> calls; cat hosts.json", "--teardown", "echo down >> calls")
    prefix = rented.network.command_prefix()
    with (place / "said").open("w") as out:
        night = subprocess.Popen([*prefix, *SQUALL, *words, *hooks], cwd=place, stdout=out, stderr=out)
    try:
        await_true(
            lambda: any(Manifest.load(one.parent).load_started for one in place.glob("runs/first/*/run.json")), 120
        )
        with Remote(rented.inventory().host("b4"), rented.network) as taken_back:
            taken_back.run(["setsid", "-f", "sh", "-c", TAKE_BACK], sudo=True)
        assert night.wait(400) == 1, (place / "said").read_text()
    finally:
        night.kill()
        night.wait()
    found = night_json(place)
    assert [one["hosts"] for one in found["lost"]] == [["b4"]], (place / "said").read_text()
    first, second, _ = found["items"]
    assert [one["verdict"] for one in first["attempts"]] == ["unknown", "valid"] and first["flaky"]
    assert first["attempts"][0]["cause"] == "machine" and first["attempts"][0]["problem"].startswith("lost host b4")
    assert second["verdict"] == "valid" and "b4" not in Manifest.load(Path(second["directory"])).hosts
    assert (place / "calls").read_text().split() == ["up", "down"]
    assert (
        found["cost"] > 0
        and "groups that mean nothing here, kept beside the inventory: monitoring" in (place / "said").read_text()
    )
