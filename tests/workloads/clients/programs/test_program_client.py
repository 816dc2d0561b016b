"""Clients that are programs: real processes, which answer, die, talk nonsense, hang and are replaced."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import psutil
import pytest

from squall.workloads.clients.common.client import GENERATION_STRIDE, ClientPlan
from squall.workloads.clients.programs.client import ProgramChoice, ProgramClient, ProgramFactory
from squall.workloads.core.operation import (
    ABSENT,
    CAS,
    DELETE_RECORDS,
    LIST_OFFSETS,
    POLL,
    READ,
    REOPEN,
    SEEK,
    SEND,
    WRITE,
    Completion,
    Operation,
)
from tests.plugins.packages import FILE, ROOT

PROGRAM = Path(__file__).parent / "scripted_program.py"
PLAN = ClientPlan(7, "consumer", (0, 1), (("a", 0),))


def operation(f: str, **fields: Any) -> Operation:
    return Operation(f, 0, 0, 7, 0, **fields)


SENT = operation(SEND, topic="a", partition=0, value=41)
POLLED = operation(POLL, topic="a", partition=0)


def with_client(
    directory: Path, body: Callable[[ProgramClient], Coroutine[Any, Any, None]], answer: float = 10.0, **settings: str
) -> None:
    """Run a body with an open client, and require that no process of it stays."""

    async def run() -> None:
        told = {"log": str(directory / "log"), **settings}
        choice = ProgramChoice((sys.executable, "-S", str(PROGRAM)), told, answer)
        client = ProgramFactory(choice, (("127.0.0.1", 9092),)).client(PLAN)
        assert isinstance(client, ProgramClient)
        await client.open()
        try:
            await body(client)
        finally:
            await client.close()

    before = {one.pid for one in psutil.Process().children()}
    asyncio.run(run())
    assert {one.pid for one in psutil.Process().children()} <= before


def test_operations_are_carried_out_and_polls_go_on_where_they_were(tmp_path: Path) -> None:
    async def body(client: ProgramClient) -> None:
        assert await client.invoke(POLLED) == Completion("ok", session=0)
        assert (await client.invoke(SENT)).offset == 0
        first = await client.invoke(POLLED)
        assert (first.offsets, first.values, first.position, first.client) == ((0,), (41,), None, None)
        again = await client.invoke(POLLED)
        assert (again.offsets, again.position, again.session) == ((), 1, 0)

    with_client(tmp_path, body)


def test_a_seek_reads_again_in_a_new_session(tmp_path: Path) -> None:
    async def body(client: ProgramClient) -> None:
        await client.invoke(SENT)
        await client.invoke(POLLED)
        sought = await client.invoke(operation(SEEK, topic="a", partition=0, value=0))
        assert (sought.session, sought.position) == (1, 0)
        again = await client.invoke(POLLED)
        assert (again.values, again.session, again.position) == ((41,), 1, 0)

    with_client(tmp_path, body)


def test_a_reopen_is_a_crash_after_which_another_program_reads_from_the_start(tmp_path: Path) -> None:
    async def body(client: ProgramClient) -> None:
        await client.invoke(SENT)
        await client.invoke(POLLED)
        hanging = asyncio.create_task(client.invoke(operation(LIST_OFFSETS, topic="a", partition=0)))
        await asyncio.sleep(0)
        reopened = await client.invoke(operation(REOPEN, topic="a", partition=0))
        assert reopened == Completion("ok", client=7 + GENERATION_STRIDE)
        assert await hanging == Completion("fail", error="program_ended: abandoned")
        again = await client.invoke(POLLED)
        assert (again.values, again.session, again.client) == ((41,), 1, 7 + GENERATION_STRIDE)

    with_client(tmp_path, body, list_offsets="hang")


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ("exit", "program_ended: it ended with exit status 3"),
        ("die", "program_ended: it was killed by signal 9"),
        ("babble", "program_ended: it wrote what is no answer: line 2: 'this is no answer': JSON is malformed"),
        ("omit", "program_bad_answer: answer 1: a send that is ok must state `offset`"),
        ("hang", "program_no_answer"),
    ],
)
def test_a_program_that_fails_leaves_sends_open_and_is_replaced(tmp_path: Path, how: str, error: str) -> None:
    async def body(client: ProgramClient) -> None:
        outcome = await client.invoke(SENT)
        assert (outcome.type, outcome.client) == ("info", None) and str(outcome.error).startswith(error)
        polled = await client.invoke(POLLED)
        assert (polled.type, polled.session, polled.client) == ("ok", 1, 7 + GENERATION_STRIDE)

    with_client(tmp_path, body, answer=0.3 if how == "hang" else 10.0, send=how)


def test_all_that_was_open_ends_with_the_program(tmp_path: Path) -> None:
    async def body(client: ProgramClient) -> None:
        outcomes = await asyncio.gather(client.invoke(POLLED), client.invoke(SENT), client.invoke(SENT))
        assert [one.type for one in outcomes] == ["fail", "info", "info"]
        assert {str(one.error) for one in outcomes} == {"program_ended: it ended with exit status 3"}

    with_client(tmp_path, body, poll="exit", send="exit")


def test_a_second_answer_to_one_request_is_none(tmp_path: Path) -> None:
    async def body(client: ProgramClient) -> None:
        assert (await client.invoke(SENT)) == Completion("info", error="first")
        while (ended := await client.invoke(POLLED)).client is None:
            assert ended.type == "ok" or "answer 1: no request with this id is open" in str(ended.error)

    with_client(tmp_path, body, send="twice")


def test_an_answer_that_comes_after_its_operation_was_given_up_is_dropped(tmp_path: Path) -> None:
    async def body(client: ProgramClient) -> None:
        given_up = asyncio.create_task(client.invoke(SENT))
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.wait({given_up})
        assert (await client.invoke(POLLED)).client is None

    with_client(tmp_path, body)


def test_while_no_program_can_be_started_operations_certainly_do_not_happen(tmp_path: Path) -> None:
    async def body(client: ProgramClient) -> None:
        (tmp_path / "broken").touch()
        assert (await client.invoke(SENT)).type == "info"
        outcomes = await asyncio.gather(client.invoke(POLLED), client.invoke(SENT))
        assert set(outcomes) == {Completion("fail", error="program_not_started: no server answers")}
        (tmp_path / "broken").unlink()
        assert (await client.invoke(POLLED)).type == "ok"

    with_client(tmp_path, body, send="exit", broken=str(tmp_path / "broken"))


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (("/no/such/program", "x"), "client program /no/such/program x: .*No such file"),
        ((sys.executable, "-S", "-c", "raise SystemExit(9)"), "it ended with exit status 9"),
        ((sys.executable, "-S", "-c", "print('hello'); input()"), "it wrote what is no answer: line 1: 'hello'"),
    ],
)
def test_a_program_that_cannot_open_is_an_error_of_the_run(command: tuple[str, ...], problem: str) -> None:
    with pytest.raises(OSError, match=problem):
        asyncio.run(ProgramClient(PLAN, ProgramChoice(command), ()).open())


def test_what_programs_are_never_asked_is_refused(tmp_path: Path) -> None:
    async def body(client: ProgramClient) -> None:
        refused = await client.invoke(operation(DELETE_RECORDS, topic="a", partition=0, value=1))
        assert refused == Completion("fail", error="not_offered")

    with_client(tmp_path, body)


def test_the_program_of_the_page_has_registers(tmp_path: Path) -> None:
    page = dict(FILE.findall((ROOT / "docs" / "client-programs.md").read_text(encoding="utf-8")))
    (tmp_path / "file_registers.py").write_text(page["file_registers.py"])
    command = (sys.executable, str(tmp_path / "file_registers.py"))

    async def run() -> None:
        client = ProgramClient(
            ClientPlan(7, "register", (0,), ()), ProgramChoice(command, {"directory": str(tmp_path)}), ()
        )
        await client.open()
        on = {"register": "r0"}
        assert (await client.invoke(operation(READ, **on))).found == ABSENT
        assert (await client.invoke(operation(CAS, **on, value=1, expected=ABSENT))).type == "ok"
        refused = await client.invoke(operation(CAS, **on, value=2, expected=ABSENT))
        assert (refused.type, refused.refused, refused.found) == ("fail", True, 1)
        assert (await client.invoke(operation(WRITE, **on, value=3))).type == "ok"
        assert (await client.invoke(operation(READ, **on))).found == 3
        assert (await client.invoke(SENT)).error == "send: there are only registers here"
        await client.close()

    asyncio.run(run())
