"""Every anomaly of the log, in the smallest history that shows it, beside the nearest legal one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from squall.results.checkers.log.result import PartitionResult
from squall.results.synthetic.forge import Forged

Check = Callable[..., PartitionResult]

A, B, C, D = (1 << 40 | 1, 2 << 40 | 1, 3 << 40 | 1, 4 << 40 | 1)
MARK = 9 << 40 | 1


def send(
    value: int,
    invoked: int,
    completed: int | None,
    offset: int | None = None,
    *,
    kind: str = "ok",
    f: str = "send",
    client: int = 0,
    sequence: int | None = None,
    acks: int = -1,
    idempotent: bool = True,
) -> Forged:
    return Forged(
        f,
        process=value >> 40,
        client=client,
        invoked=invoked,
        completed=completed,
        type=kind,
        value=value,
        offset=offset,
        sequence=sequence,
        acks=acks,
        idempotent=idempotent,
    )


def poll(
    invoked: int,
    completed: int,
    *run: tuple[int, int],
    client: int = 50,
    session: int = 0,
    f: str = "poll",
    log_start: int | None = None,
    high_watermark: int | None = None,
    epoch: int | None = 0,
) -> Forged:
    return Forged(
        f,
        process=client * 1000 + invoked,
        client=client,
        invoked=invoked,
        completed=completed,
        run=run,
        session=session,
        log_start=log_start,
        high_watermark=high_watermark,
        leader_epoch=epoch,
    )


def list_offsets(invoked: int, completed: int, end: int, process: int = 700, *, epoch: int | None = 0) -> Forged:
    return Forged("list_offsets", process, 70, invoked, completed, high_watermark=end, leader_epoch=epoch)


def final(*run: tuple[int, int], marker: int, log_start: int | None = None, epoch: int = 0) -> list[Forged]:
    """An acknowledged marker at an offset, and a final read of a run and the marker."""
    return [
        send(MARK, 1000, 1010, marker, f="marker", client=90),
        poll(1020, 1030, *run, (marker, MARK), client=91, f="final_poll", log_start=log_start, epoch=epoch),
    ]


def names(result: PartitionResult) -> dict[str, int]:
    return result.anomalies


def test_a_correct_history_has_no_anomaly(check: Check) -> None:
    result = check(
        [send(A, 10, 20, 0), send(B, 11, 21, 1), poll(30, 40, (0, A), (1, B)), *final((0, A), (1, B), marker=2)]
    )
    assert names(result) == {}
    assert result.final.complete
    assert (result.acknowledged, result.records) == (3, 5)


# R0 -----------------------------------------------------------------------------------------------------------


def test_two_readers_see_different_values_at_one_offset(check: Check) -> None:
    result = check(
        [
            send(A, 10, None, kind="info"),
            send(B, 11, None, kind="info"),
            poll(30, 40, (0, A), client=50),
            poll(31, 41, (0, B), client=51),
        ]
    )
    assert names(result) == {"inconsistent_offset": 1}


def test_two_acknowledgements_of_one_offset_that_nobody_read(check: Check) -> None:
    assert names(check([send(A, 10, 20, 0), send(B, 10, 20, 0)])) == {"inconsistent_offset": 1}


def test_two_readers_of_the_same_value_agree(check: Check) -> None:
    history = [send(A, 10, 20, 0), poll(30, 40, (0, A), client=50), poll(31, 41, (0, A), client=51)]
    assert names(check(history)) == {}


def test_a_value_at_two_offsets_is_a_duplicate(check: Check) -> None:
    assert names(check([send(A, 10, 20, 0), poll(30, 40, (0, A), (1, A))])) == {"duplicate": 1}


def test_a_value_read_elsewhere_than_acknowledged_is_a_duplicate(check: Check) -> None:
    assert names(check([send(A, 10, 20, 0), poll(30, 40, (5, A))])) == {"duplicate": 1}


def test_a_producer_without_idempotence_may_duplicate_and_it_is_counted(check: Check) -> None:
    result = check([send(A, 10, 20, 0, idempotent=False), poll(30, 40, (0, A), (1, A))])
    assert names(result) == {}
    assert result.noted["duplicate_not_idempotent"] == 1


def test_a_record_that_nobody_sent_is_a_phantom(check: Check) -> None:
    assert names(check([send(A, 10, 20, 0), poll(30, 40, (0, A), (1, B))])) == {"phantom": 1}


def test_an_unreadable_record_is_a_phantom_and_several_are_no_duplicate(check: Check) -> None:
    assert names(check([send(A, 10, 20, 0), poll(30, 40, (0, A), (1, -1), (2, -1))])) == {"phantom": 2}


def test_a_record_of_unknown_outcome_may_be_read(check: Check) -> None:
    assert names(check([send(A, 10, None, kind="info"), poll(30, 40, (0, A))])) == {}


def test_a_record_whose_send_failed_may_not_be_read(check: Check) -> None:
    assert names(check([send(A, 10, 20, kind="fail"), poll(30, 40, (0, A))])) == {"aborted_read": 1}


# R1 -----------------------------------------------------------------------------------------------------------


def test_a_later_send_may_not_lie_before_an_earlier_one(check: Check) -> None:
    history = [send(A, 10, 20, 1), send(B, 21, 30, 0), *final((0, B), (1, A), marker=2)]
    assert names(check(history)) == {"rt_order": 1}


def test_concurrent_sends_may_lie_in_any_order(check: Check) -> None:
    history = [send(A, 10, 20, 1), send(B, 20, 30, 0), *final((0, B), (1, A), marker=2)]
    assert names(check(history)) == {}


def test_a_record_may_not_be_read_before_its_send_began(check: Check) -> None:
    history = [poll(1, 9, (0, A)), send(A, 10, 20, 0)]
    assert names(check(history)) == {"future_read": 1}


def test_a_record_may_be_read_before_its_send_has_ended(check: Check) -> None:
    history = [send(A, 10, 20, 0), poll(5, 12, (0, A))]
    assert names(check(history)) == {}


def test_a_send_of_unknown_outcome_may_not_be_read_before_it_began_either(check: Check) -> None:
    history = [poll(1, 9, (0, A)), send(A, 10, None, kind="info")]
    assert names(check(history)) == {"future_read": 1}


def of_the_next_leader(offset: int, value: int = B, epoch: int = 1) -> list[Forged]:
    """A record that a leader appended itself, under its own epoch, and that was read long after all else."""
    return [send(value, 500, 510, offset), poll(520, 530, (offset, value), client=55, epoch=epoch)]


def test_a_log_end_may_not_lie_below_an_acknowledged_record(check: Check) -> None:
    """KIP-207: a new leader states no end until it has committed what its log began with."""
    history = [send(A, 10, 20, 0), list_offsets(21, 22, 0, epoch=1), poll(30, 40, (0, A)), *of_the_next_leader(1)]
    assert names(check(history)) == {"stale_read": 1}


def test_a_deposed_leader_may_state_an_old_log_end(check: Check) -> None:
    """HX-07: it cannot know what was committed under a later epoch. Under the strict profile that counts too."""
    history = [send(A, 10, 20, 0), list_offsets(21, 22, 0, epoch=0), poll(30, 40, (0, A), epoch=1)]
    assert names(check(history)) == {}
    assert check(history).noted["stale_log_ends"] == 1
    assert names(check(history, linearizable_reads=True)) == {"stale_read": 1}


def test_a_deposed_leader_may_not_know_that_what_it_appended_was_committed(check: Check) -> None:
    """Its follower had fetched A, but could not tell it so before the follower became the leader. The epoch with which
    A is read is that of its append.
    """
    history = [
        send(A, 10, 40, 0),
        poll(35, 45, (0, A), epoch=0),
        list_offsets(50, 51, 0, epoch=0),
        *of_the_next_leader(1),
        *final((0, A), (1, B), marker=2, epoch=1),
    ]
    assert names(check(history)) == {}
    assert check(history).noted["stale_log_ends"] == 2


def test_a_leader_between_two_others_may_not_have_what_both_had(check: Check) -> None:
    """It was elected without A, committed nothing, and was cut off: its successor had A of the first one, and commits
    it. The same answer is wrong if a record of its own is in the log, above A: then it had A when it appended that.
    """
    history = [send(A, 10, 40, 0), poll(35, 45, (0, A), epoch=0), list_offsets(50, 51, 0, epoch=1)]
    assert names(check([*history, *of_the_next_leader(1, epoch=2)])) == {}
    assert check([*history, *of_the_next_leader(1, epoch=2)]).noted["stale_log_ends"] == 2
    assert names(check([*history, *of_the_next_leader(1, epoch=1)])) == {"stale_read": 1, "hw_regress": 1}


def test_a_leader_that_appended_later_ones_knows_what_had_been_committed(check: Check) -> None:
    """Whether its own or its predecessor's: the poll that shows A ends with a record of the answer's epoch. B began
    when A had been acknowledged, or before.
    """
    for begun, found in ((21, {"stale_read": 1}), (20, {})):
        history = [
            send(A, 10, 20, 0),
            list_offsets(22, 23, 0, epoch=1),
            send(B, begun, 40, 1),
            poll(50, 60, (0, A), (1, B), epoch=1),
        ]
        assert names(check(history)) == found, begun
        assert check(history).noted["stale_log_ends"] == 1 - len(found)
        deposed = [*history[:-1], poll(50, 60, (0, A), epoch=1), poll(50, 60, (1, B), epoch=2, client=51)]
        assert names(check(deposed)) == {}


def test_a_new_leader_may_not_state_less_than_its_predecessors_committed(check: Check) -> None:
    """KIP-207. That a later reader got the record under a later epoch makes it none the younger."""
    history = [
        send(A, 10, 20, 0),
        poll(12, 25, (0, A), epoch=0),
        list_offsets(26, 27, 0, epoch=1),
        poll(30, 40, (0, A), epoch=5, client=51),
        *of_the_next_leader(1),
    ]
    assert names(check(history)) == {"stale_read": 1, "hw_regress": 1}
    assert check(history).noted["stale_log_ends"] == 0


def test_a_log_end_of_an_unknown_epoch_proves_nothing(check: Check) -> None:
    for unknown in (None, -1):
        stated = [send(A, 10, 20, 0), list_offsets(21, 22, 0, epoch=unknown), poll(30, 40, (0, A))]
        stated += of_the_next_leader(1)
        shown = [send(B, 1, 2, 0), poll(3, 4, (0, B), epoch=1), send(A, 10, 20, 1), list_offsets(21, 22, 1, epoch=1)]
        shown += [poll(30, 40, (0, B), (1, A), epoch=unknown, client=51)]
        assert names(check(stated)) == names(check(shown)) == {}
        assert check(stated).noted["stale_log_ends"] == check(shown).noted["stale_log_ends"] == 1


def test_whoever_read_a_record_in_time_another_may_say_of_which_epoch_it_is(check: Check) -> None:
    """The poll that shows A before the question tells no epoch, or goes on into a later one than the answer's."""
    later = [poll(60, 70, (0, A), epoch=0, client=51), poll(71, 80, (1, B), epoch=1, client=51)]
    silent = [send(A, 10, 90, 0), poll(15, 20, (0, A), epoch=None), list_offsets(30, 31, 0, epoch=1)]
    silent += [send(B, 40, 50, 1), *later]
    assert names(check([*silent, *final((0, A), (1, B), marker=2, epoch=1)])) == {"hw_regress": 1}
    goes_on = [send(A, 10, 90, 0), send(B, 12, 95, 1), send(C, 13, 96, 2), list_offsets(30, 31, 0, epoch=1), *later]
    goes_on += [poll(15, 20, (0, A), (1, B), (2, C), epoch=2)]
    assert names(check([*goes_on, *final((0, A), (1, B), (2, C), marker=3, epoch=2)])) == {"hw_regress": 1}
    of_the_later = [one for one in goes_on if one is not later[0]]
    assert names(check([*of_the_later, *final((0, A), (1, B), (2, C), marker=3, epoch=2)])) == {}


