"""The families of systems that the gallery has, by the name under an entry's `system`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from squall.harness.gallery.core.entry import Entry
from squall.harness.gallery.core.family import Family
from squall.harness.gallery.etcd.family import EtcdFamily
from squall.harness.gallery.kafka.family import KafkaFamily
from squall.harness.gallery.nats.family import NatsFamily

FAMILIES: Final[Mapping[str, Family]] = {"kafka": KafkaFamily(), "nats": NatsFamily(), "etcd": EtcdFamily()}


def family_of(entry: Entry) -> Family:
    """The family of an entry's system, which is its twin's as well."""
    return FAMILIES[entry.system.name]
