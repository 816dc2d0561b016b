"""Swarms of faults: what each seed draws, what the budget allows, and how the drawn faults are carried out.

* `drawn/`        faults and changes by kind, with targets, times and intensities
* `situations/`   several of them in the right order, which independent faults rarely form
* `budget.py`, `voter_budget.py`   what may happen now
* `swarm.py`      carries the drawn faults out
"""
