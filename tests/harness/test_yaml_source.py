"""Errors in YAML files point at the line, name the field and the value, and say what would be right."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import pytest
import yaml
from pydantic import BaseModel, ConfigDict, Field, field_validator

from squall.harness.errors import UsageError
from squall.harness.yaml_source import YamlSource, load_yaml, parse_yaml

SUITES = Path(__file__).resolve().parents[2] / "suites"


class Kill(BaseModel):
    model_config = ConfigDict(extra="forbid")
    fault: Literal["kill"]
    port: int = 1

    @field_validator("port", mode="before")
    @classmethod
    def _port(cls, value: object) -> object:
        if value == "ssh":
            raise ValueError("is not a port number (1–65535)")
        return value


class Pause(BaseModel):
    model_config = ConfigDict(extra="forbid")
    fault: Literal["pause"]
    seconds: float = 1.0


class Plan(BaseModel):
    model_config = ConfigDict(extra="forbid")
    nemesis: list[Annotated[Kill | Pause, Field(discriminator="fault")]] = []
    hosts: dict[str, Kill] = {}
    mode: Literal["fast", "slow"] = "fast"


def complaint(text: str) -> str:
    with pytest.raises(UsageError) as caught:
        parse_yaml(text, "plan.yaml").validated(Plan)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mode: fast\nnemsis: []\n", "plan.yaml:2: nemsis: unknown key; did you mean `nemesis`?"),
        ("mode: quick\n", 'plan.yaml:1: mode: "quick" is not one of fast or slow'),
        (
            "nemesis:\n  - fault: kill\n    prt: 3\n",
            "plan.yaml:3: nemesis[0].prt: unknown key; did you mean `port`?",
        ),
        ("nemesis:\n  - fault: kil\n", 'plan.yaml:2: nemesis[0].fault: "kil" is not known; did you mean `kill`?'),
        ("nemesis: 3\n", "plan.yaml:1: nemesis: 3 must be a list"),
        ("hosts:\n  b1: 7\n", "plan.yaml:2: hosts.b1: 7 must be a mapping (`key: value` lines)"),
        ("hosts:\n  b1:\n    port: 3\n", "plan.yaml:2: hosts.b1.fault: missing"),
        (
            "hosts:\n  b1:\n    fault: kill\n    port: ssh\n",
            'plan.yaml:4: hosts.b1.port: "ssh" is not a port number (1–65535)',
        ),
        ("mode: fast\nmode: slow\n", "plan.yaml:2: mode: given twice (first on line 1)"),
        ("mode: [fast\n", "plan.yaml:2: not YAML: expected ',' or ']', but got '<stream end>'"),
        ("", "plan.yaml: the file is empty"),
        ("- 1\n", "plan.yaml:1: [1] must be a mapping (`key: value` lines)"),
        ("hosts: &x\n  b1: *x\n", "plan.yaml:1: an anchor must not contain itself"),
    ],
)
def test_a_wrong_field_is_named_with_its_line_and_what_would_be_right(text: str, message: str) -> None:
    assert complaint(text) == message


def test_all_wrong_fields_are_told_at_once_in_the_order_of_the_file() -> None:
    told = complaint("nemsis: 1\nhosts:\n  b1: {fault: kill, port: ssh}\nmode: quick\n").splitlines()
    assert [line.split(":")[1] for line in told] == ["1", "3", "4"]


def test_a_finding_of_ones_own_names_the_line_too() -> None:
    source = parse_yaml("hosts:\n  b1: {}\n  b2: {}\n", "plan.yaml")
    assert str(source.error(("hosts", "b2", "rack"), "no such rack")) == "plan.yaml:3: hosts.b2.rack: no such rack"


def test_a_part_of_a_file_can_be_validated_where_it_stands() -> None:
    source = parse_yaml("scenarios:\n  - mode: quick\n", "suite.yaml")
    with pytest.raises(UsageError, match=r"suite\.yaml:2: scenarios\[0\]\.mode"):
        source.validated(Plan, source.data["scenarios"][0], ("scenarios", 0))


def test_merge_keys_are_no_repetition() -> None:
    source = parse_yaml("base: &b {x: 1}\nmore: {<<: *b, y: 2}\n", "plan.yaml")
    assert source.data["more"] == {"x": 1, "y": 2}


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere\.yaml: no such file"):
        load_yaml(tmp_path / "nowhere.yaml")


def test_a_source_is_a_plain_value() -> None:
    assert YamlSource("f.yaml", {}, {(): 1}).line(("any", "path")) == 1


@pytest.mark.parametrize("path", sorted(SUITES.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_file_reads_the_same_with_and_without_libyaml(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = load_yaml(path)
    monkeypatch.setattr("squall.harness.yaml_source.QUICK_LOADER", yaml.SafeLoader)
    assert load_yaml(path) == quick
