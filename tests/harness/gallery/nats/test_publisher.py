"""The publisher in Go, against a server of this test: what is acknowledged is ok, and everything else is info."""

from __future__ import annotations

import json
import shutil
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from squall.harness.artifacts.go_programs import built
from squall.harness.gallery.core.clients import ClientProgram
from squall.harness.gallery.core.trouble import NotReproduced
from squall.harness.gallery.nats.family import DEFAULTS, PUBLISHER, client_version

pytestmark = [
    pytest.mark.full,
    pytest.mark.xdist_group("gallery"),
    pytest.mark.timeout(1800),
    pytest.mark.skipif(shutil.which("go") is None, reason="Go is not installed, which builds the publisher"),
]

ANSWERS = {
    "acknowledges": {"stream": "s", "seq": 17},
    "refuses": {"error": {"code": 503, "description": "insufficient resources"}},
    "puzzles": {"stream": "s"},
}
"""What the server answers, by the subject; to any other subject it answers nothing."""


class NatsServer(socketserver.StreamRequestHandler):
    """As much of the protocol of NATS as a request needs."""

    def handle(self) -> None:
        self._say(
            "INFO", json.dumps({"server_id": "test", "version": "2.12.1", "max_payload": 1 << 20, "headers": True})
        )
        subscription = b""
        for line in self.rfile:
            word, *rest = line.split()
            if word == b"PING":
                self._say("PONG")
            elif word == b"SUB":
                subscription = rest[-1]
            elif word == b"PUB":
                subject, reply, size = rest
                self.rfile.read(int(size) + 2)
                if (answer := ANSWERS.get(subject.decode())) is not None:
                    content = json.dumps(answer)
                    self._say("MSG", f"{reply.decode()} {subscription.decode()} {len(content)}\r\n{content}")

    def _say(self, *words: str) -> None:
        self.wfile.write(" ".join(words).encode() + b"\r\n")
        self.wfile.flush()


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True


@pytest.fixture
def address() -> Iterator[str]:
    with Server(("127.0.0.1", 0), NatsServer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"nats://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.fixture
def client(tmp_path: Path) -> Iterator[ClientProgram]:
    with ClientProgram([str(built(PUBLISHER, "."))], tmp_path / "client.log") as program:
        yield program


@pytest.mark.parametrize(
    ("subject", "type", "offset", "error"),
    [
        ("acknowledges", "ok", 17, None),
        ("refuses", "info", None, "insufficient resources"),
        ("puzzles", "info", None, "an acknowledgement without a sequence"),
        ("keeps-silent", "info", None, "context deadline exceeded"),
    ],
)
def test_only_an_acknowledged_sequence_is_an_ok(
    client: ClientProgram, address: str, subject: str, type: str, offset: int | None, error: str | None
) -> None:
    said = client.open({**DEFAULTS, "servers": address, "timeout": "300ms"})
    assert said == f"nats.go {client_version()}"
    (one,) = client.wait_for(client.send(subject, [0]), 1, 30)
    assert (one.type, one.offset, one.error) == (type, offset, error)
    assert one.invoked < one.completed
    client.close()


def test_a_load_ends_with_fates_for_all_that_it_sent(client: ClientProgram, address: str) -> None:
    client.open({**DEFAULTS, "servers": address})
    load = client.load("acknowledges", [0], rate=200)
    client.wait_for(load, 20, 30)
    client.stop(load)
    client.close()
    values = [one.value for one in client.sent]
    assert len(values) == len(set(values)) and {one.type for one in client.sent} == {"ok"}


@pytest.mark.parametrize("settings", [{"publishers": "0"}, {"timeout": "soon"}, {"servers": "nats://127.0.0.1:1"}])
def test_settings_that_cannot_be_are_named(client: ClientProgram, address: str, settings: dict[str, str]) -> None:
    with pytest.raises(NotReproduced, match="the client cannot open"):
        client.open({**DEFAULTS, "servers": address, **settings})


def test_what_nats_has_not_is_refused(client: ClientProgram, address: str) -> None:
    client.open({**DEFAULTS, "servers": address})
    with pytest.raises(NotReproduced, match="begin"):
        client.transaction("begin")
