"""In a network namespace of its own: a model that judges by a script, for the real CLI of engine codex; then a command.

    unshare --net python -m tests.realcli.judge_model PORT LOG COMMAND [ARGUMENT …]

Spoken is OpenAI's Responses API, as the CLI uses it for the models that judge: one free-form tool that runs JavaScript.
The number, the place and the flags come from the prompt, as with a real model. `LOG` gets each request with its body.

    POST /<scenario>/v1/chat/completions   for engine openai_api: `tests.judging.chat`
    POST /<scenario>/v1/responses     judge: runs one command that writes the verdict · silent: says that it is done
                                      tell: also prints its environment · 401: refuses

With PTB_TEST_LOGIN a login whose access token has ended is put there, and the vendor that renews it runs here too; what
it was asked goes to LOG.vendor.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import uuid
from pathlib import Path
from typing import Any

from tests.judging.chat import answer
from tests.realcli import answers
from tests.realcli.answers import Reply
from tests.realcli.endpoint import Endpoint, Handler
from tests.realcli.inside import loopback_up
from tests.supplies.vendor import Vendor

WRITE = """
import json
flags = {flags!r}
fields = {{"nonce": {nonce!r}, **dict.fromkeys(flags, False)}}
fields.update(("justification_" + flag, "solve_out.txt:1 shows nothing else") for flag in flags)
json.dump(fields, open({place!r}, "w"))
"""
LOOK = "env | sort; pwd; ls -A; ls /evidence; cat /evidence/task/AGENTS.md"


def texts(value: Any) -> str:
    """Everything that a request says, as one text."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(map(texts, value))
    return texts(list(value.values())) if isinstance(value, dict) else ""


def script(said: str, scenario: str) -> str:
    """The JavaScript that a model would send: look around, then write what the prompt asks for."""
    nonce = re.search(r'"nonce": "([0-9a-f]+)"', said)
    place = re.search(r"write one file, `([^`]+)`", said)
    assert nonce is not None and place is not None
    flags = list(dict.fromkeys(re.findall(r'"([a-z_]+)": <true or false>', said)))
    program = WRITE.format(flags=flags, nonce=nonce[1], place=place[1])
    shell = f"{LOOK if scenario == 'tell' else 'true'}; python3 - <<'END'\n{program}END\ncat {place[1]}"
    return f"text(await tools.exec_command({{cmd: {json.dumps(shell)}}}));"


def call(code: str, model: str) -> Reply:
    """A free-form call of the tool `exec`."""
    name = uuid.uuid4().hex[:20]
    item = {"id": f"ctc_{name}", "type": "custom_tool_call", "name": "exec", "call_id": f"call_{name}", "input": code,
            "status": "completed"}  # fmt: skip
    base = {"id": f"resp_{name}", "object": "response", "created_at": 1, "model": model}
    usage = {
        "input_tokens": answers.INPUT,
        "input_tokens_details": {"cached_tokens": answers.CACHED},
        "output_tokens": answers.OUTPUT,
        "output_tokens_details": {"reasoning_tokens": 10},
        "total_tokens": answers.INPUT + answers.OUTPUT,
    }
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**base, "status": "in_progress"}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {**base, "status": "completed", "output": [item], "usage": usage}},
    ]
    return Reply(events=tuple((e["type"], json.dumps({**e, "sequence_number": n})) for n, e in enumerate(events)))


class Model(Handler):
    """One connection to the scripted model."""

    def do_POST(self) -> None:
        """The script."""
        body = self._body()
        scenario = self.path.strip("/").partition("/")[0]
        chat = self.path.endswith("/chat/completions")
        assert self.server.log is not None
        with self.server.lock, open(self.server.log, "a", encoding="utf-8") as file:
            line = {"path": self.path, "headers": dict(self.headers.items()), "body": body}
            file.write(json.dumps(line) + "\n")
        if chat:
            status, data = answer(scenario, body)
            self._send(Reply(status, json.loads(data)))
            return
        if scenario.isdigit():
            self._send(Reply(int(scenario), {"error": {"message": "no", "type": "refused", "code": "refused"}}))
            return
        asked = answers.read("responses", body, True)
        if asked.answered or scenario == "silent":
            self._send(answers.write("responses", asked, "", ""))
        else:
            self._send(call(script(texts(body.get("input")), scenario), asked.model))


def main(argv: list[str]) -> int:
    """See above."""
    loopback_up()
    server = Endpoint(int(argv[0]), Path(argv[1]))
    server.RequestHandlerClass = Model
    threading.Thread(target=server.serve_forever, daemon=True).start()
    place = os.environ.get("PTB_TEST_LOGIN")
    with Vendor() as vendor:
        if place:
            Path(place).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            Path(place).write_bytes(vendor.login(-5))
            with open(".env", "a", encoding="utf-8") as file:
                file.write(f"POST_TRAIN_BENCH_TOKEN_URL_CODEX={vendor.url}\n")
        try:
            return subprocess.run(argv[2:], stdin=subprocess.DEVNULL, check=False).returncode
        finally:
            said = {"refreshes": vendor.refreshes, "reused": vendor.reused, "given": sorted(vendor.given)}
            Path(f"{argv[1]}.vendor").write_text(json.dumps(said))
            server.closing.set()
            server.shutdown()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