def test_a_record_between_two_of_an_epoch_is_of_that_epoch(check: Check) -> None:
    """So B, which was begun after A was acknowledged, proves that the leader of epoch 1 still led then."""
    history = [
        *(send(A, 10, 20, 0), list_offsets(30, 31, 0, epoch=1), send(B, 40, 50, 1), send(C, 5, 90, 2)),
        poll(60, 70, (0, A), epoch=1),
    ]
    both = poll(91, 95, (0, A), (1, B), (2, C), epoch=1, client=51)
    end = final((0, A), (1, B), (2, C), marker=3, epoch=2)
    assert names(check([*history, both, *end])) == {"stale_read": 1}
    assert names(check([*history, *end])) == {}


def test_each_epoch_is_held_to_what_came_before_it(check: Check) -> None:
    """Four leaders at once: the first three may not know of B, the last must."""
    ends = [list_offsets(40, 41, 1, 700 + epoch, epoch=epoch) for epoch in (0, 1, 2, 3)]
    history = [
        send(A, 10, 20, 0),
        poll(12, 25, (0, A), epoch=0),
        send(B, 26, 30, 1),
        *ends,
        poll(50, 60, (0, A), (1, B), epoch=2, client=51),
        *of_the_next_leader(2, C, epoch=3),
    ]
    assert names(check(history)) == {"stale_read": 1}
    assert check(history).noted["stale_log_ends"] == 3


