"""The commands of `squall`: `main`, which registers them, and a folder for each group of them.

`main` and what it imports at its top are read at every start of `squall`. A command's function is therefore in a module
that imports little and imports what carries the command out within the function: in a module of its own, or in the
`commands.py` of its group.
"""
