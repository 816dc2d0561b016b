"""Load modules of the nodes from changed source, in this process only.

An import hook compiles the changed source of the modules that it wants; no file of the tree changes, and no byte code
of a mutant is cached. It must be installed before the modules are imported, so this module imports no node, and
installing it late is an error: names that other modules have taken from a module would stay those of the healthy one.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType

Change = Callable[[str, str], ast.Module | str]
"""From a module's name and source to what is compiled instead."""


class ChangingLoader(SourceFileLoader):
    """Compiles a changed form of the source; reads and writes no byte code."""

    def __init__(self, name: str, path: str, change: Change) -> None:
        super().__init__(name, path)
        self._change = change

    def get_code(self, fullname: str) -> CodeType:
        data = self.get_data(self.path).decode()
        return compile(self._change(fullname, data), self.path, "exec", dont_inherit=True)  # type: ignore[no-any-return, arg-type]


class ChangingFinder(MetaPathFinder):
    """Finds the modules that are loaded from changed source."""

    def __init__(self, wants: Callable[[str], bool], change: Change) -> None:
        self._wants = wants
        self._change = change

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not self._wants(fullname):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = ChangingLoader(fullname, spec.loader.path, self._change)
        return spec


def load_changed(wants: Callable[[str], bool], change: Change) -> None:
    """From now on, load the wanted modules from changed source. Raises RuntimeError if one is loaded already."""
    late = sorted(name for name in sys.modules if wants(name))
    if late:
        raise RuntimeError(f"already imported, so it cannot be replaced any more: {late[0]}")
    sys.meta_path.insert(0, ChangingFinder(wants, change))


def load_mutant(module: str, source: str) -> None:
    """From now on, load this one module from this source."""
    load_changed(lambda name: name == module, lambda name, original: source)
