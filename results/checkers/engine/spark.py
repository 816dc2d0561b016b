"""Run the checkers' tasks on Spark.

Each task reads its own row groups with pyarrow and runs the numpy kernels: the layout of the history is the shuffle.
Moving nested rows through the JVM costs more than the check itself (5 to 20 times, measured), so only descriptions of
tasks and their results travel, as bytes (`mapPartitions`): with Arrow (`mapInArrow`), Spark plans and compiles a query
for them, which takes twice as long per bundle of tasks. The JVM and its Python workers communicate through Unix domain
sockets: over TCP each bundle waits 40 ms for a delayed acknowledgement.

A session takes seconds to start, so there is one per suite and all runs of a suite are one job. It is tuned for a quick
start: the JVM's first compiler only, the serial collector, no web interface, and an archive of loaded classes kept in
the user's cache directory from the first start on (the JVM ignores it if it does not fit). With `local[…]` the driver
binds to the loopback address and Python workers run this very interpreter, on some processors without numpy's AVX-512
(`processor.py`). `cluster.py` states what a real cluster needs, and verifies it.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Self

from squall.results.checkers.engine.cluster import (
    Expected,
    SparkTrouble,
    address_towards,
    await_executor,
    explanation,
    require_master,
)
from squall.results.checkers.engine.engines import AnyTask, Outcome, Progress, decode_outcome, encode_task
from squall.results.checkers.engine.processor import quick_sorting
from squall.results.checkers.engine.schedule import bundles
from squall.results.checkers.engine.well_formed_task import WellFormedTask

if TYPE_CHECKING:
    from pyspark import Accumulator, SparkContext
    from pyspark.sql import SparkSession

LOCAL_MASTER = "local[2]"
OLDEST_JAVA = 17
DRIVER_MEMORY = "1g"
EXECUTOR_MEMORY = "512m"
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
LOOPBACK = "127.0.0.1"
JVM_EXIT_SECONDS = 60
BUNDLES_PER_CORE = 4
WATCH_SECONDS = 1.0


class SparkDidNotStart(SparkTrouble):
    """Spark cannot run here. The message says why, and what to do about it."""


class NoJava(SparkDidNotStart):
    """Java is missing or too old."""


def java_version() -> int | None:
    """The major version of the Java that Spark would use, None if there is none."""
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else "java"
    if shutil.which(program) is None:
        return None
    answer = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=30, check=False)
    found = re.search(r'version "(\d+)', answer.stderr)
    return int(found[1]) if found else None


def require_java() -> None:
    """Require Java. Raises NoJava with the remedy."""
    version = java_version()
    remedy = (
        f"Spark needs Java {OLDEST_JAVA} or newer. Install it (`apt install openjdk-17-jre-headless`, or run "
        "`make quickstart`, which does), or check without Spark: `squall check --in-process RUN`."
    )
    if version is None:
        raise NoJava(f"no Java was found (JAVA_HOME, PATH). {remedy}")
    if version < OLDEST_JAVA:
        raise NoJava(f"Java {version} is too old. {remedy}")


def class_archive(cache: Path | None = None) -> Path:
    """The path of the archive of loaded classes for this Java and this PySpark."""
    import pyspark

    root = cache or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "squall"
    java = Path(shutil.which("java") or os.environ.get("JAVA_HOME", "")).resolve()
    identity = f"{java} {java.stat().st_mtime_ns} {pyspark.__version__} {Path(pyspark.__file__).parent}"
    return root / f"spark-{hashlib.sha256(identity.encode()).hexdigest()[:12]}.jsa"


def _java_options(archive: Path | None, draft: Path | None) -> str:
    options = [QUICK_START, "-Xshare:auto", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
    options.append(f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}")
    if archive is not None and archive.exists():
        options.append(f"-XX:SharedArchiveFile={archive}")
    elif draft is not None:
        options.append(f"-XX:ArchiveClassesAtExit={draft}")
    return " ".join(options)


class SparkEngine:
    """A Spark session for a suite. Use as a context, or call `close`.

    `on_progress`, if set, is called with how much of a job is done.
    """

    def __init__(self, master: str = LOCAL_MASTER, *, cache: Path | None = None, class_sharing: bool = True) -> None:
        """Start Spark. Raises SparkTrouble, such as NoJava."""
        require_java()
        require_master(master)
        self.name = f"Spark {master}"
        self.on_progress: Progress | None = None
        self._session: SparkSession | None = None
        self._jobs = itertools.count(1)
        self._local = master.startswith("local")
        self._archive = _place_for_archive(cache) if class_sharing else None
        self._draft = self._archive.with_suffix(f".{os.getpid()}") if self._archive else None
        with _errors_kept() as log:
            try:
                self._context = _context(master, _java_options(self._archive, self._draft))
            except Exception as trouble:
                raise SparkDidNotStart(f"Spark {master} did not start: {trouble}\n{_tail(log)}") from trouble
        if not self._local:
            try:
                await_executor(self.executors, master, EXECUTOR_MEMORY)
            except BaseException:
                self.close()
                raise

    @property
    def session(self) -> SparkSession:
        """The session for other queries, such as a second opinion (`dataframes.py`).

        Checks do not need it, and it takes a second to make.
        """
        if self._session is None:
            from pyspark.sql import SparkSession

            self._session = SparkSession.builder.getOrCreate()
        return self._session

    @property
    def is_local(self) -> bool:
        """Whether its workers are this interpreter on this host."""
        return self._local

    @property
    def at_once(self) -> int:
        """The number of tasks that are carried out at the same time, by the cores available so far."""
        return int(self._context.defaultParallelism)

    def executors(self) -> int:
        """The number of processes on workers that are ready to carry out tasks; none with `local[…]`."""
        context: Any = self._context
        driver = 1
        return len(context._jsc.sc().statusTracker().getExecutorInfos()) - driver

    def check(self, tasks: Sequence[AnyTask], sizes: Sequence[int]) -> Iterator[tuple[int, Outcome]]:
        """Run the tasks in one job. Raises SparkTrouble if a cluster's workers cannot carry them out."""
        if not tasks:
            return
        hurried = [isinstance(one, WellFormedTask) and one.deadline is not None for one in tasks]
        shares = bundles(sizes, hurried, BUNDLES_PER_CORE * self.at_once)
        encoded = [[(one, encode_task(tasks[one])) for one in share] for share in shares]
        expected = None if self._local else Expected.here(tasks)
        done, total, lacks = 0, max(1, sum(sizes)), set[str]()
        for number, data, lack in self._carried_out(encoded, expected):
            done += sizes[number]
            if self.on_progress is not None:
                self.on_progress(done / total)
            if data is not None:
                yield number, decode_outcome(data)
            elif lack is not None:
                lacks.add(lack)
        if lacks:
            raise SparkTrouble("\n".join(["not every worker can check:", *sorted(lacks)]))

    def _carried_out(self, shares: Sequence[Share], expected: Expected | None) -> Iterator[Told]:
        """Yield the outcomes of the tasks, share by share as workers complete them."""
        yield from self.spread(shares, lambda arrived: _work(expected, arrived), "check")

    def add_archive(self, path: Path) -> str:
        """Send an archive to the workers. Return the name of the folder that it becomes in their files' folder."""
        context: Any = self._context
        context.addArchive(str(path))
        return path.name

    def spread(
        self,
        shares: Sequence[Any],
        work_of: Callable[[Accumulator[Any]], Callable[[Iterable[Any]], None]],
        what: str,
        watch: Callable[[], None] | None = None,
    ) -> Generator[Any, None, None]:
        """Have the workers work on shares in one job; yield what they add to an accumulator, when a share is done.

        `work_of` makes the function that a worker applies to its shares: it adds lists. `watch` is called about once a
        second, and its exceptions end the job. Raises SparkTrouble if a cluster's workers cannot work.
        """
        from pyspark.accumulators import AddingAccumulatorParam

        arrivals, group = _Arrivals(watch), f"squall-{next(self._jobs)}"
        adding: Any = AddingAccumulatorParam([])  # on a worker it begins empty, here with the arrivals
        arrived = self._context.accumulator(arrivals, adding)

        def job() -> None:
            self._context.setJobGroup(group, what)
            self._context.parallelize(shares, len(shares)).foreachPartition(work_of(arrived))

        thread = threading.Thread(target=arrivals.until_the_end_of, args=(job,), daemon=True)
        thread.start()
        try:
            yield from arrivals
        except Exception as trouble:
            explained = None if self._local else explanation(str(trouble))
            if explained is None:
                raise
            raise SparkTrouble(f"{self.name}: {explained}") from trouble
        finally:
            if thread.is_alive():
                with contextlib.suppress(Exception):  # nothing to cancel if Spark was stopped
                    self._context.cancelJobGroup(group)
            thread.join()

    def close(self) -> None:
        """Stop Spark and its JVM, and keep its archive of classes if this session made one."""
        from pyspark import SparkContext

        gateway: Any = SparkContext._gateway
        (self._session or self._context).stop()
        if gateway is None:
            return
        with contextlib.suppress(Exception):
            gateway.shutdown()
        with contextlib.suppress(Exception):
            gateway.proc.stdin.close()
            gateway.proc.wait(timeout=JVM_EXIT_SECONDS)
        SparkContext._gateway = None
        SparkContext._jvm = None
        if self._archive is not None and self._draft is not None and self._draft.exists():
            self._draft.replace(self._archive)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


