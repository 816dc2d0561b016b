"""Whether a broker was let go when it might be (CS-04), by what the controller decides on and what others know then.

A controller lets a broker go in three cases (`nodes.controller.shutdown`), and each is held to what it rests on:

    fenced already           nothing: it is out of everything
    leads nothing            that it leads nothing, in the image that the controller decides by
    marked as stopping       the same, and that no broker which that image counts as active knows it as a leader

The last is why the moment of the decision matters: later, somebody may have come back who knows less.
"""

from __future__ import annotations

from collections.abc import Callable

from squall.nodes.controller.shutdown import leads_anything
from squall.nodes.metadata.image import MetadataImage
from squall.nodes.node.node import Node


def undue_leave(image: MetadataImage, broker: int, node_of: Callable[[int], Node | None]) -> str | None:
    """What is wrong with letting this broker go by this image; None if nothing is.

    `node_of` gives the node of a broker, if it runs.
    """
    leaving = image.brokers[broker]
    if leaving.fenced:
        return None
    if leads_anything(image, broker):
        return f"broker {broker} may stop, and leads {_led(image, broker)} by the controller's own image"
    if not leaving.in_controlled_shutdown:
        return None
    for other in image.brokers.values():
        node = node_of(other.id) if other.active else None
        if node is None or node.broker is None or node.broker.lifecycle.epoch != other.epoch:
            continue
        if leads_anything(node.broker.image, broker):
            return (
                f"broker {broker} may stop, but by what broker {other.id} knows it leads "
                f"{_led(node.broker.image, broker)}"
            )
    return None


def _led(image: MetadataImage, broker: int) -> str:
    """The first topic-partition that a broker leads, and how many more there are."""
    led = [
        f"{topic.name}-{number} in leader epoch {registration.leader_epoch}"
        for topic, number, registration in image.all_partitions()
        if registration.leader == broker
    ]
    return led[0] + (f" and {len(led) - 1} more" if led[1:] else "")
