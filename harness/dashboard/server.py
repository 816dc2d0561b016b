"""Serve the built folder over HTTP, on loopback or, with a token, elsewhere.

Only pages, style sheets and scripts of the folder are served: a path that leads out of it, also by a link, is not
found. Without a token a request must name a loopback host, so that a page of another site cannot read the dashboard
under a name of its own. With a token, `?token=` of the printed address becomes a cookie; a program sends it as a
bearer token. Tokens are compared in constant time.
"""

from __future__ import annotations

import hmac
import ipaddress
from dataclasses import dataclass
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

COOKIE: Final = "squall-dashboard"
TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
}
OWN_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
REPORT_POLICY: Final = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; sandbox allow-scripts allow-popups "
    "allow-top-navigation-by-user-activation"
)
"""Reports are one file each, with script and style inside; each is kept apart from everything else that is served."""
SAFETY: Final = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


def is_loopback(host: str) -> bool:
    """Whether a name or address is this machine's own, and only its own."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]").partition("%")[0]).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class Served:
    """What is served, and to whom: the folder, and the token that is asked for, if any."""

    folder: Path
    token: str = ""

    def file_of(self, path: str) -> Path | None:
        """Return the file that a path of a request names; None if there is none, or it must not be served."""
        name = unquote(path).lstrip("/") or "index.html"
        if "\0" in name or any(part.startswith(".") for part in Path(name).parts):
            return None
        folder = self.folder.resolve()
        try:
            found = (folder / name).resolve()
        except (OSError, RuntimeError):
            return None
        inside = found.is_relative_to(folder) and found.suffix in TYPES
        return found if inside and found.is_file() else None

    def accepts(self, token: str) -> bool:
        return hmac.compare_digest(token.encode(), self.token.encode())


class DashboardServer(ThreadingHTTPServer):
    """The server; `served` is what its handlers answer from."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], served: Served) -> None:
        self.served = served
        if ":" in address[0]:
            import socket

            self.address_family = socket.AF_INET6
        super().__init__(address, _Handler)


class _Handler(BaseHTTPRequestHandler):
    timeout = 30
    server: DashboardServer
    server_version = "squall"
    sys_version = ""

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the terminal shows builds and errors only, and addresses may hold the token."""

    def _answer(self, *, body: bool) -> None:
        served = self.server.served
        address = urlsplit(self.path)
        given = parse_qs(address.query).get("token", [""])[0]
        if served.token and given:
            if not served.accepts(given):
                return self._refuse()
            return self._redirect(address.path or "/", given)
        if not self._is_allowed():
            return self._refuse()
        found = served.file_of(address.path)
        if found is None:
            return self._plain(HTTPStatus.NOT_FOUND, "There is no such page. The dashboard begins at /.\n")
        try:
            content = found.read_bytes()
        except OSError:
            return self._plain(HTTPStatus.NOT_FOUND, "The page cannot be read.\n")
        is_report = found.parent.name == "reports"
        self._head(HTTPStatus.OK, TYPES[found.suffix], len(content), REPORT_POLICY if is_report else OWN_POLICY)
        if body:
            self.wfile.write(content)

    def _is_allowed(self) -> bool:
        served = self.server.served
        if not served.token:
            host = urlsplit(f"//{self.headers.get('Host', '')}").hostname or ""
            return is_loopback(host)
        scheme, _, bearer = self.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return served.accepts(bearer.strip())
        try:
            cookie = SimpleCookie(self.headers.get("Cookie", "")).get(COOKIE)
        except CookieError:
            return False
        return cookie is not None and served.accepts(cookie.value)

    def _refuse(self) -> None:
        if self.server.served.token:
            text = "The token is missing or wrong. Open the address that squall dashboard serve printed.\n"
        else:
            text = "This dashboard is for this machine only. Open it as http://localhost, or serve it with --token.\n"
        self._plain(HTTPStatus.FORBIDDEN, text)

    def _redirect(self, path: str, token: str) -> None:
        cookie = SimpleCookie()
        cookie[COOKIE] = token
        for name, value in (("path", "/"), ("httponly", "yes"), ("samesite", "Strict")):
            cookie[COOKIE][name] = value
        self.send_response(HTTPStatus.SEE_OTHER)
        self.send_header("Location", "/" + path.lstrip("/"))
        self.send_header("Set-Cookie", cookie[COOKIE].OutputString())
        self._finish_head(0, OWN_POLICY)

    def _plain(self, status: HTTPStatus, text: str) -> None:
        content = text.encode()
        self._head(status, "text/plain; charset=utf-8", len(content), OWN_POLICY)
        if self.command != "HEAD":
            self.wfile.write(content)

    def _head(self, status: HTTPStatus, kind: str, length: int, policy: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self._finish_head(length, policy)

    def _finish_head(self, length: int, policy: str) -> None:
        self.send_header("Content-Length", str(length))
        self.send_header("Content-Security-Policy", policy)
        for name, value in SAFETY.items():
            self.send_header(name, value)
        self.end_headers()
