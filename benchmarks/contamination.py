"""Speed, memory and false alarms of the contamination checker: `python -m benchmarks.contamination [MB]`, from the root
of the repository.

Made for it are 1,319 items of the size of GSM8K's and three corpora: `unlike`, records of random words; `alike`, school
problems with the vocabulary of the items, which is the hard case for speed; and the texts of this Python's own modules.
The peers run in the same process on the same bytes: a pass of `json.loads` over the lines, and cl100k tokens of
everything (with `bpe_openai`), which is what the compat mode cannot do without. Seconds are of processor time, of the
whole command too: what N processes do on N idle cores, without the start and the self-test. False alarms are counted in
what cannot hold an item, so each is one; `alike` may by chance ask what an item asks, with other numbers.
"""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from ptb_tui.judging.engines.rules_data import load_tool

TOOLS = Path(__file__).parents[1] / "judges" / "tools"
NAMES = [
    "Anton",
    "Berta",
    "Clara",
    "David",
    "Emil",
    "Frida",
    "Greta",
    "Hugo",
    "Ines",
    "Jonas",
    "Klara",
    "Linus",
    "Mila",
    "Nora",
    "Oskar",
    "Paula",
]
THINGS = [
    "apples",
    "cards",
    "keys",
    "stamps",
    "marbles",
    "tickets",
    "bottles",
    "pencils",
    "coins",
    "shells",
    "rolls",
    "bulbs",
    "bricks",
    "lamps",
]
VERBS = [
    "buys",
    "sells",
    "finds",
    "loses",
    "packs",
    "counts",
    "carries",
    "hides",
    "plants",
    "mends",
    "paints",
    "borrows",
]
PLACES = [
    "market",
    "harbour",
    "garden",
    "library",
    "station",
    "kitchen",
    "workshop",
    "bakery",
    "school",
    "museum",
    "forest",
    "cellar",
]
TIMES = [
    "every morning",
    "each weekend",
    "before lunch",
    "after school",
    "during the holiday",
    "on the first day of the month",
]
ASKS = [
    "How many {t} are left in the {p} at the end?",
    "How much money does {n} have after the whole week?",
    "What is the total number of {t} that {n} and {m} own together?",
    "How many days does it take until the {p} is full?",
]
COUNT = 1319


def problem(rng: random.Random) -> dict[str, str]:
    """A school problem of three or four sentences, about 240 characters."""
    n, m, t, p = rng.choice(NAMES), rng.choice(NAMES), rng.choice(THINGS), rng.choice(PLACES)
    said = []
    for _ in range(rng.randrange(2, 4)):
        who, what, where = rng.choice((n, m)), rng.choice(THINGS), rng.choice(PLACES)
        said.append(rng.choice((
            f"{who} {rng.choice(VERBS)} {rng.randrange(2, 400)} {what} in the {where} {rng.choice(TIMES)}.",
            f"{rng.choice(TIMES).capitalize()} the {where} gives {who} {rng.randrange(2, 90)} {what} for "
            f"{rng.randrange(2, 30)} dollars.",
            f"{what} cost ${rng.randrange(2, 60)} and {who} {rng.choice(VERBS)} {rng.randrange(2, 50)} of them.",
        )))  # fmt: skip
    asked = rng.choice(ASKS).format(n=n, m=m, t=t, p=p)
    steps = (f"{rng.choice((n, m))} {rng.choice(VERBS)} {rng.randrange(900)} {rng.choice(THINGS)}" for _ in range(6))
    answer = ". ".join(f"{step}, that is {rng.randrange(90)}*{rng.randrange(90)}" for step in steps)
    return {"question": " ".join(said) + " " + asked, "answer": f"{answer}\n#### {rng.randrange(5000)}"}


def corpora(folder: Path, size: int) -> dict[str, Path]:
    """Files of `size` bytes: records of random words, and of school problems."""
    rng = random.Random(3)
    letters = "etaoinshrdlucmfwypvbgk"
    vocabulary = ["".join(rng.choice(letters) for _ in range(rng.randrange(2, 10))) for _ in range(30_000)]
    made = {"unlike": folder / "unlike.jsonl", "alike": folder / "alike.jsonl"}
    with made["unlike"].open("w") as file:
        while file.tell() < size:
            text = " ".join(rng.choice(vocabulary) for _ in range(70))
            file.write(json.dumps({"prompt": text[:300], "completion": text[300:] + f", {rng.randrange(999)}."}) + "\n")
    with made["alike"].open("w") as file:
        while file.tell() < size:
            one = problem(rng)
            chat = [{"role": "user", "content": one["question"]}, {"role": "assistant", "content": one["answer"]}]
            file.write(json.dumps({"messages": chat}) + "\n")
    return made


