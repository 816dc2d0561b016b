"""When a failure of a simulated run was decided: its probability over the run's time, by many continuations."""
