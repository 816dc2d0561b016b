"""The names of the anomalies of registers; those of logs are in `checkers/log/anomalies.py`."""

from __future__ import annotations

from typing import Final

from squall.results.checkers.common.anomaly import Anomaly

REGISTER_ANOMALIES: Final = (
    Anomaly(
        "register_phantom",
        "a register showed a value that was never written to it",
        "a register showed a value that was never written to it",
        "times a register showed a value that was never written to it",
        "corruption, the value of another register, or a state that survived from an earlier run",
    ),
    Anomaly(
        "register_aborted_read",
        "a register showed a value whose write had definitely failed",
        "a register showed a value although its write had failed",
        "times a register showed a value although its write had failed",
        "an error returned after the change was made; it should have stated that the outcome is unknown",
    ),
    Anomaly(
        "register_future_read",
        "a register showed a value before the write of it was begun",
        "a register showed a value before the write of it was begun",
        "times a register showed a value before the write of it was begun",
        "clocks that do not agree, or values that are not unique after all",
    ),
    Anomaly(
        "stale_register_read",
        "a register showed a value that had certainly been replaced before",
        "a register showed a value that had been replaced before",
        "times a register showed a value that had been replaced before",
        "reads from a replica that lags or from a deposed leader, or a change that was rolled back",
    ),
    Anomaly(
        "lost_register_write",
        "an acknowledged change of a register was never seen, although reads after it should have shown it",
        "an acknowledged change of a register was never seen",
        "acknowledged changes of registers were never seen",
        "acknowledging before a change is committed, a leader that was not fenced, or a change overwritten by an older",
    ),
    Anomaly(
        "register_double_cas",
        "two compare-and-sets both replaced the same value",
        "two compare-and-sets both replaced the same value",
        "times two compare-and-sets both replaced the same value",
        "comparing and setting in two steps, on two leaders, or against a state that is not the latest",
    ),
    Anomaly(
        "register_false_refusal",
        "a compare-and-set was refused although the register held what it expected",
        "a compare-and-set was refused although the register held what it expected",
        "compare-and-sets were refused although the register held what they expected",
        "a response made from another state than the comparison",
    ),
    Anomaly(
        "register_version_conflict",
        "one version of a register has two values, or one value has two versions",
        "a version of a register has two values, or a value has two versions",
        "versions of registers have two values, or values have two versions",
        "two leaders at once, versions given out again, or a value and a version read in two steps",
    ),
    Anomaly(
        "register_version_regress",
        "a change of a register was given a lower version than an earlier change",
        "a change of a register was given a lower version than an earlier one",
        "changes of registers were given lower versions than earlier ones",
        "versions given out by a leader that does not know the latest, or taken from a clock",
    ),
    Anomaly(
        "nonlinearizable_register",
        "operations on a register cannot be put in any order in which each says what was true at its time",
        "operations on a register cannot be put in any order",
        "registers have operations that cannot be put in any order",
        "reads or comparisons against a state that is not the latest",
    ),
)
