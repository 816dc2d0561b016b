"""Rules about the metadata quorum and its log, one a module."""
