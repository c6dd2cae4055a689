"""Logins from where they lie to the run and back, through the real program (design §5, Secrets)."""

from __future__ import annotations

import base64
import json
import os
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from ptb_tui.sandbox.bubblewrap import Bubblewrap
from ptb_tui.supplies import credentials, leases
from ptb_tui.supplies.logins import PLACEHOLDER, read_login
from tests.e2e.conftest import Lab, until
from tests.e2e.conftest import lab as lab
from tests.supplies.vendor import Vendor, codex_login, jwt

pytestmark = pytest.mark.chaos

BROKER = """kind = "rotating"
renewal = "broker"
name = "toy-login"
family = "codex"
file = ".codex/auth.json"
found = "toy_auth.json"
"""
EXCLUSIVE = """kind = "rotating"
renewal = "exclusive"
name = "toy-login"
file = ".toy/deep/auth.json"
found = "toy_auth.json"
"""
STATIC = """kind = "static_token"
name = "toy-login"
file = "oauth_token"
found = "oauth_token"
"""

# What a CLI with an expired token does, and what an agent can do besides: look around and print what it finds.
ASK = """
import base64, json, os, pathlib, urllib.parse, urllib.request
path = pathlib.Path.home() / ".codex" / "auth.json"
auth = json.loads(path.read_text())
url = os.environ["CODEX_REFRESH_TOKEN_URL_OVERRIDE"]
body = json.dumps({"grant_type": "refresh_token", "refresh_token": auth["tokens"]["refresh_token"]}).encode()
request = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method="POST")
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
answer = json.loads(opener.open(request, timeout=60).read())
token = answer["access_token"]
print("placeholder", answer["refresh_token"])
print("mode", oct(path.stat().st_mode & 0o777), "renews", auth["tokens"]["refresh_token"])
print("before", auth["tokens"]["access_token"])
print("token", token)
print("encoded", base64.b64encode(token.encode()).decode(), urllib.parse.quote(token, safe=""))
print("escaped", json.dumps(json.dumps({"t": token})))
"""


def arrange(lab: Lab, credential: str, solve: str, *, name: str = "toy") -> Path:
    """Give the stand-in agent a credential and a script; returns where the site's login of it lies."""
    folder = lab.cwd / "agents" / name
    (folder / "agent.toml").write_text(f'v = 1\nlabel = "Stand-in"\ntrace = "plain"\n\n[credential]\n{credential}')
    (folder / "solve.sh").write_text(f"#!/bin/bash\n{solve}\n")
    found = "oauth_token" if "static" in credential else "toy_auth.json"
    return lab.base / "config" / "ptb-tui" / "credentials" / "toy-login" / found


def put(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
    path.write_bytes(data)
    path.chmod(0o600)


def holding(folder: Path, *needles: str) -> list[str]:
    """Files below a folder that hold one of these texts, plainly or encoded."""
    forms = [form for text in needles for form in (text.encode(), base64.b64encode(text.encode())[:-4])]
    found = []
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):  # the scratch of a run that has ended is being removed
            if path.is_file() and not path.is_symlink() and any(form in path.read_bytes() for form in forms):
                found.append(str(path))
    return found


def cells(lab: Lab, sweep: str) -> list[dict[str, Any]]:
    """The cells of the plan of a sweep."""
    found: list[dict[str, Any]] = lab.json("--batch", sweep, "--dry-run", rc=None)[0]["cells"]
    return found


@pytest.fixture
def vendor() -> Iterator[Vendor]:
    with Vendor() as found:
        yield found


