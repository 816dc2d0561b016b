"""One JVM for all of Apache Kafka's own tools and its Java client, driven from Python through py4j.

    with Jvm(jars) as jvm:
        done = jvm.tool("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", at, "--list")
        assert done.status == 0, done

Starting a JVM takes one to two seconds, and a hundred tool calls would take minutes; here a call costs what the tool
does. A tool that calls `Exit` ends by an exception instead of ending the JVM. Calls are bounded by a deadline: a tool
that hangs is left behind and reported as such (`Done.hung`), which is an outcome that a test can assert on.

py4j comes with pyspark. Nothing is compiled, so that a JRE is enough.
"""

from __future__ import annotations

import logging
import os
import re
import selectors
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import pyspark
from py4j.java_gateway import CallbackServerParameters, GatewayParameters, JavaGateway
from py4j.protocol import Py4JJavaError

HEAP = "-Xmx400m"
DEADLINE_S = 60.0


@dataclass(frozen=True)
class Done:
    """What a tool said, and its exit status; None if it neither ended nor failed before the deadline."""

    status: int | None
    out: str
    seconds: float

    @property
    def hung(self) -> bool:
        return self.status is None


class _Exited:
    """Stands in for the end of the JVM: the status is kept, and the tool's thread ends by an exception."""

    def __init__(self) -> None:
        self.status: int | None = None

    def execute(self, status: int, message: str | None) -> None:
        if self.status is None:
            self.status = status
        raise RuntimeError(f"exit {status}: {message}")

    class Java:
        implements = ["org.apache.kafka.common.utils.Exit$Procedure"]


class Jvm:
    """See the module. Not for several threads at once: the JVM has one standard output."""

    def __init__(self, jars: Sequence[Path], heap: str = HEAP) -> None:
        (py4j_jar,) = (Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar")
        self._java = [
            *("java", heap, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"),
            *("-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", os.pathsep.join(map(str, [py4j_jar, *jars]))),
        ]
        self._process: subprocess.Popen[bytes] | None = None
        self._gateway: JavaGateway | None = None

    def __enter__(self) -> Jvm:
        logging.getLogger("py4j").setLevel(logging.CRITICAL)  # an exit raised through it is not a failure
        self._process = subprocess.Popen(
            [*self._java, "py4j.GatewayServer", "--die-on-broken-pipe", "0"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._process.stdout is not None
        port = int(self._process.stdout.readline())
        self._gateway = JavaGateway(
            gateway_parameters=GatewayParameters(port=port, auto_convert=True),
            callback_server_parameters=CallbackServerParameters(port=0),
        )
        listening = self._gateway.get_callback_server().get_listening_port()
        server = self._gateway.java_gateway_server
        server.resetCallbackClient(server.getCallbackClient().getAddress(), listening)
        self._lines = self.java.java.io.ByteArrayOutputStream()
        stream = self.java.java.io.PrintStream(self._lines, True)
        self.java.java.lang.System.setOut(stream)
        self.java.java.lang.System.setErr(stream)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._gateway is not None:
            self._gateway.shutdown()
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    @property
    def java(self) -> Any:
        """Every class of the JVM: `jvm.java.org.apache.kafka.clients.admin.Admin`."""
        assert self._gateway is not None, "the JVM runs within `with`"
        return self._gateway.jvm

    def tool(self, name: str, *arguments: str, within: float = DEADLINE_S) -> Done:
        """Run the `main` of a class with arguments."""
        assert self._gateway is not None
        exited = _Exited()
        exits = self.java.org.apache.kafka.common.utils.Exit
        exits.setExitProcedure(exited)
        exits.setHaltProcedure(exited)
        given = self._gateway.new_array(self.java.java.lang.String, len(arguments))
        for at, argument in enumerate(arguments):
            given[at] = argument
        self._lines.reset()
        main = self.java
        for part in name.split("."):
            main = getattr(main, part)
        began = time.monotonic()
        failures: list[Exception | None] = []

        def run() -> None:
            try:
                main.main(given)
                failures.append(None)
            except Exception as error:
                failures.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(within)
        seconds = time.monotonic() - began
        out = str(self._lines.toString())
        if exited.status is not None:
            return Done(exited.status, out, seconds)
        if not failures:
            return Done(None, out, seconds)
        if failures[0] is None:
            return Done(0, out, seconds)
        thrown = failures[0].java_exception if isinstance(failures[0], Py4JJavaError) else failures[0]
        return Done(1, f"{out}\n{thrown}", seconds)

    def alone(self, name: str, *arguments: str, until: str, within: float = DEADLINE_S) -> str:
        """Run a tool that never ends in a JVM of its own, until it says something that matches; what it said."""
        process = subprocess.Popen(
            [*self._java, name, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert process.stdout is not None
        said, deadline = "", time.monotonic() + within
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(process.stdout, selectors.EVENT_READ)
                while not re.search(until, said) and selector.select(max(deadline - time.monotonic(), 0)):
                    line = process.stdout.readline()
                    if not line:
                        break
                    said += line
        finally:
            process.kill()
            process.communicate()
        return said