def test_a_log_end_is_held_to_one_stated_before_under_the_same_epoch(check: Check) -> None:
    """Whatever is known of the records."""
    ends = [list_offsets(20, 21, 1, 700, epoch=4), list_offsets(22, 23, 0, 701, epoch=4)]
    assert names(check([send(A, 10, None, kind="info"), *ends])) == {"hw_regress": 1}


def test_a_log_end_asked_for_before_the_acknowledgement_may(check: Check) -> None:
    history = [send(A, 10, 20, 0), list_offsets(20, 22, 0, epoch=1), poll(30, 40, (0, A)), *of_the_next_leader(1)]
    assert names(check(history)) == {}


def test_a_log_end_may_not_go_back(check: Check) -> None:
    history = [
        send(A, 10, None, kind="info"),
        poll(30, 40, (0, A)),
        list_offsets(20, 21, 1, 700),
        list_offsets(22, 23, 0, 701),
    ]
    assert names(check(history)) == {"hw_regress": 1}


def test_a_log_end_may_go_back_to_that_of_an_earlier_leader(check: Check) -> None:
    history = [send(A, 10, None, kind="info"), list_offsets(20, 21, 1, 700, epoch=1), list_offsets(22, 23, 0, 701)]
    assert names(check(history)) == {}
    assert check(history).noted["stale_log_ends"] == 1


def test_a_poll_may_lag_unless_reads_must_be_linearizable(check: Check) -> None:
    history = [send(A, 10, 20, 0), poll(21, 22, high_watermark=0), poll(30, 40, (0, A), high_watermark=1)]
    assert names(check(history)) == {}
    assert names(check(history, linearizable_reads=True)) == {"stale_read": 1}


def strictly(check: Check, *history: Forged) -> dict[str, int]:
    """What is found where reads must be linearizable; nothing of it elsewhere."""
    assert names(check(list(history))) == {}
    return names(check(list(history), linearizable_reads=True))


def test_log_ends_that_polls_state_may_not_go_back_if_reads_are_linearizable(check: Check) -> None:
    sent, first = send(A, 10, None, kind="info"), poll(21, 22, high_watermark=1)
    assert strictly(check, sent, first, poll(31, 32, high_watermark=0, client=51)) == {"hw_regress": 1}
    assert strictly(check, sent, first, poll(31, 32, high_watermark=1, client=51)) == {}
    assert strictly(check, sent, first, poll(22, 32, high_watermark=0, client=51)) == {}


def test_nor_may_a_send_lie_below_one_that_was_stated_before_it_began(check: Check) -> None:
    history = [poll(1, 2, high_watermark=5), send(A, 10, 20, 0)]
    assert names(check(history)) == {"hw_ahead": 1}
    assert names(check(history, linearizable_reads=True)) == {"future_read": 1}
    assert strictly(check, poll(1, 2, high_watermark=0), send(A, 10, 20, 0)) == {}
    assert strictly(check, poll(1, 10, high_watermark=5), send(A, 10, 20, 0)) == {}


def test_nor_may_a_poll_state_less_than_it_delivers(check: Check) -> None:
    sends = [send(A, 10, 100, 0), send(B, 10, 101, 1)]
    assert strictly(check, *sends, poll(21, 22, (0, A), (1, B), high_watermark=1)) == {"hw_regress": 1}
    assert strictly(check, *sends, poll(21, 22, (0, A), (1, B), high_watermark=2)) == {}
    assert strictly(check, *sends, poll(21, 22, (0, A), (1, B))) == {}


# R1 of copies --------------------------------------------------------------------------------------------------


def test_a_record_copy_may_not_precede_what_ended_before_its_send_began(check: Check) -> None:
    """Without idempotence there may be copies, but none before the first attempt."""
    for begun, found in ((30, {"rt_order": 1}), (20, {})):
        history = [
            send(B, 10, 20, 5),
            send(A, begun, 40, 6, idempotent=False),
            *final((3, A), (5, B), (6, A), marker=7),
        ]
        assert names(check(history)) == found


