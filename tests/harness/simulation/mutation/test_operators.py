"""Each operator makes its mutants, and no others, of small snippets (HX-17)."""

from __future__ import annotations

import ast
import textwrap

import pytest

from squall.harness.simulation.mutation.generation.mutation import Source, mutated_modules
from squall.harness.simulation.mutation.generation.operators import OPERATORS, generate, mutations_of


def made(snippet: str, operator: str) -> list[tuple[str, str]]:
    """What an operator replaces in a function with this body, and by what."""
    body = textwrap.indent(textwrap.dedent(snippet).strip(), "    ")
    source = Source("squall.nodes.raft.sample", f"def run(self, epoch, start, end, now):\n{body}\n")
    return [(one.original, one.replacement) for one in mutations_of(source) if one.operator == operator]


@pytest.mark.parametrize(
    ("operator", "snippet", "expected"),
    [
        ("boundary", "return start < end <= now", [("<", "<="), ("<=", "<")]),
        ("equality", "return start == end", [("==", "!=")]),
        ("equality", "return start is None", []),
        ("min-max", "return min(start, 3)", [("min", "max")]),
        ("connective", "return start and end", [("start and end", "(start or end)")]),
        ("connective", "return start and (end or now)", 2 * [("", "")]),
        ("condition-dropped", "return start or end.size", [("start", "False"), ("end.size", "False")]),
        ("negated-condition", "if start < end:\n    call()", [("start < end", "(not (start < end))")]),
        ("negated-condition", "if not start:\n    call()", [("not start", "(start)")]),
        ("negated-condition", "if start == end:\n    call()", []),
        ("constant", "return call(2, 100, True, -1)", [("2", "3"), ("100", "50"), ("True", "False"), ("-1", "0")]),
        ("constant", "return start[0]", []),
        ("call-dropped", "self.send(start)\nreturn end", [("self.send(start)", "pass")]),
        ("assignment-dropped", "self.end = 5\nfresh = 7\nfresh = 8", [("self.end = 5", "pass"), ("fresh = 8", "pass")]),
        ("return-dropped", "if start:\n    return\ncall()", [("return", "pass")]),
        ("return-dropped", "call()\nif start:\n    return", []),
        ("raise-dropped", "call()\nraise ValueError(start + 1)", [("raise ValueError(start + 1)", "pass")]),
        ("sync-skipped", "self.log.flush()\nself.disk.sync_directory(end)", 2 * [("", "")]),
        ("sync-skipped", "self.flushed_by(now)\nself.in_sync_followers_with(end)", []),
        ("epoch-check-dropped", "if epoch < self.epoch:\n    return\ncall()", [("epoch < self.epoch", "False")]),
        ("epoch-check-dropped", "return end and epoch == now", [("epoch == now", "True")]),
        ("epoch-check-dropped", "return end and start == now", []),
        ("plus-one-dropped", "return end + 1", [("end + 1", "(end)")]),
        ("plus-one-dropped", "return end + 2", []),
        ("start-end", "return call(start)", [("start", "end")]),
        ("start-end", "return self.start_offset + self.end_offset", 2 * [("", "")]),
        ("start-end", "return self.start_offset", []),
        (
            "high-watermark-log-end",
            "return self.high_watermark < self.end_offset",
            [("self.high_watermark", "self.end_offset"), ("self.end_offset", "self.high_watermark")],
        ),
        ("epoch-confused", "leader_epoch = now\nreturn leader_epoch", [("leader_epoch", "epoch")]),
        ("stale-variable", "before = end\nreturn before", [("before", "now")]),
    ],
)
def test_an_operator_makes_its_mutants_and_no_others(
    operator: str, snippet: str, expected: list[tuple[str, str]]
) -> None:
    found = made(snippet, operator)
    assert len(found) == len(expected)
    if expected and expected[0] != ("", ""):
        assert found == expected


def test_an_offset_that_is_passed_returned_or_assigned_is_off_by_one() -> None:
    found = made("other = end\ncall(start)\nreturn start < end", "off-by-one")
    assert [original for original, _ in found] == ["end", "start"]
    assert all(replacement in (f"({original} + 1)", f"({original} - 1)") for original, replacement in found)


