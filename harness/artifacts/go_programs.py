"""Programs in Go on this machine: `~/.cache/squall/go`, each built from modules that are pinned by checksum.

    go_program("nats-server-2.12.1", "github.com/nats-io/nats-server/v2")     # a module of `artifacts/go`
    built(directory, ".")                                                     # the main package in a module of ours

A module is a directory with `go.mod`, which names every module that is needed with its version, and `go.sum`, which
holds their checksums. `go build` refuses a module with another content, and here it may not change either file. A
program enters the cache by an atomic rename, under a name that depends on all files of the module and on the version of
Go, so that two commands may build at once. `scripts/pin_go.sh` makes a module of `artifacts/go`.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from squall.harness.artifacts.jar_cache import cache_directory as jars_directory
from squall.harness.errors import UsageError

MODULES: Final = Path(__file__).parent / "go"
BUILD_SECONDS: Final = 1800.0
LINES_SHOWN: Final = 5
REMEDY: Final = "install Go (https://go.dev/dl; `go` on PATH), or leave out what needs it"
_RELEASE: Final = re.compile(r"\bgo(\d+)\.(\d+)")
_NEEDED: Final = re.compile(r"^go (\d+)\.(\d+)", re.MULTILINE)

Release = tuple[int, int]
Say = Callable[[str], None]


def _silent(_: str) -> None:
    """Say nothing."""


def cache_directory() -> Path:
    """The directory of this user's built programs."""
    return jars_directory().parent / "go"


def go_program(name: str, package: str, *, say: Say = _silent, cache: Path | None = None) -> Path:
    """Return the program that `package` of the module `artifacts/go/NAME` builds. Raises UsageError."""
    return built(MODULES / name, package, say=say, cache=cache)


def versions(prefix: str) -> tuple[str, ...]:
    """What follows `prefix` in the names of the modules of `artifacts/go`: the versions that are pinned."""
    return tuple(sorted(one.name.removeprefix(prefix) for one in MODULES.glob(f"{prefix}*")))


def built(module: Path, package: str, *, say: Say = _silent, cache: Path | None = None) -> Path:
    """Return the program, built where the cache lacks it. Raises UsageError if it cannot be built."""
    go, said = _go()
    _refuse_an_old_one(go, said, module)
    digest = _digest(module, said)
    program = (cache or cache_directory()) / f"{module.name}-{digest[:16]}"
    if not program.is_file():
        say(f"go build   {module.name}, once: it takes minutes")
        _build(go, module, package, program)
    return program


def release_in(said: str) -> Release | None:
    """The release that `go version` prints, such as (1, 24); None if it prints none."""
    found = _RELEASE.search(said)
    return None if found is None else (int(found[1]), int(found[2]))


def needed_by(module: Path) -> Release:
    """The release that `go.mod` asks for."""
    found = _NEEDED.search((module / "go.mod").read_text())
    assert found is not None, f"{module}/go.mod has no line `go VERSION`"
    return int(found[1]), int(found[2])


def _go() -> tuple[str, str]:
    program = shutil.which("go")
    if program is None:
        raise UsageError("there is no go on PATH, and a program in Go is to be built", remedy=REMEDY)
    ran = subprocess.run([program, "version"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return program, ran.stdout.strip()


def _refuse_an_old_one(go: str, said: str, module: Path) -> None:
    release, needed = release_in(said), needed_by(module)
    if release is None:
        raise UsageError(f"{go} does not name its version: {said[:200]!r}", remedy=REMEDY)
    # Since 1.21 Go fetches a newer toolchain by itself, where GOTOOLCHAIN allows it.
    if release < (1, 21) and release < needed:
        raise UsageError(
            f"{go} is Go {_words(release)}; {module.name} needs Go {_words(needed)} or newer", remedy=REMEDY
        )


def _words(release: Release) -> str:
    return ".".join(map(str, release))


def _digest(module: Path, said: str) -> str:
    digest = hashlib.sha256(said.encode())
    for path in sorted(module.iterdir()):
        if path.suffix in (".mod", ".sum", ".go"):
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _build(go: str, module: Path, package: str, program: Path) -> None:
    program.parent.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "GOFLAGS": "", "GOWORK": "off", "CGO_ENABLED": "0"}
    with tempfile.TemporaryDirectory(prefix=".build-", dir=program.parent) as staged:
        result = Path(staged) / program.name
        command = [go, "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-o", str(result), package]
        try:
            ran = subprocess.run(
                command, cwd=module, env=environment, capture_output=True, text=True, timeout=BUILD_SECONDS,
                stdin=subprocess.DEVNULL,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise UsageError(f"go did not build {module.name} in {BUILD_SECONDS:.0f} s") from None
        if ran.returncode != 0:
            shown = "\n".join(ran.stderr.strip().splitlines()[-LINES_SHOWN:]) or "it says nothing"
            raise UsageError(
                f"go cannot build {module.name}: {shown}", remedy="check the network, and GOPROXY in `go env`"
            )
        result.replace(program)
