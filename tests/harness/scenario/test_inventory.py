"""Inventories: Ansible's shape, inherited variables, ranges; and what is told of a wrong one."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from squall.harness.errors import USAGE_EXIT_STATUS, UsageError
from squall.harness.scenario.inventory import (
    GROUPS,
    HostSpec,
    Inventory,
    expand_range,
    from_hosts_on,
    load_inventory,
    read_inventory,
)
from squall.harness.yaml_source import parse_yaml


def read(text: str) -> Inventory:
    return read_inventory(dataclasses.replace(parse_yaml(text, "inventory.yaml"), naming=from_hosts_on))


def complaint(text: str) -> str:
    with pytest.raises(UsageError) as caught:
        read(text)
    return str(caught.value)


CLUSTER = """\
all:
  vars: {ansible_user: squall, python: /usr/bin/python3, ansible_port: 2222}
  hosts:
    b1.lab.example: {ansible_host: 10.0.0.21}
  children:
    controllers: {hosts: {"c[1:3].lab.example": {}}}
    brokers:
      vars: {rack: r1}
      hosts:
        b1.lab.example:
        b2.lab.example: {rack: r2, data_dirs: [/data/1, /data/2], ansible_port: 22}
    clients: {hosts: {load1.lab.example: {ansible_user: root}}}
