"""The host agent: one stdlib-only program per host that answers verbs and enforces times to live.

It is shipped as it stands, to `agent/squall/nemesis/agent` of a bundle, and imports nothing else of squall. A host runs
`python3 -u agent/agent.py --state STATE` there (`__main__.py`); its other programs are started by `program.py`.
"""