def test_a_copy_of_a_record_may_not_be_read_before_its_send_began(check: Check) -> None:
    for read, found in (((1, 5), {"future_read": 1}), ((1, 30), {})):
        history = [poll(*read, (0, A)), send(A, 30, 40, 1, idempotent=False), *final((0, A), (1, A), marker=2)]
        assert names(check(history)) == found


def test_a_copy_of_a_record_may_come_long_after_it_was_acknowledged(check: Check) -> None:
    history = [send(A, 10, 20, 0, idempotent=False), send(B, 30, 40, 1), *final((0, A), (1, B), (2, A), marker=3)]
    assert names(check(history)) == {}


def test_of_copies_the_first_is_the_one_that_was_acknowledged_without_an_offset(check: Check) -> None:
    late = [send(A, 10, 20, idempotent=False), send(B, 30, 40, 1), *final((0, A), (1, B), (2, A), marker=3)]
    both_late = [send(A, 10, 20, idempotent=False), send(B, 30, 40, 0), *final((0, B), (1, A), (2, A), marker=3)]
    one_late = [send(A, 10, 20, idempotent=False), send(B, 30, 40, 0), *final((0, B), (1, A), marker=2)]
    assert names(check(late)) == {}
    assert names(check(both_late)) == names(check(one_late)) == {"rt_order": 1}


def test_what_was_acknowledged_without_an_offset_may_lie_where_nobody_read(check: Check) -> None:
    """Then the one that was read may be a copy; not so of an idempotent send, of which there is one."""
    for idempotent, found in ((False, {}), (True, {"rt_order": 1})):
        history = [send(A, 10, 20, idempotent=idempotent), send(B, 30, 40, 1), poll(50, 60, (1, B), (2, A))]
        assert names(check(history)) == found


def test_copies_of_a_send_acked_without_an_offset_are_not_older_than_it(check: Check) -> None:
    history = [poll(1, 5, (0, A)), send(A, 30, 40, idempotent=False), *final((0, A), (1, A), marker=2)]
    assert names(check(history)) == {"future_read": 1}


# R2, S1, S2 ----------------------------------------------------------------------------------------------------


def three(check: Check, *polls: Forged) -> dict[str, int]:
    """Three records that another client reads as well."""
    sends = [send(A, 10, 20, 0), send(B, 11, 21, 1), send(C, 12, 22, 2)]
    return names(check([*sends, poll(30, 31, (0, A), (1, B), (2, C), client=60), *polls]))


def test_a_poll_may_not_leave_out_what_others_read(check: Check) -> None:
    assert three(check, poll(40, 41, (0, A), (2, C))) == {"int_poll_skip": 1}


def test_a_gap_where_nobody_read_anything_is_no_skip(check: Check) -> None:
    history = [send(A, 10, 20, 0), send(C, 12, 22, 2), poll(40, 41, (0, A), (2, C))]
    assert names(check(history)) == {}


def test_offsets_of_a_poll_increase(check: Check) -> None:
    assert three(check, poll(40, 41, (1, B), (0, A))) == {"int_nonmonotonic": 1}


def test_a_session_may_not_pass_over_what_others_read(check: Check) -> None:
    assert three(check, poll(40, 41, (0, A)), poll(42, 43, (2, C))) == {"poll_skip": 1}


def test_a_session_may_start_anywhere(check: Check) -> None:
    assert three(check, poll(40, 41, (0, A)), poll(42, 43, (2, C), session=1)) == {}


def test_a_session_may_not_go_back(check: Check) -> None:
    assert three(check, poll(40, 41, (0, A), (1, B)), poll(42, 43, (1, B), (2, C))) == {"nonmonotonic_poll": 1}


def test_a_session_may_pass_over_what_lies_below_the_start_of_the_log(check: Check) -> None:
    """Retention moved it on. What lies at the new start or beyond may not be left out."""
    for log_start, found in ((1, {"poll_skip": 1}), (2, {})):
        on = poll(42, 43, (2, C), log_start=log_start)
        assert three(check, poll(40, 41, (0, A)), on) == found, log_start


def test_a_single_poll_may_not_leave_out_what_lies_below_the_start_of_the_log(check: Check) -> None:
    assert three(check, poll(40, 41, (0, A), (2, C), log_start=2)) == {"int_poll_skip": 1}


def test_a_new_session_may_go_back(check: Check) -> None:
    assert three(check, poll(40, 41, (0, A), (1, B)), poll(42, 43, (1, B), (2, C), session=1)) == {}


def test_polls_of_a_session_that_overlap_in_time_have_no_order(check: Check) -> None:
    assert three(check, poll(40, 45, (1, B)), poll(41, 44, (0, A))) == {}


def test_an_empty_poll_leaves_the_session_where_it_was(check: Check) -> None:
    assert three(check, poll(40, 41, (0, A)), poll(42, 43), poll(44, 45, (1, B), (2, C))) == {}


# S3 -----------------------------------------------------------------------------------------------------------


def test_an_idempotent_clients_sends_lie_in_their_order(check: Check) -> None:
    history = [send(A, 10, 30, 1, sequence=1), send(B, 11, 31, 0, sequence=2), poll(40, 50, (0, B), (1, A))]
    assert names(check(history)) == {"nonmonotonic_send": 1}


def test_they_lie_in_their_order_also_where_only_a_read_says_where(check: Check) -> None:
    """The first was acknowledged without an offset."""
    for a, b, found in ((1, 0, {"nonmonotonic_send": 1}), (0, 1, {})):
        history = [
            send(A, 10, 30, None, sequence=1),
            send(B, 11, 31, b, sequence=2),
            *final(*sorted([(a, A), (b, B)]), marker=2),
        ]
        assert names(check(history)) == found


