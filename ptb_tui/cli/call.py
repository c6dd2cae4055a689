"""How a verb is declared and carried out: parsed by typer, done by a site, shown by `present`.

Nothing heavy is imported before a verb runs: `--help` needs typer alone. stdout is data, stderr is for people.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from ptb_tui.core.errors import UsageError
from ptb_tui.present.arguments import Body, Common, declare, split_run

if TYPE_CHECKING:
    from ptb_tui.core.action import Action, Receipt
    from ptb_tui.core.query import Query
    from ptb_tui.core.settings import Settings
    from ptb_tui.present.output import Output
    from ptb_tui.site.api import Site

    Opener: TypeAlias = Callable[[Settings, str], Awaitable[Site]]

Quick: TypeAlias = Callable[[Common, dict[str, Any]], bool]
Detach: TypeAlias = Annotated[
    bool, typer.Option("--detach", help="Do not wait; the same command without it shows how it goes.")
]
OPENER: Opener | None = None
"""Opens a site; None means `ptb_tui.site.open.open_site`. Tests put another one here."""

HELP = "PostTrainBench: run a sweep, watch it, judge it, score it. Every verb takes --help."
STYLE: dict[str, Any] = {"rich_markup_mode": None, "add_completion": False}
ARGV: list[str] = []  # of this call, for what is shown to be typed again
app = typer.Typer(help=HELP, pretty_exceptions_enable=False, **STYLE)


def group(name: str, words: str) -> typer.Typer:
    """A group of verbs below `ptb-tui`."""
    made = typer.Typer(**STYLE)
    app.add_typer(made, name=name, help=words)
    return made


def this_command() -> str:
    """The command line as a person would type it again."""
    program = ["python", "-m", "ptb_tui"] if sys.argv[0].endswith("__main__.py") else ["ptb-tui"]
    return shlex.join([*program, *ARGV])


@dataclass(slots=True)
class Call:
    """One verb being carried out."""

    common: Common
    out: Output

    def settings(self) -> Settings:
        """What is configured. ConfigError names file and place."""
        from ptb_tui.core.settings import load

        results, extra = self.common.roots
        return load(env_file=self.common.env_file, results=results, extra=extra)

    @contextlib.asynccontextmanager
    async def site(self, run: str = "") -> AsyncIterator[tuple[Site, str]]:
        """The site that is meant, with the run as that site names it; closed afterwards."""
        name, rest = split_run(run, self.common.site)
        if OPENER is not None:
            opener = OPENER
        else:
            from ptb_tui.site.open import open_site as opener
        site = await opener(self.settings(), name)
        try:
            yield site, rest
        finally:
            await site.close()

    async def show(self, query: Query, printer: Callable[[Output, Any], None], run: str = "") -> Any:
        """Ask, and show the answer: as one object, or by `printer`. Returns the answer."""
        async with self.site(run) as (site, name):
            answer: Any = await site.ask(query.model_copy(update={"run": name}) if run else query)
        if self.out.as_json:
            self.out.record(answer.model_dump(mode="json"))
        else:
            printer(self.out, answer)
        return answer

    async def do(self, run: str, make: Callable[[str], Action], *, wait: bool = False) -> int:
        """Do one action, after a question if it has one, and show its receipt; `wait` for the runs it concerned."""
        async with self.site(run) as (site, name):
            receipt = await self._done(site, name, make(name))
            if not wait:
                return 0
            from ptb_tui.batch import wait_for

            return await wait_for(site, [ref.id for ref in receipt.runs], self.out)

    async def do_each(self, runs: Sequence[str], make: Callable[[str], Action], *, wait: bool = False) -> int:
        """Do one action for each run, one after the other; an error of one of several is said and stops none. Exit code
        of the first error, else of the wait."""
        done: dict[str, list[int]] = {}
        works: list[tuple[str, int]] = []

        async def one(run: str) -> None:
            async with self.site(run) as (site, name):
                receipt = await self._done(site, name, make(name))
                if receipt.work is not None:
                    works.append((run, receipt.work))
                done.setdefault(run if ":" in run else "", []).extend(ref.id for ref in receipt.runs)

        code = await self._each(runs, one)
        for run, number in works if wait else ():
            from ptb_tui.cli.follow import follow

            async with self.site(run) as (site, _):
                code = await follow(site, number, self.out) or code
        for run, ids in done.items() if wait else ():
            from ptb_tui.batch import wait_for

            async with self.site(run) as (site, _):
                code = await wait_for(site, ids, self.out) or code
        return code

    async def show_each(
        self, runs: Sequence[str], make: Callable[[str], Query], printer: Callable[[Output, Any], None]
    ) -> int:
        """Ask about each run and show each answer; errors as `do_each`."""

        async def one(run: str) -> None:
            async with self.site(run) as (site, name):
                answer: Any = await site.ask(make(name))
            printer(self.out, answer)

        return await self._each(runs, one)

    async def _each(self, runs: Sequence[str], one: Callable[[str], Awaitable[None]]) -> int:
        from ptb_tui.core.errors import PtbError
        from ptb_tui.present.failure import tell

        code = 0
        for number, run in enumerate(runs, 1):
            if len(runs) > 1 and not self.out.as_json:
                self.out.note(f"{number}/{len(runs)} {run}")
            try:
                await one(run)
            except PtbError as error:
                if len(runs) == 1:
                    raise
                said = tell(self.out, error)
                code = code or said
        return code

    async def work(self, make: Callable[[], Action], *, detach: bool) -> int:
        """Do one action whose work goes on at the site, and watch it until it ends unless `detach`."""
        async with self.site() as (site, name):
            receipt = await self._done(site, name, make())
            if detach or receipt.work is None:
                return 0
            from ptb_tui.cli.follow import follow

            return await follow(site, receipt.work, self.out)

    async def once(self, action: Action) -> Receipt:
        """Do one action that names its runs itself, and show its receipt. Returns the receipt."""
        async with self.site() as (site, name):
            return await self._done(site, name, action)

    async def _done(self, site: Site, run: str, action: Action) -> Receipt:
        """The receipt of an action, shown; UsageError when its question is not answered with yes."""
        from ptb_tui.core.action import REGISTRY
        from ptb_tui.present import prompt, report

        operator = self.settings().operator
        question = REGISTRY[type(action)].confirm.format(run=run)
        ask = question and not self.common.yes and prompt.can_ask(self.out)
        if ask and not await prompt.confirmed(self.out, question):
            raise UsageError("not confirmed; nothing was done", hint="--yes asks nothing")
        receipt = await site.do(action.model_copy(update={"operator": operator}), os.urandom(16).hex())
        if self.out.as_json:
            self.out.record({"kind": "receipt", **receipt.model_dump(mode="json")})
        else:
            report.receipt(self.out, receipt)
        return receipt


def verb(*groups: typer.Typer, name: str = "") -> Callable[[Body], Body]:
    """Register a verb in each group under its own or another name."""

    def register(body: Body) -> Body:
        for group in groups:
            group.command(name or body.__name__)(declare(body, _carry_out(body)))
        return body

    return register


def leads(group: typer.Typer, quick: Quick | None = None) -> Callable[[Body], Body]:
    """Register what a group does when no verb follows; `quick` may do it without the event loop and a site."""

    def register(body: Body) -> Body:
        group.callback(invoke_without_command=True)(declare(body, _carry_out(body, quick)))
        return body

    return register


def _carry_out(body: Body, quick: Quick | None = None) -> Callable[[typer.Context, Common, dict[str, Any]], None]:
    def run(ctx: typer.Context, common: Common, values: dict[str, Any]) -> None:
        if quick is not None and quick(common, values):
            return
        import asyncio

        from ptb_tui.present.output import Output

        raise typer.Exit(asyncio.run(body(Call(common, Output(as_json=common.json)), **values)))

    return run
