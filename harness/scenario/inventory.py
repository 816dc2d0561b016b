"""Read `inventory.yaml`, the list of hosts: shaped as Ansible shapes it, or simply `lab:`.

    all:
      vars: {ansible_user: squall, ansible_ssh_private_key_file: ~/.ssh/lab, python: /usr/bin/python3}
      children:
        controllers: {hosts: {"c[1:3].lab.example": {}}}
        brokers:     {hosts: {"b[1:5].lab.example": {rack: r1, data_dirs: [/data/1]}}}
        clients:     {hosts: {load1.lab.example: {}}}

    lab: {controllers: 3, brokers: 3}       # all permitted keys: lab_topology.py

`load_inventory` returns an `Inventory` of frozen `HostSpec`s, with group variables inherited (all < group < host) and
ranges expanded, or one whose `lab` is the shape of a local lab to bring up. A host may be in several groups (combined
roles). A host twice in one group, two names for one address and port, an unknown group or key are errors that name
line, field and remedy. Ansible's names are accepted where they mean something here; the others are refused rather than
ignored, because an ignored `ansible_password` would cause a confusing failure later.
"""

from __future__ import annotations

import dataclasses
import getpass
import re
import shlex
import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, field_validator

from squall.harness.errors import UsageError
from squall.harness.names import is_host_name
from squall.harness.scenario.lab_topology import MOST_LAB_HOSTS, LabTopology
from squall.harness.yaml_source import KeyPath, YamlSource, dotted, load_yaml, shown, suggestion
from squall.nodes.config import is_control

GROUPS = ("controllers", "brokers", "clients", "spark", "zookeeper")
DEFAULT_KNOWN_HOSTS = Path("~/.ssh/known_hosts")
LONGEST_RACK = 249
MOST_HOSTS = 1000
UNDERSTOOD_SSH_OPTIONS = ("UserKnownHostsFile", "StrictHostKeyChecking")


@dataclass(frozen=True)
class HostSpec:
    """One machine, and how to log in to it."""

    name: str
    address: str
    groups: tuple[str, ...]
    port: int = 22
    user: str = "root"
    key_file: Path | None = None
    """The private key; without one, the usual files in ~/.ssh and a running agent are tried."""
    known_hosts: Path = DEFAULT_KNOWN_HOSTS
    python: str = "python3"
    data_dirs: tuple[str, ...] = ()
    """Where a node keeps its logs; empty means Squall's own directory on the host."""
    rack: str | None = None
    sudo: bool = False
    reduced: bool = False
    """A host of a reduced lab: processes of this machine, and never root."""
    inventory: str = ""
    """The inventory file that lists it; empty for a host of a lab."""

    def command(self, *words: str) -> str:
        """Return a command about this host as a person has to type it, with the inventory that lists the host."""
        return shlex.join([*words, self.name, *(("-i", self.inventory) if self.inventory else ())])

    def described(self) -> str:
        """Return `b2 (10.0.0.12)`, as error messages name a host."""
        return self.name if self.name == self.address else f"{self.name} ({self.address})"


@dataclass(frozen=True)
class Inventory:
    """The hosts of a run. With `lab` set and no hosts yet, a local lab of that shape is to be brought up."""

    source: str
    hosts: tuple[HostSpec, ...] = ()
    lab: LabTopology | None = None

    def group(self, name: str) -> tuple[HostSpec, ...]:
        return tuple(host for host in self.hosts if name in host.groups)

    @property
    def controllers(self) -> tuple[HostSpec, ...]:
        return self.group("controllers")

    @property
    def brokers(self) -> tuple[HostSpec, ...]:
        return self.group("brokers")

    @property
    def zookeeper(self) -> tuple[HostSpec, ...]:
        return self.group("zookeeper")

    @property
    def with_nodes(self) -> tuple[HostSpec, ...]:
        """The hosts that run controllers, brokers or servers of an ensemble."""
        return tuple(dict.fromkeys((*self.controllers, *self.brokers, *self.zookeeper)))

    @property
    def clients(self) -> tuple[HostSpec, ...]:
        return self.group("clients")

    @property
    def spark(self) -> tuple[HostSpec, ...]:
        return self.group("spark")

    def host(self, name: str) -> HostSpec:
        """Return the host of that name. Raises UsageError, with the nearest name."""
        for host in self.hosts:
            if host.name == name:
                return host
        known = suggestion(name, [host.name for host in self.hosts])
        raise UsageError(f"{self.source}: there is no host {shown(name)}{known}")