Share = list[tuple[int, bytes]]
"""Numbers of tasks, and the tasks."""
Told = tuple[int, bytes | None, str | None]
"""The number of a task, and its outcome, or what the worker lacks to compute it."""


class _Arrivals:
    """The outcomes that workers report, from the moment Spark adds them to an accumulator: when a share is done.

    Each share is reported once, even if a worker died and another one repeated it.
    """

    def __init__(self, watch: Callable[[], None] | None = None) -> None:
        self._queue: SimpleQueue[list[Any] | Exception | None] = SimpleQueue()
        self._watch = watch

    def __iadd__(self, told: list[Any]) -> Self:
        self._queue.put(told)
        return self

    def until_the_end_of(self, job: Callable[[], None]) -> None:
        """Run the job, then end the iteration: with the job's exception if it failed."""
        try:
            job()
        except Exception as trouble:
            self._queue.put(trouble)
        else:
            self._queue.put(None)

    def __iter__(self) -> Iterator[Any]:
        while (told := self._next()) is not None:
            if isinstance(told, Exception):
                raise told
            yield from told

    def _next(self) -> list[Any] | Exception | None:
        if self._watch is None:
            return self._queue.get()
        while True:
            self._watch()
            with contextlib.suppress(Empty):
                return self._queue.get(timeout=WATCH_SECONDS)