@pytest.mark.parametrize("sandbox", ["process", pytest.param("bubblewrap", marks=pytest.mark.bubblewrap)])
def test_a_brokered_login_is_renewed_from_inside(tmp_path: Path, vendor: Vendor, sandbox: str) -> None:
    if sandbox == "bubblewrap" and not Bubblewrap().probe()[0]:
        pytest.skip("bubblewrap does not work here")
    lab = Lab(tmp_path, sandbox=sandbox)
    lab.env |= {"POST_TRAIN_BENCH_TOKEN_URL_CODEX": vendor.url, "NO_PROXY": "127.0.0.1"}
    try:
        seen = lab.base / "companion.mode"
        keep = "cp -r $HOME/.codex . ; env | grep -v SECRET > env.txt"
        here = f'stat -c %a "$HOME/../companion.json" > "{seen}"' if sandbox == "process" else ":"
        (lab.cwd / "agents" / "toy" / "ask.py").write_text(ASK)
        script = f"python3 $HOME/agent/ask.py\n{keep}\n{here}\npython3 $HOME/agent/make_model.py final_model"
        login = arrange(lab, BROKER, script)
        put(login, vendor.login(-5))
        first = read_login(login.read_bytes())
        assert first is not None
        sweep = lab.sweep("x", protocol="toynet" if sandbox == "bubblewrap" else "toy")
        lab.run("--batch", sweep, "--yes", "--timeout", "170", rc=None)
        lines = dict(line.partition(" ")[::2] for line in lab.trace() if " " in line)
        now = read_login(login.read_bytes())
        assert now is not None and vendor.refreshes == 1 and now.refresh == vendor.good, lab.trace()
        assert lines["placeholder"].startswith(PLACEHOLDER)
        assert lines["mode"].startswith("0o600 renews " + PLACEHOLDER)
        for name in ("before", "token", "encoded", "escaped"):
            assert "[redacted:" in lines[name], (name, lines[name])
        trace = (lab.run_dir() / "solve_out.txt").read_text() + (lab.run_dir() / "solve_parsed.txt").read_text()
        assert now.access not in trace and first.access not in trace and quote(now.access) not in trace
        everywhere = [lab.results, lab.base / "scratch", lab.base / "home"]
        assert [found for folder in everywhere for found in holding(folder, *vendor.given)] == []
        kept = json.loads((lab.run_dir() / "task" / ".codex" / "auth.json").read_text())
        assert kept["tokens"]["refresh_token"].startswith(PLACEHOLDER), "what the agent could copy"
        if sandbox == "process":
            assert seen.read_text() == "600\n"
        assert stat.S_IMODE(login.stat().st_mode) == 0o600
        said = json.loads((lab.run_dir() / ".ptb" / "provenance.json").read_text())
        assert said["login"] == {"name": "toy-login", "kind": "rotating(broker)", "origin": "credentials"}
        assert "login: toy-login, rotating(broker)" in (lab.run_dir() / "output.log").read_text()
    finally:
        lab.close()


def test_a_login_that_is_missing_or_over_stops_the_plan(lab: Lab) -> None:
    login = arrange(lab, STATIC, "true")
    sweep = lab.sweep("x")

    def problems() -> list[str]:
        (cell,) = cells(lab, sweep)
        assert cell["action"] == "blocked"
        return [f"{found['words']} → {found['remedy']}" for found in cell["problems"] if found["blocks"]]

    (said,) = problems()
    assert "there is no login toy-login" in said and said.endswith("→ ptb-tui credentials login toy-login")
    lab.run("--batch", sweep, "--yes", rc=2)
    assert not lab.results.exists()
    put(login, b"{}")
    assert "holds no login" in problems()[0]
    put(login, jwt(exp=int(time.time()) - 60).encode())
    assert "ended" in problems()[0]
    put(login, b"sk-ant-oat01-" + b"x" * 40)
    (cell,) = cells(lab, sweep)
    assert cell["action"] == "submit" and [found["blocks"] for found in cell["problems"]] == [False]


