"""Read the properties by which clients connect to a secured cluster: TLS, SASL.

    security.protocol=SASL_SSL
    ssl.ca.location=/etc/kafka/ca.pem
    sasl.mechanism=SCRAM-SHA-512
    sasl.username=squall
    sasl.password=…

Keys are librdkafka's; of Java's, `sasl.jaas.config` and a truststore of type PEM are understood. What the file says is
given to clients and kept nowhere: manifests, logs and messages have the file's name and the keys, and no value.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from squall.harness.errors import UsageError
from squall.harness.yaml_source import suggestion

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
FILES: Final = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location")
KEYS: Final = (
    *("security.protocol", "sasl.mechanism", "sasl.username", "sasl.password"),
    *FILES,
    *("ssl.key.password", "ssl.endpoint.identification.algorithm"),
)
_JAVA: Final = {"sasl.mechanisms": "sasl.mechanism", "ssl.truststore.location": "ssl.ca.location"}
_IGNORED: Final = ("bootstrap.servers", "client.id", "ssl.truststore.type")
_JAAS: Final = re.compile(r'\b(username|password)\s*=\s*"((?:[^"\\]|\\.)*)"')


def read_client_properties(path: Path) -> dict[str, str]:
    """Return the properties of a file, by librdkafka's keys. Raises UsageError, which quotes no value."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as trouble:
        reason = trouble.strerror if isinstance(trouble, OSError) else "it is not UTF-8"
        raise UsageError(f"{path}: cannot be read: {reason}") from None
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text and not text.startswith(("#", "!")):
            found |= _property(f"{path}:{number}", text)
    _refuse_incomplete(path, found)
    return found


def _property(where: str, text: str) -> dict[str, str]:
    key, equals, value = (part.strip() for part in text.partition("="))
    if not equals:
        raise UsageError(f"{where}: is not key=value")
    key = _JAVA.get(key, key)
    if key == "sasl.jaas.config":
        named = {f"sasl.{name}": re.sub(r"\\(.)", r"\1", said) for name, said in _JAAS.findall(value)}
        if len(named) != 2:
            raise UsageError(f'{where}: {key}: has no username="…" and password="…"')
        return named
    if key in _IGNORED:
        return {}
    if key not in KEYS:
        raise UsageError(f"{where}: {key}: unknown key{suggestion(key, KEYS)}")
    return {key: value}


def _refuse_incomplete(path: Path, found: dict[str, str]) -> None:
    protocol = found.setdefault("security.protocol", "PLAINTEXT")
    if protocol not in PROTOCOLS:
        raise UsageError(f"{path}: security.protocol: must be one of {', '.join(PROTOCOLS)}")
    if protocol.startswith("SASL"):
        if found.get("sasl.mechanism") not in MECHANISMS:
            raise UsageError(f"{path}: sasl.mechanism: must be one of {', '.join(MECHANISMS)}")
        for key in ("sasl.username", "sasl.password"):
            if not found.get(key):
                raise UsageError(f"{path}: {key}: missing; {protocol} needs it")
    for key in FILES:
        if key in found and not Path(found[key]).is_file():
            raise UsageError(f"{path}: {key}: names no file")
