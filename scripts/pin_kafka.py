"""Pin a version of Apache Kafka: the jars that it needs, and the settings that its nodes know.

    .venv/bin/python scripts/pin_kafka.py 4.4.0

It writes `harness/artifacts/jars/kafka-VERSION.yaml`, as `pin_jars.py` does, and `harness/systems/kafka/settings/
VERSION.yaml`, from the log of a node that it starts once on the loopback interface. Then name the version in
`harness/systems/kafka/versions.py`.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

from pin_jars import main as pin_jars

from squall.harness.artifacts.jar_cache import jars
from squall.harness.artifacts.java import java
from squall.harness.systems.kafka.shared_classes import copy_jars, make_archive
from squall.harness.systems.kafka.versions import OLDEST_JAVA, SETTINGS, jar_list

LOGGER = "org.slf4j:slf4j-simple:1.7.36"
SETTING = re.compile(r"^\t([a-z0-9._]+) = ", re.MULTILINE)
BEGINS = "KafkaConfig values:"


def main(version: str) -> None:
    pin_jars(jar_list(version), f"org.apache.kafka:kafka_2.13:{version}", LOGGER)
    found = jars(jar_list(version))
    with tempfile.TemporaryDirectory() as directory:
        copy_jars(found, Path(directory))
        log = make_archive(Path(directory), [jar.name for jar in found], java(OLDEST_JAVA))
    keys = settings_in(log)
    heading = (
        f'# The keys of Apache Kafka {version}\'s configuration, as a node lists them under "{BEGINS}" in its log.\n'
    )
    (SETTINGS / f"{version}.yaml").write_text(heading + "".join(f"- {key}\n" for key in keys))
    print(f"{SETTINGS / version}.yaml: {len(keys)} settings")


def settings_in(log: str) -> list[str]:
    """Return the keys of the first configuration that a node's log lists."""
    listed = log.partition(BEGINS)[2].partition("\n\n")[0]
    return sorted(set(SETTING.findall(listed)))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: pin_kafka.py VERSION")
    main(sys.argv[1])