def test_an_acked_send_without_offset_may_be_unordered_outside_the_promise(check: Check) -> None:
    for change in ({"idempotent": False}, {"sequence": None}, {"client": 7}):
        first = {"sequence": 1, **change}
        history = [
            send(A, 10, 30, None, **first),  # type: ignore[arg-type]
            send(B, 11, 31, 0, sequence=2),
            *final((0, B), (1, A), marker=2),
        ]
        assert names(check(history)) == {}


def test_a_send_acknowledged_without_offset_seen_twice_is_only_duplicate(check: Check) -> None:
    history = [
        send(A, 10, 30, None, sequence=1),
        send(B, 11, 31, 0, sequence=2),
        *final((0, B), (1, A), (2, A), marker=3),
    ]
    assert names(check(history)) == {"duplicate": 1}


def test_without_idempotence_they_need_not(check: Check) -> None:
    history = [
        send(A, 10, 30, 1, sequence=1, idempotent=False),
        send(B, 11, 31, 0, sequence=2, idempotent=False),
        poll(40, 50, (0, B), (1, A)),
    ]
    assert names(check(history)) == {}


def test_sends_of_different_clients_need_not(check: Check) -> None:
    history = [
        send(A, 10, 30, 1, sequence=1, client=1),
        send(B, 11, 31, 0, sequence=2, client=2),
        poll(40, 50, (0, B), (1, A)),
    ]
    assert names(check(history)) == {}


# L ------------------------------------------------------------------------------------------------------------


def test_what_the_final_read_passes_over_is_lost_and_nothing_else(check: Check) -> None:
    history = [send(A, 10, 20, 0), send(B, 11, 21, 1), *final((0, A), marker=2)]
    assert names(check(history)) == {"lost_write": 1}


def of_final_polls(*polls: Forged) -> list[Forged]:
    """Three records, and a final read of several polls."""
    marker = send(MARK, 1000, 1010, 3, client=90, f="marker")
    return [send(A, 10, 20, 0), send(B, 21, 30, 1), send(C, 31, 40, 2), marker, *polls]


def final_poll(invoked: int, *run: tuple[int, int], session: int = 0, log_start: int | None = None) -> Forged:
    return poll(invoked, invoked + 5, *run, client=91, session=session, f="final_poll", log_start=log_start)


def test_a_final_reader_that_begins_anew_may_not_pass_over_what_it_had_seen(check: Check) -> None:
    """All of them together have the record, so that none would be lost; but no log shows A and C with nothing between
    when B had been there.
    """
    seen = final_poll(1020, (0, A), (1, B))
    assert names(check(of_final_polls(seen, final_poll(1040, (0, A), (2, C), (3, MARK), session=1)))) == {
        "int_poll_skip": 1
    }
    apart = [final_poll(1040, (0, A), session=1), final_poll(1050, (2, C), (3, MARK), session=1)]
    assert names(check(of_final_polls(seen, *apart))) == {"poll_skip": 1}
    anew = [final_poll(1040, (2, C), session=1), final_poll(1050, (3, MARK), session=1)]
    assert names(check(of_final_polls(seen, *anew))) == {}
    alone = final_poll(1040, (0, A), (2, C), (3, MARK))
    assert names(check(of_final_polls(alone))) == names(check(of_final_polls(poll(50, 60, (1, B)), alone)))
    assert names(check(of_final_polls(alone))) == {"lost_write": 1}


def test_a_single_final_poll_may_not_omit_what_is_below_the_log_start(check: Check) -> None:
    """There nothing is lost, so that nothing else would tell."""
    begun = poll(41, 50, (0, A), (1, B))
    left_out = final_poll(1020, (0, A), (2, C), (3, MARK), log_start=2)
    assert names(check(of_final_polls(begun, left_out))) == {"int_poll_skip": 1}
    goes_on = [final_poll(1020, (0, A)), final_poll(1030, (2, C), (3, MARK), log_start=2)]
    assert names(check(of_final_polls(begun, *goes_on))) == {}


def test_a_duplicate_in_whose_place_reads_disagree_is_not_lost_as_well(check: Check) -> None:
    history = [
        send(A, 10, 20, 0),
        *(send(B, 11, None, kind="info"), send(C, 12, None, kind="info")),
        *(poll(30, 40, (0, B)), poll(31, 41, (0, C), client=51), poll(50, 60, (1, A), client=52)),
        *final((0, C), (1, A), marker=2),
    ]
    assert names(check(history)) == {"inconsistent_offset": 1, "duplicate": 1}


def test_an_acknowledged_record_replaced_by_another_is_lost_and_nothing_else(check: Check) -> None:
    history = [
        send(A, 10, 20, 0),
        send(B, 11, None, kind="info"),
        poll(30, 40, (0, B)),
        *final((0, B), marker=1),
    ]
    assert names(check(history)) == {"lost_write": 1}


def test_a_truncated_and_rewritten_log_has_lost_its_old_tail_and_nothing_else(check: Check) -> None:
    history = [
        send(A, 10, 20, 0),
        send(B, 11, 21, 1),
        send(C, 30, 31, 0),
        *final((0, C), marker=1),
    ]
    assert names(check(history)) == {"lost_write": 2}


def test_a_record_beyond_the_end_of_a_complete_final_read_is_lost(check: Check) -> None:
    history = [send(A, 10, 20, 0), send(B, 11, 21, 7), *final((0, A), marker=1)]
    assert names(check(history)) == {"lost_write": 1}


def test_a_record_acknowledged_after_the_marker_was_sent_is_not(check: Check) -> None:
    history = [send(A, 10, 20, 0), send(B, 11, 1005, 2), *final((0, A), marker=1)]
    result = check(history)
    assert names(result) == {}
    assert result.noted["unseen"] == 1


def test_without_a_final_read_what_lies_beyond_all_reads_is_unseen(check: Check) -> None:
    result = check([send(A, 10, 20, 0), send(B, 11, 21, 1), poll(30, 40, (0, A))])
    assert names(result) == {}
    assert result.noted["unseen"] == 1
    assert not result.final.complete


