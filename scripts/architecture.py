"""The import graph of modules and of folders, and its drawing in docs/architecture.svg (`make architecture`).

An import inside a function counts, one under TYPE_CHECKING does not. A folder is the modules that lie in it itself.
Each room is drawn by itself, in layers: what imports is above what it imports. An arrow that follows from others is
left out.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("harness", "benchmarks", "nemesis", "results", "workloads", "nodes")
DRAWING = ROOT / "docs" / "architecture.svg"
Graph = dict[str, set[str]]

WIDTH, MARGIN, ROW, BOX, LETTER, GAP = 620, 14, 74, 32, 8.4, 12
STYLE = (
    "text{font:15px sans-serif;fill:#1b2733}.room{font-weight:bold;font-size:18px}.also{font-size:13px;fill:#51606e}"
    ".panel{fill:#f4f6f8}.box{fill:#fff;stroke:#51606e}.arrow{fill:none;stroke:#3b76b0;stroke-opacity:.75}"
)


def module_paths(root: Path = ROOT) -> dict[str, Path]:
    """Every module of the rooms by its dotted name; a package is its `__init__.py`."""
    paths = sorted(path for room in ROOMS for path in (root / room).rglob("*.py"))
    return {"squall." + ".".join(_parts(path.relative_to(root))): path for path in paths}


def _parts(path: Path) -> tuple[str, ...]:
    return path.parent.parts if path.name == "__init__.py" else path.with_suffix("").parts


def imported_names(tree: ast.AST) -> Iterator[str]:
    """What a module imports while it runs, at its top or within functions: modules, or names in them."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for other in node.orelse:
                yield from imported_names(other)
        else:
            yield from imported_names(node)


def module_graph(root: Path = ROOT) -> Graph:
    """Which modules of the rooms import which. `__main__` is left out: nothing imports it."""
    paths = module_paths(root)
    graph: Graph = {}
    for module, path in paths.items():
        if path.name != "__main__.py":
            names = imported_names(ast.parse(path.read_text(encoding="utf-8")))
            found = (name if name in paths else name.rpartition(".")[0] for name in names)
            graph[module] = {name for name in found if name in paths} - {module}
    return graph


def folder_graph(root: Path = ROOT) -> Graph:
    """Which folders import which, by their paths; those that hold nothing but folders are left out."""
    folders = {module: path.parent.relative_to(root).as_posix() for module, path in module_paths(root).items()}
    graph: Graph = {}
    for module, targets in module_graph(root).items():
        graph.setdefault(folders[module], set()).update({folders[one] for one in targets} - {folders[module]})
    holding = {path.parent.relative_to(root).as_posix() for path in module_paths(root).values() if not _is_start(path)}
    joined = {one for near in graph.values() for one in near}
    return {folder: near for folder, near in graph.items() if near or folder in holding | joined}


def _is_start(path: Path) -> bool:
    """The `__init__.py` of a folder with folders in it."""
    return path.name == "__init__.py" and any(path.parent.glob("*/__init__.py"))


