"""A client's thread that never ends holds nobody up."""

from __future__ import annotations

import asyncio
import threading

import pytest

from squall.workloads.clients.common.client_threads import await_end


def test_a_thread_that_ends_is_waited_for() -> None:
    over = threading.Event()
    thread = threading.Thread(target=over.wait, daemon=True)
    thread.start()
    threading.Timer(0.05, over.set).start()
    assert asyncio.run(await_end(thread))


def test_a_thread_that_blocks_is_left_behind_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    over = threading.Event()
    thread = threading.Thread(target=over.wait, name="blocked-in-close", daemon=True)
    thread.start()
    assert not asyncio.run(await_end(thread, 0.05))
    assert "blocked-in-close" in caplog.text
    over.set()
    thread.join()
