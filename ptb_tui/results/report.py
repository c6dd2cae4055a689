"""The report: one HTML file that needs nothing else, and the same as Markdown. Plots and style are inline, no script
runs, nothing is fetched, and every text from a run is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from ptb_tui.core import clock, files
from ptb_tui.core.errors import StorageError
from ptb_tui.core.scores import Board, GroupScore
from ptb_tui.present import numbers
from ptb_tui.present.runs import short_model
from ptb_tui.results.markdown import bounds, cost, flags, markdown, tokens
from ptb_tui.results.plots import Bar, Mark, bars, points, text

FILES = ("report.html", "report.md")
_FLAGS = (("M", "disallowed model"), ("C", "contamination"), ("A", "hosted API"), ("quarantined", "quarantined"))
_STYLE = """
:root { color-scheme: light dark; --ink: #1c2330; --soft: #5d6676; --line: #d9dde4; --paper: #fff; --mark: #2457c5;
  --m: #7b3fa0; --c: #c2452d; --a: #b8860b; --q: #6b7280; --good: #2e7d4f; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ef; --soft: #9aa3b2; --line: #353c48; --paper: #14181f;
  --mark: #7fa7ff; --m: #b98ad6; --c: #ef8069; --a: #e0b54a; --q: #9ca3af; --good: #6fc493; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem auto;
  max-width: 78rem; padding: 0 1.5rem; }
