"""Programs in Go: built once by checksum, and what is missing is named. `go` is a script that plays it."""

from __future__ import annotations

from pathlib import Path

import pytest

from squall.harness.artifacts import go_programs
from squall.harness.artifacts.go_programs import MODULES, built, needed_by, release_in, versions
from squall.harness.errors import UsageError
from tests.facts import naming

FAKE_GO = """#!/bin/sh
if [ "$1" = version ]; then echo "go version go{release} linux/amd64"; exit 0; fi
echo "$@" >> "{calls}"
{build}
"""
BUILDS = 'while [ "$1" != -o ]; do shift; done; echo program > "$2"; chmod 755 "$2"'
FAILS = 'echo "verifying module: checksum mismatch" >&2; exit 1'


@pytest.fixture
def module(tmp_path: Path) -> Path:
    directory = tmp_path / "thing-1.0"
    directory.mkdir()
    (directory / "go.mod").write_text("module squall/thing\n\ngo 1.20\n")
    (directory / "go.sum").write_text("example.org/thing v1.0.0 h1:abc=\n")
    return directory


def play_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, build: str = BUILDS, release: str = "1.22.3") -> Path:
    """Put a `go` on PATH that plays a release. Returns the file of its calls."""
    calls, program = tmp_path / "calls", tmp_path / "bin" / "go"
    program.parent.mkdir(exist_ok=True)
    program.write_text(FAKE_GO.format(release=release, calls=calls, build=build))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    return calls


def test_a_program_is_built_once(tmp_path: Path, module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, said = play_go(tmp_path, monkeypatch), []
    first = built(module, "example.org/thing", say=said.append, cache=tmp_path / "cache")
    assert first.read_text() == "program\n"
    assert built(module, "example.org/thing", say=said.append, cache=tmp_path / "cache") == first
    (call,) = calls.read_text().splitlines()
    assert "-mod=readonly" in call and call.endswith("example.org/thing")
    assert len(said) == 1 and "thing-1.0" in said[0]
    assert [one.name for one in (tmp_path / "cache").iterdir()] == [first.name], "no leftovers of a build"


def test_another_checksum_is_another_program(tmp_path: Path, module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play_go(tmp_path, monkeypatch)
    first = built(module, ".", cache=tmp_path / "cache")
    (module / "go.sum").write_text("example.org/thing v1.0.0 h1:xyz=\n")
    assert built(module, ".", cache=tmp_path / "cache") != first


def test_a_refused_checksum_is_what_go_said(tmp_path: Path, module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play_go(tmp_path, monkeypatch, build=FAILS)
    with pytest.raises(UsageError, match=naming("thing-1.0", "checksum mismatch")):
        built(module, ".", cache=tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_without_go_the_error_says_what_to_install(module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UsageError, match="there is no go on PATH") as caught:
        built(module, ".")
    assert "go.dev" in (caught.value.remedy or "")


@pytest.mark.parametrize(("release", "refused"), [("1.19.8", True), ("1.20.1", False), ("1.21.0", False)])
def test_a_release_that_cannot_build_it_is_refused(
    tmp_path: Path, module: Path, monkeypatch: pytest.MonkeyPatch, release: str, refused: bool
) -> None:
    """From 1.21 on, go itself decides: it can fetch a newer toolchain."""
    play_go(tmp_path, monkeypatch, release=release)
    if refused:
        with pytest.raises(UsageError, match=naming("1.19", "needs Go 1.20")):
            built(module, ".", cache=tmp_path / "cache")
    else:
        built(module, ".", cache=tmp_path / "cache")


def test_a_release_is_read_from_what_go_prints() -> None:
    assert release_in("go version go1.26.8 linux/amd64") == (1, 26)
    assert release_in("something else") is None


@pytest.mark.parametrize("name", [f"nats-server-{one}" for one in versions("nats-server-")])
def test_every_pinned_module_has_checksums_and_asks_for_a_release(name: str) -> None:
    directory = MODULES / name
    version = name.removeprefix("nats-server-")
    assert f"nats-server/v2 v{version}" in (directory / "go.mod").read_text()
    assert f"nats-server/v2 v{version} h1:" in (directory / "go.sum").read_text()
    assert needed_by(directory) >= (1, 20)


def test_programs_lie_beside_the_jars(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert go_programs.cache_directory() == tmp_path / "squall" / "go"
