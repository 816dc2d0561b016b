"""Names and ids: topic-partitions, and the 16-byte ids of topics, clusters, directories and incarnations.

An id is 16 plain bytes everywhere in the nodes and is printed as Kafka prints it, URL-safe base64 without padding. New
ids come from the node's own random numbers, so that a seed reproduces them.
"""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple

from squall.nodes.ports import Rng

ZERO_ID = bytes(16)
"""The id that means "none" on the wire."""

METADATA_TOPIC = "__cluster_metadata"

METADATA_TOPIC_ID = bytes(15) + b"\x01"
"""Kafka's reserved id of `__cluster_metadata`."""


class TopicPartition(NamedTuple):
    """One partition of one topic; sorts by topic, then number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        """The name of its log's directory."""
        return f"{self.topic}-{self.partition}"


METADATA_PARTITION = TopicPartition(METADATA_TOPIC, 0)


def format_id(identifier: bytes) -> str:
    """The 22 characters Kafka prints and accepts."""
    return base64.urlsafe_b64encode(identifier).rstrip(b"=").decode()


def parse_id(text: str) -> bytes:
    """The inverse of `format_id`. Raises ValueError."""
    try:
        identifier = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as trouble:
        raise ValueError(f"{text!r} is no id: expected 22 characters of URL-safe base64") from trouble
    if len(identifier) != 16:
        raise ValueError(f"{text!r} is no id: it has {len(identifier)} bytes, expected 16")
    return identifier


def random_id(rng: Rng) -> bytes:
    """A random version 4 id that is not reserved by Kafka and does not print with a leading dash."""
    while True:
        bits = rng.getrandbits(128)
        bits = bits & ~(0xF << 76) | 4 << 76
        bits = bits & ~(0x3 << 62) | 2 << 62
        identifier = bits.to_bytes(16, "big")
        if not format_id(identifier).startswith("-"):
            return identifier
