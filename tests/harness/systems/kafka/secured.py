"""An Apache Kafka on loopback that only lets in who comes by TLS and SCRAM."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from squall.harness.loopback.loopback import free_ports
from squall.harness.systems.kafka.launch import MAIN, STORAGE_TOOL, USUAL_JVM
from squall.harness.systems.kafka.shared_classes import STARTED
from squall.harness.systems.kafka.system import ApacheKafka

MECHANISM = "SCRAM-SHA-512"
USER, PASSWORD = "squall", "a-pass-word-1"
START_SECONDS = 120.0

PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=SASL_SSL://127.0.0.1:{port},INSIDE://127.0.0.1:{inside},CONTROLLER://127.0.0.1:{controller}
listener.security.protocol.map=SASL_SSL:SASL_SSL,INSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=INSIDE
sasl.enabled.mechanisms={mechanism}
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=\
org.apache.kafka.common.security.scram.ScramLoginModule required;
ssl.keystore.type=PEM
ssl.keystore.location={directory}/node.pem
log.dirs={directory}/data
log.cleaner.dedupe.buffer.size=8388608
offsets.topic.replication.factor=1
"""


@dataclass(frozen=True)
class Secured:
    """Where it is, and what its clients need."""

    address: str
    authority: Path

    def properties(self, directory: Path, password: str = PASSWORD) -> Path:
        path = directory / "client.properties"
        path.write_text(
            f"security.protocol=SASL_SSL\nssl.ca.location={self.authority}\nsasl.mechanism={MECHANISM}\n"
            f"sasl.username={USER}\nsasl.password={password}\n"
        )
        return path


@contextlib.contextmanager
def secured_kafka(directory: Path) -> Iterator[Secured]:
    """Format and start it; it ends with the block."""
    system = ApacheKafka()
    system.fetch(print)
    library = system.library().directory
    port, inside, controller = free_ports(3)
    write_certificate(directory)
    config = directory / "node.properties"
    config.write_text(
        PROPERTIES.format(port=port, inside=inside, controller=controller, directory=directory, mechanism=MECHANISM)
    )
    java = ["java", *USUAL_JVM, "-cp", "*"]
    form = [*java, STORAGE_TOOL, "format", "--cluster-id", "c3F1YWxsLXNlY3VyZWQtMQ", "--config", str(config)]
    form += ["--add-scram", f"{MECHANISM}=[name={USER},password={PASSWORD}]"]
    subprocess.run(form, cwd=library, check=True, capture_output=True, timeout=START_SECONDS)
    log = directory / "node.log"
    with log.open("wb") as out:
        node = subprocess.Popen([*java, MAIN, str(config)], cwd=library, stdout=out, stderr=out)
        try:
            end = time.monotonic() + START_SECONDS
            while STARTED not in (said := log.read_text(errors="replace")):
                assert node.poll() is None and time.monotonic() < end, said[-3000:]
                time.sleep(0.1)
            yield Secured(f"127.0.0.1:{port}", directory / "ca.pem")
        finally:
            node.kill()
            node.wait()


def write_certificate(directory: Path) -> None:
    """Write a certificate of 127.0.0.1 that signs itself: `ca.pem`, and with its key `node.pem`."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "squall test")])
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - day)
        .not_valid_after(now + day)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    shown = certificate.public_bytes(serialization.Encoding.PEM)
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (directory / "ca.pem").write_bytes(shown)
    (directory / "node.pem").write_bytes(secret + shown)
