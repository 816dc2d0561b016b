"""Where a leader spends its time under produce load, as flame graphs.

Drawn by `python -m squall.benchmarks.flame_graph DIRECTORY`.

Two graphs are drawn, of the same broker under two loads: `produce-large.svg` with batches as big as the client makes
them, `produce-small.svg` with a request for every record. Both with three replicas and acks=all. The profiler (py-spy,
extra `profile`) samples the process from outside, 500 times a second, and like the kernel does not count an idle
broker: what `select` shows is its cost, not idleness. This command made the graphs in docs/performance.md.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from confluent_kafka import Producer

from squall.benchmarks.broker import AS_SHIPPED
from squall.benchmarks.parts.load import Bench, Layout, hand_over
from squall.harness.loopback.loopback import Cluster

SECONDS = 15
SAMPLES_PER_SECOND = 500
WARM_UP_RECORDS = 2_000
RECORDS_BETWEEN_LOOKS = 500
TOPIC = "flame"
LOADS: dict[str, dict[str, str | int | float | bool]] = {
    "produce-large": {},
    "produce-small": {"linger.ms": 0, "batch.num.messages": 1, "max.in.flight.requests.per.connection": 5},
}

TITLES = {
    "produce-large": "The leader of one topic-partition, three replicas: batches of up to 1 MB",
    "produce-small": "The leader of one topic-partition, three replicas: a request for every record of 1 KB",
}


def draw(directory: Path, load: str, profiler: str) -> Path:
    """Produce for a while and write `directory`/`load`.svg."""
    picture = directory / f"{load}.svg"
    with Cluster(brokers=3, controllers=3, properties=AS_SHIPPED) as cluster:
        cluster.wait_until_ready()
        bench = Bench(cluster)
        bench.create_topic(TOPIC, Layout())
        leader = bench.admin.list_topics(TOPIC).topics[TOPIC].partitions[0].leader
        producer = bench.producer(LOADS[load])
        _produce(bench, producer, WARM_UP_RECORDS)
        bench.flush(producer)
        process = cluster.nodes[leader].pid
        assert process is not None
        watch = subprocess.Popen(_command(profiler, process, picture), stderr=subprocess.DEVNULL)
        while watch.poll() is None:
            _produce(bench, producer, RECORDS_BETWEEN_LOOKS)
        bench.flush(producer)
    if watch.returncode:
        raise SystemExit(f"the profiler ended with status {watch.returncode}; may it look at other processes?")
    picture.write_text(titled(picture.read_text("utf-8"), TITLES[load]), "utf-8")
    return picture


def titled(svg: str, title: str) -> str:
    """Replace a graph's title, which is the profiler's command line."""
    return re.sub(r'(<text id="title"[^>]*>)[^<]*', lambda found: found[1] + title, svg)


def _command(profiler: str, pid: int, picture: Path) -> list[str]:
    options = ["--duration", str(SECONDS), "--rate", str(SAMPLES_PER_SECOND), "--format", "flamegraph"]
    return [profiler, "record", "--pid", str(pid), *options, "--output", str(picture)]


def _produce(bench: Bench, producer: Producer, records: int) -> None:
    for _ in range(records):
        hand_over(producer, TOPIC, 0, bench.value)


def main(arguments: list[str]) -> None:
    beside_python = Path(sys.executable).with_name("py-spy")
    profiler = str(beside_python) if beside_python.exists() else shutil.which("py-spy")
    if len(arguments) != 1 or profiler is None:
        raise SystemExit("usage: python -m squall.benchmarks.flame_graph DIRECTORY; needs pip install -e .[profile]")
    directory = Path(arguments[0])
    directory.mkdir(parents=True, exist_ok=True)
    for load in LOADS:
        print(draw(directory, load, profiler))


if __name__ == "__main__":
    main(sys.argv[1:])