def test_without_a_final_read_what_a_session_read_around_is_lost(check: Check) -> None:
    history = [send(A, 10, 20, 0), send(B, 11, 21, 1), send(C, 12, 22, 2), poll(30, 40, (0, A), (2, C))]
    assert names(check(history)) == {"lost_write": 1}


def test_what_lies_before_the_first_read_of_a_late_consumer_is_unseen(check: Check) -> None:
    result = check([send(A, 10, 20, 0), send(B, 11, 21, 1), poll(30, 40, (1, B))])
    assert names(result) == {}
    assert result.noted["unseen"] == 1


def test_a_record_read_but_absent_from_the_final_read_is_lost_even_unacked(check: Check) -> None:
    history = [
        send(A, 10, 20, 0),
        send(B, 11, None, kind="info"),
        poll(30, 40, (0, A), (1, B)),
        *final((0, A), marker=2),
    ]
    assert names(check(history)) == {"lost_write": 1}


def test_a_lost_record_that_had_been_read_counts_once(check: Check) -> None:
    history = [send(A, 10, 20, 0), send(B, 11, 21, 1), poll(30, 40, (0, A), (1, B)), *final((0, A), marker=2)]
    assert names(check(history)) == {"lost_write": 1}


def test_a_final_read_short_of_its_marker_proves_losses_where_it_covers(check: Check) -> None:
    history = [
        send(A, 10, 20, 0),
        send(B, 11, 21, 1),
        send(C, 12, 22, 2),
        send(D, 13, 23, 3),
        send(MARK, 1000, 1010, 4, f="marker", client=90),
        poll(1020, 1030, (0, A), (2, C), client=91, f="final_poll"),
    ]
    result = check(history)
    assert names(result) == {"lost_write": 1}
    assert result.noted["unseen"] == 2  # D and the marker
    assert not result.final.complete


def test_losses_under_acks_one_are_counted_and_never_held_against_the_system(check: Check) -> None:
    history = [send(A, 10, 20, 0, acks=1, idempotent=False), send(B, 11, 21, 0), *final((0, B), marker=1)]
    result = check(history)
    assert names(result) == {}
    assert result.noted["lost_unprotected"] == 1


def test_below_the_start_of_the_log_nothing_is_lost(check: Check) -> None:
    history = [send(A, 10, 20, 0), send(B, 11, 21, 1), *final((1, B), marker=2, log_start=1)]
    assert names(check(history)) == {}


def test_of_several_acknowledged_markers_the_last_one_counts(check: Check) -> None:
    """Retention removed the first one before it was read (`worlds` seed 1029767)."""
    first = [send(MARK, 1000, 1010, 2, f="marker", client=90), final_poll(1020, (0, A)), final_poll(1030, log_start=3)]
    again = send(MARK + 1, 1040, 1050, 3, f="marker", client=90)
    history = [send(A, 10, 20, 0), send(B, 11, 21, 1), *first, again, final_poll(1060, (3, MARK + 1), log_start=3)]
    result = check(history)
    assert (names(result), result.final.complete) == ({}, True)
    assert not check(history[:-1]).final.complete
    assert names(check([send(C, 1011, 1030, 7), *history])) == {"lost_write": 1}


def test_a_log_that_keeps_its_front_has_lost_what_it_says_lies_below_its_start(check: Check) -> None:
    """A leader that has lost its records states the start that retention would give it (ACK)."""
    emptied = [send(A, 10, 20, 0), send(B, 11, 21, 1), *final(marker=2, log_start=2)]
    shortened = [send(A, 10, 20, 0), send(B, 11, 21, 1), *final((1, B), marker=2, log_start=1)]
    beyond = [send(A, 10, 20, 0), *final(marker=1, log_start=100)]
    unplaced = [send(A, 10, 20, None), *final(marker=1, log_start=1)]
    assert names(check(emptied, keeps_front=True)) == {"lost_write": 2}
    for history in (shortened, beyond, unplaced):
        assert names(check(history, keeps_front=True)) == {"lost_write": 1}
    for history in (emptied, shortened, beyond, unplaced):
        assert names(check(history)) == {}


def test_what_was_never_acknowledged_may_be_missing_below_a_start_that_nothing_raised(check: Check) -> None:
    """No client was promised that record: an append of unknown outcome may be of a failed leader."""
    unknown = [send(A, 10, None, kind="info"), send(B, 11, 21, 1), *final((1, B), marker=2, log_start=1)]
    assert names(check(unknown, keeps_front=True)) == {}


def test_a_session_does_not_continue_at_a_start_that_nothing_raised(check: Check) -> None:
    others = [send(A, 10, 20, 0), send(B, 11, 21, 1), send(C, 12, 22, 2), poll(30, 40, (0, A), (1, B), (2, C))]
    jump = [poll(41, 42, (0, A), client=51), poll(43, 44, (2, C), client=51, log_start=2)]
    last = final((0, A), (1, B), (2, C), marker=3)
    assert names(check([*others, *jump, *last], keeps_front=True)) == {"poll_skip": 1}
    assert names(check([*others, *jump, *last])) == {}


def test_a_missing_beginning_is_lost_where_the_log_starts_at_zero(check: Check) -> None:
    history = [send(A, 10, 20, 0), send(B, 11, 21, 1), *final((1, B), marker=2)]
    assert names(check(history)) == {"lost_write": 1}


def test_a_record_acknowledged_without_its_offset_must_be_somewhere(check: Check) -> None:
    there = [send(A, 10, 20, None), *final((0, A), marker=1)]
    gone = [send(A, 10, 20, None), *final(marker=1)]
    assert names(check(there)) == {}
    assert names(check(gone)) == {"lost_write": 1}


