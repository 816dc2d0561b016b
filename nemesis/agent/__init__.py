"""The host agent: one stdlib-only program per host that answers verbs and enforces times to live."""
