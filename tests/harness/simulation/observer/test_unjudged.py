"""An observer that does not judge: it keeps its first breach, then looks no further (HX-05)."""

from __future__ import annotations

import pytest

from squall.harness.simulation.observer.invariants import InvariantBroken, Observer
from squall.harness.simulation.observer.unjudged import UnjudgedObserver


@pytest.mark.parametrize("failure", [InvariantBroken("ISR", "planted"), KeyError("a state that it cannot account for")])
def test_a_breach_is_kept_and_nothing_is_observed_after_it(monkeypatch: pytest.MonkeyPatch, failure: Exception) -> None:
    heard: list[str] = []

    def event(self: Observer, name: str, **fields: object) -> None:
        heard.append(name)
        if name == "truncate":
            raise failure

    monkeypatch.setattr(Observer, "event", event)
    observer = UnjudgedObserver()
    for name in ("append", "truncate", "append"):
        observer.event(name)
    assert heard == ["append", "truncate"]
    assert observer.breach is failure
