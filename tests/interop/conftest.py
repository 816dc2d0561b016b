"""One cluster for all interoperability tests: three controllers and three brokers, each a process of its own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from squall.harness.artifacts.jar_cache import jars as pinned_jars
from tests.clusters import Cluster
from tests.interop.apache_kafka import ApacheKafka
from tests.interop.clients import CLIENTS, ClientLibrary, ConfluentKafka

JARS = "kafka-tools-4.3.1"


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, controllers=3) as running:
        running.wait_until_ready()
        yield running


@pytest.fixture(scope="session")
def bootstrap(cluster: Cluster) -> str:
    return cluster.bootstrap


@pytest.fixture(scope="session")
def _numbers() -> Iterator[int]:
    return itertools.count(1)


@pytest.fixture
def new_name(_numbers: Iterator[int]) -> Callable[[], str]:
    """Topic names nobody has used."""
    return lambda: f"interop-{next(_numbers)}"


@pytest.fixture(scope="session")
def jars() -> Sequence[Path]:
    return pinned_jars(JARS)


@pytest.fixture(scope="session")
def apache(jars: Sequence[Path]) -> Iterator[ApacheKafka]:
    """Apache Kafka itself: what is right here is right."""
    with ApacheKafka(jars) as running:
        yield running


@pytest.fixture
def topic(bootstrap: str, new_name: Callable[[], str]) -> str:
    """A fresh topic of three topic-partitions, each on three replicas."""
    name = new_name()
    ConfluentKafka(bootstrap).create_topic(name, partitions=3)
    return name


@pytest.fixture(params=CLIENTS, ids=lambda library: library.name)
def library(request: pytest.FixtureRequest, bootstrap: str) -> ClientLibrary:
    """Each client library in turn, pointed at the cluster."""
    made: ClientLibrary = request.param(bootstrap)
    return made
