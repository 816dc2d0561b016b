"""Operators for what a replicated log can get wrong: durability, epochs, offsets, and the wrong one of two names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from squall.harness.simulation.mutation.generation.edit import Edit, replace
from squall.harness.simulation.mutation.generation.syntax import Site, bound_names, identifier, mentions_word

SYNCS = re.compile(r"(^|(?<!in)_)(f?sync|flush|fdatasync)(_|$)|^(settle|before_cut|keep_start)$")
"""Names of calls that make something durable, or must be durable before something else."""
OFFSETS = re.compile(r"(^|_)(offset|epoch|watermark|end|start|base|upper|lower|sequence|version)$")

WATERMARKS = (("high_watermark", "end_offset"), ("high_watermark", "log_end"), ("high_watermark", "durable_offset"))
BOUNDS = (("start", "end"), ("base", "next"), ("base", "last"), ("first", "last"), ("begin", "end"))
EPOCHS = (
    ("leader_epoch", "epoch"),
    ("leader_epoch", "partition_epoch"),
    ("broker_epoch", "leader_epoch"),
    ("leader_epoch", "current_leader_epoch"),
    ("producer_epoch", "leader_epoch"),
    ("last_epoch", "epoch"),
)
STALE = (
    ("old", "new"),
    ("before", "after"),
    ("before", "now"),
    ("lower", "upper"),
    ("previous", "current"),
    ("pending", "committed"),
    ("wanted", "committed"),
    ("isr", "replicas"),
    ("isr", "elr"),
)


def sync_skipped(site: Site) -> Iterator[Edit]:
    """Leave out a call that makes data, names or a vote durable."""
    node = site.node
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and SYNCS.search(identifier(node.value.func)):
        yield replace(site.source, node, "pass")


def epoch_check_dropped(site: Site) -> Iterator[Edit]:
    """Let a comparison of epochs pass: as an operand of a condition, or as the condition of an early end."""
    node, parent = site.node, site.parent
    if not isinstance(node, ast.Compare) or not mentions_word(node, "epoch"):
        return
    if isinstance(parent, ast.BoolOp):
        yield replace(site.source, node, "True" if isinstance(parent.op, ast.And) else "False")
    elif isinstance(parent, ast.If) and isinstance(parent.body[-1], ast.Return | ast.Raise | ast.Continue):
        yield replace(site.source, node, "False")


def plus_one_dropped(site: Site) -> Iterator[Edit]:
    """Forget `+ 1` or `- 1`."""
    node = site.node
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        if isinstance(node.right, ast.Constant) and node.right.value == 1:
            yield replace(site.source, node, f"({site.source.text_of(node.left)})")
        elif isinstance(node.left, ast.Constant) and node.left.value == 1 and isinstance(node.op, ast.Add):
            yield replace(site.source, node, f"({site.source.text_of(node.right)})")


def off_by_one(site: Site) -> Iterator[Edit]:
    """Add one to an offset or epoch, or take one away, where it is passed, returned or assigned."""
    node, parent = site.node, site.parent
    if not isinstance(node, ast.Name | ast.Attribute) or not isinstance(node.ctx, ast.Load):
        return
    if not OFFSETS.search(identifier(node)):
        return
    passed = isinstance(parent, ast.Call) and node in parent.args
    if passed or (isinstance(parent, ast.Return | ast.Assign | ast.keyword) and parent.value is node):
        sign = "+" if site.source.span(node)[0] % 2 else "-"
        yield replace(site.source, node, f"({site.source.text_of(node)} {sign} 1)")


def high_watermark_log_end(site: Site) -> Iterator[Edit]:
    """Take the log end for the high watermark, and the other way round."""
    yield from _confused(site, WATERMARKS)


def start_end(site: Site) -> Iterator[Edit]:
    """Take the start of a range for its end, and the other way round."""
    yield from _confused(site, BOUNDS)


def epoch_confused(site: Site) -> Iterator[Edit]:
    """Take one kind of epoch for another."""
    yield from _confused(site, EPOCHS)


def stale_variable(site: Site) -> Iterator[Edit]:
    """Take the older of two values for the newer one, or one set of replicas for another."""
    yield from _confused(site, STALE)


def _confused(site: Site, pairs: tuple[tuple[str, str], ...]) -> Iterator[Edit]:
    node = site.node
    if not isinstance(node, ast.Name | ast.Attribute) or not isinstance(node.ctx, ast.Load):
        return
    if isinstance(site.parent, ast.Call) and site.parent.func is node:
        return
    for one, other in pairs:
        for here, there in ((one, other), (other, one)):
            counterpart = _with_word(identifier(node), here, there)
            if counterpart is not None and _exists(site, node, counterpart):
                text = site.source.text_of(node)
                yield replace(site.source, node, text[: -len(identifier(node))] + counterpart)
                return


def _with_word(name: str, here: str, there: str) -> str | None:
    """Replace one word of a name, or return None if it does not occur."""
    found = re.search(rf"(?<![a-z]){here}(?![a-z])", name)
    if found is None or re.search(rf"(?<![a-z]){there}(?![a-z])", name[: found.start()] + name[found.end() :]):
        return None
    return name[: found.start()] + there + name[found.end() :]


def _exists(site: Site, node: ast.Name | ast.Attribute, counterpart: str) -> bool:
    """Whether the other name exists: bound in the same function, or used as an attribute of the same thing."""
    if isinstance(node, ast.Name):
        return site.function is not None and counterpart in bound_names(site.function)
    base = ast.dump(node.value)
    return any(
        isinstance(one, ast.Attribute) and one.attr == counterpart and ast.dump(one.value) == base
        for one in ast.walk(site.source.tree)
    )