def cycles(graph: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Groups of nodes each of which reaches all others of its group."""
    reached = {node: _reached(graph, node) for node in graph}
    groups = {tuple(sorted(one for one in reached[node] if node in reached.get(one, ()))) for node in graph}
    return [list(group) for group in sorted(groups) if group]


def _reached(graph: Mapping[str, Iterable[str]], start: str) -> set[str]:
    found: set[str] = set()
    waiting = list(graph.get(start, ()))
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting.extend(graph.get(node, ()))
    return found


def reduced(graph: Graph) -> Graph:
    """Without the arrows that follow from others."""
    beyond = {node: {far for one in near for far in _reached(graph, one)} for node, near in graph.items()}
    return {node: near - beyond[node] for node, near in graph.items()}


def layers_of(graph: Graph) -> tuple[list[list[str]], list[list[str]]]:
    """Nodes in layers, importers first, each arrow by way of a place in every layer between; and those ways."""
    depth: dict[str, int] = {}
    while len(depth) < len(graph):
        for node in graph:
            above = [one for one in graph if node in graph[one]]
            if all(one in depth for one in above):
                depth.setdefault(node, max((depth[one] + 1 for one in above), default=0))
    layers: list[list[str]] = [[] for _ in range(max(depth.values()) + 1)]
    for node in sorted(graph):
        layers[depth[node]].append(node)
    ways = []
    for node in sorted(graph):
        for target in sorted(graph[node]):
            between = [f"|{node}|{target}|{level}" for level in range(depth[node] + 1, depth[target])]
            for place in between:
                layers[int(place.rpartition("|")[2])].append(place)
            ways.append([node, *between, target])
    return layers, ways


def ordered(layers: list[list[str]], ways: list[list[str]]) -> dict[str, float]:
    """Where the middle of each place is from left to right: near those above and below that it is joined to."""
    near: dict[str, list[str]] = {}
    for way in ways:
        for one, other in pairwise(way):
            near.setdefault(one, []).append(other)
            near.setdefault(other, []).append(one)
    middle = {place: float(number) for layer in layers for number, place in enumerate(layer)}
    for _ in range(24):
        for layer in layers:
            wish = {one: fmean(middle[other] for other in near.get(one, [one])) for one in layer}
            layer.sort(key=lambda one: (round(wish[one], 6), one))
            space = (WIDTH - 2 * MARGIN - sum(_width(one) for one in layer)) / (len(layer) + 1)
            at = float(MARGIN)
            for one in layer:
                middle[one] = at + space + _width(one) / 2
                at += space + _width(one)
    return middle


def _width(place: str) -> float:
    return 4.0 if place.startswith("|") else LETTER * len(_label(place)) + GAP


def _label(folder: str) -> str:
    return folder.partition("/")[2] or folder


def panel(room: str, graph: Graph, top: float) -> tuple[list[str], float]:
    """One room from `top` on, and where it ends."""
    inside = {node: {one for one in near if _room(one) == room} for node, near in graph.items() if _room(node) == room}
    others = sorted({_room(one) for node in inside for one in graph[node]} - {room})
    layers, ways = layers_of(reduced(inside))
    middle = ordered(layers, ways)
    height = {place: top + 48 + ROW * level for level, layer in enumerate(layers) for place in layer}
    end = top + 48 + ROW * (len(layers) - 1) + BOX + 12
    drawn = [f'<rect class="panel" x="4" y="{top:.0f}" width="{WIDTH - 8}" height="{end - top:.0f}" rx="8"/>']
    drawn.append(f'<text class="room" x="16" y="{top + 26:.0f}">{room}</text>')
    said = f"imports {', '.join(others)}" if others else "imports no other room"
    drawn.append(f'<text class="also" x="{WIDTH - 16}" y="{top + 26:.0f}" text-anchor="end">{said}</text>')
    for way in ways:
        points = [(middle[way[0]], height[way[0]] + BOX)]
        for place in way[1:-1]:
            points += [(middle[place], height[place]), (middle[place], height[place] + BOX)]
        points.append((middle[way[-1]], height[way[-1]] - 3))
        drawn.append(f'<path class="arrow" marker-end="url(#tip)" d="{_curve(points)}"/>')
    for folder in sorted(inside):
        wide, y = _width(folder), height[folder]
        x = middle[folder] - wide / 2
        drawn.append(f'<rect class="box" x="{x:.0f}" y="{y:.0f}" width="{wide:.0f}" height="{BOX}" rx="5"/>')
        text = f'<text x="{middle[folder]:.0f}" y="{y + 21:.0f}" text-anchor="middle">'
        drawn.append(f"{text}{escape(_label(folder))}</text>")
    return drawn, end + 10


def _room(folder: str) -> str:
    return folder.partition("/")[0]


def _curve(points: list[tuple[float, float]]) -> str:
    said = f"M{points[0][0]:.0f} {points[0][1]:.0f}"
    for (x, y), (to_x, to_y) in pairwise(points):
        half = (to_y - y) / 2
        said += f"C{x:.0f} {y + half:.0f} {to_x:.0f} {to_y - half:.0f} {to_x:.0f} {to_y:.0f}"
    return said


def drawing(graph: Graph) -> str:
    """All rooms as one picture."""
    parts, top = [], 6.0
    for room in ROOMS:
        drawn, top = panel(room, graph, top)
        parts += drawn
    tip = '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top:.0f}"><style>{STYLE}</style>'
    head += f'<defs>{tip}<path d="M0 0L8 4L0 8z" fill="#3b76b0"/></marker></defs>'
    head += '<rect width="100%" height="100%" fill="#fff"/>'
    return "\n".join([head, *parts, "</svg>", ""])


if __name__ == "__main__":
    found = cycles(folder_graph())
    if found:
        sys.exit(f"folders that import each other: {found}")
    DRAWING.write_text(drawing(folder_graph()), encoding="utf-8")
