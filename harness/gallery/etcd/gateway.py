"""Put and get keys of etcd by its JSON gateway, which every member serves at its client address.

Reads are linearizable, as is etcd's default. Keys and values are text.
"""

from __future__ import annotations

import base64
import http.client
import json
from typing import Any, Final

VERSION: Final = "v3"
TROUBLES: Final = (OSError, http.client.HTTPException, ValueError)
"""What a request may end with; then its outcome is unknown."""


class Refused(ValueError):
    """The member has answered with an error."""


class Gateway:
    """The gateway of the member at `address`, HOST:PORT. Each request has a connection of its own."""

    def __init__(self, address: str, seconds: float) -> None:
        self._address = address
        self._seconds = seconds

    def put(self, key: str, value: str) -> None:
        self._ask("kv/put", {"key": _encoded(key), "value": _encoded(value)})

    def get(self, key: str) -> str | None:
        """The value of a key; None if there is none."""
        found = self._ask("kv/range", {"key": _encoded(key)}).get("kvs", [])
        return base64.b64decode(found[0].get("value", "")).decode() if found else None

    def _ask(self, path: str, question: dict[str, str]) -> dict[str, Any]:
        connection = http.client.HTTPConnection(self._address, timeout=self._seconds)
        try:
            connection.request("POST", f"/{VERSION}/{path}", json.dumps(question))
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        if response.status != 200:
            raise Refused(f"{response.status}: {content.decode(errors='replace')[:200]}")
        answer: dict[str, Any] = json.loads(content)
        return answer


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
