"""The shell script that formats and starts a node of Apache Kafka on a host.

    sh kafka.sh format        what `kafka-storage format` does; says why if it cannot
    sh kafka.sh run           becomes the node, by exec; formats a directory that a fault has emptied first

A broker on ZooKeeper is not formatted. Before its first start the script writes the cluster's id into the ensemble, so
that the brokers of a run are known by it; else the first broker would make one up.

It runs where the jars lie, because an archive of shared classes holds only for the class path that it was made with,
letter by letter.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

MAIN: Final = "kafka.Kafka"
STORAGE_TOOL: Final = "kafka.tools.StorageTool"
ZOOKEEPER_SHELL: Final = "org.apache.zookeeper.ZooKeeperMain"
ENSEMBLE_MS: Final = 30_000
"""How long the ensemble may take until it takes connections."""
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


def script_on_zookeeper(
    *,
    library: str,
    jars: Sequence[str],
    directory: str,
    data: str,
    config: str,
    jvm: Sequence[str],
    connect: str,
    cluster_id: str,
) -> str:
    """Return the script's text for a broker whose metadata ZooKeeper keeps."""
    classes = ":".join(jars)
    java = shlex.join(["java", *java_options(jvm, directory), "-cp", classes])
    shell = ["java", "-Xmx64m", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp"]
    shell += [classes, ZOOKEEPER_SHELL, "-server", connect, "-timeout", str(ENSEMBLE_MS), "-waitforconnection"]
    content = f'{{"version":"1","id":"{cluster_id}"}}'
    return f"""\
#!/bin/sh
cd {shlex.quote(library)} || exit 1
if [ "$1" != run ]; then
    echo "usage: $0 run" >&2
    exit 254
fi
if ! [ -e {shlex.quote(data)}/meta.properties ]; then
    said=$(printf '%s\\n' 'create /cluster' 'create /cluster/id {content}' 'get /cluster/id' quit |
        {shlex.join(shell)} 2>&1)
    if ! printf '%s\\n' "$said" | grep -qF '{content}'; then
        printf '%s\\n' 'the cluster id cannot be written to ZooKeeper:' "$said" >&2
        exit 1
    fi
fi
exec {java} {MAIN} {shlex.quote(config)}
"""
