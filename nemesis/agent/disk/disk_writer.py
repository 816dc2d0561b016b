"""Keeps a disk busy: writes and fsyncs as fast as possible for as long as its fault is open.

    python3 -u program.py disk.disk_writer --state DIR --helper NAME --ready DESCRIPTOR
                              --id FAULT --directory DIR --bytes N --writers N

The file has no name, so nothing is left behind however the program ends. Each writer overwrites its own part of the
file again and again.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from pathlib import Path

from squall.nemesis.agent.core.helpers import GLANCE, announce, is_open
from squall.nemesis.agent.core.journal import Journal

BLOCK = 1 << 18


def write_for_ever(descriptor: int, start: int, length: int) -> None:
    """Write in a thread; does not return. Retries when the disk fails or is full, which other faults may cause."""
    block, at = os.urandom(min(BLOCK, length)), 0
    while True:
        try:
            os.pwrite(descriptor, block, start + at)
            os.fdatasync(descriptor)
        except OSError:
            time.sleep(GLANCE)
        at = 0 if at + 2 * len(block) > length else at + len(block)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description="keeps a disk busy")
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--helper", required=True)
    parser.add_argument("--ready", type=int, required=True, metavar="DESCRIPTOR")
    parser.add_argument("--id", required=True)
    parser.add_argument("--directory", required=True)
    parser.add_argument("--bytes", type=int, required=True)
    parser.add_argument("--writers", type=int, required=True)
    options = parser.parse_args(argv)
    journal, part = Journal(options.state), options.bytes // options.writers
    with tempfile.TemporaryFile(dir=options.directory, buffering=0) as file:
        for number in range(options.writers):
            part_of_it = (file.fileno(), number * part, part)
            threading.Thread(target=write_for_ever, args=part_of_it, daemon=True).start()
        announce(options.state, options.helper, options.ready)
        while is_open(journal, options.id):
            time.sleep(GLANCE)
    os._exit(0)  # the writers do not end