h1 { font-size: 1.5rem; margin-bottom: .2rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
p, li { max-width: 60rem; } .soft { color: var(--soft); }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .87rem; }
th, td { padding: .28rem .7rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
th { color: var(--soft); font-weight: 600; } th, td:first-child { white-space: nowrap; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
svg { max-width: 100%; height: auto; font: 13px system-ui, sans-serif; }
svg .grid { stroke: var(--line); } svg .tick, svg .value { fill: var(--soft); } svg .label { fill: var(--ink); }
svg .faint { fill: var(--soft); } svg .dot { fill: var(--mark); } svg .dot.faint { fill: var(--soft); }
svg .whisker { stroke: var(--mark); stroke-width: 2; }
svg .hollow { fill: none; stroke: var(--soft); stroke-width: 1.5; }
svg .m { fill: var(--m); } svg .c { fill: var(--c); } svg .a { fill: var(--a); } svg .quarantined { fill: var(--q); }
svg .time { fill: var(--mark); } svg .agree { fill: var(--good); } svg .differ { fill: var(--c); }
.key span { display: inline-block; width: .8em; height: .8em; margin: 0 .35em 0 1em; vertical-align: -.05em; }
.key .m { background: var(--m); } .key .c { background: var(--c); } .key .a { background: var(--a); }
.key .quarantined { background: var(--q); }
.key .agree { background: var(--good); } .key .differ { background: var(--c); }
""".strip()


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[int] = ()) -> str:
    """An HTML table; cells are plain text and escaped here."""
    kinds = ['class="n"' if number in set(right) else "" for number in range(len(columns))]

    def line(tag: str, cells: Sequence[str]) -> str:
        opened = [f"<{tag} {kind}>" if kind else f"<{tag}>" for kind in kinds]
        inner = "".join(f"{o}{text(cell, 400)}</{tag}>" for o, cell in zip(opened, cells, strict=True))
        return f"<tr>{inner}</tr>"

    body = "\n".join(line("td", row) for row in rows)
    return f'<div class="wide"><table><thead>{line("th", columns)}</thead><tbody>\n{body}\n</tbody></table></div>'


def _leaderboard(board: Board) -> str:
    columns = ("Row", "Score", "Std", "n", "95 % interval", "Raw", "Cells that count", "Flags", "Time", "Cost",
               "Tokens", "Notes")  # fmt: skip
    rows = [
        (
            row.name,
            numbers.score(row.score),
            numbers.score(row.std),
            str(row.n),
            bounds(row),
            numbers.score(row.raw_score),
            f"{row.counted} of {row.cells}",
            flags(row),
            numbers.duration(row.seconds),
            cost(row),
            tokens(row),
            "; ".join(words for words in (row.reason, *row.marks) if words),
        )
        for row in board.groups
    ]
    return table(columns, rows, (1, 2, 3, 4, 5, 6, 8, 9, 10))


def _score_plot(board: Board) -> str:
    scored = [row for row in (*board.groups, *board.references) if row.score is not None]
    scored.sort(key=lambda row: (-(row.score or 0.0), row.published, row.name))
    marks = [
        Mark(
            row.name,
            row.score,
            row.low,
            row.high,
            row.raw_score if row.raw_score != row.score else None,
            numbers.score(row.score) + (f", n = {row.n}" if row.n else ""),
            row.published,
        )
        for row in scored
    ]
    return points(marks, lambda value: f"{value * 100:g} %", "Scores with 95 % intervals")


def _time_plot(rows: Sequence[GroupScore]) -> str:
    shown = [
        Bar(row.name, [(row.seconds / 3600, "time")], numbers.duration(row.seconds)) for row in rows if row.seconds
    ]
    return bars(shown, lambda value: f"{value:g} h", "Mean time of the agent") if shown else ""


def _flag_plot(rows: Sequence[GroupScore]) -> str:
    shown = []
    for row in rows:
        parts = [(float(row.letters.get(letter, 0)), letter.lower()) for letter, _ in _FLAGS]
        shown.append(Bar(row.name, parts, f"{flags(row)} of {numbers.count(row.cells, 'cell')}"))
    return bars(shown, lambda value: f"{value:g}", "Cells with flags")


def _agreement_plot(rows: Sequence[GroupScore]) -> str:
    shown = []
    for row in rows:
        agreed, several = row.agreement
        if several:
            share = agreed / several
            words = f"{agreed} of {several}"
            shown.append(Bar(row.name, [(share * 100, "agree"), ((1 - share) * 100, "differ")], words))
    return bars(shown, lambda value: f"{value:g} %", "Agreement of judges", top=100) if shown else ""


def _key(*entries: tuple[str, str]) -> str:
    return '<p class="key soft">' + "".join(f'<span class="{kind}"></span>{words}' for kind, words in entries) + "</p>"


def _weights(board: Board) -> str:
    scored = [row for row in board.groups if row.other_weights]
    if not scored:
        return ""
    kinds = list(scored[0].other_weights)
    rows = [
        (row.name, numbers.score(row.score), *(numbers.score(row.other_weights.get(kind)) for kind in kinds))
        for row in scored
    ]
    return table(("Row", "Score", *kinds), rows, range(1, len(kinds) + 2))


def _cells(board: Board) -> str:
    rows = [
        (
            cell.method,
            cell.benchmark,
            short_model(cell.model),
            numbers.score(cell.used),
            numbers.score_error(cell.raw, cell.stderr),
            f"{cell.worth.value} {cell.letters}".strip(),
            str(cell.run_id) if cell.run_id is not None else "",
            ", ".join(map(str, cell.other_runs)),
            cell.reason,
        )
        for method in board.methods
        for cell in method.cells
    ]
    columns = ("Method", "Task", "Model", "Used", "Measured", "Worth", "Run", "Other runs", "Why")
    return table(columns, rows, (3, 4))


def _list(lines: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{text(line, 400)}</li>" for line in lines) + "</ul>"


def _scores(board: Board) -> str:
    kinds = sorted({row.interval for row in board.groups if row.interval})
    over = f" over {text('; or over '.join(kinds))}" if kinds else ""
    words = f"Dot: the score. Line: its 95 % interval{over}. Circle: the raw score, as if no judge had spoken."
    grey = " Grey: published, without runs here." if board.references else ""
    return f'{_score_plot(board)}<p class="soft">{words}{grey}</p>'


def _flags(board: Board) -> str:
    return _flag_plot(board.groups) + _key(*((name.lower(), words) for name, words in _FLAGS))


def _agreement(board: Board) -> str:
    plot = _agreement_plot(board.groups)
    if not plot:
        return "<p>No verdict of these runs was given more than once.</p>"
    return plot + _key(("agree", "all votes and reruns of a judge agree"), ("differ", "they differ"))


def _published(board: Board) -> str:
    rows = [
        (row.name, numbers.score(row.score), numbers.score(row.std), str(row.n or numbers.UNKNOWN),
         numbers.duration(row.seconds))
        for row in board.references
    ]  # fmt: skip
    return table(("Row", "Score", "Std", "n", "Time"), rows, range(1, 5)) if rows else ""


def html(board: Board, made: str = "") -> str:
    """The whole page; `made` is when, in words."""
    missing = [f"{row.name}: {words}" for row in board.groups for words in row.missing]
    parts = [
        ("Leaderboard", _leaderboard(board)),
        ("Scores", _scores(board)),
        ("Time spent", _time_plot(board.groups)),
        ("Contamination and other flags", _flags(board)),
        ("Agreement between judges", _agreement(board)),
        ("How much the score depends on the weights", _weights(board)),
        ("Cells that do not count", _list(missing) if missing else ""),
        ("Cells", _cells(board)),
        ("Published references", _published(board)),
        ("Problems", _list(board.problems) if board.problems else ""),
    ]
    body = "\n".join(f"<h2>{title}</h2>\n{inner}" for title, inner in parts if inner)
    title = f"Scores · protocol {text(board.protocol)}"
    about = f"Policy {text(board.policy)}; {len(board.methods)} methods{f'; made {text(made)}' if made else ''}."
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta name="viewport" '
        f'content="width=device-width, initial-scale=1">\n<meta http-equiv="Content-Security-Policy" '
        f"content=\"default-src 'none'; style-src 'unsafe-inline'\">\n<title>{title}</title>\n<style>\n{_STYLE}\n"
        f'</style>\n</head>\n<body>\n<h1>{title}</h1>\n<p class="soft">{about}</p>\n{body}\n</body>\n</html>\n'
    )


def write_report(folder: Path, board: Board) -> tuple[str, ...]:
    """Write `report.html` and `report.md` into a folder, which is made. StorageError when it cannot be written."""
    files.ensure_writable(folder, "the folder for the report", "--report")
    pages = dict(zip(FILES, (html(board, clock.utc_text()), markdown(board)), strict=True))
    for name, page in pages.items():
        try:
            files.replace(folder / name, page)
        except OSError as error:
            raise StorageError(f"{folder / name} cannot be written: {error.strerror}") from error
    return tuple(f"{folder}/{name}" for name in FILES)
