"""Serve metrics over HTTP in Prometheus' text format (0.0.4), on the address of `metrics.listener=host:port`.

The endpoint shares the node's thread, but no listener, channel or connection of the Kafka protocol. One scrape runs at
a time, a few milliseconds of work at once, so that a node with many topic-partitions keeps serving in between;
concurrent requests receive the same scrape. `GET /metrics` is the only resource; other paths are not found. Any other
input, or a client that sends too slowly, ends the connection. A failed scrape is reported in the response and in the
node's log, and the node continues.
"""

from __future__ import annotations

import asyncio
import math
import os
import resource
import socket
import time
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

from squall.nodes.node.metrics import metric_names as names
from squall.nodes.node.metrics.collector import Collector
from squall.nodes.node.metrics.samples import Sample, summary
from squall.nodes.node.timings import Recent
from squall.nodes.server.clock import monotonic_us
from squall.nodes.server.log import say

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
REQUEST_BYTES_MAX = 8192
REQUEST_TIMEOUT_S = 5.0
SLICE_S = 0.005
"""How long a scrape works, in seconds, before the node runs again."""
_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class MetricsEndpoint:
    """Serves the metrics of one node. `start`, then `close`."""

    def __init__(self, collector: Collector, iterations: Recent) -> None:
        self._collector = collector
        self._iterations = iterations
        self._under_way: asyncio.Task[str] | None = None
        self._server: asyncio.Server | None = None

    async def start(self, bound: socket.socket) -> None:
        """Serve on a socket that is bound already."""
        self._server = await asyncio.start_server(self._serve, sock=bound, limit=REQUEST_BYTES_MAX)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        if self._under_way is not None:
            self._under_way.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            asked = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), REQUEST_TIMEOUT_S)
            writer.write(await self._answer(asked))
            await asyncio.wait_for(writer.drain(), REQUEST_TIMEOUT_S)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    async def _answer(self, asked: bytes) -> bytes:
        words = asked.split(b"\r\n", 1)[0].split(b" ")
        path = words[1].split(b"?", 1)[0] if len(words) == 3 else b""
        if words[0] != b"GET" or path != b"/metrics":
            return _http("404 Not Found", "text/plain; charset=utf-8", "metrics are at /metrics\n")
        if self._under_way is None:
            self._under_way = asyncio.ensure_future(self._scrape())
        try:
            text = await asyncio.shield(self._under_way)
        except Exception as error:  # a failed scrape is reported, but must not stop the node from serving clients
            say(f"metrics failed: {error!r}")
            return _http("500 Internal Server Error", "text/plain; charset=utf-8", f"{error!r}\n")
        return _http("200 OK", CONTENT_TYPE, text)

    async def _scrape(self) -> str:
        try:
            page = Page()
            paused_at = time.monotonic()
            for sample in chain(self._of_the_host(), self._collector.collect(monotonic_us(), busy_us())):
                if sample is not None:
                    page.add(sample)
                if time.monotonic() - paused_at >= SLICE_S:
                    await asyncio.sleep(0)
                    paused_at = time.monotonic()
            return page.text()
        finally:
            self._under_way = None

    def _of_the_host(self) -> Iterator[Sample | None]:
        times, took = os.times(), self._iterations
        yield Sample(names.PROCESS_CPU, times.user + times.system)
        yield Sample(names.PROCESS_MEMORY, resident_bytes())
        yield from summary(names.ITERATION_TIME, (), took.values(), took.count, took.total)


def _http(status: str, content_type: str, content: str) -> bytes:
    body = content.encode()
    fields = (f"Content-Type: {content_type}", f"Content-Length: {len(body)}", "Connection: close")
    return "\r\n".join((f"HTTP/1.1 {status}", *fields, "", "")).encode() + body


# -- the text -------------------------------------------------------------------------------------------------------


class Page:
    """Samples as text, grouped by metric as the format requires. Built incrementally, since it may be long."""

    def __init__(self) -> None:
        self._by_metric: dict[str, list[str]] = {}

    def add(self, sample: Sample) -> None:
        metric = sample.metric
        lines = self._by_metric.get(metric.name)
        if lines is None:
            lines = self._by_metric[metric.name] = [
                f"# HELP {metric.name} {metric.about}",
                f"# TYPE {metric.name} {metric.kind}",
            ]
        labels = ",".join(f'{name}="{value.translate(_ESCAPED)}"' for name, value in sample.labels)
        braced = f"{{{labels}}}" if labels else ""
        lines.append(f"{metric.name}{sample.suffix}{braced} {_number(sample.value)}")

    def text(self) -> str:
        return "".join(f"{line}\n" for lines in self._by_metric.values() for line in lines)


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return str(int(value)) if value == int(value) else repr(float(value))


# -- metrics of the host --------------------------------------------------------------------------------------------


def busy_us() -> int:
    """Processor time of this thread, which is the node's, in microseconds."""
    return time.thread_time_ns() // 1000


def resident_bytes(statm: Path = Path("/proc/self/statm"), page: Callable[[], int] = resource.getpagesize) -> int:
    """Resident memory in bytes; where the kernel does not report it, the maximum so far."""
    try:
        return int(statm.read_text().split()[1]) * page()
    except (OSError, ValueError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
