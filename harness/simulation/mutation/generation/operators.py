"""Generate mutants from the syntax tree of a module: one replacement of one source span each.

Each operator is a function from a site to the spans that it would replace. `OPERATORS` names all of them; the order
matters, since a replacement that an earlier operator has made already is not made again under another name. General
operators change comparisons, conditions, constants and statements. Own operators imitate what goes wrong in a
replicated log: a flush left out, an epoch check left out, `+ 1` forgotten, start and end or high watermark and log end
confused.

Cosmic-ray and mutmut were considered: both judge a mutant by one test command over changed files, in a copy of the
tree, and know neither epochs nor offsets. Here a simulation judges in the same process over many seeds, one module is
replaced in memory only, and the own operators are half of the point, so this is 400 lines of `ast` instead.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from squall.harness.simulation.mutation.generation import domain_operators as domain
from squall.harness.simulation.mutation.generation import statement_operators as statements
from squall.harness.simulation.mutation.generation.edit import Edit, replace
from squall.harness.simulation.mutation.generation.mutation import Mutation, Source, mutated_modules
from squall.harness.simulation.mutation.generation.syntax import Site, sites

Operator = Callable[[Site], Iterator[Edit]]

BOUNDARIES: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
}
EQUALITIES: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
SWAPPED_CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}
LARGEST_STEPPED = 8
"""Constants up to this are raised by one; larger ones, which are sizes and times, are halved."""


def boundary(site: Site) -> Iterator[Edit]:
    """Replace `<` by `<=` and the like."""
    yield from _compared(site, BOUNDARIES)


def equality(site: Site) -> Iterator[Edit]:
    """Replace `==` by `!=`, `in` by `not in`, and back."""
    yield from _compared(site, EQUALITIES)


def _compared(site: Site, swaps: dict[type[ast.cmpop], tuple[str, str]]) -> Iterator[Edit]:
    node, source = site.node, site.source
    if not isinstance(node, ast.Compare):
        return
    operands = [node.left, *node.comparators]
    for left, operator, right in zip(operands, node.ops, operands[1:], strict=False):
        if type(operator) in swaps:
            old, new = swaps[type(operator)]
            begin, end = source.span(left)[1], source.span(right)[0]
            at = source.cut(begin, end).find(old)
            if at >= 0:
                yield Edit(begin + at, begin + at + len(old), new)


def min_max(site: Site) -> Iterator[Edit]:
    """Replace `min` by `max`, `any` by `all`, and back."""
    if isinstance(site.node, ast.Call) and isinstance(site.node.func, ast.Name):
        swapped = SWAPPED_CALLS.get(site.node.func.id)
        if swapped is not None:
            yield replace(site.source, site.node.func, swapped)


def connective(site: Site) -> Iterator[Edit]:
    """Replace `and` by `or`, and back."""
    node, source = site.node, site.source
    if not isinstance(node, ast.BoolOp):
        return
    old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
    begin, end = source.span(node)
    text, at = "", begin
    for left, right in zip(node.values, node.values[1:], strict=False):
        gap_begin, gap_end = source.span(left)[1], source.span(right)[0]
        text += source.cut(at, gap_begin) + source.cut(gap_begin, gap_end).replace(old, new, 1)
        at = gap_end
    yield Edit(begin, end, f"({text}{source.cut(at, end)})")


def condition_dropped(site: Site) -> Iterator[Edit]:
    """Take one operand of `and` or `or` for granted."""
    parent = site.parent
    if isinstance(parent, ast.BoolOp) and isinstance(site.node, ast.expr):
        neutral = "True" if isinstance(parent.op, ast.And) else "False"
        yield replace(site.source, site.node, neutral)


def negated_condition(site: Site) -> Iterator[Edit]:
    """Swap the branches of a condition. A lone `==` is negated by `equality`."""
    node = site.node
    if not isinstance(node, ast.If | ast.IfExp):
        return
    test = node.test
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and type(test.ops[0]) in EQUALITIES:
        return
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield replace(site.source, test, f"({site.source.text_of(test.operand)})")
    else:
        yield replace(site.source, test, f"(not ({site.source.text_of(test)}))")


def constant(site: Site) -> Iterator[Edit]:
    """Replace a number by a near or a much smaller one, and True by False."""
    node = site.node
    if not isinstance(node, ast.Constant) or isinstance(site.parent, ast.BinOp | ast.Slice | ast.Expr | ast.Dict):
        return
    if isinstance(node.value, bool):
        yield replace(site.source, node, str(not node.value))
    elif isinstance(node.value, int):
        if isinstance(site.parent, ast.UnaryOp):
            yield replace(site.source, site.parent, "0")
        else:
            yield replace(site.source, node, str(node.value + 1 if node.value <= LARGEST_STEPPED else node.value // 2))


OPERATORS: tuple[tuple[str, Operator], ...] = (
    ("sync-skipped", domain.sync_skipped),
    ("epoch-check-dropped", domain.epoch_check_dropped),
    ("plus-one-dropped", domain.plus_one_dropped),
    ("off-by-one", domain.off_by_one),
    ("high-watermark-log-end", domain.high_watermark_log_end),
    ("start-end", domain.start_end),
    ("epoch-confused", domain.epoch_confused),
    ("stale-variable", domain.stale_variable),
    ("boundary", boundary),
    ("equality", equality),
    ("min-max", min_max),
    ("connective", connective),
    ("condition-dropped", condition_dropped),
    ("negated-condition", negated_condition),
    ("constant", constant),
    ("call-dropped", statements.call_dropped),
    ("assignment-dropped", statements.assignment_dropped),
    ("return-dropped", statements.return_dropped),
    ("raise-dropped", statements.raise_dropped),
)


def mutations_of(source: Source) -> list[Mutation]:
    """Return every mutant of one module, in the order of the source."""
    made: list[Mutation] = []
    taken: set[tuple[int, int, str]] = set()
    ordinals: dict[tuple[str, str], int] = {}
    for site in sites(source):
        for name, operator in OPERATORS:
            for edit in operator(site):
                key = (edit.begin, edit.end, edit.text)
                original = source.cut(edit.begin, edit.end)
                if key in taken or original == edit.text:
                    continue
                taken.add(key)
                function = site.qualified_name
                ordinal = ordinals[function, name] = ordinals.get((function, name), 0) + 1
                made.append(_mutation(source, function, name, ordinal, edit))
    return made


def _mutation(source: Source, function: str, operator: str, ordinal: int, edit: Edit) -> Mutation:
    short = source.module.removeprefix("squall.nodes.")
    return Mutation(
        id=f"{short}:{function or 'module'}:{operator}:{ordinal}",
        module=source.module,
        line=source.data[: edit.begin].count(b"\n") + 1,
        operator=operator,
        function=function,
        begin=edit.begin,
        end=edit.end,
        original=source.cut(edit.begin, edit.end),
        replacement=edit.text,
    )


def generate() -> list[Mutation]:
    """Return every mutant of every package that is mutated."""
    return [one for source in mutated_modules() for one in mutations_of(source)]
