"""Rules about the files of a log."""
