"""A stand-in for the CLI of engine `codex`, in a store as the site has one.

It reads the prompt as the CLI does, tells what it sees, and then does what a test says: `act` is Python in which
`verdict(**changes)` writes the file that was asked for, and `say(text)` prints an event.
"""

from __future__ import annotations

import json
from pathlib import Path

from ptb_tui.supplies.store import Installed, Store

VERSION = "0.144.5"
PROGRAM = '''#!/usr/bin/env python3
import json, os, re, sys, urllib.error, urllib.request

prompt = sys.stdin.read()
nonce = re.search(r'"nonce": "([0-9a-f]+)"', prompt)[1]
place = re.search(r"write one file, `([^`]+)`", prompt)[1]
flags = re.findall(r'"([a-z_]+)": <true or false>', prompt)


def say(text):
    item = {"id": "item_0", "type": "agent_message", "text": text}
    print(json.dumps({"type": "item.completed", "item": item}), flush=True)


def verdict(**changes):
    fields = {"nonce": nonce, **dict.fromkeys(flags, False)}
    fields.update(("justification_" + flag, "seen in solve_out.txt:1") for flag in flags)
    with open(place, "w") as file:
        json.dump({**fields, **changes}, file)


def ask(url, data=None):
    """Status of a request, through the proxy where the environment names one."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data), timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""
    except OSError as error:
        return 0, str(error)


def tree(top):
    return sorted(os.path.relpath(os.path.join(at, name), top) for at, _, names in os.walk(top) for name in names)


print(json.dumps({"type": "thread.started", "thread_id": "t"}), flush=True)
home = os.environ["HOME"]
seen = {
    "argv": [os.path.realpath(__file__), *sys.argv[1:]], "cwd": os.getcwd(), "here": os.listdir("."),
    "env": dict(os.environ), "home": tree(home), "evidence": tree("/evidence"), "prompt": prompt,
    "config": open(home + "/.codex/config.toml").read(),
}
if os.path.exists(home + "/.codex/auth.json"):
    seen["login"] = json.load(open(home + "/.codex/auth.json"))
say("SEEN " + json.dumps(seen))
'''
END = """
usage = {"input_tokens": 1200, "cached_input_tokens": 1000, "output_tokens": 40}
print(json.dumps({"type": "turn.completed", "usage": usage}), flush=True)
"""


def install(store: Path, act: str) -> None:
    """Put the stand-in into a store, in the version that the shipped judges name."""
    name = f"{VERSION}-{'0' * 12}"
    program = store / "codex" / name / "bin" / "codex"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(PROGRAM + act + END)
    program.chmod(0o755)
    Store(store).publish(Installed(cli="codex", name=name, version=VERSION, digest="0" * 64, said="stand-in"))


def seen(output: Path) -> dict[str, object]:
    """What the stand-in saw, from the output that was kept."""
    for line in output.read_text().splitlines():
        text = str((json.loads(line).get("item") or {}).get("text", ""))
        if text.startswith("SEEN "):
            found: dict[str, object] = json.loads(text.removeprefix("SEEN "))
            return found
    raise AssertionError(f"the stand-in said nothing: {output.read_text()[-2000:]}")
