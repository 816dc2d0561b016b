"""From a failing seed to a short schedule that fails in the same way."""
