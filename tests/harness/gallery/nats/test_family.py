"""NATS as a family: what an entry may ask of it, how a server is configured, what the observer concludes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nats.errors
import pytest
from nats.js.errors import NotFoundError

from squall.harness.errors import UsageError
from squall.harness.gallery.core.trouble import NotReproduced
from squall.harness.gallery.entries import load_entry
from squall.harness.gallery.nats import nodes as serving
from squall.harness.gallery.nats import observer as observing
from squall.harness.gallery.nats.family import NatsFamily, client_version
from squall.harness.gallery.nats.nodes import NatsNodes
from squall.harness.gallery.nats.observer import NO_STREAM, NatsObserver
from squall.harness.loopback.loopback import free_ports
from squall.harness.scenario.suites import SHIPPED
from tests.facts import naming
from tests.harness.gallery.editing import edited

NUMBERS = {"n1": 1, "n2": 2, "n3": 3}
N1 = SHIPPED / "gallery" / "N1.yaml"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"system__version": "2.10.2"}, ("system.version", "2.10.2", "no version of NATS")),
        ({"twin__system": {"name": "nats", "version": "9.9.9"}}, ("twin.system.version", "9.9.9")),
        ({"client": {"name": "java", "version": "4.1.1"}}, ("client.name", "java", "nats.go")),
        ({"client__version": "1.0.0"}, ("client.version", "1.0.0", client_version())),
        ({"cluster__combined": False}, ("cluster.combined", "Apache Kafka")),
        ({"cluster__proxied": [1]}, ("cluster.proxied", "Apache Kafka")),
        ({"cluster__topics": {"events": {"replicas": [[1, 2]]}}}, ("cluster.topics.events", "[[1, 2, 3]]")),
        (
            {"cluster__topics": {"events": {"replicas": [[1, 2, 3], [1, 2, 3]]}}},
            ("cluster.topics.events", "[[1, 2, 3]]"),
        ),
        ({"cluster__config": {"sync_intervall": "always"}}, ("cluster.config", "sync_interval")),
        ({"schedule": [{"do": "begin"}]}, ("schedule[0]", "no transactions")),
        ({"schedule": [{"do": "position", "topic": "events", "offset": 1}]}, ("schedule[0]", "no transactions")),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)
def test_what_nats_has_not_is_named_with_file_line_and_field(
    changes: dict[str, object], words: tuple[str, ...], tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=naming(*words)) as caught:
        load_entry(edited("N1", tmp_path, **changes))
    assert f"{tmp_path / 'N1.yaml'}:" in str(caught.value)


def test_an_unchanged_copy_is_an_entry(tmp_path: Path) -> None:
    assert load_entry(edited("N1", tmp_path)) == load_entry(N1)


def test_settings_of_an_entry_take_precedence(tmp_path: Path) -> None:
    arm = load_entry(edited("N1", tmp_path, client__settings={"publishers": "1"})).arm("broken")
    settings = NatsFamily().settings_of(arm, "nats://h:1")
    assert settings == {"servers": "nats://h:1", "publishers": "1", "timeout": "2s"}


def test_servers_know_each_other_and_their_settings(tmp_path: Path) -> None:
    nodes = NatsNodes(Path("nats-server"), 3, {"sync_interval": "always"}, tmp_path, watched=False)
    texts = [(tmp_path / f"node-{number}" / "node.conf").read_text() for number in nodes.ports]
    assert len(set(texts)) == 3
    for number, text in zip(nodes.ports, texts, strict=True):
        assert f"server_name: n{number}" in text and f"listen: 127.0.0.1:{nodes.ports[number]}\n" in text
        assert "  sync_interval: always\n" in text and text.count("nats://127.0.0.1:") == 3
    assert nodes.bootstrap.count("nats://127.0.0.1:") == 3


@pytest.mark.parametrize("leader", ["n1", "n2", "n3"])
def test_the_meta_leader_gets_the_highest_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leader: str) -> None:
    nodes = NatsNodes(Path("nats-server"), 3, {}, tmp_path, watched=False)
    logs = {name: nodes.nodes[number].log for name, number in nodes.numbers.items()}
    monkeypatch.setattr(serving, "_meta_leader_at", lambda monitor: leader)
    nodes.number_the_meta_leader_last(1)
    assert nodes.numbers[leader] == 3 and sorted(nodes.numbers.values()) == [1, 2, 3]
    assert {name: nodes.nodes[number].log for name, number in nodes.numbers.items()} == logs


def test_without_a_meta_leader_nothing_is_reproduced(tmp_path: Path) -> None:
    nodes = NatsNodes(Path("nats-server"), 1, {}, tmp_path, watched=False)
    with pytest.raises(NotReproduced, match="no meta leader"):
        nodes.number_the_meta_leader_last(0.1)


class Answers(NatsObserver):
    """An observer of a cluster that gives these answers in turn, the last one again and again."""

    def __init__(self, *answers: Any) -> None:
        super().__init__("nats://127.0.0.1:1", NUMBERS)
        self.answers = list(answers)
        self.created: list[str] = []

    def in_sync(self, topic: str, partition: int) -> tuple[int, tuple[int, ...]]:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]

    def create_topic(self, name: str, *_: object) -> None:
        self.created.append(name)

    def _appended(self, topic: str, content: bytes) -> int:
        return 7


GONE = NotFoundError(code=404, err_code=NO_STREAM, description="stream not found")
SERVED = 1, (1, 2, 3)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observing, "GONE_SECONDS", 0.2)
    monkeypatch.setattr(observing, "LOOK_EVERY_S", 0.01)
    monkeypatch.setattr(observing, "START_SECONDS", 0.5)


def test_a_stream_that_the_leader_denies_for_long_enough_is_gone_and_made_again() -> None:
    observer = Answers(nats.errors.TimeoutError(), GONE)
    (marker,) = observer.mark([("events", 0)])
    assert (marker.offset, observer.created) == (7, ["events"])
    assert "events did not exist any more" in observer.findings[0]


@pytest.mark.parametrize("answers", [[SERVED], [GONE, GONE, SERVED], [(-1, ()), SERVED]])
def test_a_stream_that_is_served_at_last_is_not_made_again(answers: list[Any]) -> None:
    observer = Answers(*answers)
    observer.mark([("events", 0)])
    assert (observer.created, observer.findings) == ([], ())


@pytest.mark.parametrize("answer", [nats.errors.TimeoutError(), (-1, ()), OSError("refused")])
def test_a_stream_about_which_no_leader_answers_proves_nothing(answer: Any) -> None:
    observer = Answers(answer)
    with pytest.raises(NotReproduced, match="whether stream events exists is not known"):
        observer.mark([("events", 0)])
    assert observer.created == []


def test_a_server_that_is_down_is_not_asked_for_ever() -> None:
    observer = NatsObserver(f"nats://127.0.0.1:{free_ports(1)[0]}", NUMBERS)
    with pytest.raises(NotReproduced, match="stream events: no success"):
        NatsObserver.create_topic(observer, "events", [[1]], {})
    with pytest.raises(NotReproduced, match="held: not so"):
        observer.wait_until(lambda: observer.in_sync("events", 0) == (1, (1,)), "held", 0.1)
