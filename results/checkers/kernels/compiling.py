"""Compile loops over rows to machine code: numba compiles each for the one signature stated with it.

The machine code is cached beside the module, or in the user's cache directory if that folder is not writable. If
neither is, each process that judges compiles it again: slower to start by some seconds, but not wrong. Signatures are
stated, not inferred from the first call, so that one compilation serves writable arrays and Arrow's read-only ones.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from numba import njit, types

_njit: Final[Callable[..., Any]] = partial(njit, nogil=True, error_model="numpy")

INT: Final = types.int64
YES_OR_NO: Final = types.boolean
INTS: Final = types.Array(types.int64, 1, "C", readonly=True)
ROWS: Final = types.Array(types.int32, 1, "C", readonly=True)
CODES: Final = types.Array(types.int8, 1, "C", readonly=True)
FLAGS: Final = types.Array(types.boolean, 1, "C", readonly=True)
INTS_OUT: Final = types.int64[::1]
ROWS_OUT: Final = types.int32[::1]
FLAGS_OUT: Final = types.boolean[::1]
COUNTS_OUT: Final = types.int64[:, ::1]
"""A two-dimensional array of counts."""


def several(*parts: Any) -> Any:
    """The type of several results at once."""
    return types.Tuple(parts)


def compiled(result: Any, *arguments: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile a function of these types to machine code."""
    signature = result(*arguments)

    def machine_code(function: Callable[..., Any]) -> Callable[..., Any]:
        try:
            made: Callable[..., Any] = _njit(signature, cache=True)(function)
        except (RuntimeError, OSError):  # no place to cache it, or no room
            made = _njit(signature)(function)
        return made

    return machine_code


def part(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that becomes part of the compiled functions in the same module that call it."""
    made: Callable[..., Any] = _njit(function)
    return made
