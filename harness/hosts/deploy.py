"""Deploy programs to hosts: one self-contained directory per kind of host, named by the hash of its content.

A host needs only sshd and Python ≥ 3.11: no pip, no ensurepip, no internet. So everything that runs there is assembled
here, as plain files:

    bundle-1f3a9c0d2b4e5f60/
      lib/squall/nodes/…      the node, run by PYTHONPATH=…/lib
      lib/crc32c/…            its one compiled dependency, from the wheel for this (Python, architecture)
      agent/agent.py …        the nemesis's host agent, its clock shim compiled where this machine has a compiler

`probe` asks a host for its Python, architecture and C library in one command; these decide which wheel fits. The
running interpreter's own copy of crc32c serves hosts of the same kind; for others pip downloads the wheel once into a
cache. Without a wheel the node computes checksums in Python, many times slower; the bundle reports that, and so does
the run's manifest.

Uploading is one command per host: a tar stream into a short program on the host's Python, which checks the stream's
SHA-256, unpacks beside the target and renames. An existing bundle is not sent again. Everything on a host lies under
`~/.squall`, which an ordinary user can write:

    ~/.squall/bundles/bundle-…      ~/.squall/agent (the agent's state)      ~/.squall/runs/RUN/…
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.metadata
import io
import json
import os
import platform
import py_compile
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from squall.harness.hosts.ssh import Remote
from squall.harness.hosts.ssh_access import SshError

OLDEST_PYTHON = (3, 11)
BASE = ".squall"
CHECKSUM_PACKAGE = "crc32c"
DOWNLOAD_SECONDS = 60
NOT_SHIPPED = ("__pycache__",)
AGENT = "agent/squall/nemesis/agent"
"""Where the agent's package lies in a bundle; `agent/agent.py` beside `squall` starts it."""

PROBE = """
import json, os, platform, shutil, sys
home = os.path.expanduser("~")
base = os.path.join(home, ".squall", "bundles")
print(json.dumps({
    "python": list(sys.version_info[:3]),
    "implementation": sys.implementation.name,
    "machine": platform.machine(),
    "libc": platform.libc_ver()[0] or "musl",
    "executable": sys.executable,
    "home": home,
    "writable": os.access(home, os.W_OK),
    "free_bytes": shutil.disk_usage(home).free,
    "bundles": sorted(os.listdir(base)) if os.path.isdir(base) else [],
    "lab": os.path.exists("/run/squall-lab-host"),
}))
"""

UNPACK = """
import hashlib, io, os, shutil, sys, tarfile
target, expected = sys.argv[1:]
content = sys.stdin.buffer.read()
if hashlib.sha256(content).hexdigest() != expected:
    sys.exit("the upload was damaged: its checksum is wrong")
draft = target + ".new%d" % os.getpid()
os.makedirs(draft)
with tarfile.open(fileobj=io.BytesIO(content)) as archive:
    archive.extractall(draft)
try:
    os.rename(draft, target)
except OSError:
    shutil.rmtree(draft)
    if not os.path.isdir(target):
        raise
"""


@dataclass(frozen=True)
class Probe:
    """What a host reported about itself."""

    python: tuple[int, int, int]
    implementation: str
    machine: str
    libc: str
    executable: str
    home: str
    free_bytes: int
    bundles: tuple[str, ...]
    lab: bool

    @property
    def kind(self) -> HostKind:
        return HostKind(self.implementation, self.python[:2], self.machine, self.libc)


@dataclass(frozen=True)
class HostKind:
    """The properties of a host that decide which bundle fits."""

    implementation: str
    python: tuple[int, int]
    machine: str
    libc: str

    @classmethod
    def here(cls) -> HostKind:
        return cls(sys.implementation.name, sys.version_info[:2], platform.machine(), platform.libc_ver()[0] or "musl")

    def __str__(self) -> str:
        return f"{self.implementation} {self.python[0]}.{self.python[1]} {self.machine} {self.libc}"


@dataclass(frozen=True)
class Bundle:
    """A bundle, ready to be sent."""

    name: str
    archive: bytes
    kind: HostKind
    checksums: str
    """`crc32c 2.9` or `pure Python: REASON`; goes into the run's manifest."""

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.archive).hexdigest()


@dataclass(frozen=True)
class HostPaths:
    """The paths that Squall uses on one host."""

    python: str
    home: str
    bundle: str
    programs: str = ""
    """Where the system's fetched programs lie (hosts/libraries.py); empty if it has none."""

    @property
    def base(self) -> str:
        return f"{self.home}/{BASE}"

    @property
    def library(self) -> str:
        """The value of PYTHONPATH."""
        return f"{self.bundle}/lib"

    @property
    def agent_program(self) -> str:
        return f"{self.bundle}/agent/agent.py"

    @property
    def agent_starter(self) -> str:
        """Runs one of the agent's modules as a program (nemesis/agent/program.py)."""
        return f"{self.bundle}/{AGENT}/program.py"

    @property
    def agent_state(self) -> str:
        return f"{self.base}/agent"

    def run_directory(self, run_id: str) -> str:
        return f"{self.base}/runs/{run_id}"


