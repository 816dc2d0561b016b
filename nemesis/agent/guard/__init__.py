"""What ends faults when their time is up, whoever has died: keeper, sentries, timer."""
