"""Read YAML files that people write, with errors that point into them.

`load_yaml` keeps the line of every key and list item beside the data, so that every later error, from pydantic or by
hand, has the form

    inventory.yaml:14: hosts.b2.ansible_port: "ssh" is not a port number (1–65535)
    suites/kill.yaml:7: nemesis.0.falt: unknown key; did you mean `fault`?

Use: `source = load_yaml(path)`, then `source.validated(Model)`; for the caller's own findings `raise
source.error(("nemesis", 0), "...", remedy="...")`. A validator's `ValueError` whose text is a predicate ("is not a port
number", "must be …") gets the offending value put before it; any other text stays unchanged.

A repeated key in one mapping is an error here, because YAML would silently keep the last. Uses PyYAML's node graph for
the lines and pydantic's `loc` for the paths.
"""

from __future__ import annotations

import contextlib
import difflib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError

from squall.harness.errors import UsageError

KeyPath = tuple[str | int, ...]
Model = TypeVar("Model", bound=BaseModel)

LONGEST_SHOWN_VALUE = 60
MOST_LEVELS = 100
MOST_EXPANSION = 10
MOST_VALUES_OF_ANCHORS = 10_000
"""Limit on the expansion of anchors: a multiple of what is written, plus this many values."""
QUICK_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's loader, where PyYAML has it: it finds a scenario among all suites in 0.12 s instead of 0.43 s."""
PREDICATES = ("is ", "are ", "must ", "has ", "have ", "needs ", "does ", "cannot ", "should ", "names ")


def dotted(path: Iterable[str | int]) -> str:
    """Write `("hosts", "b2", "data_dirs", 0)` as a person does: `hosts.b2.data_dirs[0]`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else (f".{part}" if text else str(part))
    return text


@dataclass(frozen=True)
class YamlSource:
    """A parsed YAML file and the line on which each of its values is named."""

    file: str
    data: Any
    lines: Mapping[KeyPath, int]
    naming: Callable[[KeyPath], str] = dotted  # how a path is written in messages

    def line(self, path: KeyPath) -> int:
        """Return the line of `path`, or of the nearest enclosing value that the file has."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def error(self, path: KeyPath, problem: str, *, remedy: str | None = None) -> UsageError:
        """Return `file:line: path: problem` as an error for the caller to raise."""
        where = f"{self.file}:{self.line(path)}: "
        name = f"{self.naming(path)}: " if path else ""
        return UsageError(f"{where}{name}{problem}", remedy=remedy)

    def validated(self, model: type[Model], data: Any = None, at: KeyPath = ()) -> Model:
        """Validate `data` (the whole file unless given) as `model`; `at` is where in the file the data is.

        Raises one UsageError that lists every field pydantic found wrong, in the order of the file.
        """
        try:
            return model.model_validate(self.data if data is None else data)
        except ValidationError as invalid:
            raise self.explain(invalid, model, data, at) from None

    def explain(
        self, invalid: ValidationError, model: type[BaseModel], data: Any = None, at: KeyPath = ()
    ) -> UsageError:
        """Convert a pydantic error to this file's terms: line, path, value, what would be right."""
        data = self.data if data is None else data
        found: dict[tuple[int, KeyPath, str], UsageError] = {}
        for details in invalid.errors(include_url=False):
            location = tuple(details["loc"])
            if details["type"].startswith("union_tag_"):
                location += (details.get("ctx", {}).get("discriminator", "").strip("'"),)
            path = at + tuple(part for part in data_path(location, data) if part != "")
            problem = describe(dict(details), allowed_keys(model, location))
            found.setdefault((self.line(path), path, problem), self.error(path, problem))
        return UsageError.joined([found[key] for key in sorted(found, key=lambda key: (key[0], str(key[1])))])