@dataclass(frozen=True)
class Deployed:
    """One host, ready to run nodes and the agent."""

    place: HostPaths
    probe: Probe
    bundle: Bundle
    sent: bool
    """False if the bundle was there already."""


def probe(remote: Remote) -> Probe:
    """Ask a host for its Python, architecture and C library. Raises SshError if its Python is missing or too old."""
    spec = remote.spec
    remedy = "set `python:` in the inventory to one that is 3.11 or later"
    result = remote.run([spec.python, "-c", PROBE], timeout=20)
    if not result.ok:
        last = (result.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise SshError(spec, f"python {spec.python} does not run: {last}", remedy=remedy)
    facts = json.loads(result.stdout)
    version = tuple(facts["python"])
    if version < OLDEST_PYTHON:
        found = ".".join(map(str, version))
        raise SshError(spec, f"python {spec.python} is {found}; 3.11 or later is needed", remedy=remedy)
    if not facts.pop("writable"):
        problem = f"home directory {facts['home']} is not writable for user {spec.user}"
        raise SshError(spec, problem, remedy="give the user a separate home directory")
    return Probe(**facts | {"python": version, "bundles": tuple(facts["bundles"])})


def deploy(remote: Remote, found: Probe, bundle: Bundle) -> Deployed:
    """Send the bundle to a host, unless it is there. Raises SshError."""
    target = f"{found.home}/{BASE}/bundles/{bundle.name}"
    place = HostPaths(found.executable, found.home, target)
    needed = bundle.name not in found.bundles
    if needed:
        argv = [found.executable, "-c", UNPACK, target, bundle.digest]
        remote.run(argv, stdin=bundle.archive, timeout=120, check=True)
    return Deployed(place, found, bundle, sent=needed)


# --- Putting a bundle together --------------------------------------------------------------------------------


class Bundler:
    """Makes bundles, one per kind of host, of the given packages and directories.

    `packages` maps an importable name to its source directory (`squall/nodes` → …/nodes). Without packages nothing
    there computes checksums, and their compiled library is left out.
    """

    def __init__(self, packages: Mapping[str, Path], agent: Path, *, cache: Path | None = None) -> None:
        self._packages = dict(packages)
        self._agent = agent
        self._cache = cache or default_cache()
        self._made: dict[HostKind, Bundle] = {}

    def bundle(self, kind: HostKind) -> Bundle:
        """Return the bundle for hosts of this kind; made once."""
        if kind not in self._made:
            self._made[kind] = self._make(kind)
        return self._made[kind]

    def _make(self, kind: HostKind) -> Bundle:
        files: dict[str, bytes] = {}
        for name, source in self._packages.items():
            add_directory(files, source, f"lib/{name}", compiled=kind.python == sys.version_info[:2])
        add_agent(files, self._agent)
        shim = compiled_shim(self._agent / "clock" / "clockshim.c") if kind == HostKind.here() else None
        if shim is not None:
            files[f"{AGENT}/clock/clockshim.so"] = shim
        checksums = self._add_checksums(files, kind) if self._packages else ""
        return bundle_of("bundle", files, kind, checksums)

    def _add_checksums(self, files: dict[str, bytes], kind: HostKind) -> str:
        """Put crc32c for `kind` into the bundle. Return its version, or why it is missing."""
        try:
            version = importlib.metadata.version(CHECKSUM_PACKAGE)
        except importlib.metadata.PackageNotFoundError:
            return "pure Python: crc32c is not installed on the control node"
        if kind == HostKind.here():
            add_installed(files, CHECKSUM_PACKAGE)
            return f"crc32c {version}"
        try:
            add_wheel(files, find_wheel(kind, version, self._cache))
        except WheelMissing as missing:
            return f"pure Python: {missing}"
        return f"crc32c {version}"


class WheelMissing(Exception):
    """There is no wheel for that kind of host, or no way to get it."""


def find_wheel(
    kind: HostKind,
    version: str,
    cache: Path,
    *,
    package: str = CHECKSUM_PACKAGE,
    run: Callable[..., object] = subprocess.run,
) -> Path:
    """Return a package's wheel for `kind`, from the cache or by pip. Raises WheelMissing."""
    if kind.implementation != "cpython":
        raise WheelMissing(f"there are no wheels for {kind.implementation}")
    tag = f"cp{kind.python[0]}{kind.python[1]}"
    directory = cache / f"{package}-{version}-{tag}-{kind.machine}-{kind.libc}"
    for wheel in sorted(directory.glob("*.whl")):
        return wheel
    family = ("manylinux_2_17", "manylinux2014", "manylinux_2_28") if kind.libc == "glibc" else ("musllinux_1_2",)
    directory.mkdir(parents=True, exist_ok=True)
    argv = [
        *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"),
        *("--retries", "1", "--timeout", "15"),
        *("--only-binary=:all:", "--implementation", "cp", "--abi", tag, "--python-version", tag[2:]),
        *(part for name in family for part in ("--platform", f"{name}_{kind.machine}")),
        *("--dest", str(directory), f"{package}=={version}"),
    ]
    try:
        run(argv, check=True, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS)
    except (OSError, subprocess.SubprocessError):
        raise WheelMissing(f"no {package} wheel for {kind} could be downloaded") from None
    for wheel in sorted(directory.glob("*.whl")):
        return wheel
    raise WheelMissing(f"no {package} wheel for {kind} could be downloaded")


def default_cache() -> Path:
    """Return the directory that keeps downloaded wheels between runs."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "squall" / "wheels"


def compiled_shim(source: Path) -> bytes | None:
    """Compile the clock shim to a shared library.

    Return None without source or compiler; the agent then uses another way.
    """
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not source.exists():
        return None
    with tempfile.TemporaryDirectory() as directory:
        target = Path(directory, "clockshim.so")
        argv = [compiler, "-O2", "-shared", "-fPIC", "-o", str(target), str(source), "-ldl"]
        done = subprocess.run(argv, capture_output=True, check=False, timeout=60)
        return target.read_bytes() if done.returncode == 0 else None


def bundle_of(label: str, files: Mapping[str, bytes], kind: HostKind, checksums: str) -> Bundle:
    """Return a bundle of these files, named by their content."""
    return Bundle(f"{label}-{_content_hash(files)[:16]}", _archive(files), kind, checksums)


def add_directory(files: dict[str, bytes], source: Path, target: str, *, compiled: bool) -> None:
    """Add a directory's files."""
    for path in _files(source):
        add_file(files, path, f"{target}/{path.relative_to(source).as_posix()}", compiled=compiled)


def add_agent(files: dict[str, bytes], source: Path) -> None:
    """Add the agent's package, and its `__main__.py` as the program that starts it: `squall` is found beside it."""
    add_directory(files, source, AGENT, compiled=False)
    files["agent/squall/nemesis/__init__.py"] = b""  # a package, so that no other on the host's path is taken for it
    files["agent/agent.py"] = files[f"{AGENT}/__main__.py"]


def add_file(files: dict[str, bytes], path: Path, target: str, *, compiled: bool) -> None:
    """Add a file, and beside a module its byte code, so that hosts need not compile it."""
    files[target] = path.read_bytes()
    if compiled and path.suffix == ".py":
        directory, _, _ = target.rpartition("/")
        files[f"{directory}/__pycache__/{path.stem}.{sys.implementation.cache_tag}.pyc"] = _byte_code(path, target)


def add_installed(files: dict[str, bytes], package: str) -> None:
    """Add a package as installed in this interpreter; it fits hosts of the same kind."""
    for part in importlib.metadata.files(package) or ():
        if ".." not in part.parts and not any(name in NOT_SHIPPED for name in part.parts):
            files[f"lib/{part.as_posix()}"] = Path(str(part.locate())).read_bytes()


def add_wheel(files: dict[str, bytes], wheel: Path) -> None:
    """Add the files of a wheel."""
    with zipfile.ZipFile(wheel) as content:
        for name in content.namelist():
            if not name.endswith("/"):
                files[f"lib/{name}"] = content.read(name)


def _files(source: Path) -> Iterable[Path]:
    return sorted(
        path
        for path in source.rglob("*")
        if path.is_file() and not any(part in NOT_SHIPPED for part in path.relative_to(source).parts)
    )


def _byte_code(path: Path, shown_as: str) -> bytes:
    """Compile to byte code that is not checked against the source's date: a bundle never changes."""
    with tempfile.TemporaryDirectory() as directory:
        target = Path(directory, "module.pyc")
        mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
        py_compile.compile(str(path), str(target), dfile=shown_as, doraise=True, invalidation_mode=mode)
        return target.read_bytes()


def _content_hash(files: Mapping[str, bytes]) -> str:
    """Return a hash of the sources: byte code follows from them."""
    digest = hashlib.sha256()
    for name in sorted(files):
        if not name.endswith(".pyc"):
            digest.update(f"{name}\0{len(files[name])}\0".encode())
            digest.update(files[name])
    return digest.hexdigest()


def _archive(files: Mapping[str, bytes]) -> bytes:
    """Return the same bytes for the same files: gzip would otherwise write the time of day into its header."""
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=1, mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w") as archive,
    ):
        for name in sorted(files):
            entry = tarfile.TarInfo(name)
            entry.size = len(files[name])
            entry.mode = 0o644
            archive.addfile(entry, io.BytesIO(files[name]))
    return buffer.getvalue()
