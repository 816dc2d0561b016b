"""Input that would hang, crash or smuggle: each is refused with its place, or written so that it means only itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from squall.harness.cli.main import status_of
from squall.harness.errors import UsageError
from squall.harness.hosts.system import node_properties
from squall.harness.scenario.inventory import MOST_HOSTS, HostSpec, expand_range, read_inventory
from squall.harness.scenario.suite import read_suite
from squall.harness.yaml_source import parse_yaml
from squall.nodes.config import ConfigError, NodeConfig, format_properties, parse_properties

SECONDS = 5.0
"""Each is refused within milliseconds; this is what a busy machine may take."""


def levels(opening: str, closing: str, count: int) -> str:
    return opening * count + closing * count


def bomb(generations: int) -> str:
    """Nine aliases to nine aliases to …: 9 to the power of `generations` values in some lines."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{number}: &a{number} [{', '.join([f'*a{number - 1}'] * 9)}]" for number in range(1, generations)]
    return "\n".join(lines) + "\n"


def merges(generations: int) -> str:
    lines = ["a0: &a0 {x: 1}"]
    lines += [f"a{number}: &a{number} {{l: *a{number - 1}, r: *a{number - 1}}}" for number in range(1, generations)]
    return "\n".join(lines) + "\n"


FILES: dict[str, tuple[Callable[[], str], str]] = {
    "aliases of aliases": (lambda: bomb(9), "its aliases expand"),
    "mappings of aliases": (lambda: merges(40), "its aliases expand"),
    "nested lists": (lambda: levels("[", "]", 100_000), "nested more than 100 levels"),
    "nested mappings": (lambda: levels("{a: ", "}", 100_000), "nested more than 100 levels"),
    "nested dashes": (lambda: "- " * 100_000, "nested more than 100 levels"),
    "levels that never close": (lambda: "[" * 100_000, "nested more than 100 levels"),
    "an anchor within itself": (lambda: "a: &a [*a]\n", "must not contain itself"),
    "a day that there is not": (lambda: "scenario: 2026-13-45\n", "cannot be read"),
    "a number of many digits": (lambda: f"scenario: {'9' * 5000}\n", "cannot be read"),
    "a key that is an octal number": (lambda: "010: 1\n", "8"),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("command", ["plan", "inventory"])
def test_a_file_that_would_hang_or_crash_is_refused_at_once(
    command: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make, problem = FILES[name]
    path = tmp_path / "hostile.yaml"
    path.write_text(make())
    words = ["plan", str(path)] if command == "plan" else ["inventory", "check", "-i", str(path)]
    began = time.monotonic()
    assert status_of(words) == 254
    assert time.monotonic() - began < SECONDS
    said = capsys.readouterr().err
    assert str(path) in said and problem in said, said
    assert len(said) < 1000


def test_anchors_that_save_some_lines_are_welcome() -> None:
    text = "base: &base {a: 1, b: 2}\n" + "".join(f"k{number}: {{<<: *base, c: 3}}\n" for number in range(50))
    assert parse_yaml(text, "x").data["k49"] == {"a": 1, "b": 2, "c": 3}


@pytest.mark.parametrize(
    "pattern",
    [
        "b[1:99999999]",
        "b[1:999999999999999999999]",
        f"b[1:{'9' * 5000}]",
        "b[1:100][1:100][1:100][1:100]",
        "[1:1000][1:2]",
        "b[1:²]",
        "b[1:3:0]",
        "b[1:3:99999999999999999999]",
    ],
)
def test_a_range_of_more_hosts_than_there_are_is_refused_at_once(pattern: str) -> None:
    began = time.monotonic()
    with pytest.raises(ValueError, match=f"{MOST_HOSTS}|is not a range"):
        expand_range(pattern)
    assert time.monotonic() - began < SECONDS


def test_several_ranges_multiply_as_before() -> None:
    assert expand_range("r[1:2]b[01:03]") == ["r1b01", "r1b02", "r1b03", "r2b01", "r2b02", "r2b03"]


BREAKS = ["\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029", "\x00", "\x1b[2J", "\t"]


@pytest.mark.parametrize("line_break", BREAKS, ids=ascii)
@pytest.mark.parametrize(
    "variable",
    ["rack", "ansible_host", "ansible_user", "python", "known_hosts", "data_dirs", "ansible_ssh_common_args"],
)
def test_a_variable_of_a_host_is_one_line(variable: str, line_break: str) -> None:
    value = f"/r1{line_break}unclean.leader.election.enable=true"
    quoted = "".join(one if one.isascii() and one.isprintable() else f"\\u{ord(one):04x}" for one in value)
    text = f'"{quoted}"' if variable != "data_dirs" else f'["{quoted}"]'
    with pytest.raises(UsageError, match=rf"inventory.yaml:4: .*hosts.b1.{variable}.*must be one line"):
        read_inventory(
            parse_yaml(
                "all:\n  children:\n    controllers: {hosts: {c1: {}}}\n"
                f"    brokers: {{hosts: {{b1: {{{variable}: {text}}}}}}}\n",
                "inventory.yaml",
            )
        )


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("ansible_host", "10.0.0.1,CONTROLLER://10.0.0.9:1"),
        ("ansible_host", "b1:9092/x"),
        ("ansible_host", "-oProxyCommand=x"),
        ("ansible_user", "-l"),
        ("ansible_user", "root;reboot"),
        ("rack", ""),
        ("rack", " r1"),
        ("rack", "r" * 300),
        ("ansible_ssh_common_args", "-o 'unclosed"),
    ],
)
def test_a_variable_of_a_host_means_one_thing(variable: str, value: str) -> None:
    b1 = f'{{b1: {{{variable}: "{value}"}}}}'
    text = f"all: {{children: {{controllers: {{hosts: {{c1: {{}}}}}}, brokers: {{hosts: {b1}}}}}}}"
    with pytest.raises(UsageError, match=f"hosts.b1.{variable}"):
        read_inventory(parse_yaml(text, "inventory.yaml"))


