"""What a clean stop leaves behind for the next incarnation: the broker epoch it had (FD-03, EL-05).

The marker is written when every log is on the disk, and taken away, durably, before the next incarnation does
anything; so it proves that this disk holds all that the incarnation of that epoch ever had. The controller compares
the epoch with the one it knows. Content as Kafka's: `{"version":0,"brokerEpoch":N}`.
"""

from __future__ import annotations

import json

from squall.nodes.broker.config import NO_EPOCH

VERSION = 0


def clean_marker(broker_epoch: int) -> str:
    """The marker of a broker that stops with this epoch; NO_EPOCH if it never learnt one, which proves nothing."""
    return f'{{"version":{VERSION},"brokerEpoch":{broker_epoch}}}'


def clean_epoch(marker: str | None) -> int:
    """The epoch in a marker. NO_EPOCH if there is none, or none that can be read: then nothing is proved."""
    try:
        content = json.loads(marker or "")
    except ValueError:
        return NO_EPOCH
    if not isinstance(content, dict) or content.get("version") != VERSION:
        return NO_EPOCH
    epoch = content.get("brokerEpoch")
    return epoch if isinstance(epoch, int) and not isinstance(epoch, bool) and epoch >= 0 else NO_EPOCH
