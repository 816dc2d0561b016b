"""Which settings a topic may have, and whose value counts."""

from __future__ import annotations

import pytest

from squall.nodes.metadata.topic_configs import TOPIC_CONFIGS, InvalidConfig, check_config, effective_value


@pytest.mark.parametrize("name", list(TOPIC_CONFIGS))
def test_every_default_is_itself_allowed(name: str) -> None:
    check_config(name, TOPIC_CONFIGS[name].default)


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("no.such.setting", "1", "min.insync.replicas"),
        ("min.insync.replicas", "0", "from 1 to"),
        ("min.insync.replicas", "two", "whole number"),
        ("max.message.bytes", "-1", "from 0 to"),
        ("segment.bytes", "1", "from 14 to"),
        ("unclean.leader.election.enable", "yes", "true or false"),
        ("cleanup.policy", "compact", "must be delete"),
        ("retention.ms", None, "no value"),
    ],
)
def test_what_is_refused_is_told_with_name_and_remedy(name: str, value: str | None, told: str) -> None:
    with pytest.raises(InvalidConfig, match=told) as refusal:
        check_config(name, value)
    assert name in str(refusal.value)


def test_the_topics_value_counts_before_the_clusters_before_kafkas() -> None:
    assert effective_value({}, "min.insync.replicas") == "1"
    assert effective_value({}, "min.insync.replicas", {"min.insync.replicas": "2"}) == "2"
    assert effective_value({"min.insync.replicas": "3"}, "min.insync.replicas", {"min.insync.replicas": "2"}) == "3"
