"""Logs on a `Disk`: segments, offset index, leader epochs, producer state, recovery, checkpoint files (pure).

`log.Log` is the entry point; `checkpoints` reads and writes the small text files beside the logs. This package knows
nothing about high watermarks, leaders or networks.
"""
