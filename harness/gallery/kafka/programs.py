"""The command line of each client program: which interpreter runs it, with which library."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import confluent_kafka

from squall.harness.artifacts.jar_cache import jars
from squall.harness.artifacts.jar_lists import names
from squall.harness.artifacts.java import command
from squall.harness.errors import UsageError
from squall.harness.gallery.core.entry import Client
from squall.harness.systems.kafka.launch import USUAL_JVM

JAVA_SOURCE: Final = Path(__file__).parent / "java" / "ProducerProgram.java"
JAR_LIST: Final = "kafka-clients-"


def command_of(client: Client) -> list[str]:
    """Return the command line. Raises UsageError if the library cannot be had in this version."""
    return _COMMANDS[client.name](client.version)


def settings_of(client: Client, bootstrap: str) -> dict[str, str]:
    """The settings with which the program opens its producer."""
    return {"bootstrap.servers": bootstrap, "acks": "all", **client.settings}


def _librdkafka(version: str) -> list[str]:
    installed = confluent_kafka.libversion()[0]
    if installed != version:
        raise UsageError(
            f"librdkafka {installed} is installed, and the entry is about {version}",
            remedy="install the confluent-kafka that has it: its release of the same number, or a later patch",
        )
    return [sys.executable, "-m", "squall.harness.gallery.kafka.librdkafka_program"]


def _java(version: str) -> list[str]:
    listed = f"{JAR_LIST}{version}"
    if listed not in names():
        known = ", ".join(one.removeprefix(JAR_LIST) for one in names() if one.startswith(JAR_LIST))
        raise UsageError(f"no list of jars for version {version} of the Java client; there are {known}")
    return command(str(JAVA_SOURCE), jars(listed), options=USUAL_JVM)


_COMMANDS: Final[dict[str, Callable[[str], list[str]]]] = {"librdkafka": _librdkafka, "java": _java}
NAMES: Final = tuple(_COMMANDS)
