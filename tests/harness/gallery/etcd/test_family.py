"""etcd as a family: keys as registers by the JSON gateway, what an entry may ask of it. A server here plays etcd."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from squall.harness.errors import UsageError
from squall.harness.gallery.core.trouble import NotReproduced
from squall.harness.gallery.entries import load_entry
from squall.harness.gallery.etcd import family
from squall.harness.gallery.etcd.family import EtcdObserver
from squall.harness.gallery.etcd.register_program import Program
from squall.harness.loopback.loopback import free_ports
from squall.harness.scenario.suites import SHIPPED
from squall.harness.systems.etcd.gateway import Gateway, Refused
from tests.facts import naming
from tests.harness.gallery.editing import edited
from tests.waiting import wait_until

E1 = SHIPPED / "gallery" / "E1.yaml"


class Keys(BaseHTTPRequestHandler):
    """The two requests of the gateway; `broken` as a key is refused."""

    found: dict[str, str] = {}

    def do_POST(self) -> None:
        question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        key, answer, status = question["key"], {}, 200
        if key == "YnJva2Vu":
            status, answer = 503, {"error": "etcdserver: no leader"}
        elif self.path == "/v3/kv/put":
            self.found[key] = question["value"]
        elif key in self.found:
            answer = {"kvs": [{"key": key, "value": self.found[key]}]}
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def address() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Keys)
    Keys.found = {}
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_key_is_read_as_it_was_put(address: str) -> None:
    gateway = Gateway(address, 5)
    assert gateway.get("r") is None
    gateway.put("r", "17")
    assert gateway.get("r") == "17"
    with pytest.raises(Refused, match="no leader"):
        gateway.put("broken", "1")


def test_a_register_that_was_never_written_is_read_as_absent(address: str) -> None:
    observer = EtcdObserver(address)
    assert observer.read_register("r").offset == -1
    Gateway(address, 5).put("r", "4")
    read = observer.read_register("r")
    assert (read.f, read.type, read.offset) == ("read", "ok", 4)


def test_a_member_that_does_not_answer_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(family, "READ_SECONDS", 0.2)
    with pytest.raises(NotReproduced, match="register r cannot be read"):
        EtcdObserver(f"127.0.0.1:{free_ports(1)[0]}").read_register("r")


def test_the_program_writes_registers_and_knows_no_outcome_of_a_refused_one(address: str) -> None:
    given: list[dict[str, Any]] = []
    program = Program(given.append)
    program.carry_out({"op": 1, "do": "open", "settings": {"address": address, "timeout": "5"}})
    program.carry_out({"op": 2, "do": "write", "register": "r", "value": 5})
    program.carry_out({"op": 3, "do": "write", "register": "broken", "value": 6})
    wait_until(lambda: len(given) == 3, lambda: given)
    program.carry_out({"op": 4, "do": "close"})
    assert given[0] == {"op": 1, "client": "json-gateway v3"} and given[-1] == {"op": 4, "done": True}
    fates = {one["op"]: one for one in given[1:3]}
    assert (fates[2]["type"], fates[2]["value"], fates[3]["type"]) == ("ok", 5, "info")
    assert fates[2]["invoked"] <= fates[2]["completed"] and "no leader" in fates[3]["error"]
    assert Gateway(address, 5).get("r") == "5"


@pytest.mark.parametrize("command", [{"op": 9, "do": "send"}, {"op": 9, "do": "write", "register": "r", "value": 1}])
def test_the_program_names_what_it_cannot_do(command: dict[str, Any]) -> None:
    given: list[dict[str, Any]] = []
    Program(given.append).carry_out(command)
    assert given[0]["op"] == 9 and given[0]["error"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"system": {"name": "etcd", "version": "3.5"}}, ("system.version", "3.5", "no version of etcd")),
        ({"client": {"name": "java", "version": "4.1.1"}}, ("client", "Java producer", "json-gateway v3")),
        ({"cluster": {"brokers": 3}}, ("cluster.brokers", "one member")),
        ({"cluster": {"topics": {"events": {"replicas": [[1]]}}}}, ("cluster.topics", "etcd has none")),
        ({"schedule": [{"do": "begin"}]}, ("schedule[0]", "etcd has no step `begin`")),
        ({"schedule": [{"do": "lose-power", "broker": 1}]}, ("schedule[0]", "lose-power")),
        ({"schedule": [{"do": "hold-writes", "as": "h", "broker": 2}]}, ("schedule[0]", "no broker 2")),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)
def test_what_etcd_has_not_is_named_with_file_line_and_field(
    changes: dict[str, object], words: tuple[str, ...], tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=naming(*words)):
        load_entry(edited("E1", tmp_path, **changes))
