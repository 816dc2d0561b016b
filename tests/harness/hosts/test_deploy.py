"""Node bundles: what is in them, how they get onto a host, and what happens without a wheel or a fit Python."""

from __future__ import annotations

import dataclasses
import io
import subprocess
import tarfile
import time
import zipfile
from pathlib import Path

import pytest

from squall.harness.hosts.deploy import (
    Bundle,
    Bundler,
    HostKind,
    WheelMissing,
    deploy,
    find_wheel,
    probe,
)
from squall.harness.hosts.ssh import Remote
from squall.harness.hosts.ssh_access import CommandFailed, SshError
from squall.harness.hosts.system import SquallNodes
from squall.harness.lab.lab_files import LAB_USER

OTHER = HostKind("cpython", (3, 99), "riscv64", "glibc")


def source_tree(directory: Path, text: str = "ANSWER = 42\n") -> Bundler:
    package, agent = directory / "package", directory / "agent"
    for path in (package / "deep", package / "__pycache__", agent):
        path.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text("")
    (package / "deep/thought.py").write_text(text)
    (package / "__pycache__/stale.pyc").write_bytes(b"stale")
    (agent / "__main__.py").write_text("print('here')\n")
    return Bundler({"squall/toy": package}, agent, cache=directory / "cache")


def names(bundle: Bundle) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(bundle.archive)) as archive:
        return archive.getnames()


def fake_pip(kind: str) -> object:
    """A `run` that behaves as pip download: delivers a wheel, or fails."""

    def run(argv: list[str], **_: object) -> None:
        if kind == "fails":
            raise subprocess.CalledProcessError(1, argv)
        target = Path(argv[argv.index("--dest") + 1], "crc32c-2.9-cp399-riscv64.whl")
        with zipfile.ZipFile(target, "w") as wheel:
            wheel.writestr("crc32c/__init__.py", "")

    return run


def test_a_bundle_holds_packages_byte_code_agent_and_checksum_library(tmp_path: Path) -> None:
    bundle = source_tree(tmp_path).bundle(HostKind.here())
    found = names(bundle)
    assert {"lib/squall/toy/__init__.py", "lib/squall/toy/deep/thought.py", "agent/agent.py"} <= set(found)
    assert any(name.startswith("lib/squall/toy/deep/__pycache__/thought.") for name in found)
    assert any(name.startswith("lib/crc32c/") for name in found)
    assert not any("stale" in name for name in found)
    assert bundle.checksums.startswith("crc32c ")


def test_a_bundle_is_named_by_its_content_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, again = source_tree(tmp_path / "a"), source_tree(tmp_path / "b")
    changed = source_tree(tmp_path / "c", text="ANSWER = 43\n")
    here = HostKind.here()
    assert first.bundle(here).name == again.bundle(here).name != changed.bundle(here).name
    archive = first.bundle(here).archive
    later = time.time() + 100.0
    monkeypatch.setattr("time.time", lambda: later)
    assert again.bundle(here).archive == archive


def test_without_a_wheel_the_bundle_says_that_checksums_are_slow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_wheel(kind: HostKind, version: str, cache: Path) -> Path:
        raise WheelMissing(f"no crc32c wheel for {kind} could be downloaded")

    monkeypatch.setattr("squall.harness.hosts.deploy.find_wheel", no_wheel)
    bundle = source_tree(tmp_path).bundle(OTHER)
    assert bundle.checksums == "pure Python: no crc32c wheel for cpython 3.99 riscv64 glibc could be downloaded"
    assert not any(name.startswith("lib/crc32c") or name.endswith(".pyc") for name in names(bundle))


def test_a_wheel_for_another_kind_of_host_is_downloaded_once(tmp_path: Path) -> None:
    wheel = find_wheel(OTHER, "2.9", tmp_path, run=fake_pip("delivers"))  # type: ignore[arg-type]
    assert find_wheel(OTHER, "2.9", tmp_path, run=fake_pip("fails")) == wheel  # type: ignore[arg-type]


