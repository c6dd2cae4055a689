"""`vllm serve` for tests: a model folder with weights answers through transformers, one without by a script.

What a scripted model says is made of the request's last message and seed; it also says which keys its environment has.
With STANDIN_BACKEND the answers are another stand-in's, which has the model loaded already.
"""

import argparse
import json
import os
import sys
import threading
import urllib.request
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


def scripted(folder: Path) -> Callable[[dict[str, Any]], str]:
    keys = sorted(name for name in os.environ if name.endswith(("_KEY", "_TOKEN")))

    def answer(body: dict[str, Any]) -> str:
        if body["messages"][-1]["content"].startswith("FAIL"):
            raise ValueError("asked to fail")
        said = f"seed {body.get('seed')} keys {','.join(keys)} tokens {body['max_tokens']}"
        return f"<think>hm</think>{body['messages'][-1]['content']} {said}\n" + "again\n" * 9

    return answer


def relayed(backend: str, template: str) -> Callable[[dict[str, Any]], str]:
    def answer(body: dict[str, Any]) -> str:
        data = json.dumps({**body, "template": template}).encode()
        headers = {"authorization": "Bearer " + os.environ["VLLM_API_KEY"]}
        with urllib.request.urlopen(urllib.request.Request(backend, data, headers), timeout=60) as reply:
            return str(json.load(reply)["choices"][0]["message"]["content"])

    return answer


def real(folder: Path, template: str) -> Callable[[dict[str, Any]], str]:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    model = AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32).eval()
    lock = threading.Lock()

    def answer(body: dict[str, Any]) -> str:
        prompt = tokenizer.apply_chat_template(
            body["messages"],
            tokenize=False,
            add_generation_prompt=True,
            chat_template=body.get("template", template),
        )
        with lock, torch.no_grad():
            ids = tokenizer(prompt, return_tensors="pt", add_special_tokens=False)["input_ids"]
            made = model.generate(ids, max_new_tokens=min(body["max_tokens"], 64), do_sample=False)
        return str(tokenizer.decode(made[0, ids.shape[1] :], skip_special_tokens=True))

    return answer


def main(argv: list[str]) -> int:
    if argv[:1] == ["--version"]:
        print("0+standin")
        return 0
    parser = argparse.ArgumentParser()
    parser.add_argument("serve")
    parser.add_argument("model")
    for name in ("--host", "--port", "--chat-template"):
        parser.add_argument(name, required=True)
    args = parser.parse_args(argv)
    folder = Path(args.model)
    if (folder / "broken").exists():
        print("cannot load", file=sys.stderr)
        return 1
    template = Path(args.chat_template).read_text()
    backend = os.environ.get("STANDIN_BACKEND")
    if backend:
        answer = relayed(backend, template)
    else:
        answer = real(folder, template) if (folder / "model.safetensors").exists() else scripted(folder)

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

        def reply(self, status: int, value: object) -> None:
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self) -> None:
            self.reply(200 if self.path == "/health" else 404, {})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if self.headers["authorization"] != "Bearer " + os.environ["VLLM_API_KEY"]:
                return self.reply(401, {"error": {"message": "key"}})
            try:
                message = {"role": "assistant", "content": answer(body)}
            except ValueError as error:
                return self.reply(500, {"error": {"message": str(error)}})
            choice = {"index": 0, "finish_reason": "stop", "message": message}
            made = {"id": "1", "object": "chat.completion", "created": 1, "model": args.model, "choices": [choice]}
            return self.reply(200, made)

    ThreadingHTTPServer((args.host, int(args.port)), Handler).serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
