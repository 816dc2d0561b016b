"""What a suite says of the client program of a workload: its command, its settings, and how long it may take to answer.

    workload:
      name: register
      client: program
      program: {command: [java, clients/Registers.java], settings: {timeout: 2s}, answer: 10s}

Without a command it is the program that the system brings (docs/client-programs.md).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

ANSWER_SECONDS = 10.0
_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s)?")


def _seconds(value: Any) -> Any:
    """Parse `10`, `10s` or `500ms`."""
    if not isinstance(value, str):
        return value
    match = _TIME.fullmatch(value.strip())
    if not match:
        raise ValueError("is not a time, such as 10s")
    return float(match[1]) / (1000 if match[2] == "ms" else 1)


class ProgramOptions(BaseModel):
    """A client program."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    command: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        default=(), description="the program and its arguments; the system's own program if it is left out"
    )
    settings: Mapping[str, str] = Field(
        default_factory=dict, description="what the program is told when it opens, beside addresses and topics"
    )
    answer: Annotated[float, BeforeValidator(_seconds), Field(gt=0, le=3600)] = Field(
        default=ANSWER_SECONDS,
        description="how long it may take to answer one operation; a program that takes longer is replaced",
    )
