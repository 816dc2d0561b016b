"""Metadata records, the image they build, and the deltas between images. Pure.

`records` has the schemas and the framing, `image` what replaying them yields, `topic_configs` the settings of a topic.
Snapshots (SN) of an image will be written and read here.
"""
