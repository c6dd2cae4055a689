"""Functions as trees: the same code under other names, in another layout, with other comments."""

from __future__ import annotations

import ast
import hashlib
import re
import textwrap
import warnings
from typing import Dict, Iterator, List, Tuple

MAX_FUNCTION = 20_000  # characters of one function, and
MAX_FUNCTIONS = 2_000  # functions looked at of one document
LEAST_NODES = 30  # nodes of a function that is worth finding: smaller ones are written alike by everybody
HEAD = re.compile(r"^([ \t]*)(?:async[ \t]+)?def[ \t]+\w", re.MULTILINE)


class _Renamed(ast.NodeTransformer):
    """Arguments and local names by order of appearance; no annotations, docstrings and decorators."""

    def __init__(self, own: Dict[str, str]) -> None:
        self.own = own

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name(self.own.get(node.id, node.id), node.ctx)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return ast.arg(self.own.get(node.arg, node.arg))

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is None:
            return ast.Pass()
        return self.generic_visit(ast.Assign([node.target], node.value))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        body = node.body
        if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
            body = body[1:] or [ast.Pass()]
        plain = ast.FunctionDef(self.own.get(node.name, node.name), node.args, body, [])
        return self.generic_visit(plain)


def fingerprint(function: ast.FunctionDef) -> str:
    """A digest that is equal for functions with equal trees; empty for one that is too small."""
    names: List[str] = [function.name]
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            names.append(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.append(node.id)
        elif isinstance(node, ast.FunctionDef):
            names.append(node.name)
    own = {name: "v%d" % place for place, name in enumerate(dict.fromkeys(names))}
    tree = _Renamed(own).visit(function)
    if sum(1 for _ in ast.walk(tree)) < LEAST_NODES:
        return ""
    return hashlib.sha256(ast.dump(tree).encode("utf-8", "replace")).hexdigest()[:32]


def blocks(text: str) -> Iterator[Tuple[int, str]]:
    """(place in the text, source) of everything that begins like a function, by its indentation."""
    for count, match in enumerate(HEAD.finditer(text)):
        if count >= MAX_FUNCTIONS:
            return
        indent = len(match[1].expandtabs())
        lines: List[str] = []
        size, open_head = 0, True
        for line in text[match.start() : match.start() + MAX_FUNCTION].splitlines():
            inside = not line.strip() or len(line.expandtabs()) - len(line.expandtabs().lstrip()) > indent
            if lines and not inside and not (open_head and line.lstrip()[:1] == ")"):
                break
            open_head = open_head and not line.rstrip().endswith(":")
            lines.append(line)
            size += len(line)
        yield match.start(), textwrap.dedent("\n".join(lines))


def functions(text: str) -> Iterator[Tuple[int, str]]:
    """(place in the text, digest) of the functions in it that can be parsed."""
    for place, source in blocks(text):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                parsed = ast.parse(source).body[0]
                digest = fingerprint(parsed) if isinstance(parsed, ast.FunctionDef) else ""
        except (SyntaxError, ValueError, RecursionError, MemoryError, IndexError):
            continue
        if digest:
            yield place, digest
