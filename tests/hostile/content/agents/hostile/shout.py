"""Speak to the operator's terminal, and in lines no reader expects."""

import json
import os

ESCAPES = [
    b"\x1b]52;c;ZXZpbCBjbGlwYm9hcmQ=\x07", b"\x1b]0;evil title\x07", b"\x1b[2J\x1b[H", b"\x1b[31;5m", b"\x1bc",
    b"\x1b]8;;http://evil.example\x1b\\link\x1b]8;;\x1b\\", b"\x1bP1$tx\x1b\\", b"\x9b2J", b"\x9d52;c;ZXZpbA==\x9c",
    b"\x1b_Gf=100;AAAA\x1b\\", b"\x1b[6n", b"\x1b[?1049h", b"\x0e\x0f\x07\x08\x7f", b"\x1b[\x1b[1m1m", b"\x1b]52",
    b"nul\0nul", b"bad \xff\xfe\xc3\x28 bytes", "right\u202eleft \u2066iso\u2069 zero\u200bwidth\ufeff".encode(),
    b"over\rwritten\rline", b"\xc2\x9b2J c1", b"\xed\xa0\x80 surrogate",
]  # fmt: skip
out = os.fdopen(os.dup(1), "wb")
for text in ESCAPES:
    out.write(b"escape: " + text + b" :end\n")
out.write(b"[2026-01-01T00:00:00.000Z] [ptb] a stamp that is not ours\n")
out.write(b"[ptb] did I say so?\n")
out.write(b"[redacted:NOTHING]\n")
for text in ESCAPES:
    said = "escape: " + text.decode("utf-8", "replace") + " :end"
    event = {"type": "assistant", "message": {"role": "assistant", "content": [{"type": "text", "text": said}]}}
    out.write(json.dumps(event).encode() + b"\n")
    tool = {"type": "tool_use", "id": "x\x1b[1m", "name": said, "input": {"command": said, said: said}}
    event = {"type": "assistant", "message": {"role": "assistant", "content": [tool]}}
    out.write(json.dumps(event, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n")
out.write(json.dumps({"type": "result", "result": "\x1b]52;c;ZXZpbA==\x07", "is_error": "\x1b[2J"}).encode() + b"\n")
out.write(b'{"type":' * 50_000 + b"\n")
out.write(b"x" * (5 << 20) + b"\n")
out.write(
    b'{"type":"assistant","message":{"content":[{"type":"text","text":"' + b"y\\u001b[2J" * (1 << 19) + b'"}]}}\n'
)
out.write(b"did shout\n")
out.write(b"a last line without its end \x1b[8m")
out.flush()
