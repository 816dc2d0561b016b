"""Build and send the bundle that a client host needs: the load worker and the libraries it imports.

    client-5d0c3b1f9a8e7766/
      lib/squall/harness/load/worker.py …     only what the worker imports, so that nothing else has to fit the host
      lib/confluent_kafka/ …             the Kafka client with librdkafka inside, kafka-python, msgspec, pydantic

Client bundles are sent like those of nodes (`deploy.py`) and also named by the hash of their content. A host that runs
the same kind of interpreter as the control node gets the control node's own libraries. For others, libraries in plain
Python also come from the control node, and pip downloads wheels of the compiled ones, once, into a cache. Without them
that host cannot generate load, and deployment fails with that message before the run begins.
"""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from squall.harness.errors import UsageError
from squall.harness.hosts.deploy import (
    BASE,
    Bundle,
    Deployed,
    HostKind,
    WheelMissing,
    add_directory,
    add_file,
    add_installed,
    add_wheel,
    bundle_of,
    default_cache,
    deploy,
    find_wheel,
    probe,
)
from squall.harness.hosts.ssh import Remote, on_all
from squall.harness.hosts.ssh_access import SshError
from squall.harness.hosts.system import room
from squall.harness.plugins.load_plugins import WORKLOAD_PLUGINS
from squall.harness.plugins.plugins import modules_missing, requirements

WORKER_MODULES = (
    "squall.harness.scenario.interpreter",
    "squall.harness.plugins.load_plugins",
    "squall.harness.plugins.plugins",
    "squall.harness.scenario.recording",
    "squall.harness.load.sampling",
    "squall.harness.load.tcp",
    "squall.harness.load.worker",
    "squall.results.history.rows",
    "squall.results.history.ill_formed",
    "squall.results.history.segments",
    "squall.nodes.ports",
)
"""Each goes with the packages around it."""
WORKER_PACKAGES = ("squall.workloads", "squall.nodes.protocol", "squall.nemesis.agent")
"""Packages sent besides harness modules; the native clients need the protocol, and samples of the host its agent's."""

LIBRARIES = (
    "confluent-kafka",
    "kafka-python",
    "msgspec",
    "pydantic",
    "pydantic-core",
    "annotated-types",
    "typing-extensions",
    "typing-inspection",
)
OPTIONAL_LIBRARIES = ("crc32c", "aiokafka", "async-timeout", "packaging")
"""Libraries included for hosts of the control node's kind if they are installed here.

Faster checksums for native clients, and the libraries of `workload: {client: aiokafka}`.
"""


@dataclass(frozen=True)
class ClientHost:
    """A host that is ready to run load workers. `clock_id` identifies its clock; the control node's is 0."""

    remote: Remote
    deployed: Deployed
    clock_id: int

    @property
    def name(self) -> str:
        return self.remote.name

    def directory(self, run_id: str, worker: int) -> str:
        """Return the directory of a worker of the run on the host; not among the nodes' files, which may be root's."""
        return f"{self.deployed.place.home}/{BASE}/load/{run_id}-{worker}"


def deploy_clients(remotes: Iterable[Remote], *, workload: str = "", cache: Path | None = None) -> list[ClientHost]:
    """Make client hosts ready, with the package of the workload if it is a plugin.

    Raises one UsageError for all that went wrong.
    """
    listed = list(remotes)
    packages = packages_of(workload) if listed else ()
    found = on_all(listed, probe)
    bundles: dict[HostKind, Bundle | WheelMissing] = {}
    for kind in {one.kind for one in found.values()}:
        try:
            bundles[kind] = client_bundle(kind, cache or default_cache(), packages)
        except WheelMissing as missing:
            bundles[kind] = missing

    def one(remote: Remote) -> Deployed:
        bundle = bundles[found[remote.name].kind]
        if isinstance(bundle, WheelMissing):
            raise SshError(
                remote.spec,
                f"it cannot make load: {bundle}",
                remedy=f"set `python:` to a {HostKind.here()} as on the control node, or empty the group `clients`:"
                " the control node then makes the load",
            )
        return deploy(remote, found[remote.name], bundle)

    deployed = on_all(listed, one)
    return [ClientHost(remote, deployed[remote.name], number) for number, remote in enumerate(listed, 1)]


def packages_of(workload: str) -> tuple[str, ...]:
    """The installed packages that a workload needs beyond ours: none unless it is a plugin.

    Raises UsageError for a package whose files cannot be sent to client hosts.
    """
    point = WORKLOAD_PLUGINS.entry_point(workload)
    if point is None or point.dist is None:
        return ()
    if modules_missing(point.dist, point.value):
        raise UsageError(
            f"workload {workload}: client hosts cannot get the package {WORKLOAD_PLUGINS.origin(workload)}:"
            f" {point.value.partition(':')[0]} is not among its installed files",
            remedy="install the package without --editable, or use no client hosts",
        )
    return (point.dist.name, *(name for name in requirements(point.dist) if name not in LIBRARIES))


def client_bundle(kind: HostKind, cache: Path, packages: Sequence[str] = ()) -> Bundle:
    """The bundle for client hosts of this kind, with these packages besides. Raises WheelMissing."""
    files: dict[str, bytes] = {}
    compiled = kind.python == sys.version_info[:2]
    for source in worker_files():
        add_file(files, _place(source), f"lib/squall/{source}", compiled=compiled)
    for package in WORKER_PACKAGES:
        source = PurePosixPath(*package.split(".")[1:])
        add_directory(files, _place(source), f"lib/squall/{source}", compiled=compiled)
    for library in (*LIBRARIES, *packages):
        if kind == HostKind.here() or _is_plain_python(library):
            add_installed(files, library)
        else:
            version = importlib.metadata.version(library)
            add_wheel(files, find_wheel(kind, version, cache, package=library))
    if kind == HostKind.here():
        for library in filter(_is_installed, OPTIONAL_LIBRARIES):
            add_installed(files, library)
    return bundle_of("client", files, kind, checksums="not needed")


def worker_files() -> list[PurePosixPath]:
    """The sources of the worker's modules, and of the packages that these and its other packages are in."""
    modules = [PurePosixPath(*module.split(".")[1:]) for module in WORKER_MODULES]
    packages = [PurePosixPath(*package.split(".")[1:]) for package in WORKER_PACKAGES]
    around = {outer for one in (*modules, *packages) for outer in one.parents if outer.parts}
    return sorted({*(one.with_suffix(".py") for one in modules), *(outer / "__init__.py" for outer in around)})


def _place(source: PurePosixPath) -> Path:
    """Where a source lies here."""
    return room(source.parts[0]).joinpath(*source.parts[1:])


def _is_installed(library: str) -> bool:
    try:
        importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _is_plain_python(library: str) -> bool:
    """Return whether a library is the same for every interpreter and machine."""
    return "Root-Is-Purelib: true" in (importlib.metadata.distribution(library).read_text("WHEEL") or "")
