"""Paths below a chroot: a session takes one znode for the root, so that several clusters share an ensemble.

`/brokers` of a session with the chroot `/east` is `/east/brokers` for the servers, and `/` is `/east`.
"""

from __future__ import annotations

from dataclasses import replace

from squall.nodes.zookeeper.session import Multi, Operation, SessionResponse


def below(chroot: str, path: str) -> str:
    """Return a path of the session as the servers know it."""
    return chroot if path == "/" else chroot + path


def above(chroot: str, path: str) -> str:
    """Return a path of the servers as the session knows it."""
    return path.removeprefix(chroot) or "/"


def operation_below(chroot: str, operation: Operation) -> Operation:
    """Return an operation with the paths that the servers know."""
    if isinstance(operation, Multi):
        return Multi(tuple(replace(one, path=below(chroot, one.path)) for one in operation.operations))
    return replace(operation, path=below(chroot, operation.path))


def response_above(chroot: str, response: SessionResponse) -> SessionResponse:
    """Return a response with the paths that the session knows."""
    results = tuple(response_above(chroot, one) for one in response.results)
    return replace(response, path=response.path and above(chroot, response.path), results=results)
