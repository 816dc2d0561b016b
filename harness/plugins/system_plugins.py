"""Systems under test: our own nodes, and systems of installed packages (`squall.systems`), by name.

    cluster: {system: apache-kafka}

The contract of a system is `System` in `hosts/system.py`, which also makes the system of a name;
docs/writing-a-system.md has an example.
"""

from __future__ import annotations

from typing import Any

from squall.harness.plugins.plugins import SYSTEMS, Plugins
from squall.harness.yaml_source import suggestion

OURS = "squall"
NEEDED = ("name", "bundle", "configure")


def wrong_with_system(name: str, made: Any) -> str | None:
    """Why an object does not make a system; None if it does, as far as can be seen."""
    if not callable(made):
        return f"names {made!r}, which cannot be called"
    missing = [one for one in NEEDED if isinstance(made, type) and not hasattr(made, one)]
    return f"names the class {made.__name__}, which lacks {', '.join(missing)}" if missing else None


SYSTEM_PLUGINS = Plugins(
    SYSTEMS,
    (OURS,),
    "a class that follows System of squall.harness.hosts.system (docs/writing-a-system.md)",
    wrong_with_system,
)


def known_system(name: str) -> str:
    """The name, if there is such a system. Raises ValueError."""
    if name in SYSTEM_PLUGINS.names:
        SYSTEM_PLUGINS.load(name)
    elif name != OURS:
        raise ValueError(f"is not a system{suggestion(name, (OURS, *SYSTEM_PLUGINS.names))}")
    return name
