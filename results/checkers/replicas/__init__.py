"""Check what nodes left on disk and in traces: replicas (`logs.py`) and the control plane (`control.py`).

`tables.py` has the two tables; `replica.py` and `facts.py` the input and output of the kernels; `anomalies.py` the
names.
"""
