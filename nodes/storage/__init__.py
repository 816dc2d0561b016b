"""Logs on a `Disk`: segments, offset index, leader epochs, producer state, recovery, checkpoint files (pure).

`log.Log` is the door; `checkpoints` has the small text files beside the logs. Nothing here knows of high
watermarks, leaders or networks.
"""
