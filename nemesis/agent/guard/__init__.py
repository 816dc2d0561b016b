"""End faults when their time to live is over, whatever process has died: keeper, sentries, timer."""