def test_a_copy_elsewhere_is_no_excuse_for_an_acknowledged_record_that_is_gone(check: Check) -> None:
    """Without idempotence; the value of an idempotent send that lies elsewhere is its `duplicate`."""
    replaced = [send(A, 10, 20, 0, idempotent=False), send(B, 11, None, kind="info"), *final((0, B), (1, A), marker=2)]
    moved = [send(A, 10, 20, 0, idempotent=False), *final((1, A), marker=2)]
    both = [send(A, 10, 20, 0, idempotent=False), *final((0, A), (1, A), marker=2)]
    promised = [send(A, 10, 20, 0), *final((1, A), marker=2)]
    assert names(check(replaced)) == names(check(moved)) == {"lost_write": 1}
    assert names(check(both)) == {}
    assert names(check(promised)) == {"duplicate": 1}


def test_nor_for_one_in_whose_place_another_was_read_and_acknowledged(check: Check) -> None:
    sends = [send(A, 10, 20, 0, idempotent=False), send(B, 11, 21, 0)]
    assert names(check([*sends, poll(30, 40, (0, B), (1, A))])) == {"lost_write": 1}
    weak = [send(A, 10, 20, 0, idempotent=False, acks=1), send(B, 11, 21, 0)]
    assert names(check([*weak, poll(30, 40, (0, B), (1, A))])) == {}


def test_a_record_read_below_the_log_start_is_still_the_acked_one(check: Check) -> None:
    unknown, acked = send(B, 11, None, kind="info"), send(B, 11, 21, 0)
    for other in (unknown, acked):
        history = [send(A, 10, 20, 0), other, poll(30, 40, (0, B)), *final(marker=1, log_start=1)]
        assert names(check(history)) == {"inconsistent_offset": 1}
    right = [send(A, 10, 20, 0), unknown, poll(30, 40, (0, A)), *final(marker=1, log_start=1)]
    weak = [send(A, 10, 20, 0, acks=1, idempotent=False), unknown, poll(30, 40, (0, B)), *final(marker=1, log_start=1)]
    assert names(check(right)) == names(check(weak)) == {}


def test_below_the_start_of_the_log_one_defect_has_one_name(check: Check) -> None:
    moved = [send(A, 10, 20, 0), send(B, 11, 21, 5), poll(30, 40, (0, B), (1, A)), *final(marker=6, log_start=6)]
    disagreeing = [
        send(A, 10, 20, 0),
        send(B, 11, None, kind="info"),
        poll(30, 40, (0, B)),
        poll(30, 40, (0, A), client=51),
        *final(marker=1, log_start=1),
    ]
    assert names(check(moved)) == {"duplicate": 2}
    assert names(check(disagreeing)) == {"inconsistent_offset": 1}


def retried_after_removal(*between: Forged, log_start: int = 1, later_epoch: int = 2) -> list[Forged]:
    """A is read at 0; its record is removed, and its retry is acknowledged at 2 by another leader."""
    return [
        send(A, 10, 50, 2),
        send(B, 11, 21, 1),
        poll(12, 13, (0, A), epoch=1),
        *between,
        *final((1, B), (2, A), marker=3, log_start=log_start, epoch=later_epoch),
    ]


def test_a_leader_whose_log_begins_after_a_record_may_accept_its_retry(check: Check) -> None:
    """Seed 918574 of worlds: a replica that a reassignment added began at the log start, and was elected."""
    result = check(retried_after_removal())
    assert names(result) == {}
    assert result.noted["duplicate_after_removal"] == 1 and result.noted["duplicate_not_idempotent"] == 0


def test_a_retry_of_a_record_that_no_log_start_excludes_is_a_duplicate(check: Check) -> None:
    assert names(check(retried_after_removal(log_start=0))) == {"duplicate": 1, "lost_write": 1}


def test_a_duplicate_in_a_log_that_keeps_its_front_has_no_excuse(check: Check) -> None:
    assert names(check(retried_after_removal(), keeps_front=True)) == {"duplicate": 1, "lost_write": 1}


def test_a_leader_does_not_forget_a_producer_within_its_own_epoch(check: Check) -> None:
    assert names(check(retried_after_removal(later_epoch=1))) == {"duplicate": 1}


def test_a_log_that_shows_the_first_record_and_the_retry_did_not_begin_after_the_first(check: Check) -> None:
    both = poll(60, 61, (0, A), (1, B), (2, A), client=52, epoch=2)
    assert names(check(retried_after_removal(both))) == {"duplicate": 1}
    committed = poll(60, 61, (0, A), high_watermark=3, client=52, epoch=1)
    assert names(check(retried_after_removal(committed))) == {"duplicate": 1}
    behind = poll(60, 61, (0, A), high_watermark=2, client=52, epoch=1)
    assert names(check(retried_after_removal(behind))) == {}


def test_a_log_starts_at_latest_at_the_marker_of_a_complete_final_read(check: Check) -> None:
    """Whatever anybody states: from there on nothing may be gone."""
    late = [send(A, 10, 20, 3), send(MARK, 1000, 1010, 2, f="marker", client=90)]
    read = poll(1020, 1030, (2, MARK), client=91, f="final_poll", log_start=100)
    assert names(check([*late, read])) == {"lost_write": 1}
    assert names(check([send(A, 10, 20, 1), *late[1:], read])) == {}
    cut_short = poll(1020, 1030, client=91, f="final_poll", log_start=100)
    assert "lost_write" not in names(check([*late, cut_short]))


def test_a_record_acked_without_its_offset_may_lie_below_the_log_start(check: Check) -> None:
    for idempotent in (True, False):
        assert names(check([send(A, 10, 20, idempotent=idempotent), *final(marker=1, log_start=1)])) == {}
        assert names(check([send(A, 10, 20, idempotent=idempotent), *final(marker=1)])) == {"lost_write": 1}


# Witnesses ----------------------------------------------------------------------------------------------------


