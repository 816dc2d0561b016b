"""Import the histories of other tools as runs that the checkers judge."""
