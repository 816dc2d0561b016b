"""How loops over rows become machine code: numba compiles them for the one signature that is stated with each.

The machine code is kept beside the module, or in the user's cache directory where that folder cannot be written. Where
neither can, it is made anew in each process that judges something: slower to begin with by some seconds, not wrong.
Signatures are stated, not found out by the first call, so that one compilation serves arrays that may be written and
those that Arrow does not let anybody write.
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
"""Numbers by two coordinates."""


def several(*parts: Any) -> Any:
    """The type of several results at once."""
    return types.Tuple(parts)


def compiled(result: Any, *arguments: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A function of these types as machine code."""
    signature = result(*arguments)

    def machine_code(function: Callable[..., Any]) -> Callable[..., Any]:
        try:
            made: Callable[..., Any] = _njit(signature, cache=True)(function)
        except (RuntimeError, OSError):  # no place to keep it, or no room
            made = _njit(signature)(function)
        return made

    return machine_code


def part(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that becomes part of the compiled ones that call it, in the same module."""
    made: Callable[..., Any] = _njit(function)
    return made