def test_a_login_beside_solve_sh_is_read_in_place_and_in_no_bundle(lab: Lab) -> None:
    arrange(lab, STATIC, 'cat "$HOME/oauth_token"; python3 $HOME/agent/make_model.py final_model')
    token = "sk-ant-oat01-" + "abcDEF123" * 6
    beside = lab.cwd / "agents" / "toy" / "oauth_token"
    put(beside, token.encode() + b"\n")
    lab.run("--batch", lab.sweep("x"), "--yes", "--timeout", "170", rc=None)
    (line,) = [line for line in lab.trace() if "[redacted:" in line]
    assert token not in line
    assert holding(lab.results, token) == [] and holding(lab.base / "scratch", token) == []
    bundles = [path.name for path in lab.root.own("bundles").rglob("*") if path.is_file()]
    assert "solve.sh" in bundles and not {"oauth_token", "auth.json", "toy_auth.json"} & set(bundles)
    assert {"credentials.py", "credential.py"} <= set(bundles), "our own modules are no secrets"
    assert beside.read_text().strip() == token
    (answer,) = lab.json("credentials")
    row = next(row for row in answer["credentials"] if row["name"] == "toy-login")
    assert row["state"] == "ok" and row["origin"] == "beside solve.sh" and row["agents"] == ["toy"]


def grown(ago: float, n: int, account: str = "acc-1") -> bytes:
    access = jwt(iat=int(time.time() - ago), exp=int(time.time() + 3600), n=n)
    return json.dumps(codex_login(access, f"refresh-token-{n}", account=account)).encode()


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("new", ""),
        ("same", ""),
        ("truncated", "no login"),
        ("gone", "no login"),
        ("link", "no login"),
        ("folder", "no login"),
        ("other account", "same account"),
        ("older", "not newer"),
    ],
)
def test_an_exclusive_login_comes_back_only_if_it_is_the_same_one_and_newer(lab: Lab, what: str, words: str) -> None:
    file = "$HOME/.toy/deep/auth.json"
    act = {
        "new": f'cp "{lab.base}/other" "{file}"',
        "same": "true",
        "truncated": f': > "{file}"',
        "gone": 'rm -r "$HOME/.toy"',
        "link": f'rm "{file}"; ln -s "{lab.base}/other" "{file}"',
        "folder": f'rm "{file}"; mkdir "{file}"',
        "other account": f'cp "{lab.base}/other" "{file}"',
        "older": f'cp "{lab.base}/other" "{file}"',
    }[what]
    login = arrange(lab, EXCLUSIVE, f'stat -c %a "{file}"; {act}; python3 $HOME/agent/make_model.py final_model')
    mine = grown(1000, 1)
    put(login, mine)
    other = {"other account": grown(10, 2, "acc-2"), "older": grown(5000, 2)}.get(what, grown(10, 2))
    put(lab.base / "other", other)
    lab.run("--batch", lab.sweep("x"), "--yes", "--timeout", "170", rc=None)
    assert "600" in lab.trace()
    assert login.read_bytes() == (other if what == "new" else mine)
    result = json.loads(next(lab.run_dir().glob(".ptb/steps/001-agent/result.json")).read_text())
    assert words in result.get("credential_not_returned", "") and bool(words) == ("credential_not_returned" in result)
    assert ("credential_returned" in result) == (what == "new")
    assert stat.S_IMODE(login.stat().st_mode) == 0o600
    assert not [path for path in lab.results.rglob("*") if path.is_file() and b"refresh-token-" in path.read_bytes()]


def test_one_run_at_a_time_has_an_exclusive_login(lab: Lab) -> None:
    lab.root.ptb.mkdir(parents=True)
    (lab.root.ptb / "site.toml").write_text('slots = 3\nsandbox = "process"\n')
    inside = lab.base / "inside"
    script = (
        f'mkdir "{inside}" || echo TOGETHER\nsleep 1\nrmdir "{inside}"\npython3 $HOME/agent/make_model.py final_model'
    )
    login = arrange(lab, EXCLUSIVE, script)
    put(login, grown(1000, 1))
    sweep = lab.sweep("a", "b", "c")
    assert all("one run at a time" in cell["problems"][0]["words"] for cell in cells(lab, sweep))
    lab.run("--batch", sweep, "--yes", "--timeout", "170", rc=None)
    traces = [path.read_text() for path in lab.results.glob("*/*/solve_out.txt")]
    assert len(traces) == 3 and not any("TOGETHER" in trace for trace in traces)
    (answer,) = lab.json("credentials")
    row = next(row for row in answer["credentials"] if row["name"] == "toy-login")
    assert row["runs"] == [] and row["account"] == "acc-1" and row["what"] == "rotating(exclusive)"


