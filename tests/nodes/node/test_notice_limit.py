"""What any peer can cause is reported seldom enough to be read, whatever peers do."""

from __future__ import annotations

from squall.nodes.node.notice_limit import EVERY, NoticeLimit
from tests.facts import assert_names
from tests.nodes.node.test_node import CLIENT, Host


def test_one_notice_an_interval_passes_and_says_how_many_did_not() -> None:
    limit = NoticeLimit()
    assert limit.pass_on(5, "first") == "first"
    assert [limit.pass_on(5 + later, "again") for later in (0, 1, EVERY - 1)] == [None] * 3
    assert_names(limit.pass_on(5 + EVERY, "last"), "last", "3 times")
    assert limit.pass_on(5 + 2 * EVERY, "alone") == "alone"


def test_a_flood_of_bad_frames_does_not_flood_the_log() -> None:
    host = Host()
    host.run()
    host.node.notices.clear()
    for number in range(200):
        host.open(1000 + number, CLIENT)
        host.node.received(host.now, 1000 + number, bytearray(b"\x7f\xff nonsense"))
        host.iterate()
    assert len([line for line in host.node.notices if "closing a connection" in line]) == 1
