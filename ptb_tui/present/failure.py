"""The last line of defence of a front end: an error is one line and a hint, and the exit code of its class.

Tracebacks go to a file that is named; a reader that went away and Ctrl-C are no errors.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Any

from ptb_tui.core.errors import Detached, PtbError, StorageError, UsageError
from ptb_tui.present.output import Output, ReaderGone


def guarded(run: Callable[[], Any], usage_mistake: type[Exception], as_json: bool) -> int:
    """Run a command line; its exit code, whatever happened. `usage_mistake` is what the argument parser raises."""
    out = Output(as_json=as_json)
    try:
        return _attempt(run, usage_mistake, out)
    except (ReaderGone, BrokenPipeError):
        return 0
    finally:
        _flush(out)


def _attempt(run: Callable[[], Any], usage_mistake: type[Exception], out: Output) -> int:
    try:
        code = run()
        return code if isinstance(code, int) else 0
    except PtbError as error:
        return tell(out, error)
    except usage_mistake as error:
        words = str(error.format_message() if hasattr(error, "format_message") else error).rstrip(".")
        return tell(out, UsageError(words or "that is not a command", hint=_help_of(error)))
    except KeyboardInterrupt:
        return tell(out, Detached("interrupted", hint="runs go on: ptb-tui runs"))
    except (ReaderGone, BrokenPipeError):
        raise
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # typer's own way out when it prints help into a closed pipe
            raise ReaderGone from None
        return error.code if isinstance(error.code, int) else 1
    except Exception as error:  # the top of the program: nothing may reach the user as a traceback
        if type(error).__name__ == "Abort":
            return tell(out, Detached("interrupted", hint="runs go on: ptb-tui runs"))
        if isinstance(error, OSError) and error.filename is None and error.errno in _FULL:
            return tell(out, StorageError(f"stdout: {error.strerror}", hint="make room, or write elsewhere"))
        return tell(out, _unexpected(error))


def _help_of(error: Exception) -> str:
    """The help of the verb whose arguments were wrong, as far as the parser came."""
    command = getattr(getattr(error, "ctx", None), "command_path", "") or "ptb-tui"
    return f"{command} --help"


_FULL = (28, 5, 122)  # ENOSPC, EIO, EDQUOT


def tell(out: Output, error: PtbError) -> int:
    """Show an error: a line and a hint on stderr, or one object on stdout with `--json`. Returns its exit code."""
    if out.as_json:
        out.record({"error": {**error.to_wire(), "exit_code": error.exit_code}})
        return error.exit_code
    out.note(f"{error.title}: {error.message}")
    if error.hint:
        out.note(f"  {error.hint}")
    return error.exit_code


def _unexpected(error: Exception) -> PtbError:
    import tempfile
    import traceback

    words = f"{type(error).__name__}: {error}"
    try:
        fd, path = tempfile.mkstemp(prefix="ptb-tui-", suffix=".txt")
        with os.fdopen(fd, "w", encoding="utf-8", errors="replace") as file:
            traceback.print_exception(error, file=file)
    except OSError:
        return PtbError(words, hint="this is a mistake in ptb-tui; the traceback could not be written")
    return PtbError(words, hint=f"this is a mistake in ptb-tui; the traceback is in {path}")


def _flush(out: Output) -> None:
    """Flush here, so that the interpreter does not complain about closed pipes and terminals on its way out."""
    for stream in (out.stdout, out.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with contextlib.suppress(OSError, ValueError):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, stream.fileno())
