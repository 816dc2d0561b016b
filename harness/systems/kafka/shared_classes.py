"""Make the archive of shared classes with which a node of Apache Kafka starts in half the time (AppCDS).

The archive is made once for each version and each Java, by a node that starts on this machine, on the loopback
interface, and ends; it lies beside the jars. A Java that it does not fit ignores it, so that every host may have it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from squall.harness.systems.kafka.launch import ARCHIVE, MAIN, STORAGE_TOOL, USUAL_JVM

START_SECONDS: Final = 90.0
STARTED: Final = "Kafka Server started"
FORMAT_SECONDS: Final = 60.0
CLUSTER: Final = "c3F1YWxsLWNsYXNzZXMtMQ"


class NoArchive(Exception):
    """The archive could not be made; nodes start without it, more slowly."""


def identity(java: Path, jars: Sequence[Path]) -> str:
    """Return what an archive depends on, in short: this very Java, and these jars."""
    said = subprocess.run([java, "-version"], capture_output=True, timeout=20, stdin=subprocess.DEVNULL)
    names = "\n".join(path.name for path in jars)
    return hashlib.sha256(said.stderr + said.stdout + names.encode()).hexdigest()[:12]


def copy_jars(jars: Sequence[Path], directory: Path) -> None:
    """Put jars into a directory, with the time that they have on hosts.

    They are links to the files of the cache where these are on the same disk, so that versions share what they share.
    """
    for jar in jars:
        target = directory / jar.name
        try:
            os.link(jar, target)
        except OSError:
            shutil.copyfile(jar, target)
        os.utime(target, (0, 0))


def make_archive(library: Path, names: Sequence[str], java: Path) -> str:
    """Start a node from the jars of a library, with all classes that it loads recorded there. Return the node's log.

    Raises NoArchive.
    """
    with tempfile.TemporaryDirectory(prefix="squall-classes-") as directory:
        return _record(library, names, java, Path(directory))


def _record(library: Path, names: Sequence[str], java: Path, directory: Path) -> str:
    config = directory / "node.properties"
    config.write_text(_properties(directory / "data"))
    start = [str(java), *USUAL_JVM]
    path = ["-cp", ":".join(names)]
    form = [*start, *path, STORAGE_TOOL, "format", "--config", str(config), "--cluster-id", CLUSTER]
    done = subprocess.run(
        form, cwd=library, capture_output=True, text=True, timeout=FORMAT_SECONDS, stdin=subprocess.DEVNULL
    )
    if done.returncode != 0:
        raise NoArchive(_last_line(done.stdout + done.stderr))
    log = directory / "node.log"
    target = library / ARCHIVE
    run = [*start, f"-XX:ArchiveClassesAtExit={target}", "-Xlog:disable", *path, MAIN, str(config)]
    with log.open("wb") as out:
        node = subprocess.Popen(run, cwd=library, stdout=out, stderr=out, stdin=subprocess.DEVNULL)
        try:
            _await_start(node, log)
            node.terminate()
            node.wait(START_SECONDS)
        except subprocess.TimeoutExpired:
            raise NoArchive(f"a node did not end in {START_SECONDS:g} s") from None
        finally:
            if node.poll() is None:
                node.kill()
                node.wait()
    if not target.is_file():
        raise NoArchive(f"{java} wrote none")
    return log.read_text(errors="replace")


def _await_start(node: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while STARTED not in (text := log.read_text(errors="replace")):
        if node.poll() is not None or time.monotonic() > end:
            raise NoArchive(f"a node did not start here: {_last_line(text)}")
        time.sleep(0.1)  # the interval of a poll


def _properties(data: Path) -> str:
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        client, controller = one.getsockname()[1], other.getsockname()[1]
    return f"""\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
log.cleaner.dedupe.buffer.size={8 << 20}
"""


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it says nothing"])[-1]
