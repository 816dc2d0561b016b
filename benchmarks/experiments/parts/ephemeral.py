"""A process that owns one ephemeral znode, such as a broker's registration, until it is killed.

SIGKILL ends it as it ends a broker: the session stays until its time-out passes. Run as a module with the ensemble's
addresses, the time-out in milliseconds, the path and the content; it prints the transaction that created the znode.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

from squall.benchmarks.experiments.parts.zookeeper_client import Client
from squall.nodes.zookeeper.session import Create


def command(servers: Sequence[tuple[str, int]], timeout_ms: int, path: str, content: str) -> list[str]:
    """Return the command line of the process."""
    addresses = ",".join(f"{host}:{port}" for host, port in servers)
    return [sys.executable, "-m", __name__, addresses, str(timeout_ms), path, content]


async def _own(addresses: str, timeout_ms: str, path: str, content: str) -> None:
    servers = [(host, int(port)) for host, port in (one.rsplit(":", 1) for one in addresses.split(","))]
    client = Client(servers, int(timeout_ms))
    created = await client.do(Create(path, content.encode(), ephemeral=True))
    print(created.zxid, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_own(*sys.argv[1:]))
