"""Write and read the marker of a clean stop: the broker epoch of the stopped incarnation (FD-03, EL-05).

The marker is written when every log is on disk. The next incarnation removes it, durably, before it does anything else.
So the marker proves that this disk holds all that the incarnation of that epoch ever had. The controller compares the
epoch with the one it knows. Content as Kafka's: `{"version":0,"brokerEpoch":N}`.
"""

from __future__ import annotations

import json

from squall.nodes.broker.hosting.config import NO_EPOCH

VERSION = 0


def clean_marker(broker_epoch: int) -> str:
    """The marker of a broker that stops with this epoch; NO_EPOCH if it never received one, which proves nothing."""
    return f'{{"version":{VERSION},"brokerEpoch":{broker_epoch}}}'


def clean_epoch(marker: str | None) -> int:
    """The epoch in a marker. NO_EPOCH, which proves nothing, if there is no marker or it is unreadable."""
    try:
        content = json.loads(marker or "")
    except ValueError:
        return NO_EPOCH
    if not isinstance(content, dict) or content.get("version") != VERSION:
        return NO_EPOCH
    epoch = content.get("brokerEpoch")
    return epoch if isinstance(epoch, int) and not isinstance(epoch, bool) and epoch >= 0 else NO_EPOCH
