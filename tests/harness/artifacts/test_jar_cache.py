"""Specifies the cache of jars: only what is pinned enters it, and it is fetched once."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from squall.harness.artifacts import maven
from squall.harness.artifacts.jar_cache import cache_directory, jars
from squall.harness.artifacts.jar_lists import Coordinates
from squall.harness.errors import UsageError

CONTENTS = {"org.a:one:1": b"first", "org.a:two:2": b"second"}


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    directory = tmp_path / "lists"
    directory.mkdir()
    lines = [f"{name}: {hashlib.sha256(content).hexdigest()}\n" for name, content in CONTENTS.items()]
    (directory / "both.yaml").write_text("".join(lines))
    return directory


class Repository:
    """Serves `contents`, and keeps what was asked for."""

    def __init__(self, contents: dict[str, bytes]) -> None:
        self.contents = contents
        self.asked: list[list[str]] = []

    def fetch(self, wanted: Sequence[Coordinates], directory: Path) -> None:
        self.asked.append([str(one) for one in wanted])
        for one in wanted:
            if str(one) in self.contents:
                path = directory / one.path
                path.parent.mkdir(parents=True)
                path.write_bytes(self.contents[str(one)])


def test_jars_are_fetched_once_and_in_the_order_of_the_list(tmp_path: Path, lists: Path) -> None:
    repository = Repository(CONTENTS)
    for _ in range(2):
        found = jars("both", cache=tmp_path / "cache", lists=lists, fetch=repository.fetch)
        assert [path.read_bytes() for path in found] == [b"first", b"second"]
    assert repository.asked == [["org.a:one:1", "org.a:two:2"]]


def test_a_jar_changed_since_is_fetched_again(tmp_path: Path, lists: Path) -> None:
    repository = Repository(CONTENTS)
    first, _ = jars("both", cache=tmp_path / "cache", lists=lists, fetch=repository.fetch)
    first.write_bytes(b"fir")
    jars("both", cache=tmp_path / "cache", lists=lists, fetch=repository.fetch)
    assert first.read_bytes() == b"first"
    assert repository.asked[-1] == ["org.a:one:1"]


def test_a_jar_with_another_checksum_is_refused_and_not_kept(tmp_path: Path, lists: Path) -> None:
    forged = Repository({**CONTENTS, "org.a:two:2": b"another"})
    with pytest.raises(UsageError, match=r"org.a:two:2: its SHA-256 is .* is pinned"):
        jars("both", cache=tmp_path / "cache", lists=lists, fetch=forged.fetch)
    assert not list((tmp_path / "cache").rglob("*.jar"))


def test_a_jar_that_the_repository_lacks_is_named(tmp_path: Path, lists: Path) -> None:
    with pytest.raises(UsageError, match=r"org.a:one:1: the repository returned no such jar"):
        jars("both", cache=tmp_path / "cache", lists=lists, fetch=Repository({}).fetch)


def test_the_cache_is_where_the_user_keeps_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_directory() == tmp_path / "squall" / "jars"


def program(directory: Path, script: str) -> Path:
    path = directory / "mvn"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


ONE = Coordinates("org.a", "one", "1")


def test_without_maven_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match=r"mvn is not installed, and 1 jars are missing(.|\n)*apt-get install maven"):
        maven.fetch([ONE], tmp_path)


def test_a_refusal_of_the_repository_is_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "echo '[INFO] asking'; echo '[ERROR] Could not find artifact org.a:one'; exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(UsageError, match=r"mvn cannot fetch the jars: Could not find artifact org.a:one"):
        maven.fetch([ONE], tmp_path / "staged")


def test_the_project_for_maven_names_each_jar_and_where_it_belongs() -> None:
    project = maven.project_xml([ONE, Coordinates("b", "two", "2", "linux")], Path("/tmp/a&b"))
    assert "<artifactId>one</artifactId>" in project and "<classifier>linux</classifier>" in project
    assert "<outputDirectory>/tmp/a&amp;b/org/a/one/1</outputDirectory>" in project
    assert "<destFileName>two-2-linux.jar</destFileName>" in project
