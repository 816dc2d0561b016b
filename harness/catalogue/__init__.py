"""The catalogue of faults as people see it: listed, proven on hosts, and written into the documentation."""
