"""The stamp of a kernel: a hash of all definitions in this package that the compiled code of the kernel depends on.

numba compiles into a kernel the functions that the kernel calls and the values of the constants that it reads. A
definition is a statement at the top of a module that binds a name. The analysis starts at the definition of the kernel
and follows each name to the definition that binds it, in the same module or through an import, until no new definition
is found. It never runs the code.

The hash is taken of syntax trees without docstrings, so comments, docstrings, line numbers and type hints of functions
do not change a stamp. A change of a function changes the stamps of the kernels that reach the function, and of no
others.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

#: stands for all definitions of a module
WHOLE = "*"
#: part of every stamp: it sets the compiler's options, and changes the code that numba makes for an index
COMPILER = "columns.kernel"
#: keeps compiled code and does not change it, so it is part of no stamp
CACHE = "compiler.kernel_cache"


class Definition(NamedTuple):
    #: the module, from the package on, with dots
    module: str
    #: the name that is bound; `WHOLE` for all names of the module
    name: str


class Module:
    """The definitions of one module, and what each name that it imports from this package stands for."""

    def __init__(self, text: str, package: str) -> None:
        self.statements = [_Plain().visit(statement) for statement in ast.parse(text).body]
        self.bound: dict[str, list[ast.stmt]] = {}
        self.imports: dict[str, Definition] = {}
        for statement in self.statements:
            for name in _bound(statement):
                self.bound.setdefault(name, []).append(statement)
            for node in ast.walk(statement):
                self.imports |= _imported(node, package)

    @cached_property
    def effects(self) -> list[tuple[ast.stmt, set[str]]]:
        """Statements that may change what a name means without binding it, with these names.

        Such a statement is a call, an assignment to a part of a value, or a function with a decorator that refers to
        the name, such as numba's `overload`.
        """
        return [
            (statement, {name.partition(".")[0] for name in _names(self._effect(statement))} & self.bound.keys())
            for statement in self.statements
            if self._effect(statement)
        ]

    @staticmethod
    def _effect(statement: ast.stmt) -> list[ast.AST]:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            return [*statement.decorator_list]
        binds = [*_bound(statement)] or isinstance(statement, ast.Import | ast.ImportFrom)
        return [] if binds else [statement]

    def statements_of(self, name: str) -> list[ast.stmt]:
        if name == WHOLE:
            return self.statements
        return self.bound.get(name, []) + [statement for statement, names in self.effects if name in names]


class Sources:
    """The definitions of a package."""

    def __init__(self, package: Path) -> None:
        self._package = package
        self._modules: dict[str, Module] = {}
        self._used: dict[Definition, frozenset[Definition]] = {}
        self._digests: dict[Definition, bytes] = {}

    def stamps(self, common: bytes) -> dict[str, str]:
        """The stamp of each decorated function in the modules that import the compiler, by module and name.

        `common` becomes part of every stamp: the versions of the compiler.
        """
        return {
            f"{self._package.name}.{module}.{statement.name}": self.stamp(Definition(module, statement.name), common)
            for module in self._kernel_modules()
            for statement in self._module(module).statements
            if isinstance(statement, ast.FunctionDef) and statement.decorator_list
        }

    def stamp(self, definition: Definition, common: bytes = b"") -> str:
        digest = hashlib.sha256(common)
        for reached in sorted(self.reached([definition, Definition(COMPILER, WHOLE)])):
            digest.update(f"\n{reached.module} {reached.name} ".encode() + self._digest(reached))
        return digest.hexdigest()[:16]

    def reached(self, roots: Iterable[Definition]) -> set[Definition]:
        """The definitions that the code of these definitions depends on, themselves included."""
        definitions: set[Definition] = set()
        waiting = [root for root in roots if self._has(root.module)]
        while waiting:
            definition = waiting.pop()
            if definition not in definitions and definition.module != CACHE:
                definitions.add(definition)
                waiting += self._uses(definition)
        return definitions

    def _kernel_modules(self) -> list[str]:
        paths = sorted(self._package.rglob("*.py"))
        modules = [".".join(path.relative_to(self._package).with_suffix("").parts) for path in paths]
        return [
            module
            for module, path in zip(modules, paths, strict=True)
            if COMPILER.encode() in path.read_bytes()
            and COMPILER in {imported.module for imported in self._module(module).imports.values()}
        ]

    def _uses(self, definition: Definition) -> frozenset[Definition]:
        if definition not in self._used:
            self._used[definition] = frozenset(self._find_uses(definition))
        return self._used[definition]

    def _find_uses(self, definition: Definition) -> Iterator[Definition]:
        module = self._module(definition.module)
        statements = module.statements_of(definition.name)
        if not statements:  # a name that the module imports, or makes in another way
            imported = module.imports.get(definition.name)
            yield self._resolved(imported) if imported else Definition(definition.module, WHOLE)
        for name in _names(statements):
            first, _, attribute = name.partition(".")
            if first in module.imports:
                target = self._resolved(module.imports[first])
                yield Definition(target.module, attribute) if target.name == WHOLE and attribute else target
            elif first in module.bound:
                yield Definition(definition.module, first)

    def _resolved(self, target: Definition) -> Definition:
        """The definition of an imported name, which may be the name of a module."""
        module = f"{target.module}.{target.name}".removeprefix(".")
        return Definition(module, WHOLE) if target.name != WHOLE and self._has(module) else target

    def _digest(self, definition: Definition) -> bytes:
        if definition not in self._digests:
            digest = hashlib.sha256()
            for statement in self._module(definition.module).statements_of(definition.name):
                digest.update(ast.dump(statement).encode())
            self._digests[definition] = digest.digest()
        return self._digests[definition]

    def _has(self, module: str) -> bool:
        return self._path(module).exists()

    def _path(self, module: str) -> Path:
        base = self._package.joinpath(*module.split("."))
        file = base.parent / f"{base.name}.py"
        return file if module and file.exists() else base / "__init__.py"

    def _module(self, module: str) -> Module:
        if module not in self._modules:
            self._modules[module] = Module(self._path(module).read_text(), self._package.name)
        return self._modules[module]


class _Plain(ast.NodeTransformer):
    """Removes what does not become code: docstrings, and type hints of arguments and results."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            node.body = [statement for statement in node.body if not _is_text(statement)] or [ast.Pass()]
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
        if isinstance(node, ast.arg):
            node.annotation = None
        return super().generic_visit(node)


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _bound(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement at the top of a module binds; not those of imports."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
        return
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        waiting += ast.iter_child_nodes(node)


def _imported(node: ast.AST, package: str) -> dict[str, Definition]:
    """What the names of an import stand for, if they come from the package."""
    if isinstance(node, ast.ImportFrom) and node.module:
        first, _, module = node.module.partition(".")
        names = {alias.asname or alias.name: Definition(module, alias.name) for alias in node.names}
        return names if first == package else {}
    if isinstance(node, ast.Import):
        modules = {alias.asname or package: alias.name.partition(".") for alias in node.names}
        return {name: Definition(module, WHOLE) for name, (first, _, module) in modules.items() if first == package}
    return {}


def _names(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The names that code reads, each with the first attribute that is read from it, if there is one: `module.name`."""
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield f"{node.value.id}.{node.attr}"
        elif isinstance(node, ast.Name):
            yield node.id
        else:
            yield from _names(ast.iter_child_nodes(node))
