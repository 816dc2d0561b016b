"""Trials: a row of the catalogue made into a short schedule on these hosts, and judged by what was seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from squall.harness.catalogue.abilities import Abilities
from squall.harness.catalogue.describe import example_of, options_of
from squall.harness.catalogue.trials import WINDOW_SECONDS, Trial, chosen_rows, judged, trial_of, why_not
from squall.harness.catalogue.verifying import plan_of
from squall.harness.errors import UsageError
from squall.harness.scenario.inventory import HostSpec, Inventory
from squall.nemesis.catalogue import ROWS, CatalogueRow
from squall.nemesis.core.evidence import FaultRecord
from squall.nemesis.entries import NemesisEntry
from squall.nemesis.exclusion import clashes
from squall.nemesis.options import DiskError, Kill
from squall.nemesis.registry import FAULTS, KINDS
from tests.facts import naming

HOSTS = Inventory(
    "inventory.yaml",
    tuple(
        HostSpec(name=name, address=f"10.0.0.{number}", groups=(group,))
        for number, (name, group) in enumerate(
            [("mars", "brokers"), ("venus", "brokers"), ("moon", "brokers"), ("sun", "controllers")], 1
        )
    ),
)


def trial(entry: dict[str, Any], **more: Any) -> Trial:
    return trial_of(CatalogueRow(7, "some trouble", entry, **more), HOSTS, seed=1)


def record(id: str, **changed: Any) -> FaultRecord:
    facts: dict[str, Any] = {"evidence_before": {}, "evidence_during": {}, "evidence_after": {}}
    known = {"kind": "kill", "targets": ("mars",), "role": "by name", "injected_at_ns": 1, "healed_at_ns": 2, **facts}
    return FaultRecord(**{"id": id, **known, "proven": True, "healed": True, "detail": "process gone", **changed})


class TestSchedules:
    def test_names_stand_for_the_hosts_that_there_are(self) -> None:
        (fault,) = trial({"fault": "slow-link", "target": "b2", "to": "b1, c1"}).schedule.faults
        assert (fault.options.target, fault.options.peers) == ("venus", "mars, sun")  # type: ignore[union-attr]

    def test_a_trial_begins_at_once_and_has_a_short_window(self) -> None:
        (fault,) = trial({"fault": "kill", "target": "b1"}).schedule.faults
        assert (fault.at_s, fault.for_s) == (0, WINDOW_SECONDS)
        (own,) = trial({"fault": "kill", "target": "b1", "for": "1s"}).schedule.faults
        assert own.for_s == 1

    def test_steps_have_windows_too_and_all_are_numbered_by_their_row(self) -> None:
        made = trial({"sequence": [{"fault": "kill", "target": "b1"}, {"fault": "pause", "target": "b1", "for": 1}]})
        assert [(fault.id, fault.for_s) for fault in made.schedule.faults] == [
            ("row-7-1-sequence-1-kill", WINDOW_SECONDS),
            ("row-7-1-sequence-2-pause", 1),
        ]
        assert made.schedule.faults[1].follows == "row-7-1-sequence-1-kill"
        assert made.what == "kill, pause"

    def test_in_the_plan_of_all_of_them_no_two_exclude_each_other(self) -> None:
        trials = [trial_of(row, HOSTS, seed=1) for row in ROWS if row.trial]
        plan = plan_of(trials, 1, Path("runs"), clients=True)
        assert len(plan.schedule.faults) == sum(len(one.schedule.faults) for one in trials)
        assert list(clashes(plan.schedule)) == []

    @pytest.mark.parametrize("row", [row for row in ROWS if row.trial], ids=lambda row: str(row.number))
    def test_every_trial_of_the_catalogue_makes_a_schedule(self, row: CatalogueRow) -> None:
        assert trial_of(row, HOSTS, seed=1).schedule.faults


class TestChoice:
    def test_rows_are_chosen_by_number_name_or_fault(self) -> None:
        assert [row.number for row in chosen_rows(["14"])] == [14]
        assert [row.number for row in chosen_rows(["clock step"])] == [29]
        assert 1 in [row.number for row in chosen_rows(["kill"])]
        assert chosen_rows([]) == ROWS

    def test_a_row_that_there_is_not_is_told_with_the_nearest(self) -> None:
        with pytest.raises(UsageError, match=naming("`clock step`")):
            chosen_rows(["clock stop"])


class TestAbilities:
    ABLE = Abilities("inventory.yaml", {"mars": {"network": "nft", "unable": {}}, "sun": {"unable": {}}})

    def test_what_all_hosts_can_do_is_done(self) -> None:
        assert why_not(trial({"fault": "kill", "target": "b1"}), self.ABLE) == ""
        assert self.ABLE.driver(FAULTS[Kill]) == "signals"

    def test_one_host_that_cannot_is_reason_enough(self) -> None:
        unable = Abilities("inventory.yaml", {"mars": {"unable": {}}, "sun": {"unable": {"net.shape": "no NFQUEUE"}}})
        assert why_not(trial({"fault": "bandwidth", "target": "b1"}), unable) == "sun: net.shape: no NFQUEUE"

    def test_disk_faults_need_disk_calls_that_can_be_watched(self) -> None:
        blind = Abilities("inventory.yaml", {"mars": {"unable": {}}}, unwatchable={"mars": "kernel 5.4"})
        reason = "mars: disk calls cannot be watched: kernel 5.4"
        assert blind.why_not(DiskError.model_validate({"fault": "disk-error", "target": "mars"})) == reason
        assert blind.why_not_kind(FAULTS[DiskError]) == reason

    def test_a_trial_on_clients_needs_a_client_host(self) -> None:
        needs = trial({"fault": "kill", "target": "b1"}, clients=True)
        assert "needs a client host" in why_not(needs, self.ABLE)
        assert why_not(needs, Abilities("it", self.ABLE.info, clients=1)) == ""


class TestJudgement:
    KILL = {"fault": "kill", "target": "b1"}

    def test_seen_to_take_hold_and_to_end_is_verified(self) -> None:
        result = judged(trial(self.KILL), [record("x", inject_ns=7_000_000, heal_ns=3_000_000_000)], 0.5, "")
        assert (result.outcome, result.reason) == ("verified", "")
        assert (result.inject_s, result.heal_s, result.whole_s) == (0.007, 3.0, 0.5)
        assert (result.targets, result.during) == ("mars", "process gone")

    @pytest.mark.parametrize(
        ("records", "trouble", "told"),
        [
            ([record("x", proven=False, detail="mars: it is running")], "", "mars: it is running"),
            ([record("x", healed=False, detail="not healed: gone")], "", "not healed: gone"),
            ([record("x")], "the cluster was not whole", "the cluster was not whole"),
            ([], "", "0 of 1 faults took place"),
        ],
    )
    def test_anything_less_is_failed_with_the_reason(self, records: list[FaultRecord], trouble: str, told: str) -> None:
        result = judged(trial(self.KILL), records, None, trouble)
        assert (result.outcome, result.reason) == ("failed", told)


class TestDescriptions:
    def test_options_are_told_with_values_and_defaults_as_one_would_write_them(self) -> None:
        told = {option.name: (option.values, option.default) for option in options_of(DiskError)}
        assert told["target"] == ("selector", "")
        assert told["calls"][1] == "[write, fsync]"
        assert told["probability"][1] == "1.0"
        assert "at" not in told and "fault" not in told

    @pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
    def test_every_kind_has_an_example_that_a_suite_would_take(self, kind: Any) -> None:
        import yaml
        from pydantic import TypeAdapter

        entry: Any = TypeAdapter(NemesisEntry).validate_python(yaml.safe_load(example_of(kind)))
        assert isinstance(entry, kind.options)

    @pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
    def test_every_kind_says_what_it_is(self, kind: Any) -> None:
        assert kind.what and kind.on_hosts and kind.proof
        assert not any(option.values.startswith("<") for option in options_of(kind.options))
