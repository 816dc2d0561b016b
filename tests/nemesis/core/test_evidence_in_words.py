"""Observations are told in words that say who saw what."""

from __future__ import annotations

from squall.nemesis.core.evidence import in_words


def test_a_whole_network_is_told_in_one_phrase() -> None:
    assert in_words({"heard": {"a": ["b", "c"], "b": ["a", "c"], "c": ["a", "b"]}}) == "all 3 nodes hear each other"


def test_each_deaf_node_is_named_with_those_it_does_not_hear() -> None:
    assert in_words({"heard": {"a": [], "b": ["c"], "c": ["b"]}}) == "a deaf to b c; b deaf to a; c deaf to a"


def test_processes_are_told_with_state_and_pid() -> None:
    facts = {"b1": {"state": "running", "pid": 7, "started": 1}, "b2": {"state": "absent", "pid": None}}
    assert in_words(facts) == "b1 running (pid 7), b2 absent"
    assert in_words({"processes": facts, "while_lagging": {}}) == in_words(facts)


def test_clocks_are_told_by_their_offset() -> None:
    assert in_words({"clocks": {"b1": {"offset_s": 3600.0, "mapped": True}}, "elapsed_s": 1.0}) == "b1 +3600.0 s"


def test_a_clock_a_hair_behind_is_not_told_as_minus_nothing() -> None:
    assert in_words({"clocks": {"b1": {"offset_s": -0.0003}}}) == "b1 +0.0 s"


def test_no_observation_is_no_words() -> None:
    assert in_words({}) == ""
