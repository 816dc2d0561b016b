"""The wheel holds exactly what the tree holds, under one top-level name (docs/architecture.md, "Packaging").

Packages are found through the links in src/squall, and data files are named by pattern: both can silently leave
something out that an editable installation never misses. So a wheel is built from a copy of the tree and compared
with it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("nodes", "workloads", "nemesis", "results", "harness", "benchmarks")
PACKAGED = (*ROOMS, "suites")
BUILD_FILES = ("pyproject.toml", "README.md")
GENERATED = shutil.ignore_patterns("__pycache__", "*.pyc")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is packaged, so that building leaves nothing behind in the real one."""
    copy = tmp_path_factory.mktemp("tree")
    for room in PACKAGED:
        shutil.copytree(ROOT / room, copy / room, ignore=GENERATED)
    for name in BUILD_FILES:
        shutil.copy(ROOT / name, copy / name)
    shutil.copytree(ROOT / "src", copy / "src", symlinks=True, ignore=shutil.ignore_patterns("*.egg-info"))
    return copy


def test_every_room_is_linked_under_src_and_nothing_else() -> None:
    links = {path.name: path.readlink() for path in (ROOT / "src" / "squall").iterdir() if path.name != "__pycache__"}
    assert links == {room: Path("../..", room) for room in PACKAGED}


@pytest.fixture(scope="module")
def wheel(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel, built with what is installed: nothing is downloaded."""
    into = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    built = subprocess.run(
        [*command, "--disable-pip-version-check", "--wheel-dir", str(into), str(tree)], capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr
    (path,) = into.glob("squall-*.whl")
    return zipfile.ZipFile(path)


def packaged(wheel: zipfile.ZipFile) -> set[str]:
    """What the wheel installs, without its own description of itself."""
    return {name for name in wheel.namelist() if ".dist-info/" not in name}


def test_every_file_of_the_rooms_is_in_the_wheel_and_nothing_else(tree: Path, wheel: zipfile.ZipFile) -> None:
    expected = {
        f"squall/{path.relative_to(tree)}"
        for room in PACKAGED
        for path in (tree / room).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    found = packaged(wheel)
    assert expected - found == set(), "in the tree, but not in the wheel"
    assert found - expected == set(), "in the wheel, but not in the tree"


@pytest.mark.parametrize(
    "name",
    [
        "squall/nemesis/agent/clock/clockshim.c",
        "squall/nemesis/agent/clock/hook/sitecustomize.py",
        "squall/results/report/templates/report.html",
        "squall/results/report/templates/report.css",
        "squall/results/checkers/engine/log4j2.properties",
        "squall/suites/quickstart.yaml",
        "squall/suites/swarm.yaml",
        "squall/suites/gallery/D1.yaml",
        "squall/harness/gallery/kafka/java/ProducerProgram.java",
        "squall/harness/gallery/nats/publisher/main.go",
        "squall/harness/gallery/nats/publisher/go.sum",
        "squall/harness/artifacts/go/nats-server-2.12.1/go.mod",
        *(f"squall/{room}/py.typed" for room in ROOMS if room != "benchmarks"),
    ],
)
def test_a_file_that_no_import_would_miss_is_in_the_wheel(name: str, wheel: zipfile.ZipFile) -> None:
    assert name in wheel.namelist()


def test_nothing_but_squall_lands_in_site_packages(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in packaged(wheel)}
    assert tops == {"squall"}


def test_squall_is_a_namespace_so_that_the_rooms_alone_make_it(wheel: zipfile.ZipFile) -> None:
    assert "squall/__init__.py" not in wheel.namelist()


def test_both_commands_are_installed(wheel: zipfile.ZipFile) -> None:
    (entry_points,) = [name for name in wheel.namelist() if name.endswith(".dist-info/entry_points.txt")]
    text = wheel.read(entry_points).decode()
    assert "squall = squall.harness.cli.main:main" in text
    assert "squall-node = squall.nodes.server.main:main" in text


@pytest.fixture(scope="module")
def installed(wheel: zipfile.ZipFile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the wheel puts into site-packages, with the libraries of this environment beside it."""
    into = tmp_path_factory.mktemp("installed")
    wheel.extractall(into)
    return into


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "quickstart", "--seed", "4711"),
        ("plan", "leader-kill-lagging-ack-before-replication"),
        pytest.param(("simulate", "two-hop-failover", "--seed", "2"), marks=pytest.mark.full),
        ("simulate", "barren-epoch", "--seed", "1"),
    ],
    ids=" ".join,
)
def test_the_shipped_suites_are_found_by_name_in_any_directory(
    words: tuple[str, ...], installed: Path, tmp_path: Path
) -> None:
    """No editable installation, no checkout: the rooms of the wheel alone, and an empty directory."""
    code = f"import sys; sys.path.insert(0, {str(installed)!r}); import squall.harness.scenario.suites as s; "
    code += f"assert s.__file__.startswith({str(installed)!r}), s.__file__; "
    code += "from squall.harness.cli.main import main; main()"
    arguments = [sys.executable, "-c", f"import sys; sys.path.remove({str(ROOT / 'src')!r}); {code}"]
    done = subprocess.run([*arguments, *words], cwd=tmp_path, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not list(tmp_path.iterdir()) or words[0] != "plan"