def test_a_wheel_that_cannot_be_had_is_told_with_the_kind_of_host(tmp_path: Path) -> None:
    with pytest.raises(WheelMissing, match=r"cpython 3\.99 riscv64 glibc"):
        find_wheel(OTHER, "2.9", tmp_path, run=fake_pip("fails"))  # type: ignore[arg-type]


def test_no_wheel_is_looked_for_where_there_are_none(tmp_path: Path) -> None:
    with pytest.raises(WheelMissing, match="pypy"):
        find_wheel(dataclasses.replace(OTHER, implementation="pypy"), "2.9", tmp_path, run=fake_pip("fails"))  # type: ignore[arg-type]


@pytest.mark.lab
@pytest.mark.xdist_group("hosts")
class TestOnAHost:
    """A lab host has no pip to speak of and no internet."""

    def test_the_nodes_bundle_runs_from_its_directory_alone(self, b1: Remote) -> None:
        bundle = SquallNodes().bundle(HostKind.here())
        place = deploy(b1, probe(b1), bundle).place
        program = "import squall.nodes.config, crc32c; print(squall.nodes.config.__file__, crc32c.crc32c(b'123456789'))"
        result = b1.run(["env", f"PYTHONPATH={place.library}", place.python, "-c", program], check=True)
        assert result.stdout == f"{place.library}/squall/nodes/config.py {0xE3069283}\n"

    def test_the_node_explains_itself(self, b1: Remote) -> None:
        place = deploy(b1, probe(b1), SquallNodes().bundle(HostKind.here())).place
        result = b1.run(
            ["env", f"PYTHONPATH={place.library}", place.python, "-m", "squall.nodes", "--help"], check=True
        )
        assert "--config" in result.stdout

    def test_a_bundle_that_is_there_is_not_sent_again(self, b1: Remote, tmp_path: Path) -> None:
        bundle = source_tree(tmp_path).bundle(HostKind.here())
        assert deploy(b1, probe(b1), bundle).sent
        assert not deploy(b1, probe(b1), bundle).sent

    def test_sending_the_same_bundle_twice_at_once_harms_nothing(self, b1: Remote, tmp_path: Path) -> None:
        bundle = source_tree(tmp_path, text="TWICE = 2\n").bundle(HostKind.here())
        found = probe(b1)
        assert deploy(b1, found, bundle).sent and deploy(b1, found, bundle).sent
        assert [name for name in probe(b1).bundles if name.startswith(bundle.name)] == [bundle.name]

    def test_a_damaged_upload_is_refused(self, b1: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        bundle = source_tree(tmp_path, text="DAMAGED = True\n").bundle(HostKind.here())
        monkeypatch.setattr(Bundle, "digest", property(lambda _: "0" * 64))
        with pytest.raises(CommandFailed, match="damaged"):
            deploy(b1, probe(b1), bundle)
        assert bundle.name not in probe(b1).bundles

    def test_an_ordinary_user_deploys_into_its_own_home(self, b1: Remote, tmp_path: Path) -> None:
        spec = dataclasses.replace(b1.spec, user=LAB_USER, python="/usr/bin/python3", sudo=True)
        with Remote(spec, b1.network) as ordinary:
            found = probe(ordinary)
            deployed = deploy(ordinary, found, source_tree(tmp_path).bundle(found.kind))
            assert deployed.place.bundle.startswith(f"/home/{LAB_USER}/.squall/bundles/")

    def test_a_python_that_is_missing_or_too_old_is_named(self, b1: Remote) -> None:
        missing = Remote(dataclasses.replace(b1.spec, python="/usr/bin/python9"), b1.network)
        with pytest.raises(SshError, match=r"b1 .*python /usr/bin/python9 does not run.*\n    set `python:`"):
            probe(missing)
        b1.put(
            b"#!/bin/sh\nexec " + b1.spec.python.encode() + b" -c 'import sys; sys.version_info = (3, 9, 2)\n"
            b'exec(sys.argv[1])\' "$2"\n',
            "/root/python3.9",
            mode=0o755,
        )
        old = Remote(dataclasses.replace(b1.spec, python="/root/python3.9"), b1.network)
        with pytest.raises(SshError, match=r"python /root/python3.9 is 3\.9\.2; 3\.11 or later is needed"):
            probe(old)