def _work(expected: Expected | None, arrived: Accumulator[Any]) -> Callable[[Iterable[Share]], None]:
    """Return the function that a Python worker applies to shares.

    It travels by value and imports Squall only there, so that a worker without Squall reports that instead of failing
    earlier.
    """
    code: str | None = None if expected is None else expected.code
    files: Mapping[str, str] = {} if expected is None else dict(expected.files)

    def work(shares: Iterable[Share]) -> None:
        import socket
        import sys

        lack = ""
        try:
            from squall.results.checkers.engine.cluster import carried_out, spare_collections
        except ImportError as missing:
            lack = f"{socket.gethostname()}: {sys.executable} cannot import Squall ({missing}): install it there"
        for share in shares:
            numbers, tasks = [number for number, _ in share], [task for _, task in share]
            if lack:
                arrived.add([(number, None, lack) for number in numbers])
                continue
            found = carried_out(tasks, code, files)
            spare_collections()
            arrived.add([(number, data, problem) for number, (data, problem) in zip(numbers, found, strict=True)])

    return work


def _place_for_archive(cache: Path | None) -> Path | None:
    archive = class_archive(cache)
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None  # no place to keep it: slower, not wrong
    return archive


@contextlib.contextmanager
def _errors_kept() -> Iterator[IO[bytes]]:
    """Redirect file descriptor 2 to a temporary file while the JVM starts.

    The JVM inherits it. Its messages about options and native libraries are shown only if it fails.
    """
    with tempfile.TemporaryFile() as log:
        sys.stderr.flush()
        kept = os.dup(2)
        os.dup2(log.fileno(), 2)
        try:
            yield log
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)


def _tail(log: IO[bytes]) -> str:
    log.seek(0)
    return "\n".join(log.read().decode(errors="replace").splitlines()[-10:])


def _context(master: str, java_options: str) -> SparkContext:
    local = master.startswith("local")
    if local or not os.environ.get("PYSPARK_PYTHON"):
        os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
        for name, value in quick_sorting().items():
            os.environ.setdefault(name, value)
    from pyspark import SparkConf, SparkContext

    settings = {
        "spark.app.name": "squall",
        "spark.driver.memory": DRIVER_MEMORY,
        "spark.driver.extraJavaOptions": java_options,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "2",
        "spark.python.worker.reuse": "true",
        "spark.python.unix.domain.socket.enabled": "true",
    }
    if local:
        settings |= {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
    else:
        settings |= {"spark.executor.memory": EXECUTOR_MEMORY, "spark.executor.extraJavaOptions": QUICK_START}
        address = address_towards(master)
        if address is not None and not any(os.environ.get(name) for name in ("SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME")):
            settings["spark.driver.host"] = address
    return SparkContext(master, conf=SparkConf().setAll(list(settings.items())))
