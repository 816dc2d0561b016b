"""Checks of what nodes left on disk and in traces: replicas (`logs.py`) and the control plane (`control.py`).

`tables.py` has the two tables; `replica.py` and `facts.py` what the kernels take and yield; `anomalies.py` the names.
"""
