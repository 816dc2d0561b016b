"""Client properties of a secured cluster: understood in two dialects, refused without quoting a secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from squall.harness.errors import UsageError
from squall.harness.systems.cluster.client_properties import read_client_properties

SCRAM = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\nsasl.username=me\nsasl.password=hunter2\n"
PARSED = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "me",
    "sasl.password": "hunter2",
}


def read(directory: Path, text: str) -> dict[str, str]:
    path = directory / "client.properties"
    path.write_text(text)
    return read_client_properties(path)


def test_properties_have_librdkafkas_names(tmp_path: Path) -> None:
    assert read(tmp_path, "# mine\n\n" + SCRAM + "bootstrap.servers=a:1\n") == PARSED


def test_javas_login_is_understood(tmp_path: Path) -> None:
    text = SCRAM.partition("sasl.username")[0] + (
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required"
        ' username="me" password="hunter2";\n'
    )
    assert read(tmp_path, text) == PARSED


def test_without_a_protocol_nothing_is_secured(tmp_path: Path) -> None:
    assert read(tmp_path, "client.id=me\n") == {"security.protocol": "PLAINTEXT"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (SCRAM.replace("SCRAM-SHA-512", "GSSAPI"), "sasl.mechanism: must be one of PLAIN, SCRAM-SHA-256"),
        (
            SCRAM.replace("sasl.password", "sasl.pasword"),
            ":4: sasl.pasword: unknown key; did you mean",
        ),
        (SCRAM.replace("sasl.password=hunter2\n", ""), "sasl.password: missing; SASL_PLAINTEXT needs it"),
        ("security.protocol=TLS\n", "security.protocol: must be one of PLAINTEXT, SSL"),
        ("security.protocol=SSL\nssl.ca.location=/none/ca.pem\n", "ssl.ca.location: names no file"),
        (SCRAM + "hunter2\n", ":5: is not key=value"),
        (SCRAM + 'sasl.jaas.config=x username="hunter2"\n', ":5: sasl.jaas.config: has no username"),
    ],
)
def test_a_mistake_is_told_with_its_place_and_without_its_value(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(UsageError) as refused:
        read(tmp_path, text)
    assert problem in str(refused.value) and "hunter2" not in str(refused.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.properties: cannot be read: No such file"):
        read_client_properties(tmp_path / "none.properties")
