"""The shell script that formats and starts a node of Apache Kafka on a host.

    sh kafka.sh format        what `kafka-storage format` does; says why if it cannot
    sh kafka.sh run           becomes the node, by exec; formats a directory that a fault has emptied first

It runs where the jars lie, because an archive of shared classes holds only for the class path that it was made with,
letter by letter.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

MAIN: Final = "kafka.Kafka"
STORAGE_TOOL: Final = "kafka.tools.StorageTool"
ARCHIVE: Final = "shared-classes.jsa"
USUAL_JVM: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""For several nodes on one small machine."""
LOGGING: Final = (
    "-Dorg.slf4j.simpleLogger.logFile=System.out",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.config.AbstractConfig=warn",
)
"""Stamps as our own nodes' logs have them, and not all settings again with each change of one."""


def java_options(jvm: Sequence[str], directory: str) -> list[str]:
    """Return the options of a node whose files lie in `directory`."""
    return [
        *jvm,
        "-Xshare:auto",
        f"-XX:SharedArchiveFile={ARCHIVE}",
        "-Xlog:disable",
        "-XX:+ExitOnOutOfMemoryError",
        f"-XX:ErrorFile={directory}/hs_err.log",
        "-Duser.timezone=UTC",
        *LOGGING,
    ]


def script(
    *,
    library: str,
    jars: Sequence[str],
    directory: str,
    data: str,
    config: str,
    jvm: Sequence[str],
    format_arguments: Sequence[str],
    again_arguments: Sequence[str],
) -> str:
    """Return the script's text. `again_arguments` format a directory that has been emptied since."""
    java = shlex.join(["java", *java_options(jvm, directory), "-cp", ":".join(jars)])
    first = shlex.join([STORAGE_TOOL, "format", "--config", config, *format_arguments])
    again = shlex.join([STORAGE_TOOL, "format", "--config", config, *again_arguments])
    return f"""\
#!/bin/sh
cd {shlex.quote(library)} || exit 1
case "$1" in
format)
    said=$({java} {first} 2>&1) && exit 0
    printf '%s\\n' "$said" | grep -v '^[[:space:]]*at ' >&2  # the reason, without the stack
    exit 1
    ;;
run)
    [ -e {shlex.quote(data)}/meta.properties ] || {java} {again} || exit 1
    exec {java} {MAIN} {shlex.quote(config)}
    ;;
esac
echo "usage: $0 format|run" >&2
exit 254
"""
