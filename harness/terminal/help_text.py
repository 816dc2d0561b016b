"""Format help texts whose examples can be copied: each on a separate line, no word broken at a hyphen.

An epilog holds `Example: COMMAND` or `Examples: COMMAND · COMMAND`, and perhaps sentences after that. Wrapping it as a
paragraph would break `suites/leader-kill-lagging.yaml` in the middle of its name on a narrow terminal.

    with_examples(app)      # for every command and every group of commands below a typer application

Depends on typer and on the click that it vendors or depends on.
"""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

SEPARATOR = " · "
HYPHEN_KEPT = "\ue000"
"""A private character that stands for a hyphen while text is wrapped: Python breaks lines at hyphens."""


class _Help:
    """The formatting that commands and groups share."""

    epilog: str | None

    def get_help(self, ctx: Any) -> str:
        """Return the whole help of a command."""
        formatter = ctx.make_formatter()
        write_text, write_dl = formatter.write_text, formatter.write_dl
        formatter.write_text = lambda text: write_text(kept(text))
        formatter.write_dl = lambda rows, *sizes, **named: write_dl(
            [(first, kept(second)) for first, second in rows], *sizes, **named
        )
        self.format_help(ctx, formatter)  # type: ignore[attr-defined]
        return str(formatter.getvalue()).rstrip("\n").replace(HYPHEN_KEPT, "-")

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write each example on a separate line."""
        if not self.epilog:
            return
        formatter.write_paragraph()
        heading, colon, examples = self.epilog.partition(": ")
        if SEPARATOR not in examples:
            formatter.write_text(self.epilog)
            return
        formatter.write_text(heading + colon.rstrip())
        with formatter.indentation():
            for example in examples.split(SEPARATOR):
                formatter.write_text(example)


class CommandWithExamples(_Help, TyperCommand):
    """A command."""


class GroupWithExamples(_Help, TyperGroup):
    """A group of commands."""


def kept(text: str) -> str:
    """Protect a text from being broken at its hyphens."""
    return text.replace("-", HYPHEN_KEPT)


def with_examples(app: typer.Typer) -> None:
    """Make every command and every group of `app` format its help this way."""
    app.info.cls = GroupWithExamples
    for command in app.registered_commands:
        if command.cls is TyperCommand or command.cls is None:
            command.cls = CommandWithExamples
    for group in app.registered_groups:
        group.cls = GroupWithExamples
        if group.typer_instance is not None:
            with_examples(group.typer_instance)
