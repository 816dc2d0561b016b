"""Commands that run nodes in virtual time: simulate, shrink, why, explore, buggify, mutants."""
