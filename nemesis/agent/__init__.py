"""The host agent: one stdlib-only program per host that answers verbs and enforces times to live.

The directory is shipped as it stands and run by `python3 -u DIRECTORY/agent.py --state STATE`; its modules import
each other by bare name, because on a host there is no `squall` to import from.
"""
