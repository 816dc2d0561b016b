"""Specifies the committed lists of jars."""

from __future__ import annotations

from pathlib import Path

import pytest

from squall.harness.artifacts.jar_lists import Coordinates, names, pinned_jars
from squall.harness.errors import UsageError


@pytest.mark.parametrize("name", names())
def test_every_committed_list_pins_each_jar_once(name: str) -> None:
    jars = pinned_jars(name)
    assert len(jars) > 5
    assert len({one.coordinates.path for one in jars}) == len({one.sha256 for one in jars}) == len(jars)


def test_coordinates_give_the_path_in_a_repository() -> None:
    plain = Coordinates.parsed("org.slf4j:slf4j-api:1.7.36")
    native = Coordinates.parsed("io.netty:netty-transport-native-epoll:4.1.105.Final:linux-x86_64")
    assert plain is not None and native is not None
    assert str(plain.path) == "org/slf4j/slf4j-api/1.7.36/slf4j-api-1.7.36.jar"
    assert native.path.name == "netty-transport-native-epoll-4.1.105.Final-linux-x86_64.jar"
    assert str(native) == "io.netty:netty-transport-native-epoll:4.1.105.Final:linux-x86_64"


@pytest.mark.parametrize("text", ["", "a:b", "a:b:c:d:e", "a:b:../../etc", "a:..:1", "a:b c:1", "a::1"])
def test_text_that_names_no_jar_is_refused(text: str) -> None:
    assert Coordinates.parsed(text) is None


def test_an_unknown_name_is_refused_with_what_there_is() -> None:
    with pytest.raises(UsageError, match=r"no list of jars 'kafka-3.9.22'.*kafka-3\.9\.2"):
        pinned_jars("kafka-3.9.22")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("[]\n", "must be a mapping"),
        ("org.slf4j: 00\n", r"one.yaml:1: org.slf4j: is not group:artifact:version"),
        ("org.slf4j:slf4j-api:1.7.36: 00ff\n", r"'00ff' is not a SHA-256"),
        ("org.slf4j:slf4j-api:1.7.36:\n", r"None is not a SHA-256"),
    ],
)
def test_a_line_that_pins_nothing_is_refused(tmp_path: Path, content: str, problem: str) -> None:
    (tmp_path / "one.yaml").write_text(content)
    with pytest.raises(UsageError, match=problem):
        pinned_jars("one", tmp_path)
