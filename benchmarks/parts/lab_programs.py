"""Small programs that the benchmark of the lab runs on hosts, as processes of the agent.

`CLOCK_WATCH` runs in an event loop and first writes a line that it is watching. It reads its wall clock every
millisecond and records each jump, with its time (on the monotonic clock, which all hosts of a machine share) and the
longest stall of its loop since the previous jump. `WRITER` appends and fsyncs, keeps the ledger that a power loss uses,
and records in another file, outside the reach of the power loss, how many bytes were durable. Its content follows from
the position (`as_written`).
"""

from __future__ import annotations

CLOCK_WATCH = """
import asyncio, json, sys, time

async def watch(path):
    offset = time.time() - time.monotonic()
    last = time.monotonic()
    stall = 0.0
    with open(path, "a") as told:
        told.write("watching\\n")
    while True:
        await asyncio.sleep(0.001)
        now = time.monotonic()
        stall = max(stall, now - last)
        last = now
        moved = time.time() - now - offset
        if abs(moved) > 1.0:
            offset += moved
            with open(path, "a") as told:
                told.write(json.dumps({"at": now, "stall": stall, "moved": moved}) + "\\n")
            stall, last = 0.0, time.monotonic()

asyncio.run(watch(sys.argv[1]))
"""

WRITER = """
import os, sys

data, ledger_path, told_path = sys.argv[1:]
file = os.open(os.path.join(data, "records"), os.O_RDWR | os.O_CREAT)
size = os.lseek(file, 0, os.SEEK_END)
ledger = os.open(ledger_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
told = os.open(told_path, os.O_RDWR | os.O_CREAT)
os.fsync(os.open(data, os.O_RDONLY))
os.write(ledger, b"u %d records\\n" % size)
while True:
    for piece in range(4):
        if piece == 3:
            os.fsync(file)
            os.write(ledger, b"s %d records\\n" % size)
            os.pwrite(told, b"%020d" % size, 0)
        content = b"%019d\\n" % size * 50
        os.write(file, content)
        size += len(content)
"""

WRITTEN_AT_ONCE = 20 * 50


def as_written(position: int) -> bytes:
    """The content that `WRITER` writes at a position, up to the next position."""
    return b"%019d\n" % position * 50
