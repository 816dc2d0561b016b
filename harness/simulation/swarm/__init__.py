"""Swarms of faults: what each seed draws, what the budget allows, and how the drawn faults are carried out."""
