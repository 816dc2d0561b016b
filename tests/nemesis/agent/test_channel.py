"""The agent answers every line once, whatever the line says."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from squall.nemesis.agent.agent import KNOCK_S


def test_it_says_what_the_host_can_do(agent: Any) -> None:
    info = agent.call("info")
    assert info["lab"] is True and info["keeper"] is True
    assert info["clock"] in ("shim", "hook")
    assert info["network"] in ("nft", "iptables", None)
    assert info["free_disk_bytes"] > 0 and info["python"].startswith("3.")


@pytest.mark.parametrize("line", ["no JSON", "[]", '"x"', "{}", '{"op": 1}', '{"op": 1, "verb": "info", "args": 3}'])
def test_a_malformed_request_is_answered_and_the_next_one_works(agent: Any, line: str) -> None:
    answer = agent.exchange(line)
    assert answer["ok"] is False and answer["kind"] in ("bad_argument", "failed")
    assert agent.call("journal") == {"entries": []}


def test_an_idle_agent_sends_empty_responses_that_nobody_asked_for(agent: Any) -> None:
    """So that the end of a connection shows even if it was lost on the way."""
    began = time.monotonic()
    assert agent.receive() == {} == agent.receive()
    assert time.monotonic() - began < 4 * KNOCK_S
    assert agent.call("journal") == {"entries": []}


def test_an_unknown_verb_is_told_the_known_ones(agent: Any, refused: Any) -> None:
    with pytest.raises(refused, match=r"no verb 'net.dorp'; known are .*net\.drop") as caught:
        agent.call("net.dorp")
    assert caught.value.kind == "unknown_verb"


@pytest.mark.parametrize(
    ("verb", "arguments", "told"),
    [
        ("proc.kill", {"id": "x", "name": "node"}, "ttl: None must be a number"),
        ("proc.kill", {"id": "x", "name": "node", "ttl": 0}, "ttl: 0.0 must be more than 0"),
        ("proc.kill", {"name": "node", "ttl": 1}, "id: None must be 1 to 100 letters"),
        ("proc.kill", {"id": "x", "name": "nod", "ttl": 1}, "no process 'nod' is defined; known are none"),
        *(
            ("net.drop", {"id": id, "sources": ["10.9.9.9"], "ttl": 1}, "the first a letter or digit")
            for id in ("", ".", "..", ".hidden", "../x", "/etc", "a\nb", "x" * 101, 7)
        ),
        *(
            ("proc.define", {"name": name, "argv": ["true"]}, "is not a process name")
            for name in ("", ".", "..", ".hidden", "a/b", "a\n", "x" * 65, 7)
        ),
        ("net.drop", {"id": "x", "sources": [], "ttl": 1}, "must be a list of addresses"),
        ("net.drop", {"id": "x", "sources": ["b2"], "ttl": 1}, "'b2' is not an IP address"),
        ("proc.define", {"name": "../x", "argv": ["true"]}, "is not a process name"),
    ],
)
def test_a_wrong_argument_is_named(agent: Any, refused: Any, verb: str, arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(refused) as caught:
        agent.call(verb, **arguments)
    assert told in caught.value.error
    assert agent.call("journal") == {"entries": []}


def test_it_runs_where_squall_is_not_installed(program: Path) -> None:
    done = subprocess.run([sys.executable, "-S", str(program), "--help"], capture_output=True, text=True, cwd="/")
    assert done.returncode == 0 and "--state" in done.stdout, done.stderr


def test_a_slow_verb_holds_up_no_other(agent: Any) -> None:
    assert agent.process.stdin and agent.process.stdout
    slow = {"op": 1, "verb": "probe.heard", "args": {"nonce": "never", "timeout": 2}}
    quick = {"op": 2, "verb": "journal", "args": {}}
    agent.process.stdin.write(json.dumps(slow) + "\n" + json.dumps(quick) + "\n")
    agent.process.stdin.flush()
    assert [json.loads(agent.process.stdout.readline())["op"] for _ in range(2)] == [2, 1]


def test_hosts_hear_each_other_and_say_from_whom(start_agent: Any) -> None:
    one, two = start_agent(name="h1"), start_agent(name="h2")
    one.call("probe.send", targets={"h2": two.address}, nonce="n1", source="h1")
    assert set(two.call("probe.heard", nonce="n1", expect=["h1"])["heard"]) == {"h1"}
    assert two.call("probe.heard", nonce="n2", timeout=0.05) == {"heard": {}}


def test_reach_tells_who_answers(start_agent: Any) -> None:
    one, two = start_agent(name="h1"), start_agent(name="h2")
    targets = {"h2": two.address, "nobody": "127.0.7.250"}
    assert one.call("probe.reach", targets=targets, timeout=0.3) == {"h2": True, "nobody": False}


def test_a_port_is_open_or_refused(agent: Any) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        assert agent.call("probe.port", targets={"node": f"127.0.0.1:{port}"}) == {"node": "open"}
    assert agent.call("probe.port", targets={"node": f"127.0.0.1:{port}"}) == {"node": "refused"}
