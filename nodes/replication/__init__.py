"""One topic-partition's replica: leader, follower, ISR, high watermark, fencing; and the fetcher (pure).

The interface for the broker:

    replica = TopicPartitionReplica(broker_id, state, log, config, view, clock=, trace=, mutants=, high_watermark=)
    replica.apply(now, PartitionState) -> Applied

    leader    append(now, batch, required_acks, produce_version=12) -> AppendAnswer
              produce_status(leader_epoch, required_offset) -> int | None     None: not yet; else a code, 0 = done
              follower_fetch(now, replica_id, broker_epoch, offset, last_fetched_epoch, current_leader_epoch, *,
                             arrived=True) -> FetchBounds                    arrived=False: a parked fetch again
              maybe_shrink(now) -> bool                                         call every lag_time_max / 2
              proposal: IsrProposal | None; proposal_answered(now, proposal, ProposalAnswer) -> bool
              follower_stayed(replica_id, offset, at)                           a fetch that did not name it
    clients   consumer_fetch(offset, current_leader_epoch, last_fetched_epoch=-1, *, from_any=False) -> FetchBounds
              in_sync_followers_with(offset) -> [(broker, log end)]             where else to read (KIP-392)
              list_offset(timestamp, current_leader_epoch, replica_id=-1) -> OffsetAnswer
              offset_for_leader_epoch(current_leader_epoch, epoch) -> EpochEndAnswer
              read(offset, max_bytes, upper, *, at_least_one) -> memoryview
    follower  fetch_position() -> FetchPosition
              append_fetched(now, records, leader_high_watermark, leader_log_start=-1) -> None
              truncate_diverging(now, epoch, end_offset)
              truncate_to_leader_end(now, leader_end) -> bool; restart_from_leader_start(now, leader_start) -> bool
    both      high_watermark, log, state, is_leader; the high watermark is what the broker checkpoints

    fetcher = ReplicaFetcher(broker_id, leader, config, broker_epoch=callable)    one per leader broker (DP-04)
              add(now, replica), remove(topic_id, partition), moved(topic_id, partition), tick(now), deadline()
              requests, advanced                                 to drain: what to send, whose high watermark moved

A replica is four modules, each on top of the one before: `base.py` (common to all replicas), `following.py`,
`serving.py` (reads), `replica.py` (configuration and leading).

Methods that return `bool` or carry `advanced` report whether the high watermark moved.
"""
