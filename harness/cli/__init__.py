"""The commands of `squall`: `main`, and a folder for each group of them.

What `main` imports is read at every start of `squall`, so it only declares parameters, and imports what carries a
command out within the function: a module of the same name as its command, where the declaration is in a `commands.py`.
"""