def timed(work: Callable[[], object]) -> float:
    """Processor seconds of the best of two."""
    best = float("inf")
    for _ in range(2):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def peers(path: Path, size: float) -> float:
    """Print the peers' speeds on a file; returns that of `json.loads`."""
    lines = path.read_text().splitlines()
    plain = size / timed(lambda: [json.loads(line) for line in lines])
    print(f"  peer: json.loads of every line        {plain:7.1f} MB/s")
    try:
        import bpe_openai
    except ImportError:
        return plain
    encode = bpe_openai.get_encoding("cl100k_base").encode_ordinary
    some = lines[: max(1, len(lines) // 8)]
    share = size * sum(map(len, some)) / max(1, sum(map(len, lines)))
    print(f"  peer: cl100k tokens of everything     {share / timed(lambda: [encode(line) for line in some]):7.1f} MB/s")
    return plain


def command(reference: Path, path: Path, *more: str) -> tuple[float, int, Counter[str], str]:
    """(processor seconds of all its processes, documents, kinds of the hits, peak memory) of the real command."""
    script = str(TOOLS / "contamination_check.py")
    code = (
        f"import resource, runpy, sys\ntry: runpy.run_path({script!r}, run_name='__main__')\nfinally:\n"
        " own = [int(line.split()[1]) >> 10 for line in open('/proc/self/status') if line.startswith('VmHWM')][0]\n"
        " other = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10\n"
        " print(f'peak {own} MB, of its processes {other} MB each', file=sys.stderr)"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    argv = [sys.executable, "-c", code, "-r", str(reference), "-i", str(path), *more]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if done.returncode > 1:
        raise SystemExit(done.stderr)
    kinds: Counter[str] = Counter()
    for line in done.stdout.splitlines():
        kinds.update({match.get("kind", "compat") for match in json.loads(line)["matches"]})
    said = done.stderr.strip().splitlines()
    documents = int(next(line for line in said if line.startswith("documents")).split(":")[1].split(",")[0])
    return took, documents, kinds, next(line for line in said if line.startswith("peak"))


def alarms(documents: int, kinds: Counter[str]) -> str:
    """False alarms for a million documents, by kind."""
    found = ", ".join(f"{kind} {count * 1e6 / max(1, documents):.0f}" for kind, count in sorted(kinds.items()))
    return f"{found or '0'} in a million ({documents} documents)"


def main() -> None:
    """Print everything."""
    size = (int(sys.argv[1]) if len(sys.argv) > 1 else 24) << 20
    cores = len(os.sched_getaffinity(0))
    load = os.getloadavg()[0]
    print(f"{COUNT} items, corpora of {size >> 20} MB, {cores} cores, load {load:.1f} before the start")
    rng = random.Random(1)
    items = [problem(rng) for _ in range(COUNT)]
    checker = load_tool(TOOLS, "contamination_check")
    start = time.process_time()
    index = checker.StrictIndex(items)
    missed = index.self_test()
    print(f"index and self-test: {time.process_time() - start:.1f} s, {len(missed)} items missed")
    with tempfile.TemporaryDirectory() as base:
        reference = Path(base) / "reference.json"
        reference.write_text(json.dumps(items))
        nothing = Path(base) / "nothing.jsonl"
        nothing.write_text("")
        idle = command(reference, nothing)[0]
        for name, path in corpora(Path(base), size).items():
            print(f"{name}:")
            real = path.stat().st_size
            plain = peers(path, real / 1e6)

            def all_of_it(path: Path = path) -> None:
                for piece in checker.pieces(str(path), 1 << 40):
                    checker.search_piece(index, piece, 1 << 40)

            alone = real / 1e6 / timed(all_of_it)
            print(f"  strict, one process                   {alone:7.1f} MB/s, {alone / plain:.2f} of json.loads")
            took, documents, kinds, peak = command(reference, path)
            speed = cores * real / 1e6 / max(0.001, took - idle)
            print(
                f"  strict, the command, {cores} processes       {speed:7.1f} MB/s after {idle:.1f} s to start; {peak}"
            )
            print(f"  false alarms: {alarms(documents, kinds)}")
            small = Path(base) / "part.jsonl"
            with path.open("rb") as file:
                small.write_bytes(file.read(1 << 21).rpartition(b"\n")[0] + b"\n")
            took, documents, kinds, _ = command(reference, small, "--mode", "compat")
            rate = small.stat().st_size / 1e6 / took
            print(f"  compat, 2 MB with start               {rate:7.1f} MB/s; {alarms(documents, kinds)}")
        library = sysconfig.get_path("stdlib")
        took, documents, kinds, peak = command(reference, Path(library))
        print(f"modules of Python: {took:.1f} s; false alarms: {alarms(documents, kinds)}; {peak}")
    print(f"peak of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MB")


if __name__ == "__main__":
    main()
