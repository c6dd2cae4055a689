"""The scorer of the final evaluation of HumanEval: an answer never shares a process with the tests (E §1.7.3)."""

import asyncio
import atexit
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Dict, Optional, Tuple

ANSWERS = str(Path(__file__).resolve().parent / "answers")
LIMIT_S = 30.0
_RIGHT, _HARNESS = 0, 3


class CheckFailed(RuntimeError):
    """The check itself could not be done: no verdict about the answer."""


def check(problem: Dict[str, Any], code: str, path: str, limit_s: float = LIMIT_S) -> Tuple[bool, str]:
    """Whether the answer passes the tests, and why not. CheckFailed.

    `problem` has prompt, test and entry_point; `path` is the socket of an answer server. The tests go to the checker
    on its standard input, so that no command line shows them.
    """
    payload = json.dumps({**problem, "code": code, "socket": path})
    program = "import sys\nsys.path.insert(0, {!r})\nimport checker\nsys.exit(checker.main({!r}))\n"
    child = subprocess.Popen(
        [sys.executable, "-I", "-B", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        out, words = child.communicate(program.format(ANSWERS, payload).encode("utf-8"), limit_s)
    except subprocess.TimeoutExpired:
        child.kill()
        out, words = child.communicate()
        if out.startswith(b"served"):
            return False, "no result within {:g} s".format(limit_s)
        raise CheckFailed("the answer server did not take the connection within {:g} s".format(limit_s)) from None
    said = words.decode("utf-8", "replace").strip()[-500:]
    if child.returncode in (_HARNESS, -9) or not out.startswith(b"served"):
        raise CheckFailed("checker ended with {}: {}".format(child.returncode, said))
    return child.returncode == _RIGHT, said


class Service:
    """One answer server for a whole evaluation, asked by one check at a time: an answer's time is its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._box: Optional[Any] = None

    def _path(self) -> str:
        if self._box is None:
            sys.path.insert(0, ANSWERS)
            import box

            try:
                self._box = box.open_box(os.environ)
            except box.BoxFailed as error:
                raise CheckFailed("the answer server: {}".format(error)) from error
            atexit.register(self._box.close)
        return str(self._box.path)

    def check(self, problem: Dict[str, Any], code: str) -> Tuple[bool, str]:
        """See `check`. CheckFailed, which the log says in the words of a sandbox that failed."""
        with self._lock:
            try:
                return check(problem, code, self._path())
            except CheckFailed as error:
                print("[ptb] sandbox: no verdict on an answer: {}".format(error), file=sys.stderr, flush=True)
                raise


def answer_scorer() -> Any:
    """Right when the tests, which call the answer over a socket, pass."""
    import humaneval_task
    from inspect_ai.scorer import CORRECT, INCORRECT, Score, accuracy, scorer, stderr

    service = Service()

    @scorer(metrics=[accuracy(), stderr()], name="answer_sandbox")
    def checked_apart() -> Any:
        async def score(state: Any, target: Any) -> Any:
            answer = humaneval_task.find_code(state.output.completion)
            problem = {name: state.metadata[name] for name in ("prompt", "test", "entry_point")}
            right, why = await asyncio.to_thread(service.check, problem, problem["prompt"] + answer)
            return Score(value=CORRECT if right else INCORRECT, answer=answer, explanation=why)

        return score

    return checked_apart()
