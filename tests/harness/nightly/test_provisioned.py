"""What provision hooks print is read as an inventory, and what means nothing here is kept and named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from squall.harness.errors import UsageError
from squall.harness.nightly.provisioned import Provisioned, inventory_of, read_provisioned
from squall.harness.scenario.inventory import Inventory, load_inventory

ANSIBLE = {
    "_meta": {
        "hostvars": {
            "c1": {"ansible_host": "10.0.0.1", "ansible_user": "squall", "price_per_hour": 0.25},
            "b1": {"ansible_host": "10.0.0.2", "rack": "r1", "price_per_hour": "0.5", "ansible_password": "hunter2"},
            "b2": {"ansible_host": "10.0.0.3", "zone": "eu-1a", "price_per_hour": 0.5},
            "m1": {"ansible_host": "10.0.0.9"},
        }
    },
    "all": {"children": ["ungrouped", "controllers", "brokers", "monitoring"]},
    "controllers": {"hosts": ["c1"]},
    "brokers": {"hosts": ["b1"], "children": ["spot_brokers"]},
    "spot_brokers": {"hosts": ["b2", "b1"]},
    "monitoring": {"hosts": ["m1"]},
}


def output(value: Any, sensitive: bool = False) -> dict[str, Any]:
    return {"value": value, "type": "any", "sensitive": sensitive}


TERRAFORM = {
    "controllers": output(["10.0.0.1"]),
    "brokers": output({"b1": "10.0.0.2", "b2": {"address": "10.0.0.3", "rack": "r2", "instance": "i-77"}}),
    "clients": output([{"name": "load1", "address": "10.0.0.4", "ansible_port": 2222}]),
    "ansible_user": output("squall"),
    "price_per_hour": output(1.3),
    "vpc_id": output("vpc-1"),
    "admin_token": output("s3cret"),
    "certificate": output("-----BEGIN", sensitive=True),
}


def loaded(made: Provisioned, directory: Path) -> Inventory:
    path = directory / "inventory.yaml"
    path.write_text(json.dumps(made.document))
    return load_inventory(path)


def read(data: object) -> Provisioned:
    made = read_provisioned(json.dumps(data), "--provision")
    assert made is not None
    return made


def test_ansibles_inventory_is_read_with_children_and_variables(tmp_path: Path) -> None:
    made = read(ANSIBLE)
    inventory = loaded(made, tmp_path)
    assert [(one.name, one.address, one.groups) for one in inventory.hosts] == [
        ("c1", "10.0.0.1", ("controllers",)),
        ("b1", "10.0.0.2", ("brokers",)),
        ("b2", "10.0.0.3", ("brokers",)),
    ]
    assert inventory.host("c1").user == "squall" and inventory.host("b1").rack == "r1"
    assert made.price_per_hour == 1.25


def test_foreign_groups_and_variables_of_ansible_are_kept_with_a_notice() -> None:
    made = read(ANSIBLE)
    assert made.foreign["groups"]["monitoring"] == {"hosts": ["m1"]}
    assert made.foreign["variables"]["b2"]["zone"] == "eu-1a"
    assert made.notices == [
        "groups that mean nothing here, kept beside the inventory: monitoring",
        "variables that mean nothing here, kept beside the inventory: ansible_password, zone",
    ]


def test_terraforms_outputs_are_read_as_hosts_of_our_groups(tmp_path: Path) -> None:
    made = read(TERRAFORM)
    inventory = loaded(made, tmp_path)
    assert [(one.name, one.address, one.port, one.user) for one in inventory.hosts] == [
        ("c1", "10.0.0.1", 22, "squall"),
        ("b1", "10.0.0.2", 22, "squall"),
        ("b2", "10.0.0.3", 22, "squall"),
        ("load1", "10.0.0.4", 2222, "squall"),
    ]
    assert inventory.host("b2").rack == "r2" and made.price_per_hour == 1.3
    assert made.foreign["vpc_id"] == "vpc-1"


@pytest.mark.parametrize(("data", "secrets"), [(ANSIBLE, ["hunter2"]), (TERRAFORM, ["s3cret", "-----BEGIN"])])
def test_what_is_sensitive_is_not_kept(data: object, secrets: list[str]) -> None:
    made = read(data)
    kept = json.dumps([made.document, made.foreign, made.notices])
    assert not [secret for secret in secrets if secret in kept]


def test_a_hook_that_prints_nothing_leaves_the_nights_own_clusters() -> None:
    assert read_provisioned(" \n", "--provision") is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Apply complete!", "is not JSON"),
        ("[1, 2]", "neither an inventory of Ansible nor Terraform"),
        ('{"web": {"hosts": ["w1"]}}', "no host in any of the groups controllers, brokers"),
        ('{"brokers": {"value": 3, "sensitive": false}}', "output brokers: 3 must be a list or a mapping"),
        ('{"brokers": {"value": [3], "sensitive": false}}', "must be an address or an object"),
        ('{"price_per_hour": {"value": "much", "sensitive": false}}', 'price_per_hour: "much" is not a number'),
        ('{"brokers": "b1"}', 'group brokers: "b1" must be a mapping'),
    ],
)
def test_output_that_is_no_inventory_is_refused_by_what_is_wrong(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        read_provisioned(text, "--provision")


def test_groups_that_contain_each_other_end(tmp_path: Path) -> None:
    data = {
        "controllers": {"hosts": ["c1"]},
        "brokers": {"hosts": ["b1"], "children": ["x"]},
        "x": {"children": ["brokers"]},
    }
    assert len(loaded(read(data), tmp_path).hosts) == 2


def test_an_inventory_is_written_as_it_is_read(tmp_path: Path) -> None:
    before = loaded(read(TERRAFORM), tmp_path)
    again = loaded(Provisioned(inventory_of(before.hosts)), tmp_path)
    assert [(one.name, one.address, one.port, one.user, one.groups, one.rack) for one in again.hosts] == [
        (one.name, one.address, one.port, one.user, one.groups, one.rack) for one in before.hosts
    ]