def load_yaml(path: Path | str) -> YamlSource:
    """Read one YAML document. Raises UsageError for a missing file, broken YAML or a repeated key."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as trouble:
        raise UsageError(f"{path}: cannot be read: {trouble}") from None
    return parse_yaml(text, str(path))


def parse_yaml(text: str, file: str) -> YamlSource:
    """Like `load_yaml`, for text in memory; `file` is the name used in errors."""
    try:
        _refuse_depth(text, QUICK_LOADER, file)
        return _parsed(QUICK_LOADER(text), file)
    except yaml.YAMLError:
        pass  # libyaml words it differently from PyYAML, and is not on every machine
    try:
        _refuse_depth(text, yaml.SafeLoader, file)
        return _parsed(yaml.SafeLoader(text), file)
    except yaml.MarkedYAMLError as broken:
        mark = broken.problem_mark or broken.context_mark
        line = mark.line + 1 if mark else 1
        raise UsageError(f"{file}:{line}: not YAML: {broken.problem or broken.context}") from None
    except yaml.YAMLError as broken:
        raise UsageError(f"{file}: not YAML: {broken}") from None


def _refuse_depth(text: str, loader: Any, file: str) -> None:
    """Raise UsageError for a file nested so deeply that libyaml would overflow its stack. Raises YAMLError."""
    depth = 0
    for event in yaml.parse(text, Loader=loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MOST_LEVELS:
                line = event.start_mark.line + 1 if event.start_mark else 1
                raise UsageError(f"{file}:{line}: is nested more than {MOST_LEVELS} levels deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _refuse_bomb(root: yaml.Node, file: str) -> None:
    """Raise UsageError where anchors expand to so much that reading would not end."""
    sizes: dict[int, int] = {}

    def size(node: yaml.Node, above: frozenset[int]) -> int:
        if id(node) in above:
            raise UsageError(f"{file}:{node.start_mark.line + 1}: an anchor must not contain itself")
        if id(node) not in sizes:
            below = above | {id(node)}
            sizes[id(node)] = 1 + sum(size(child, below) for child in _children(node))
        return sizes[id(node)]

    whole = size(root, frozenset())
    if whole > MOST_EXPANSION * len(sizes) + MOST_VALUES_OF_ANCHORS:
        raise UsageError(
            f"{file}: its aliases expand {len(sizes)} written values to {whole:.1e}",
            remedy="use fewer anchors and aliases",
        )


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield key
            yield value
    elif isinstance(node, yaml.SequenceNode):
        yield from node.value


def _parsed(loader: Any, file: str) -> YamlSource:
    """Return the one document of PyYAML's or libyaml's loader. Raises YAMLError and UsageError."""
    try:
        node = loader.get_single_node()
        if node is None:
            raise UsageError(f"{file}: the file is empty")
        _refuse_bomb(node, file)
        lines: dict[KeyPath, int] = {(): node.start_mark.line + 1}
        _note_lines(node, (), lines, file, frozenset())
        try:
            data = loader.construct_document(node)
        except (ValueError, OverflowError) as wrong:  # an impossible date or number
            raise UsageError(f"{file}: holds a value that cannot be read: {wrong}") from None
    finally:
        loader.dispose()
    return YamlSource(file, data, lines)


def _note_lines(node: yaml.Node, path: KeyPath, lines: dict[KeyPath, int], file: str, above: frozenset[int]) -> None:
    if id(node) in above:
        raise UsageError(f"{file}:{node.start_mark.line + 1}: an anchor must not contain itself")
    above |= {id(node)}
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            below = (*path, _key(key))
            if below in lines and key.value != "<<":
                here = f"{file}:{key.start_mark.line + 1}: {dotted(below)}"
                raise UsageError(f"{here}: given twice (first on line {lines[below]})")
            lines[below] = key.start_mark.line + 1
            _note_lines(value, below, lines, file, above)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            lines[(*path, index)] = item.start_mark.line + 1
            _note_lines(item, (*path, index), lines, file, above)


def _key(node: yaml.Node) -> str | int:
    if node.tag == "tag:yaml.org,2002:int":
        with contextlib.suppress(ValueError):
            return int(node.value, 0)
    return str(node.value)


def shown(value: object) -> str:
    """Format a value as in the file, cut to a readable length."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= LONGEST_SHOWN_VALUE else text[: LONGEST_SHOWN_VALUE - 1] + "…"


