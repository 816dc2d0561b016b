"""The configuration file of a NATS server with JetStream, and the settings that a suite or a gallery entry may have."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from squall.harness.yaml_source import suggestion

SETTINGS: Final = ("sync_interval",)
"""Settings of the block `jetstream`."""
_DURATION: Final = re.compile(r"(\d+(\.\d+)?(ms|s|m|h))+")


@dataclass(frozen=True)
class Server:
    """One server and where it listens; addresses are HOST:PORT."""

    name: str
    clients: str
    monitor: str
    routes: str
    store: str
    """The directory of its streams."""


def configuration(server: Server, routes: Sequence[str], settings: Mapping[str, str], cluster: str = "squall") -> str:
    """Return the file of a server of a cluster whose servers listen at `routes` for each other."""
    inside = "".join(f"  {key}: {value}\n" for key, value in settings.items())
    known = ", ".join(f"nats://{one}" for one in routes)
    return (
        f"server_name: {server.name}\n"
        f"listen: {server.clients}\n"
        f"http: {server.monitor}\n"
        "logtime_utc: true\n"
        f'jetstream {{\n  store_dir: "{server.store}"\n{inside}}}\n'
        f'cluster {{\n  name: "{cluster}"\n  listen: {server.routes}\n  routes: [{known}]\n}}\n'
    )


def wrong_with_setting(key: str, value: str, version: str) -> str | None:
    """Return why JetStream does not take a setting; None if it does."""
    if key not in SETTINGS:
        return f"is no setting of JetStream that a suite may have{suggestion(key, SETTINGS)}"
    if value != "always" and not _DURATION.fullmatch(value):
        return "is neither `always` nor a duration such as 2m"
    return None
