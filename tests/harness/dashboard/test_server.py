"""The dashboard's server: who may read, and that nothing outside the folder is served."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from squall.harness.dashboard.server import COOKIE, DashboardServer, Served, is_loopback

TOKEN = "a token of some length"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of pages beside a secret, with a link that leads to it."""
    pages = tmp_path / "pages"
    (pages / "reports").mkdir(parents=True)
    (pages / "index.html").write_text("<h1>tonight</h1>")
    (pages / "reports" / "r.html").write_text("<script>1</script>")
    (pages / ".dashboard.json").write_text("{}")
    (pages / "key.pem").write_text("secret")
    (tmp_path / "secret.html").write_text("secret")
    (pages / "link.html").symlink_to(tmp_path / "secret.html")
    return pages


@contextmanager
def served(folder: Path, token: str = "") -> Iterator[int]:
    server = DashboardServer(("127.0.0.1", 0), Served(folder, token))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def answer(port: int, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request(method, path, headers=headers)
    response = connection.getresponse()
    found = response.status, {name.lower(): value for name, value in response.getheaders()}, response.read().decode()
    connection.close()
    return found


def test_a_page_is_served_with_headers_that_confine_it(folder: Path) -> None:
    with served(folder) as port:
        status, headers, text = answer(port, "/?from=mail")
        assert (status, text) == (200, "<h1>tonight</h1>")
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "script-src 'self'" in policy and "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff" and headers["x-frame-options"] == "DENY"
        assert "sandbox allow-scripts" in answer(port, "/reports/r.html")[1]["content-security-policy"]
        assert answer(port, "/", "HEAD")[::2] == (200, "")


@pytest.mark.parametrize(
    "path",
    ["/../secret.html", "/%2e%2e/secret.html", "/..%2fsecret.html", "/link.html", "/.dashboard.json", "/key.pem",
     "/reports", "/reports/", "//etc/passwd", "/index.html%00.css", "/no.html", "/reports/../../secret.html"],
)  # fmt: skip
def test_nothing_outside_the_folder_is_served(folder: Path, path: str) -> None:
    with served(folder) as port:
        status, _, text = answer(port, path)
        assert status == 404 and "secret" not in text


def test_without_a_token_only_this_machine_may_read(folder: Path) -> None:
    with served(folder) as port:
        assert answer(port, "/", Host="evil.example")[0] == 403
        assert answer(port, "/", Host=f"localhost:{port}")[0] == 200


def test_a_token_is_asked_for_and_becomes_a_cookie(folder: Path) -> None:
    with served(folder, TOKEN) as port:
        assert answer(port, "/")[0] == 403
        assert answer(port, "/?token=wrong")[0] == 403
        assert answer(port, "/", Authorization=f"Bearer {TOKEN}")[0] == 200
        assert answer(port, "/", Authorization="Bearer wrong")[0] == 403
        status, headers, text = answer(port, "/index.html?token=a%20token%20of%20some%20length")
        assert (status, headers["location"], text) == (303, "/index.html", "")
        cookie = headers["set-cookie"]
        assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
        assert answer(port, "/", Cookie=cookie.partition(";")[0])[0] == 200
        assert answer(port, "/", Cookie=f"{COOKIE}=wrong")[0] == 403


def test_a_redirect_stays_on_this_server(folder: Path) -> None:
    with served(folder, TOKEN) as port:
        location = answer(port, "//evil.example/x?token=a%20token%20of%20some%20length")[1]["location"]
        assert location.startswith("/") and not location.startswith("//")


def test_other_methods_are_refused(folder: Path) -> None:
    with served(folder) as port:
        assert answer(port, "/", "POST")[0] == 501


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("localhost", True), ("::1", True), ("[::1]", True), ("0.0.0.0", False), ("::", False),
     ("127.0.0.1.evil.example", False), ("", False), ("10.0.0.1", False)],
)  # fmt: skip
def test_loopback_is_recognised(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected
