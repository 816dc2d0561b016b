"""What is carried to a client host: enough for a load worker, and no more."""

from __future__ import annotations

import dataclasses
import io
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from squall.harness.hosts import client_bundle as subject
from squall.harness.hosts.client_bundle import client_bundle, deploy_clients
from squall.harness.hosts.deploy import Bundle, HostKind, WheelMissing
from squall.harness.hosts.ssh import Remote
from squall.harness.hosts.ssh_access import SshError

HEAVY = ("numpy", "pyarrow", "pandas", "pyspark", "numba", "paramiko", "squall.nodes", "squall.results.history.history")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return client_bundle(HostKind.here(), tmp_path_factory.mktemp("cache"))


def test_the_worker_runs_from_its_bundle_alone(bundle: Bundle, tmp_path: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(bundle.archive)) as archive:
        archive.extractall(tmp_path)
    without_site_packages = [sys.executable, "-S", "-m", "squall.harness.load.worker", "--silence", "10"]
    ran = subprocess.run(
        without_site_packages,
        env={"PYTHONPATH": str(tmp_path / "lib")},
        cwd=tmp_path,
        input='{"do": "clock"}\n{"do": "beat"}\n',
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith('{"report": "clock", "now": ')


@pytest.mark.parametrize("library", ["confluent", "kafka_python", "aiokafka"])
def test_every_client_library_that_is_installed_here_works_from_the_bundle(
    bundle: Bundle, tmp_path: Path, library: str
) -> None:
    with tarfile.open(fileobj=io.BytesIO(bundle.archive)) as archive:
        archive.extractall(tmp_path)
    subprocess.run(
        [sys.executable, "-S", "-c", f"import squall.workloads.clients.libraries.{library}"],
        env={"PYTHONPATH": str(tmp_path / "lib")},
        cwd=tmp_path,
        check=True,
        timeout=60,
    )


def test_nothing_heavy_is_imported_by_a_worker() -> None:
    program = "import sys, squall.harness.load.worker; print(*sys.modules)"
    imported = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not set(HEAVY) & set(imported)


def test_the_bundle_is_named_by_its_content(bundle: Bundle, tmp_path: Path) -> None:
    assert bundle.name.startswith("client-")
    assert client_bundle(HostKind.here(), tmp_path).name == bundle.name


def test_for_another_interpreter_only_compiled_libraries_are_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted: list[str] = []

    def find(kind: HostKind, version: str, cache: Path, *, package: str) -> Path:
        wanted.append(package)
        raise WheelMissing(f"no {package} wheel for {kind} could be downloaded")

    monkeypatch.setattr(subject, "find_wheel", find)
    monkeypatch.setattr(subject, "LIBRARIES", ("pydantic", "annotated-types", "msgspec"))
    with pytest.raises(WheelMissing, match="msgspec"):
        client_bundle(HostKind("cpython", (3, 99), "riscv64", "glibc"), tmp_path)
    assert wanted == ["msgspec"]


@pytest.mark.lab
@pytest.mark.xdist_group("hosts")
def test_a_host_without_fitting_libraries_is_named_before_anything_runs(
    b1: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(kind: HostKind, cache: Path, packages: Sequence[str]) -> Bundle:
        raise WheelMissing(f"no confluent-kafka wheel for {kind} could be downloaded")

    monkeypatch.setattr(subject, "client_bundle", missing)
    far = Remote(dataclasses.replace(b1.spec, name="load9"), b1.network)
    with pytest.raises(SshError, match=r"load9 .*cannot make load: no confluent-kafka wheel.*\n    set `python:`"):
        deploy_clients([far])
    far.close()