def test_a_limit_per_credential_is_kept(lab: Lab) -> None:
    lab.root.ptb.mkdir(parents=True)
    (lab.root.ptb / "site.toml").write_text('slots = 3\nsandbox = "process"\n')
    inside = lab.base / "inside"
    script = f'mkdir "{inside}" || echo TOGETHER\nsleep 1\nrmdir "{inside}"'
    put(arrange(lab, STATIC, script), b"sk-ant-oat01-" + b"x" * 40)
    path = Path(lab.sweep("a", "b"))
    path.write_text(path.read_text().replace("[[agents]]", "[limits]\nper_credential = 1\n[[agents]]", 1))
    lab.run("--batch", str(path), "--yes", "--timeout", "170", rc=None)
    traces = [path.read_text() for path in lab.results.glob("*/*/solve_out.txt")]
    assert len(traces) == 2 and not any("TOGETHER" in trace for trace in traces)


def test_who_uses_a_login_now_and_which_limit_it_met(lab: Lab) -> None:
    info = {"status": "rejected", "resetsAt": 1893456000, "rateLimitType": "five_hour"}
    limit = json.dumps({"type": "rate_limit_event", "rate_limit_info": info})
    login = arrange(lab, STATIC, f"echo '{limit}'\nwhile [ ! -e \"{lab.base}/go\" ]; do sleep 0.1; done")
    toml = lab.cwd / "agents" / "toy" / "agent.toml"
    toml.write_text(toml.read_text().replace('trace = "plain"', 'trace = "claude"'))
    put(login, b"sk-ant-oat01-" + b"x" * 40)
    batch = lab.start("--batch", lab.sweep("x"), "--yes", "--timeout", "170")
    try:

        def row() -> dict[str, Any]:
            (answer,) = lab.json("credentials")
            found: dict[str, Any] = next(row for row in answer["credentials"] if row["name"] == "toy-login")
            return found

        until(lambda: lab.results.is_dir() and row()["runs"] == lab.ids() and row()["limit"], "a run and its limit")
        found = row()
        assert found["limit_run"] == lab.ids()[0] and found["resets"] == "2030-01-01 00:00 UTC"
        assert found["limit"].startswith("five_hour")
    finally:
        (lab.base / "go").touch()
        batch.communicate(timeout=170)
    assert row()["runs"] == [] and row()["limit"]


STUB = """#!/bin/bash
# A vendor's CLI that logs in: it has a home of its own, and none of the operator's keys.
[ "$*" = "login --device-auth" ] || { echo "unexpected: $*"; exit 9; }
[ -z "${OPENAI_API_KEY-}${CODEX_HOME-}" ] || { echo "keys are here"; exit 8; }
case "${STUB_DOES-}" in
fail) exit 3 ;;
nothing) exit 0 ;;
esac
echo "open https://vendor.example/device and type ABCD-1234"
mkdir -p "$HOME/.toy/deep"
cp "$STUB_LOGIN" "$HOME/.toy/deep/auth.json"
"""


