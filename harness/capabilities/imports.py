"""What the code of each plane reaches by imports: the packages of `squall.nodes`, read from their source (DA-02)."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import squall.nodes as nodes

PLANES = {"control": ("controller",), "data": ("broker", "replication")}
PREFIX = "squall.nodes."
MESSAGES = "protocol"


def reached(plane: str, root: Path | None = None) -> set[str]:
    """The packages that a plane's code reaches, however indirectly, its own left out."""
    folder = Path(nodes.__path__[0]) if root is None else root
    found: set[str] = set()
    waiting = list(PLANES[plane])
    while waiting:
        for name in sorted(_imported(folder, waiting.pop())):
            if name not in found and name not in PLANES[plane]:
                found.add(name)
                waiting.append(name)
    return found


@cache
def _imported(folder: Path, package: str) -> frozenset[str]:
    found = set()
    for path in sorted((folder / package).rglob("*.py")) if (folder / package).is_dir() else [folder / f"{package}.py"]:
        for item in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in item.names] if isinstance(item, ast.Import) else []
            if isinstance(item, ast.ImportFrom) and item.module is not None:
                names = [f"{item.module}.{alias.name}" for alias in item.names]
            found |= {name.split(".")[2] for name in names if name.startswith(PREFIX)}
    return frozenset(found)
