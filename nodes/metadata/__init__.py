"""Metadata records, the image they build, and the deltas between images. Pure.

`records` has the schemas and the framing, `image` the result of replaying them, `topic_configs` the settings of a
topic. `snapshot` and `snapshot_generator` write and read snapshots (SN) of an image.
"""
