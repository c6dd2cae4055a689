"""Stand-alone tools as one file.

A tool in `judges/tools` may have its parts in a folder of modules beside it. What goes into a sandbox is one file: it
can be read, copied elsewhere and run there, as the tool of the original can (E §2.3).
"""

from __future__ import annotations

import ast
from pathlib import Path

from ptb_tui.core.errors import ContentError

MAX_PARTS = 50


def single_file(script: Path) -> str:
    """The text of a script with the modules put in that it imports from folders beside it; unchanged when it imports
    none. Raises OSError, and ContentError when the parts do not fit together."""
    text = script.read_text("utf-8")
    tree = _parsed(script, text)
    order: list[Path] = []
    for path in _parts(tree, script.parent):
        _gather(path, script.parent, order)
    if not order:
        return text
    names: dict[str, Path] = {}
    pieces = []
    for path in order:
        module = path.read_text("utf-8")
        parsed = _parsed(path, module)
        for name in _defined(parsed):
            if names.setdefault(name, path) != path:
                raise ContentError(f"{path} and {names[name]} both define {name}", hint="rename it in one of them")
        pieces.append(_title(path, script.parent) + _without(module, parsed, script.parent))
    first = min(node.lineno for node in tree.body if _is_part(node, script.parent)) - 1
    lines = text.splitlines(keepends=True)
    head = _without("".join(lines[:first]), _parsed(script, "".join(lines[:first])), script.parent, keep_head=True)
    rest = "".join(lines[first:])
    return head + "".join(pieces) + "\n\n" + _without(rest, _parsed(script, rest), script.parent).lstrip("\n")


def _parsed(path: Path, text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError) as error:
        raise ContentError(f"{path} is no Python: {error}") from error


def _title(path: Path, beside: Path) -> str:
    name = ".".join(path.relative_to(beside).with_suffix("").parts)
    return f"\n\n# {'-' * (116 - len(name))} {name}\n"


def _is_part(node: ast.AST, beside: Path) -> bool:
    return isinstance(node, ast.ImportFrom) and bool(node.module) and _module(str(node.module), beside) is not None


def _module(name: str, beside: Path) -> Path | None:
    path = beside.joinpath(*name.split(".")).with_suffix(".py")
    return path if "." in name and path.is_file() else None


def _parts(tree: ast.Module, beside: Path) -> list[Path]:
    found = []
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module and (path := _module(node.module, beside)):
            if any(alias.asname not in (None, alias.name) for alias in node.names):
                raise ContentError(f"{node.module} is imported under another name", hint="import it under its own")
            found.append(path)
    return found


def _gather(path: Path, beside: Path, order: list[Path], above: tuple[Path, ...] = ()) -> None:
    """`order` with everything that a module needs before the module."""
    if path in above or len(order) > MAX_PARTS:
        raise ContentError(f"{path} imports itself by way of others")
    if path not in order:
        for inner in _parts(_parsed(path, path.read_text("utf-8")), beside):
            _gather(inner, beside, order, (*above, path))
        order.append(path)


def _defined(tree: ast.Module) -> set[str]:
    names = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        for target in node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]:
            names |= {name.id for name in ast.walk(target) if isinstance(name, ast.Name)} if target else set()
    return names


def _without(text: str, tree: ast.Module, beside: Path, *, keep_head: bool = False) -> str:
    """The text without imports of parts and, but for the head of the file, without its docstring and what is there once
    for all; the docstring becomes a comment."""
    lines = text.splitlines(keepends=True)
    for place, node in enumerate(tree.body):
        words = ast.get_docstring(tree) if place == 0 and not keep_head else None
        future = isinstance(node, ast.ImportFrom) and node.module == "__future__" and not keep_head
        path = isinstance(node, ast.Expr) and ast.unparse(node).startswith("sys.path.insert(")
        if words is None and not (future or path or _is_part(node, beside)):
            continue
        assert node.end_lineno is not None
        lines[node.lineno - 1 : node.end_lineno] = [""] * (node.end_lineno - node.lineno + 1)
        if words:
            lines[node.lineno - 1] = "".join(f"# {line}".rstrip() + "\n" for line in words.splitlines())
    return "".join(lines)
