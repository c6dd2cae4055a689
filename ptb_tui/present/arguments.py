"""What verbs take on a command line: the shared options, named arguments, and how a verb is declared once.

Imports typer and nothing else that is heavy.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from ptb_tui.core.errors import UsageError


@dataclass(frozen=True, slots=True)
class Common:
    """What every verb takes, before or after its name; the later one wins."""

    site: Annotated[str | None, typer.Option("--site", metavar="NAME", help="Site of config.toml.")] = None
    json: Annotated[bool, typer.Option("--json", help="One JSON object a line on stdout.")] = False
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing.")] = False
    results: Annotated[
        list[Path] | None,
        typer.Option("--results", metavar="DIR", help="Results root. Repeated: further roots, which are only read."),
    ] = None
    env_file: Annotated[Path | None, typer.Option("--env-file", metavar="F", help="File of KEY=value lines.")] = None

    @property
    def roots(self) -> tuple[Path | None, tuple[Path, ...]]:
        """The results root as named, and further roots."""
        return (self.results[0], tuple(self.results[1:])) if self.results else (None, ())


Run: TypeAlias = Annotated[str, typer.Argument(metavar="RUN", help="An id, a unique prefix, site:id or a path.")]
Reason: TypeAlias = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Recorded with the request.")]
Wait: TypeAlias = Annotated[bool, typer.Option("--wait", help="Until it is done; the exit code tells how it went.")]
Protocol: TypeAlias = Annotated[str, typer.Option("--protocol", metavar="P", help="Empty: of the newest runs.")]
Policy: TypeAlias = Annotated[
    str, typer.Option("--policy", metavar="P", help="Which run stands for a cell: finished or upstream.")
]
Body: TypeAlias = Callable[..., Coroutine[Any, Any, int]]
"""`async body(call, …) -> exit code`; its parameters after the first are the verb's own options and arguments."""


def split_run(run: str, site: str | None) -> tuple[str, str]:
    """(site, run as that site names it). A path that exists here becomes absolute; UsageError when sites differ."""
    match = re.fullmatch(r"([A-Za-z][A-Za-z0-9_.-]*):([0-9]+)", run)
    if match and site not in (None, match[1]):
        raise UsageError(f"{run} is on site {match[1]}, but --site says {site}", hint="give one of them")
    if match:
        return match[1], match[2]
    if (site or "local") == "local" and os.sep in run and os.path.exists(run):
        return "local", os.path.abspath(run)
    return site or "local", run


def one_of(option: str, value: str, known: Sequence[str]) -> Any:
    """The value, if it is known; else a UsageError that lists what is."""
    if value not in known:
        raise UsageError(f"{option} {value!r} is not known", hint=f"one of: {', '.join(known)}")
    return value


def declare(body: Body, run: Callable[[typer.Context, Common, dict[str, Any]], None]) -> Callable[..., None]:
    """The function typer registers for a verb: the verb's own parameters and the shared ones.

    `run` gets the shared options, merged with those before the verb, and the verb's own values. It is not called when
    a group only leads to a verb; options that belong to the group alone are then a UsageError.
    """
    own = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in list(inspect.signature(body, eval_str=True).parameters.values())[1:]
    ]
    types = inspect.get_annotations(Common, eval_str=True)
    shared = [
        inspect.Parameter(item.name, inspect.Parameter.KEYWORD_ONLY, default=item.default, annotation=types[item.name])
        for item in fields(Common)
    ]

    def entry(ctx: typer.Context, **values: Any) -> None:
        given = {item.name: values.pop(item.name) for item in fields(Common)}
        before = ctx.obj if isinstance(ctx.obj, Common) else Common()
        ctx.obj = common = replace(before, **{key: value for key, value in given.items() if value})
        if ctx.invoked_subcommand is None:
            run(ctx, common, values)
            return
        if extra := [key for key, value in values.items() if value]:
            option = "--" + extra[0].replace("_", "-")
            raise UsageError(f"{option} does not go with {ctx.invoked_subcommand!r}", hint=f"{ctx.command_path} --help")

    context = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    entry.__signature__ = inspect.Signature([context, *own, *shared])  # type: ignore[attr-defined]
    entry.__annotations__ = {}
    entry.__doc__ = body.__doc__
    return entry