class HostVariables(BaseModel):
    """The variables of a host, or under `vars` of all hosts of a group. Everything is optional."""

    model_config = ConfigDict(extra="forbid")

    ansible_host: str | None = None
    ansible_port: int | None = None
    ansible_user: str | None = None
    ansible_ssh_private_key_file: str | None = None
    ansible_ssh_common_args: str | None = None
    ansible_become: bool | None = None
    ansible_connection: str | None = None
    ansible_python_interpreter: str | None = None
    python: str | None = None
    data_dirs: list[str] | None = None
    rack: str | None = None
    known_hosts: str | None = None

    @field_validator("ansible_port", mode="before")
    @classmethod
    def _port(cls, value: object) -> object:
        number = int(value) if isinstance(value, (int, str)) and str(value).isdecimal() else 0
        if isinstance(value, bool) or not 1 <= number <= 65535:
            raise ValueError("is not a port number (1–65535)")
        return number

    @field_validator("*", mode="before")
    @classmethod
    def _one_line(cls, value: object) -> object:
        """Refuse control characters: the value becomes part of files and commands on hosts."""
        for text in value if isinstance(value, list) else (value,):
            if isinstance(text, str) and any(is_control(one) for one in text):
                raise ValueError("must be one line, without control characters")
        return value

    @field_validator("ansible_host")
    @classmethod
    def _address(cls, value: str | None) -> str | None:
        """Check a part of `listeners`, in which a comma or a slash would begin another listener."""
        if value is not None and not re.fullmatch(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?|[0-9A-Fa-f:.]+", value):
            raise ValueError("is not a host name or an address")
        return value

    @field_validator("ansible_user")
    @classmethod
    def _user(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._@\\-]*", value):
            raise ValueError("is not the name of a user")
        return value

    @field_validator("rack", mode="before")
    @classmethod
    def _rack(cls, value: object) -> object:
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if isinstance(value, str) and (not value.strip() or value != value.strip() or len(value) > LONGEST_RACK):
            raise ValueError(f"is not the name of a rack (1 to {LONGEST_RACK} characters, no blanks at its ends)")
        return value

    @field_validator("data_dirs")
    @classmethod
    def _directories(cls, value: list[str] | None) -> list[str] | None:
        for directory in value or ():
            if not directory.startswith("/") or "," in directory:
                raise ValueError(f"{shown(directory)} must be an absolute path without commas")
        return value

    @field_validator("ansible_connection")
    @classmethod
    def _connection(cls, value: str | None) -> str | None:
        if value not in (None, "ssh", "paramiko", "smart"):
            raise ValueError("is not supported; hosts are reached by ssh (leave the key out)")
        return value

    @field_validator("ansible_ssh_common_args")
    @classmethod
    def _common_args(cls, value: str | None) -> str | None:
        try:
            options = list(ssh_options(value or ""))
        except ValueError as wrong:
            raise ValueError(f"is not a list of options: {wrong}") from None
        for name, setting in options:
            if name not in UNDERSTOOD_SSH_OPTIONS:
                known = " and ".join(UNDERSTOOD_SSH_OPTIONS)
                raise ValueError(f"has option {name}, but only `-o` with {known} is understood here")
            if name == "StrictHostKeyChecking" and setting != "yes":
                raise ValueError(
                    "must not switch host-key checking off; accept a host's key with `squall inventory trust HOST`"
                )
        return value


def ssh_options(arguments: str) -> Iterator[tuple[str, str]]:
    """Yield the (name, value) pairs of `-o Name=Value -oName=Value …`; anything else is yielded as a name."""
    words = shlex.split(arguments)
    while words:
        word = words.pop(0)
        if word == "-o" and words:
            word = "-o" + words.pop(0)
        name, _, value = word.removeprefix("-o").partition("=")
        yield name, value


def load_inventory(path: Path | str) -> Inventory:
    """Read an inventory file. Raises UsageError."""
    source = load_yaml(path)
    return read_inventory(dataclasses.replace(source, naming=from_hosts_on))


def refuse_two_places(inventory: Path | None, lab_name: str | None) -> None:
    """Raise UsageError if both an inventory and a lab were named."""
    if inventory is not None and lab_name is not None:
        raise UsageError(
            f"--inventory {inventory} and --lab {lab_name} name two different places", remedy="leave one of them out"
        )


def from_hosts_on(path: KeyPath) -> str:
    """Shorten a path to `hosts.b2.ansible_port`; the groups above it are not needed."""
    if "hosts" in path[:-1]:
        path = path[path.index("hosts") :]
    return dotted(path)


def read_inventory(source: YamlSource) -> Inventory:
    """Return the inventory that a parsed file describes."""
    document = _mapping(source, (), source.data, ("all", "lab"))
    if len(document) != 1:
        raise source.error((), "an inventory has either `all:` (hosts as in Ansible) or `lab:`, and one of them")
    if "lab" in document:
        shape = source.validated(LabTopology, document["lab"] or {}, ("lab",))
        if len(shape.names()) > MOST_LAB_HOSTS:
            raise source.error(
                ("lab",), f"{len(shape.names())} hosts are more than the {MOST_LAB_HOSTS} a lab can have"
            )
        return Inventory(source.file, lab=shape)
    return _Reader(source).inventory(_mapping(source, ("all",), document["all"], ("vars", "hosts", "children")))


def _mapping(source: YamlSource, path: KeyPath, data: Any, known: tuple[str, ...] = ()) -> Mapping[str, Any]:
    """Return `data` as a mapping whose keys are all `known` (any, if none are given); null counts as empty."""
    if data is None:
        return {}
    if not isinstance(data, Mapping):
        raise source.error(path, f"{shown(data)} must be a mapping (`key: value` lines)")
    for key in data:
        if known and key not in known:
            kind = "group" if known == GROUPS else "key"
            raise source.error((*path, key), f"unknown {kind}{suggestion(key, known)}")
    return data


@dataclass
class _Mention:
    """A host at one place of the file."""

    path: KeyPath
    variables: dict[str, Any]


class _Reader:
    """Turns the tree under `all` into hosts, collecting errors so that one reading reports them together."""

    def __init__(self, source: YamlSource) -> None:
        self.source = source
        self.errors: list[UsageError] = []

    def inventory(self, tree: Mapping[str, Any]) -> Inventory:
        common = self._variables(("all", "vars"), tree.get("vars"))
        described = self._mentions(("all", "hosts"), tree.get("hosts"))
        children = _mapping(self.source, ("all", "children"), tree.get("children"), GROUPS)
        merged: dict[str, dict[str, Any]] = {}
        groups: dict[str, list[str]] = {}
        for group in (group for group in GROUPS if group in children):
            path: KeyPath = ("all", "children", group)
            content = _mapping(self.source, path, children[group], ("hosts", "vars"))
            inherited = common | self._variables((*path, "vars"), content.get("vars"))
            for name, mention in self._mentions((*path, "hosts"), content.get("hosts")).items():
                own = described[name].variables if name in described else {}
                self._merge(merged, name, inherited | own | mention.variables, mention.path)
                groups.setdefault(name, []).append(group)
        for name in described.keys() - groups.keys():
            self._note(described[name].path, f"is in none of the groups {', '.join(GROUPS)} under `children`")
        listed = {group for names in groups.values() for group in names}
        for group in ("controllers", "brokers"):
            if group not in listed and not self.errors and not (group == "controllers" and "zookeeper" in listed):
                self._note(("all", "children"), f"group {group} has no hosts; a cluster needs at least one")
        self._stop_if_wrong()
        hosts = tuple(self._host(name, tuple(groups[name]), merged[name]) for name in merged)
        self._refuse_shared_addresses(hosts, tree)
        self._stop_if_wrong()
        return Inventory(self.source.file, hosts)

    def _note(self, path: KeyPath, problem: str) -> None:
        self.errors.append(self.source.error(path, problem))

    def _stop_if_wrong(self) -> None:
        if self.errors:
            raise UsageError.joined(self.errors)

    def _variables(self, path: KeyPath, data: Any) -> dict[str, Any]:
        try:
            known = self.source.validated(HostVariables, _mapping(self.source, path, data), path)
        except UsageError as wrong:
            self.errors.append(wrong)
            return {}
        given = known.model_dump(exclude_none=True)
        self._check_key_file(path, given)
        return given

    def _check_key_file(self, path: KeyPath, given: dict[str, Any]) -> None:
        name = "ansible_ssh_private_key_file"
        if name in given and not self._path(given[name]).is_file():
            self._note((*path, name), f"{shown(given[name])} is not a file; it should be the private key")

    def _mentions(self, path: KeyPath, data: Any) -> dict[str, _Mention]:
        mentions: dict[str, _Mention] = {}
        for pattern, variables in _mapping(self.source, path, data).items():
            if len(mentions) > MOST_HOSTS:
                self._note(path, f"more than {MOST_HOSTS} hosts are listed, the most of an inventory")
                break
            here = (*path, pattern)
            own = self._variables(here, variables)
            try:
                names = expand_range(str(pattern))
            except ValueError as wrong:
                self._note(here, str(wrong))
                continue
            if len(names) > 1 and "ansible_host" in own:
                self._note((*here, "ansible_host"), "one address cannot be that of a whole range of hosts")
            for name in names:
                if name in mentions:
                    line = self.source.line(mentions[name].path)
                    self._note(here, f"host {name} is given twice (first on line {line})")
                mentions[name] = _Mention(here, own)
        return mentions

    def _merge(self, merged: dict[str, dict[str, Any]], name: str, variables: dict[str, Any], at: KeyPath) -> None:
        earlier = merged.setdefault(name, variables)
        for key in earlier.keys() | variables.keys():
            if earlier.get(key) != variables.get(key):
                said = f"{shown(earlier.get(key))} in one group and {shown(variables.get(key))} in another"
                self._note(at, f"host {name} has {key} {said}; give it once, under all.hosts")

    def _path(self, text: str) -> Path:
        """Resolve a path of the file: `~` is the user's home; relative ones start at the inventory's directory."""
        return Path(self.source.file).parent / Path(text).expanduser()

    def _host(self, name: str, groups: tuple[str, ...], given: dict[str, Any]) -> HostSpec:
        user = given.get("ansible_user") or getpass.getuser()
        key_file = given.get("ansible_ssh_private_key_file")
        options = dict(ssh_options(given.get("ansible_ssh_common_args", "")))
        known_hosts = given.get("known_hosts") or options.get("UserKnownHostsFile") or str(DEFAULT_KNOWN_HOSTS)
        return HostSpec(
            name=name,
            address=given.get("ansible_host", name),
            groups=groups,
            port=given.get("ansible_port", 22),
            user=user,
            key_file=self._path(key_file) if key_file else None,
            known_hosts=self._path(known_hosts),
            python=given.get("python") or given.get("ansible_python_interpreter") or "python3",
            data_dirs=tuple(given.get("data_dirs", ())),
            rack=given.get("rack"),
            sudo=given.get("ansible_become", user != "root"),
            inventory=self.source.file,
        )

    def _refuse_shared_addresses(self, hosts: tuple[HostSpec, ...], tree: Mapping[str, Any]) -> None:
        seen: dict[tuple[str, int], str] = {}
        for host in hosts:
            other = seen.setdefault((host.address, host.port), host.name)
            if other != host.name:
                path: KeyPath = ("all", "children", host.groups[0], "hosts", host.name)
                self._note(path, f"has the same address as {other}: {host.address} port {host.port}")


def expand_range(pattern: str) -> list[str]:
    """Expand `c[1:3].lab` to c1.lab, c2.lab, c3.lab. Padding (`[01:10]`), letters (`[a:c]`), steps (`[1:9:2]`) too.

    Raises ValueError with the reason.
    """
    pieces = re.split(r"\[([^\]]*)\]", pattern)  # every second piece is a range
    names = [""]
    for place, piece in enumerate(pieces):
        items = _range(piece) if place % 2 else [piece]
        if len(names) * len(items) > MOST_HOSTS:
            raise ValueError(f"{shown(pattern)} expands to more than {MOST_HOSTS} hosts, the limit of an inventory")
        names = [name + item for name in names for item in items]
    for name in names:
        if not is_host_name(name):
            raise ValueError(f"{shown(name)} is not a host name")
    return names


def _range(text: str) -> Sequence[str]:
    parts = text.split(":")
    step = 1 if len(parts) == 2 else 0
    if len(parts) == 3 and re.fullmatch(r"[0-9]{1,9}", parts[2]):
        step = int(parts[2])
    if step < 1:
        raise ValueError(f"{shown(f'[{text}]')} is not a range; write [first:last], as in c[1:3].lab.example")
    return _items(parts[0], parts[1], step)


def _items(first: str, last: str, step: int) -> Sequence[str]:
    if all(re.fullmatch(r"[0-9]{1,9}", one) for one in (first, last)) and int(first) <= int(last):
        width = len(first) if first.startswith("0") else 1
        numbers = range(int(first), int(last) + 1, step)
        if len(numbers) > MOST_HOSTS:
            raise ValueError(
                f"[{first}:{last}] expands to {len(numbers)} hosts; the limit of an inventory is {MOST_HOSTS}"
            )
        return [str(number).zfill(width) for number in numbers]
    letters = string.ascii_letters
    if len(first) == len(last) == 1 and first in letters and last in letters and first <= last:
        return list(letters[letters.index(first) : letters.index(last) + 1 : step])
    raise ValueError(f"{f'[{first}:{last}]'[:60]} is not a range from a smaller to a larger number or letter")
