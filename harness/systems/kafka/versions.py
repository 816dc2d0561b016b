"""The versions of Apache Kafka that can be tested: each has a list of pinned jars and a list of its settings.

`harness/artifacts/jars/kafka-VERSION.yaml` holds what runs; `settings/VERSION.yaml` the keys that its nodes know, as a
node of that version logs them when it starts. A key that a node does not know would silently do nothing.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from squall.harness.yaml_source import load_yaml

VERSIONS: Final = ("4.4.0", "4.2.0", "4.1.2", "4.0.2", "3.9.2")
"""The newest first."""
ON_ZOOKEEPER: Final = ("3.9.2",)
"""Those whose brokers can have their metadata in ZooKeeper; 4.0 has removed that."""
WITHOUT_ELR: Final = ("3.9.2",)
"""Those without the feature `eligible.leader.replicas.version` (KIP-966), which is new in 4.0."""
NEWEST: Final = VERSIONS[0]
OLDEST_JAVA: Final = 17
SETTINGS: Final = Path(__file__).parent / "settings"


def jar_list(version: str) -> str:
    """The name of a version's list of jars."""
    return f"kafka-{version}"


@cache
def settings_of(version: str) -> frozenset[str]:
    """The keys of the configuration that a node of this version knows."""
    return frozenset(load_yaml(SETTINGS / f"{version}.yaml").data)
