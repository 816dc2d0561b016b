"""What replicas may and may not hold after a run, on tables by hand: ACK, UNIQ, ISR, LM and EPOCH on hosts (HX-06)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from squall.results.checkers.replicas.anomalies import (
    DAMAGED,
    DIVERGENCE,
    EPOCH_REGRESS,
    LACKS,
    LOG_MATCHING,
    WRONG_FILE,
)
from squall.results.checkers.replicas.facts import Findings
from squall.results.checkers.replicas.logs import NOT_LIVE, OUT_OF_SYNC, compare, holes_of
from squall.results.checkers.replicas.replica import Batches, Replica

Row = tuple[int, int, int, int]
"""First and last offset, epoch, digest."""
WHOLE: Sequence[Row] = ((0, 4, 1, 11), (5, 9, 1, 12), (10, 14, 2, 13))


def batches(rows: Sequence[Row]) -> Batches:
    base, last, epoch, digest = (
        (np.array(column, np.int64) for column in zip(*rows, strict=True)) if rows else [np.zeros(0, np.int64)] * 4
    )
    return Batches(base, last, epoch, digest, last - base + 1, np.ones(len(rows), np.int64))


def replica(
    host: str, rows: Sequence[Row] = WHOLE, *, in_sync: bool = True, start: int = 0, **facts: object
) -> Replica:
    known = {"required": 15, "live": True, "leads": host == "b1"} | facts
    end = rows[-1][1] + 1 if rows else start
    return Replica(
        topic="events",
        partition=3,
        topic_id="id",
        host=host,
        node=int(host[1:]),
        in_sync=in_sync,
        start=start,
        end=end,
        batches=batches(rows),
        **known,  # type: ignore[arg-type]
    )


def found(*replicas: Replica) -> Findings:
    findings = Findings("replicas.parquet")
    compare(replicas, findings)
    return findings


def anomalies(*replicas: Replica) -> dict[str, int]:
    return dict(found(*replicas).anomalies)


class TestWhatInSyncReplicasMustHold:
    def test_replicas_that_are_alike_and_whole_are_counted(self) -> None:
        findings = found(replica("b1"), replica("b2"), replica("b3"))
        assert not findings.anomalies
        assert not findings.undecided
        assert findings.looked_at == {"in-sync replicas": 3, "batches": 9, "records": 45, "digests equal": 3}

    def test_a_member_without_an_acknowledged_record_breaks_ack(self) -> None:
        """ACK, ISR: the end of the log is missing."""
        findings = found(replica("b1"), replica("b2", WHOLE[:2]))
        assert findings.anomalies == {LACKS: 5}
        (witness,) = findings.witnesses
        assert (witness.place, witness.offset) == ("events-3", 10)
        assert ("b2", "lacks offsets 10 to 14") in witness.evidence
        assert findings.looked_at["digests equal"] == 1

    def test_a_hole_in_the_middle_is_a_missing_record(self) -> None:
        assert anomalies(replica("b1"), replica("b2", (WHOLE[0], WHOLE[2]))) == {LACKS: 5}

    def test_a_member_without_any_record_lacks_all(self) -> None:
        assert anomalies(replica("b1"), replica("b2", (), problem="has no log of it")) == {LACKS: 15}

    def test_even_the_leader_may_lack_records(self) -> None:
        assert anomalies(replica("b1", WHOLE[:1]), replica("b2")) == {LACKS: 10}

    def test_members_that_differ_in_a_committed_batch_break_uniq(self) -> None:
        changed = (WHOLE[0], (5, 9, 1, 99), WHOLE[2])
        findings = found(replica("b1"), replica("b2", changed))
        assert findings.anomalies == {DIVERGENCE: 1}
        assert findings.witnesses[0].evidence[:2] == (
            ("b1", "the leader, has offsets 5 to 9 of leader epoch 1, content 0000000c"),
            ("b2", "in the ISR, has offsets 5 to 9 of leader epoch 1, content 00000063"),
        )

    def test_a_committed_batch_of_another_epoch_is_another_batch(self) -> None:
        assert anomalies(replica("b1"), replica("b2", (*WHOLE[:2], (10, 14, 1, 77)))) == {DIVERGENCE: 1}

    def test_batches_that_are_cut_differently_are_different(self) -> None:
        shifted = (WHOLE[0], (5, 6, 1, 21), (7, 9, 1, 22), WHOLE[2])
        assert anomalies(replica("b1"), replica("b2", shifted)) == {DIVERGENCE: 2}

    def test_a_batch_that_does_not_fit_its_checksum_is_damaged(self) -> None:
        one = replica("b1")
        sound = one.batches.sound.copy()
        sound[1] = 0
        assert anomalies(replace(one, batches=replace(one.batches, sound=sound))) == {DAMAGED: 1}

    def test_a_file_that_contradicts_the_batches_is_named(self) -> None:
        """DP-05, DP-13: a node that starts with such a file skips records, or appends a batch twice."""
        files = tuple(f"0000000000000000000{number}.timeindex says something else" for number in range(5))
        findings = found(replica("b1"), replica("b2", files=files))
        assert findings.anomalies == {WRONG_FILE: 5}
        assert findings.witnesses[0].evidence == tuple(("b2", f"beside the log, {one}") for one in files[:3])

    @pytest.mark.parametrize("facts", [{"in_sync": False}, {"live": False}, {"collected": False}])
    def test_files_of_a_replica_that_may_be_recovering_are_not_judged(self, facts: dict[str, bool]) -> None:
        assert WRONG_FILE not in anomalies(replica("b1"), replica("b2", files=("it differs",), **facts))

    def test_damage_above_what_is_committed_is_none(self) -> None:
        one = replica("b1", required=5)
        sound = np.array([1, 0, 0], np.int64)
        assert anomalies(replace(one, batches=replace(one.batches, sound=sound))) == {}


class TestWhatIsLegal:
    def test_a_tail_that_is_not_committed_may_differ(self) -> None:
        assert anomalies(replica("b1", (*WHOLE, (15, 15, 2, 1))), replica("b2", (*WHOLE, (15, 17, 3, 2)))) == {}

    def test_a_replica_out_of_sync_may_lag_and_keep_an_old_tail(self) -> None:
        findings = found(replica("b1"), replica("b2", (*WHOLE[:2], (10, 12, 1, 66)), in_sync=False))
        assert not findings.anomalies
        assert findings.noted == {OUT_OF_SYNC: 1}

    def test_a_member_whose_node_does_not_run_is_noted(self) -> None:
        findings = found(replica("b1"), replica("b2", WHOLE[:1], live=False))
        assert not findings.anomalies
        assert not findings.undecided
        assert findings.noted == {NOT_LIVE: 1}

    @pytest.mark.parametrize("removal", [True, False])
    def test_a_log_may_begin_later_only_where_records_may_be_removed(self, removal: bool) -> None:
        later = replica("b2", WHOLE[1:], start=5, removal=removal)
        assert anomalies(replica("b1", removal=removal), later) == ({} if removal else {LACKS: 5})

    def test_logs_that_all_begin_later_are_whole(self) -> None:
        assert anomalies(*(replica(host, WHOLE[1:], start=5) for host in ("b1", "b2"))) == {}

    def test_checksums_that_were_not_computed_accuse_nobody(self) -> None:
        one = replica("b1")
        unknown = np.full(3, -1, np.int64)
        assert anomalies(replace(one, batches=replace(one.batches, sound=unknown))) == {}

    def test_a_topic_of_another_id_that_no_metadata_names_is_only_there(self) -> None:
        findings = found(replica("b1", in_sync=False, required=-1))
        assert not findings.anomalies
        assert not findings.undecided


class TestAnyTwoReplicas:
    def test_one_offset_and_epoch_is_one_batch_everywhere(self) -> None:
        """LM, of a replica out of sync as well."""
        assert anomalies(replica("b1"), replica("b2", (WHOLE[0], (5, 9, 1, 99)), in_sync=False)) == {LOG_MATCHING: 1}

    def test_what_agrees_at_an_offset_agrees_before_it(self) -> None:
        other_past = ((0, 4, 0, 11), WHOLE[1])
        assert anomalies(replica("b1"), replica("b2", other_past, in_sync=False)) == {LOG_MATCHING: 1}

    def test_what_comes_before_the_first_batch_is_not_known(self) -> None:
        later = replica("b2", WHOLE[1:], start=5, in_sync=False)
        assert anomalies(replica("b1"), later) == {}

    def test_an_epoch_that_goes_back_in_a_log_is_found(self) -> None:
        assert anomalies(replica("b1", ((0, 4, 2, 1), (5, 14, 1, 2)))) == {EPOCH_REGRESS: 1}


class TestWhatCannotBeKnown:
    def test_a_member_that_could_not_be_read_is_named(self) -> None:
        findings = found(replica("b1"), replica("b2", (), collected=False, problem="b2: no answer"))
        assert not findings.anomalies
        assert findings.undecided == ["events-3: the in-sync replica on b2 could not be looked at: b2: no answer"]

    def test_without_any_live_member_nothing_is_known(self) -> None:
        assert found(replica("b1", live=False)).undecided == [
            "events-3: no in-sync replica could be looked at: the nodes on b1 do not run"
        ]

    def test_an_empty_isr_is_said(self) -> None:
        said = "events-3: no in-sync replica could be looked at: the committed ISR is empty"
        assert found(replica("b1", in_sync=False)).undecided == [said]

    def test_without_a_committed_end_nothing_is_judged(self) -> None:
        assert "up to where it is committed is not known" in found(replica("b1", required=-1)).undecided[0]


def test_holes_are_what_no_batch_covers() -> None:
    rows = ((5, 9, 1, 1), (12, 14, 1, 1))
    assert holes_of(replica("b1", rows), 0, 20).tolist() == [[0, 4], [10, 11], [15, 19]]
    assert holes_of(replica("b1", rows), 6, 10).tolist() == []
    assert holes_of(replica("b1", ()), 3, 5).tolist() == [[3, 4]]
    assert holes_of(replica("b1", rows), 8, 8).tolist() == []