"""


def test_hosts_inherit_from_all_and_their_group_and_override_both() -> None:
    inventory = read(CLUSTER)
    b1, b2 = inventory.brokers
    assert (b1.address, b1.port, b1.rack, b1.user) == ("10.0.0.21", 2222, "r1", "squall")
    assert (b2.address, b2.port, b2.rack) == ("b2.lab.example", 22, "r2")
    assert b2.data_dirs == ("/data/1", "/data/2")
    assert b1.python == "/usr/bin/python3"


def test_ranges_are_spelt_out() -> None:
    assert [host.name for host in read(CLUSTER).controllers] == [f"c{number}.lab.example" for number in (1, 2, 3)]


def test_an_ordinary_user_needs_sudo_and_root_does_not() -> None:
    inventory = read(CLUSTER)
    assert all(host.sudo for host in inventory.brokers)
    assert not inventory.clients[0].sudo


def test_a_host_may_play_both_roles() -> None:
    inventory = read("all: {children: {controllers: {hosts: {n1: }}, brokers: {hosts: {n1: , n2: }}}}")
    assert inventory.host("n1").groups == ("controllers", "brokers")
    assert len(inventory.hosts) == 2


def test_a_lab_is_asked_for_by_numbers() -> None:
    lab = read("lab: {controllers: 1, brokers: 2, clients: 1}").lab
    assert lab is not None
    assert [name for name, _ in lab.names()] == ["c1", "b1", "b2", "load1"]


def test_a_known_hosts_file_may_be_named_as_for_ssh() -> None:
    text = "{hosts: {n: {ansible_ssh_common_args: '-o UserKnownHostsFile=/k -oStrictHostKeyChecking=yes'}}}"
    inventory = read(f"all: {{children: {{controllers: {text}, brokers: {text}}}}}")
    assert inventory.hosts[0].known_hosts == Path("/k")


def test_the_key_file_is_found_beside_the_inventory(tmp_path: Path) -> None:
    (tmp_path / "key").touch()
    file = tmp_path / "inventory.yaml"
    file.write_text(
        "all:\n  vars: {ansible_ssh_private_key_file: key}\n"
        "  children: {controllers: {hosts: {c1: }}, brokers: {hosts: {b1: }}}\n"
    )
    assert load_inventory(file).hosts[0].key_file == tmp_path / "key"


def test_asking_for_an_unknown_host_suggests_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"did you mean `b2\.lab\.example`"):
        read(CLUSTER).host("b2.lab.exmaple")


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("b[1:3]", ["b1", "b2", "b3"]),
        ("b[08:10].x", ["b08.x", "b09.x", "b10.x"]),
        ("n[a:c]", ["na", "nb", "nc"]),
        ("n[1:5:2]", ["n1", "n3", "n5"]),
        ("r[1:2]n[1:2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("10.0.0.[7:8]", ["10.0.0.7", "10.0.0.8"]),
        ("plain", ["plain"]),
    ],
)
def test_a_range_names_every_host_in_it(pattern: str, names: list[str]) -> None:
    assert expand_range(pattern) == names


BROKERS = "all:\n  children:\n    controllers: {hosts: {c1: }}\n    brokers:\n      hosts:\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            BROKERS + "        b2:\n          ansible_port: ssh\n",
            'inventory.yaml:7: hosts.b2.ansible_port: "ssh" is not a port number (1–65535)',
        ),
        (
            BROKERS + "        b2: {ansible_port: 70000}\n",
            "inventory.yaml:6: hosts.b2.ansible_port: 70000 is not a port number (1–65535)",
        ),
        (BROKERS + "        b2: {rak: r1}\n", "inventory.yaml:6: hosts.b2.rak: unknown key; did you mean `rack`?"),
        (
            BROKERS + "        b2: {data_dirs: [data]}\n",
            'inventory.yaml:6: hosts.b2.data_dirs: "data" must be an absolute path without commas',
        ),
        (
            BROKERS + "        b2:\n        b[1:2]:\n",
            "inventory.yaml:7: hosts.b[1:2]: host b2 is given twice (first on line 6)",
        ),
        (
            BROKERS + "        b1: {ansible_host: 10.0.0.1}\n        b2: {ansible_host: 10.0.0.1}\n",
            "inventory.yaml:7: hosts.b2: has the same address as b1: 10.0.0.1 port 22",
        ),
        *(
            (BROKERS + f"        {name}:\n", f'inventory.yaml:6: hosts.{name}: "{name}" is not a host name')
            for name in ("..", ".hidden", "-o")  # each would be a directory of the run, or an option of ssh
        ),
        (
            BROKERS + "        b[3:1]:\n",
            "inventory.yaml:6: hosts.b[3:1]: [3:1] is not a range from a smaller to a larger number or letter",
        ),
        (
            BROKERS + "        b1: {ansible_ssh_private_key_file: /nowhere/key}\n",
            'inventory.yaml:6: hosts.b1.ansible_ssh_private_key_file: "/nowhere/key" is not a file; '
            "it should be the private key",
        ),
        (
            BROKERS + "        b1: {ansible_connection: local}\n",
            'inventory.yaml:6: hosts.b1.ansible_connection: "local" is not supported; hosts are reached by ssh '
            "(leave the key out)",
        ),
        (
            BROKERS + "        b1: {ansible_ssh_common_args: -o StrictHostKeyChecking=no}\n",
            'inventory.yaml:6: hosts.b1.ansible_ssh_common_args: "-o StrictHostKeyChecking=no" must not switch '
            "host-key checking off; accept a host's key with `squall inventory trust HOST`",
        ),
        (
            BROKERS + "        c1: {rack: r1}\n",
            'inventory.yaml:6: hosts.c1: host c1 has rack null in one group and "r1" in another; give it once, '
            "under all.hosts",
        ),
        (
            "all:\n  children:\n    broker: {}\n",
            "inventory.yaml:3: all.children.broker: unknown group; did you mean `brokers`?",
        ),
        (
            "all:\n  children:\n    controllers: {hosts: {c1: }}\n",
            "inventory.yaml:2: all.children: group brokers has no hosts; a cluster needs at least one",
        ),
        (
            "all:\n  children:\n    brokers: {hosts: [b1]}\n",
            'inventory.yaml:3: all.children.brokers.hosts: ["b1"] must',
        ),
        ("al: {}\n", "inventory.yaml:1: al: unknown key; did you mean `all`?"),
        ("lab: {}\nall: {}\n", "inventory.yaml:1: an inventory has either"),
        ("lab: {controlers: 3}\n", "inventory.yaml:1: lab.controlers: unknown key; did you mean `controllers`?"),
        (
            "lab: {brokers: 150, clients: 150}\n",
            "inventory.yaml:1: lab: 303 hosts are more than the 200 a lab can have",
        ),
    ],
)
def test_a_wrong_inventory_says_where_and_what_would_be_right(text: str, message: str) -> None:
    assert complaint(text).startswith(message)


def test_several_wrong_fields_are_told_together() -> None:
    told = complaint(BROKERS + "        b1: {rak: r1}\n        b2: {ansible_port: 0}\n").splitlines()
    assert [line.split(":")[1] for line in told] == ["6", "7"]


def test_the_inventory_shipped_with_the_project_is_read() -> None:
    assert load_inventory(Path(__file__).parents[3] / "inventory.yaml").lab is not None


def test_usage_errors_exit_254_and_the_groups_are_those_of_the_design() -> None:
    assert USAGE_EXIT_STATUS == 254
    assert GROUPS == ("controllers", "brokers", "clients", "spark", "zookeeper")


def test_a_host_is_named_with_its_address() -> None:
    assert HostSpec("b2", "10.0.0.12", ("brokers",)).described() == "b2 (10.0.0.12)"
    assert HostSpec("b2", "b2", ("brokers",)).described() == "b2"


def test_an_ensemble_takes_the_place_of_controllers() -> None:
    text = 'all: {children: {brokers: {hosts: {b1: {}}}, zookeeper: {hosts: {"z[1:3]": {}}}}}'
    found = read(text)
    assert [host.name for host in found.zookeeper] == ["z1", "z2", "z3"]
    assert [host.name for host in found.with_nodes] == ["b1", "z1", "z2", "z3"]