@pytest.mark.parametrize("name", ["..", ".", "-b1", ".b1", "b1\\n", "b1/x", "b1 x"])
def test_a_host_is_called_what_a_directory_can_be_called(name: str) -> None:
    with pytest.raises(UsageError, match="is not a host name"):
        read_inventory(
            parse_yaml(f'all: {{children: {{controllers: {{hosts: {{"{name}": {{}}}}}}}}}}', "inventory.yaml")
        )


WORDS = st.text(st.characters(exclude_categories=("Cs",)), max_size=30)


@given(st.dictionaries(WORDS.filter(bool), WORDS.map(str.rstrip), max_size=5))
def test_properties_mean_what_was_written_whatever_characters_are_in_them(properties: dict[str, str]) -> None:
    read = {key: value for key, (value, _) in parse_properties(format_properties(properties)).items()}
    assert read == properties


@pytest.mark.parametrize("line_break", BREAKS, ids=ascii)
def test_a_rack_is_never_node_configuration(line_break: str) -> None:
    host = HostSpec("b1", "10.0.0.1", ("brokers",), rack=f"r1{line_break}unclean.leader.election.enable=true")
    properties = node_properties(
        host, 1, ("broker",), "10.0.0.1", {"controller.quorum.voters": "101@10.0.0.2:9093"}, "/d"
    )
    assert set(parse_properties(format_properties(properties))) == set(properties)
    with pytest.raises(ConfigError, match=r"broker\.rack=.*a value is one line"):
        NodeConfig.of(properties)


@pytest.mark.parametrize("line_break", BREAKS, ids=ascii)
def test_a_value_of_a_suite_s_configuration_is_one_line(line_break: str) -> None:
    quoted = "".join(one if one.isascii() and one.isprintable() else f"\\u{ord(one):04x}" for one in line_break)
    with pytest.raises(UsageError, match=r"suite.yaml:3: cluster.config.*(one line|unknown key)"):
        text = f'scenario: a\nfault_free: true\ncluster: {{config: {{broker.rack: "r1{quoted}node.id=7"}}}}\n'
        read_suite(parse_yaml(text, "suite.yaml"), Path("suite.yaml"))
