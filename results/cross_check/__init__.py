"""A second formulation of the rules, to hold the first against."""
