"""Libraries: made once and whole, and the same files on every host."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.hosts.libraries import COMPLETE, Library, make_library, place_library


def fill(directory: Path) -> None:
    (directory / "a.jar").write_bytes(b"a jar")


def test_a_library_is_made_once(tmp_path: Path) -> None:
    made: list[Path] = []

    def counted(directory: Path) -> None:
        made.append(directory)
        fill(directory)

    first, second = (make_library("it-1", counted, root=tmp_path) for _ in range(2))
    assert first == second == Library("it-1", tmp_path / "it-1")
    assert len(made) == 1 and (tmp_path / "it-1" / "a.jar").stat().st_mtime == 0


def test_a_library_that_could_not_be_filled_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no room"):
        make_library("it-1", no_room, root=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_incomplete_library_is_made_again(tmp_path: Path) -> None:
    (tmp_path / "it-1").mkdir()
    (tmp_path / "it-1" / "half.jar").touch()
    directory = make_library("it-1", fill, root=tmp_path).directory
    assert sorted(path.name for path in directory.iterdir()) == [COMPLETE, "a.jar"]


class Host:
    """A host that is this machine, as far as commands go; it may have another file system."""

    def __init__(self, hidden: Path) -> None:
        self.hidden = str(hidden)
        self.sent = 0

    def run(self, argv: Any, *, stdin: bytes | None = None, timeout: float = 0, check: bool = False) -> Any:
        self.sent += len(stdin or b"")
        if any(self.hidden in str(word) for word in argv):
            return SimpleNamespace(ok=False)
        command = ["sh", "-c", argv] if isinstance(argv, str) else argv
        done = subprocess.run(command, input=stdin, capture_output=True, check=check)
        return SimpleNamespace(ok=done.returncode == 0)


def test_a_host_that_sees_the_library_gets_no_copy(tmp_path: Path) -> None:
    library = make_library("it-1", fill, root=tmp_path)
    host: Any = Host(tmp_path / "nowhere")
    assert place_library(host, found(tmp_path / "home"), library) == str(library.directory)
    assert host.sent == 0


def test_another_host_gets_one_copy_with_the_same_times(tmp_path: Path) -> None:
    library = make_library("it-1", fill, root=tmp_path / "control")
    host: Any = Host(tmp_path / "control")
    (tmp_path / "home/.squall/bundles").mkdir(parents=True)
    places = [place_library(host, found(tmp_path / "home"), library) for _ in range(2)]
    assert places == [str(tmp_path / "home/.squall/bundles/it-1")] * 2
    copied = Path(places[0], "a.jar")
    assert (copied.read_bytes(), copied.stat().st_mtime) == (b"a jar", 0)
    assert 0 < host.sent < 20_000, "sent once"


def found(home: Path) -> Any:
    return SimpleNamespace(home=str(home), executable=sys.executable)


def no_room(directory: Path) -> None:
    raise OSError("no room")