def test_the_witness_of_a_loss_names_the_send_the_final_read_and_the_rows_around(check: Check) -> None:
    result = check([send(A, 10, 20, 0), send(B, 11, 21, 1), *final((0, A), marker=2)])
    (witness,) = result.witnesses
    assert (witness.anomaly, witness.offset, witness.values) == ("lost_write", 1, (B,))
    assert [(one.role, one.f) for one in witness.operations] == [("writer", "send"), ("reader", "final_poll")]
    assert [one.offset for one in witness.neighbours] == [0, 1, 2]
    assert witness.neighbours[1].final is None


def test_a_value_sent_twice_is_noticed_since_all_rules_need_unique_values(check: Check) -> None:
    history = [send(A, 10, 20, 0), Forged("send", 5, 0, 11, 21, value=A, offset=1)]
    assert check(history).noted["values_sent_twice"] == 1


def test_a_high_watermark_may_not_lie_above_a_send_that_begins_later(check: Check) -> None:
    """DP-06: what lies below it is committed, so that the next send gets a later offset. Nothing else shows it here."""
    history = [poll(5, 9, high_watermark=1, epoch=None), send(A, 10, 20, 0), *final((0, A), marker=1)]
    assert names(check(history)) == {"hw_ahead": 1}
    (witness,) = check(history).witnesses
    assert [(one.role, one.f) for one in witness.operations] == [("earlier", "poll"), ("later", "send")]


def test_a_high_watermark_may_lie_at_a_later_send_or_above_one_that_had_begun(check: Check) -> None:
    at_it = [poll(5, 9, high_watermark=0, epoch=None), send(A, 10, 20, 0), *final((0, A), marker=1)]
    overlapping = [poll(5, 10, high_watermark=1, epoch=None), send(A, 10, 20, 0), *final((0, A), marker=1)]
    assert names(check(at_it)) == names(check(overlapping)) == {}


def test_a_high_watermark_above_a_send_that_was_promised_nothing_is_legal(check: Check) -> None:
    """A deposed leader acknowledges it under acks=1, at an offset that its successor has committed."""
    for kind, acks, offset in (("ok", 1, 0), ("info", -1, None)):
        history = [poll(5, 9, high_watermark=1, epoch=None), send(A, 10, 20, offset, kind=kind, acks=acks)]
        assert names(check(history)) == {}, kind


def test_a_log_may_not_start_beyond_the_high_watermark_of_the_same_response(check: Check) -> None:
    """DP-07: only what is committed is deleted."""
    sent = [send(A, 1, 2, 0), send(B, 3, 4, 1)]
    for start, found in ((3, {"log_start_ahead": 1}), (2, {})):
        assert names(check([*sent, poll(5, 6, high_watermark=2, log_start=start, epoch=None)])) == found


def deletion(invoked: int, completed: int, low_watermark: int, node: int = 1) -> Forged:
    return Forged("delete_records", 60 + invoked, 60, invoked, completed, log_start=low_watermark, node=node)


def delivered_by(node: int, invoked: int, completed: int, *run: tuple[int, int]) -> Forged:
    return replace(poll(invoked, completed, *run, client=50 + node, epoch=None), node=node)


def test_a_node_may_not_deliver_what_it_has_said_is_deleted(check: Check) -> None:
    """DP-16: the node that answers a DeleteRecords has raised its own log start."""
    sent = [send(A, 1, 2, 0), send(B, 3, 4, 1)]
    history = [*sent, deletion(5, 6, 1), delivered_by(1, 7, 8, (0, A), (1, B))]
    assert names(check(history)) == {"deleted_read": 1}
    (witness,) = check(history).witnesses
    assert witness.offset == 0
    assert [(one.role, one.f) for one in witness.operations] == [("earlier", "delete_records"), ("reader", "poll")]


def test_a_deletion_that_a_restart_may_forget_is_only_noted(check: Check) -> None:
    """Apache Kafka writes log starts down once a minute; a broker that is killed before begins where it did."""
    sent = [send(A, 1, 2, 0), send(B, 3, 4, 1)]
    result = check([*sent, deletion(5, 6, 1), delivered_by(1, 7, 8, (0, A), (1, B))], keeps_deletions=False)
    assert names(result) == {} and not result.witnesses
    assert result.noted["deleted_read"] == 1


def test_the_deletions_of_each_node_count_for_its_own_polls(check: Check) -> None:
    sent = [send(A, 1, 2, 0), send(B, 3, 4, 1)]
    history = [*sent, deletion(5, 6, 2), deletion(7, 8, 1, node=2), delivered_by(2, 9, 10, (1, B))]
    assert names(check(history)) == {}
    assert names(check([*history, delivered_by(1, 11, 12, (1, B))])) == {"deleted_read": 1}


def test_a_deleted_record_may_be_delivered_by_another_node_or_to_a_poll_under_way(check: Check) -> None:
    """The other node may have been fenced when the deletion was answered, and did not count."""
    sent = [send(A, 1, 2, 0), send(B, 3, 4, 1)]
    elsewhere = [*sent, deletion(5, 6, 1), delivered_by(2, 7, 8, (0, A), (1, B))]
    meanwhile = [*sent, deletion(5, 7, 1), delivered_by(1, 7, 8, (0, A), (1, B))]
    at_the_start = [*sent, deletion(5, 6, 1), delivered_by(1, 7, 8, (1, B))]
    refused = [*sent, replace(deletion(5, 6, 1), type="fail"), delivered_by(1, 7, 8, (0, A), (1, B))]
    for history in (elsewhere, meanwhile, at_the_start, refused):
        assert names(check(history)) == {}


def test_a_lost_record_is_not_a_high_watermark_ahead_as_well(check: Check) -> None:
    """One defect gets one name: the send of B took the place of A, which had been acknowledged and committed."""
    history = [
        send(A, 1, 2, 0),
        poll(5, 9, high_watermark=1, epoch=None),
        send(B, 10, 20, 0),
        *final((0, B), marker=1),
    ]
    assert "hw_ahead" not in names(check(history))
    assert names(check(history))
