"""Read what a provision hook printed as an inventory: `ansible-inventory --list`, or `terraform output -json`. Pure.

*Ansible*: groups with `hosts`, variables under `_meta.hostvars`. A host belongs to each of our groups in which it is,
directly or by children. *Terraform and OpenTofu*: outputs named `controllers`, `brokers`, `clients`, `spark`, each a
list of addresses, a list of objects with `name` and `address`, or a mapping of names to either; and outputs named like
a variable of the inventory (`ansible_user`, `ansible_ssh_private_key_file`, …), which count for all hosts.

Groups, variables and outputs that mean nothing here are kept, beside the inventory, and a notice names them. What is
sensitive by its output or by its name is not kept. `price_per_hour` of hosts, or as an output, is the price of all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from squall.harness.errors import UsageError
from squall.harness.scenario.inventory import GROUPS, HostSpec, HostVariables
from squall.harness.yaml_source import shown

PRICE: Final = "price_per_hour"
VARIABLES: Final = frozenset(HostVariables.model_fields)
_SECRET: Final = re.compile(r"pass|secret|token|credential|private_key(?!_file)|api_?key", re.IGNORECASE)
_OF_ANSIBLE: Final = ("all", "ungrouped", "_meta")


@dataclass
class Provisioned:
    """An inventory document as `inventory.yaml` would have it, and what came with it."""

    document: dict[str, Any]
    price_per_hour: float | None = None
    foreign: dict[str, Any] = field(default_factory=dict)
    """Groups, variables and outputs that mean nothing here, by name."""
    notices: list[str] = field(default_factory=list)


def read_provisioned(text: str, what: str) -> Provisioned | None:
    """Return the inventory that a hook printed; None if it printed nothing. Raises UsageError naming the hook."""
    if not text.strip():
        return None
    try:
        data = json.loads(text)
    except ValueError as wrong:
        raise UsageError(
            f"{what}: what it printed is not JSON: {wrong}",
            remedy="print `terraform output -json` or `ansible-inventory --list`, and all else to standard error",
        ) from None
    if not isinstance(data, Mapping):
        raise UsageError(
            f"{what}: printed {shown(data)}, which is neither an inventory of Ansible nor Terraform's outputs"
        )
    made = _of_terraform(data, what) if _is_terraform(data) else _of_ansible(data, what)
    if not any(made.document["all"]["children"].values()):
        names = ", ".join(GROUPS)
        raise UsageError(f"{what}: printed no host in any of the groups {names}", remedy="name groups or outputs so")
    return made


def inventory_of(hosts: tuple[HostSpec, ...]) -> dict[str, Any]:
    """Return the document of an inventory with these hosts, as `load_inventory` reads it."""
    children: dict[str, Any] = {}
    for host in hosts:
        given = {
            "ansible_host": host.address,
            "ansible_port": host.port,
            "ansible_user": host.user,
            "ansible_become": host.sudo,
            "python": host.python,
            "known_hosts": str(host.known_hosts.expanduser().absolute()),
        }
        if host.key_file is not None:
            given["ansible_ssh_private_key_file"] = str(host.key_file.expanduser().absolute())
        given |= {"rack": host.rack} if host.rack is not None else {}
        given |= {"data_dirs": list(host.data_dirs)} if host.data_dirs else {}
        for group in host.groups:
            children.setdefault(group, {"hosts": {}})["hosts"][host.name] = given
    return {"all": {"children": children}}


def _notice(made: Provisioned, kind: str, names: Iterator[str]) -> None:
    found = sorted(set(names))
    if found:
        made.notices.append(f"{kind} that mean nothing here, kept beside the inventory: {', '.join(found)}")


def _kept(name: str, value: object) -> object:
    return "(sensitive, not kept)" if _SECRET.search(name) else value


# -- ansible ----------------------------------------------------------------------------------------------------------


def _of_ansible(data: Mapping[str, Any], what: str) -> Provisioned:
    meta = data.get("_meta", {})
    variables = meta.get("hostvars", {}) if isinstance(meta, Mapping) else {}
    children: dict[str, Any] = {}
    made = Provisioned({"all": {"children": children}})
    unknown: dict[str, dict[str, object]] = {}
    prices = []
    for group in GROUPS:
        for host in _hosts_in(data, group, what, frozenset()):
            given = variables.get(host, {})
            if not isinstance(given, Mapping):
                raise UsageError(f"{what}: _meta.hostvars.{host}: {shown(given)} must be a mapping")
            if host not in unknown:
                unknown[host] = {key: _kept(key, given[key]) for key in sorted(given) if key not in VARIABLES}
                prices += [_price(given[PRICE], what)] if PRICE in given else []
            known = {key: value for key, value in given.items() if key in VARIABLES}
            children.setdefault(group, {"hosts": {}})["hosts"][host] = known
    foreign = {name: data[name] for name in data if name not in (*GROUPS, *_OF_ANSIBLE)}
    made.foreign = {"groups": foreign, "variables": {host: some for host, some in unknown.items() if some}}
    _notice(made, "groups", (name for name in foreign if not _leads_to_ours(data, name)))
    _notice(made, "variables", (name for some in unknown.values() for name in some if name != PRICE))
    made.price_per_hour = sum(prices) if prices else None
    return made


def _hosts_in(data: Mapping[str, Any], group: str, what: str, above: frozenset[str]) -> Iterator[str]:
    """Yield the hosts of a group and of its children."""
    content = data.get(group, {})
    if isinstance(content, list):  # the old form: a list of hosts
        content = {"hosts": content}
    if not isinstance(content, Mapping):
        raise UsageError(f"{what}: group {group}: {shown(content)} must be a mapping")
    seen = set()
    for host in content.get("hosts", []):
        seen.add(str(host))
        yield str(host)
    for child in content.get("children", []):
        if child not in above:
            for host in _hosts_in(data, child, what, above | {group}):
                if host not in seen:
                    seen.add(host)
                    yield host


def _leads_to_ours(data: Mapping[str, Any], name: str) -> bool:
    """Whether a group is a parent or a child of ours, and so means something."""
    content = data[name]
    parents = [one for one in GROUPS if isinstance(data.get(one), Mapping) and name in data[one].get("children", [])]
    below = content.get("children", []) if isinstance(content, Mapping) else []
    return bool(parents) or any(child in GROUPS for child in below)


# -- terraform --------------------------------------------------------------------------------------------------------


def _is_terraform(data: Mapping[str, Any]) -> bool:
    return bool(data) and all(
        isinstance(one, Mapping) and "value" in one and "sensitive" in one for one in data.values()
    )


def _of_terraform(data: Mapping[str, Any], what: str) -> Provisioned:
    children: dict[str, Any] = {}
    common: dict[str, Any] = {}
    made = Provisioned({"all": {"vars": common, "children": children}})
    foreign = []
    for name, output in data.items():
        value = output["value"]
        if name in GROUPS:
            children[name] = {"hosts": dict(_hosts_of_output(name, value, what))}
        elif name == PRICE:
            made.price_per_hour = _price(value, what)
        elif name in VARIABLES:
            common[name] = value
        else:
            foreign.append(name)
            made.foreign[name] = "(sensitive, not kept)" if output["sensitive"] else _kept(name, value)
    _notice(made, "outputs", iter(foreign))
    return made


def _hosts_of_output(group: str, value: object, what: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the hosts of an output: a list of addresses or objects, or a mapping of names to either."""
    if isinstance(value, Mapping):
        for name, one in value.items():
            yield str(name), _variables(group, one, what)
        return
    if not isinstance(value, list):
        raise UsageError(f"{what}: output {group}: {shown(value)} must be a list or a mapping of hosts")
    for number, one in enumerate(value, 1):
        given = _variables(group, one, what)
        yield str(given.pop("name", f"{group[0]}{number}")), given


def _variables(group: str, one: object, what: str) -> dict[str, Any]:
    if isinstance(one, str):
        return {"ansible_host": one}
    if not isinstance(one, Mapping):
        raise UsageError(f"{what}: output {group}: {shown(one)} must be an address or an object with one")
    given = {"ansible_host" if key == "address" else str(key): value for key, value in one.items()}
    return {key: value for key, value in given.items() if key in VARIABLES or key == "name"}


def _price(value: object, what: str) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise UsageError(f"{what}: {PRICE}: {shown(value)} is not a number") from None