def test_logging_in_runs_the_vendor_s_command_in_a_home_of_its_own(lab: Lab) -> None:
    login = arrange(lab, EXCLUSIVE + 'login = ["stub-cli", "login", "--device-auth"]\n', "true")
    program = lab.base / "bin" / "stub-cli"
    program.parent.mkdir()
    program.write_text(STUB)
    program.chmod(0o755)
    lab.env |= {"PATH": f"{program.parent}:{lab.env['PATH']}", "OPENAI_API_KEY": "sk-operator", "CODEX_HOME": "/x"}
    lab.env["STUB_LOGIN"] = str(lab.base / "new")
    (lab.base / "new").write_bytes(grown(10, 1))
    said = lab.run("credentials", "login", "toy-login")
    assert "ABCD-1234" in said and "account acc-1" in said and "refresh-token-1" not in said
    assert login.read_bytes() == grown(10, 1) or read_login(login.read_bytes()) is not None
    assert stat.S_IMODE(login.stat().st_mode) == 0o600 and stat.S_IMODE(login.parent.stat().st_mode) == 0o700
    before = login.read_bytes()
    for does, code in (("fail", 2), ("nothing", 2)):
        lab.env["STUB_DOES"] = does
        lab.run("credentials", "login", "toy-login", rc=code)
        assert login.read_bytes() == before
    lab.env["STUB_DOES"] = ""
    (lab.base / "new").write_bytes(grown(5, 2))
    lab.run("credentials", "login", "toy-login")
    now = read_login(login.read_bytes())
    assert now is not None and now.refresh == "refresh-token-2"
    homes = [path.name for path in login.parents[1].iterdir() if path.name.startswith(".login-")]
    assert homes == [], "the private home is gone"
    program.unlink()
    lab.run("credentials", "login", "toy-login", rc=2)
    lab.run("credentials", "login", "no-such", rc=2)
    lab.run("--site", "served", "credentials", "login", "toy-login", rc=2)


def test_a_login_is_given_free_and_put_back_by_hand(lab: Lab) -> None:
    login = arrange(lab, EXCLUSIVE, "python3 $HOME/agent/make_model.py final_model")
    config = lab.base / "config" / "ptb-tui"
    lab.run("credentials", "release", "toy-login", "--yes", rc=2)  # there is none
    mine, theirs = grown(1000, 1), grown(10, 2)
    credentials.keep(config, login, mine)
    stem = credentials.state_stem(config, login)
    assert "nobody has" in lab.run("credentials", "release", "toy-login", "--yes")
    gone = {"root": str(lab.base / "deleted"), "run": 7}
    assert leases.Lease(stem).take(gone, 60)
    lab.run("credentials", "restore", "toy-login", "--yes", rc=2)
    credentials.keep(config, login, theirs)
    lab.run("credentials", "restore", "toy-login", "--yes", rc=2)  # a run has it
    assert "it was with run 7" in lab.run("credentials", "release", "toy-login", "--yes")
    assert leases.Lease(stem).look().free
    stem.with_name(f"{stem.name}.000009").write_text("")  # torn: nobody knows whose
    assert not leases.Lease(stem).look().free
    lab.run("credentials", "release", "toy-login", "--yes")
    assert leases.Lease(stem).look().free
    lab.run("credentials", "restore", "toy-login", "--yes")
    assert login.read_bytes() == mine and credentials.before_of(stem).read_bytes() == theirs
    lab.run("credentials", "restore", "toy-login", "--yes")
    assert login.read_bytes() == theirs and leases.Lease(stem).look().free


def test_a_token_that_is_only_printed_is_pasted(lab: Lab) -> None:
    login = arrange(lab, STATIC + 'login = ["stub-cli", "setup-token"]\n', "true")
    program = lab.base / "bin" / "stub-cli"
    program.parent.mkdir()
    program.write_text('#!/bin/bash\necho "your token: sk-ant-oat01-xyz"\n')
    program.chmod(0o755)
    lab.env["PATH"] = f"{program.parent}:{lab.env['PATH']}"
    import subprocess

    done = subprocess.run(
        lab.command("credentials", "login", "toy-login"),
        cwd=lab.cwd,
        env=lab.env,
        input=b"sk-ant-oat01-xyz0123456789\n",
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert login.read_text() == "sk-ant-oat01-xyz0123456789"
    assert os.path.basename(login) == "oauth_token"
