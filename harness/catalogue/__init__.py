"""The catalogue of faults for users: listed, verified on hosts, and written into the documentation."""