def suggestion(wrong: object, known: Iterable[str]) -> str:
    """Return `; did you mean …?` where a known key is near, else `; known are …`; empty if none are known."""
    names = sorted(set(known))
    near = difflib.get_close_matches(str(wrong), names, n=1, cutoff=0.6)
    if near:
        return f"; did you mean `{near[0]}`?"
    return f"; known are {', '.join(names)}" if names else ""


def data_path(location: KeyPath, data: Any) -> KeyPath:
    """Return pydantic's location without the parts that name a union's branch rather than a place in the data."""
    path: list[str | int] = []
    for position, part in enumerate(location):
        in_mapping = isinstance(data, Mapping) and part in data
        in_list = isinstance(data, list) and isinstance(part, int) and part < len(data)
        if in_mapping or in_list:
            data = data[part]
        elif not isinstance(data, Mapping) or position != len(location) - 1:
            continue
        path.append(part)
    return tuple(path)


def describe(details: dict[str, Any], known: Iterable[str]) -> str:
    """Describe one pydantic error in plain words."""
    kind, value, context = details["type"], details.get("input"), details.get("ctx", {})
    if kind == "extra_forbidden":
        return "unknown key" + suggestion(details["loc"][-1], known)
    if kind == "missing":
        return "missing"
    if kind in ("value_error", "assertion_error"):
        text = str(context.get("error", details["msg"]))
        return f"{shown(value)} {text}" if text.startswith(PREDICATES) else text
    if kind in ("model_type", "model_attributes_type", "dict_type"):
        return f"{shown(value)} must be a mapping (`key: value` lines)"
    if kind in ("list_type", "tuple_type"):
        return f"{shown(value)} must be a list"
    if kind in ("literal_error", "enum"):
        choices = str(context["expected"]).replace("'", "")
        return f"{shown(value)} is not one of {choices}"
    if kind == "union_tag_invalid":
        tags = [tag.strip(" '") for tag in str(context["expected_tags"]).split(",")]
        return f"{shown(context.get('tag'))} is not known{suggestion(context.get('tag'), tags)}"
    return f"{shown(value)} is not right: {_continued(details['msg'])}"


def _continued(message: str) -> str:
    """Turn pydantic's sentence into the second half of ours: 'Input should be …' becomes 'should be …'."""
    return message.removeprefix("Input ").strip()


def allowed_keys(model: type[BaseModel], location: KeyPath) -> list[str]:
    """Return the keys accepted beside the last part of `location`, found by walking the models' annotations."""
    annotations: list[Any] = [model]
    for part in location[:-1]:
        annotations = [below for annotation in annotations for below in _below(annotation, part)]
    return sorted({key for annotation in annotations for one in _models(annotation) for key in _keys(one)})


def _below(annotation: Any, part: str | int) -> Iterator[Any]:
    """Yield the annotation that `part` leads to; `annotation` itself where the part only names a union's branch."""
    found = False
    for one in _models(annotation):
        for name, field in one.model_fields.items():
            if part in (name, field.alias):
                found = True
                yield Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
    branches = [one for one in _models(annotation) if _is_named(one, part)]
    if not found and branches:
        yield from branches
        return
    containers = [argument for argument in get_args(annotation) if isinstance(argument, type) or get_args(argument)]
    if not found and containers and not any(True for _ in _direct_models(annotation)):
        yield from containers
    elif not found:
        yield annotation


def _is_named(model: type[BaseModel], part: str | int) -> bool:
    """Return whether a union distinguishes this model by a field that can have only this value."""
    return any(get_args(field.annotation) == (part,) for field in model.model_fields.values())


def _direct_models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield every model named anywhere within an annotation: in optionals, lists, mappings and unions."""
    if isinstance(annotation, type) and not get_args(annotation):
        yield from _direct_models(annotation)
    for argument in get_args(annotation):
        yield from _models(argument)
        if hasattr(argument, "models"):  # of plugins, which the annotation cannot name
            yield from argument.models()


def _keys(model: type[BaseModel]) -> Iterator[str]:
    unlisted = model.unlisted() if hasattr(model, "unlisted") else ()
    for name, field in model.model_fields.items():
        if name not in unlisted:
            yield field.alias or name
