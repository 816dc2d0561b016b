"""The metrics of a node, read from its components on request. Pure."""