@pytest.mark.parametrize(
    "snippet",
    [
        '"""A docstring."""',
        "assert start < end",
        "self._require(start < end, 'no start beyond the end')",
        "if start > end + 1:\n    raise InvariantViolation(start)",
        "self._trace.event('append', end=end + 1)",
        "if self._mutants.has('x') and start < end:\n    pass",
        "self.notices.append(f'{start + 1}')",
        "self.metrics.sent += 1",
        "here: list[1] = now",
    ],
)
def test_what_no_promise_depends_on_is_left_alone(snippet: str) -> None:
    body = textwrap.indent(snippet, "    ")
    assert mutations_of(Source("squall.nodes.raft.sample", f"def run(self, start, end):\n{body}\n")) == []


def test_only_the_usual_course_at_a_place_of_buggify_is_changed() -> None:
    snippet = (
        "if self._buggify.happens('a'):\n    one(7)\nelse:\n    two(8)\n"
        "if not self._buggify.happens('b'):\n    three(9)\n"
        "wait = 10 if self._buggify.happens('c') else 11\n"
        "if start < end and self._buggify.happens('d'):\n    five(12)\n"
        "return call(end > 7 and not self._buggify.happens('e'))"
    )
    assert made(snippet, "constant") == [("8", "9"), ("9", "4"), ("11", "5"), ("7", "8")]
    assert made(snippet, "boundary") == [(">", ">=")]
    assert made(snippet, "negated-condition") == []


def test_of_a_choice_with_what_buggify_lets_happen_only_the_rest_is_changed() -> None:
    snippet = "if start < end or (start > 3 and self._buggify.happens('a')):\n    one(7)\n"
    assert made(snippet, "boundary") == [("<", "<=")]
    assert made(snippet, "condition-dropped") == [("start < end", "False")]
    assert made(snippet, "constant") == [("7", "8")]


def test_only_the_healthy_side_of_a_branch_for_a_documented_mutant_is_changed() -> None:
    text = (
        "class Log:\n"
        "    def __init__(self, mutants):\n"
        "        self._broken = mutants.has('a')\n"
        "        self._sound = not mutants.has('b')\n"
        "    def run(self):\n"
        "        if self._broken:\n            one()\n"
        "        if self._sound:\n            two()\n"
        "        if self._mutants.has('c'):\n            three()\n        else:\n            four()\n"
        "        if self._ready and not self._broken:\n            five()\n"
    )
    found = mutations_of(Source("squall.nodes.raft.sample", text))
    assert [one.original for one in found] == ["two()", "four()", "five()"]


def test_what_a_node_says_of_itself_is_left_alone() -> None:
    text = "def __repr__(self):\n    return self.end + 1\n@lru_cache(maxsize=5)\ndef run(end: int = 5) -> None: ...\n"
    assert mutations_of(Source("squall.nodes.raft.sample", text)) == []


def test_ids_survive_edits_of_other_functions() -> None:
    one = "class Log:\n    def end(self, a, b):\n        return a < b\n"
    other = "def earlier(a, b):\n    return a < b\n"
    before = mutations_of(Source("squall.nodes.storage.log", one))
    after = mutations_of(Source("squall.nodes.storage.log", other + one))
    assert [mutation.id for mutation in before] == ["storage.log:Log.end:boundary:1"]
    assert before[0].id in [mutation.id for mutation in after]


def test_a_mutant_is_a_diff_of_one_place_that_a_person_can_read() -> None:
    text = "def run(first, ünd):\n    # ünd\n    return first < ünd\n"
    mutation = next(one for one in mutations_of(Source("squall.nodes.raft.sample", text)) if one.operator == "boundary")
    assert mutation.apply(text) == text.replace("first < ünd", "first <= ünd")
    assert "-    return first < ünd\n+    return first <= ünd\n" in mutation.diff(text)
    with pytest.raises(ValueError, match="has changed"):
        mutation.apply("#" + text)


def test_all_mutants_of_the_nodes_have_their_own_id_and_those_looked_at_compile() -> None:
    everything = generate()
    texts = {source.module: source.text for source in mutated_modules()}
    assert len({one.id for one in everything}) == len(everything) > 5000
    assert {one.operator for one in everything} == {name for name, _ in OPERATORS}
    for mutation in everything[::53]:
        text = texts[mutation.module]
        assert ast.dump(ast.parse(mutation.apply(text))) != ast.dump(ast.parse(text)), mutation.id
