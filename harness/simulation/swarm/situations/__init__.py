"""Situations that independent faults rarely form: faults and changes in the right order."""
