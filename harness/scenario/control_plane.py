"""Give a ZooKeeper-era broker the listener that `control.plane.listener.name` names (KIP-291).

A suite only names it; where it listens follows from the host, like the other listeners.
"""

from __future__ import annotations

from collections.abc import Mapping

KEY = "control.plane.listener.name"
_PLACES = ("listeners", "advertised.listeners")


def add_control_listener(properties: Mapping[str, str], address: str, port: int, name: str = "") -> dict[str, str]:
    """Return a broker's configuration with the listener, where it is bound, advertised and mapped.

    `name` is that of the listener where the key is not set: the first of the two rolls adds the endpoint alone (CL-21).
    """
    name = name or properties.get(KEY, "")
    listening = properties.get("listeners", "")
    names = [part.partition("://")[0].strip() for part in listening.split(",")]
    if not name or name in names:
        return dict(properties)
    entry = f"{name}://{address}:{port}"
    found = {key: f"{properties.get(key) or listening},{entry}" for key in _PLACES}
    mapped = properties.get("listener.security.protocol.map") or ",".join(f"{one}:PLAINTEXT" for one in names)
    found["listener.security.protocol.map"] = f"{mapped},{name}:PLAINTEXT"
    return dict(properties) | found
