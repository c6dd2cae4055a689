import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import ptb_tui.cli as cli
from ptb_tui.core.action import Cancel, Collect, Dispatch, Evaluate, Judge, Retry
from ptb_tui.core.judging import Request
from ptb_tui.core.query import RunsQuery, ScoresQuery
from ptb_tui.core.settings import Settings
from tests.cli.drive import REPO, SWEEP, environment, fake, finish, in_terminal, real
from tests.cli.fakesite import FIRST, FakeSite, seeded

HEAVY = ("textual", "asyncssh", "openai", "inspect_ai", "torch", "rich", "asyncio", "ptb_tui.site", "ptb_tui.core.spec")


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return environment(tmp_path)


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeSite:
    """A site with three ended runs behind the command line of this process."""
    site = seeded("", SWEEP)

    async def opener(settings: Settings, name: str) -> Any:
        site.name = name
        return site

    monkeypatch.setattr(cli.call, "OPENER", opener)
    monkeypatch.setenv("POST_TRAIN_BENCH_RESULTS_DIR", str(tmp_path))
    monkeypatch.setenv("PTB_OPERATOR", "ann")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    return site


def records(text: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in text.splitlines()]
    assert all(record["v"] == 1 for record in found)
    return found


def test_help_imports_nothing_heavy(env: dict[str, str]) -> None:
    code = (
        "import sys, ptb_tui.cli as cli; code = cli.main(sys.argv[1:]);"
        f"print(code, [name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    for argv in (["--help"], [], ["runs", "--help"], ["show", "--help"], ["--batch"]):
        done = finish([sys.executable, "-c", code, *argv], env)
        expected = "2 []" if argv == ["--batch"] else "0 []"
        assert done.stderr.splitlines()[-1] == expected, argv
    done = finish([sys.executable, "-c", code.replace("textual", "pydantic"), "--help"], env)
    assert done.stderr.splitlines()[-1] == "0 []"


def test_no_arguments_print_the_help(env: dict[str, str]) -> None:
    done = finish(real(), env)
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout == finish(real("--help"), env).stdout
    verbs = ("show", "tail", "cancel", "retry", "queue", "judge", "eval", "collect", "scores", "doctor", "version")
    for name in ("runs", *verbs, "--batch"):
        assert name in done.stdout


def test_version(env: dict[str, str]) -> None:
    assert finish(real("version"), env).stdout.startswith("ptb-tui 0.")
    assert records(finish(real("version", "--json"), env).stdout)[0]["kind"] == "version"


def test_common_options_count_before_and_after_the_verb(site: FakeSite, capsys: pytest.CaptureFixture[str]) -> None:
    outputs = []
    for argv in (["--json", "runs"], ["runs", "--json"], ["--site", "far", "runs", "--json", "--site", "local"]):
        assert cli.main(argv) == 0
        outputs.append(capsys.readouterr().out)
    assert len(set(outputs)) == 1 and site.name == "local"
    assert [record["id"] for record in records(outputs[0])] == [FIRST, FIRST + 1, FIRST + 2]
    assert cli.main(["runs", "--json", "show", str(FIRST)]) == 0
    assert records(capsys.readouterr().out)[0]["kind"] == "run"


def test_filters_reach_the_site(site: FakeSite) -> None:
    assert cli.main(["runs", "--active", "--failed", "--sweep", "demo", "--match", "ref"]) == 0
    assert site.asked == [RunsQuery(active=True, failed=True, sweep="demo", match="ref")]
    assert site.closed


@pytest.mark.parametrize("prefix", [[], ["runs"]])
def test_verbs_and_their_aliases_do_the_action_in_the_operators_name(site: FakeSite, prefix: list[str]) -> None:
    run = str(FIRST)
    for argv in (
        ["cancel", run, "--reason", "why"],
        ["retry", run, "--reason", "again"],
        ["judge", run, "--judge", "a", "--judges", "b,c", "--engine", "rules", "--votes", "2", "--skip-existing"],
        ["eval", run],
        ["collect", "--protocol", "demo", "--policy", "upstream"],
        ["queue", "--kick"],
    ):
        assert cli.main([*prefix, *argv]) == 0, argv
    assert [action for _, action in site.done] == [
        Cancel(run=run, reason="why", operator="ann"),
        Retry(run=run, reason="again", operator="ann"),
        Judge(
            run=run,
            request=Request(judges=("a", "b", "c"), engine="rules", votes=2, skip_existing=True),
            operator="ann",
        ),
        Evaluate(run=run, operator="ann"),
        Collect(protocol="demo", policy="upstream", operator="ann"),
        Dispatch(operator="ann"),
    ]
    assert len({token for token, _ in site.done}) == len(site.done)


def test_a_run_is_an_id_a_prefix_a_site_and_id_or_a_path(site: FakeSite, tmp_path: Path) -> None:
    (tmp_path / "method" / "run_1").mkdir(parents=True)
    assert cli.main(["cancel", f"far:{FIRST}"]) == 0
    assert site.name == "far"
    assert cli.main(["cancel", "method/run_1"]) == 0
    assert cli.main(["cancel", "17"]) == 0
    names = [action.run for _, action in site.done if isinstance(action, Cancel)]
    assert names == [str(FIRST), str(tmp_path / "method" / "run_1"), "17"]


def test_scores_only_ask(site: FakeSite, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["scores", "--protocol", "demo"]) == 0
    assert site.asked == [ScoresQuery(protocol="demo")] and not site.done
    out = capsys.readouterr().out
    for words in ("82.5 ± 1.3 %", "0.4 %", "flagged C", "no model", "reason of cheat", "- demo-003", "BASE"):
        assert words in out


def test_doctor_exits_by_what_it_found(env: dict[str, str]) -> None:
    assert finish(fake("", "doctor"), env).returncode == 0
    bad = finish(fake("bad", "doctor"), env)
    assert bad.returncode == 1 and "bwrap missing → install" in bad.stdout
    assert finish(fake("bad", "runs", "doctor", "--json"), env).returncode == 1


def test_tail_begins_and_goes_on_where_it_is_told(site: FakeSite, capsys: pytest.CaptureFixture[str]) -> None:
    whole = "first line\nsecond line\nthird\n"
    for argv, expected in (
        ([], whole),
        (["-f"], whole),
        (["--from", "11"], "second line\nthird\n"),
        (["-n", "6"], "third\n"),
    ):
        assert cli.main(["tail", str(FIRST), *argv]) == 0
        assert capsys.readouterr().out == expected
    assert cli.main(["tail", str(FIRST), "-f", "--json"]) == 0
    chunks = records(capsys.readouterr().out)
    assert "".join(chunk["text"] for chunk in chunks) == FakeSite.TRACE and chunks[-1]["ended"]


BAD: list[tuple[list[str], int, str]] = [
    (["nothing"], 2, "nothing"),
    (["show"], 2, "RUN"),
    (["runs", "show"], 2, "RUN"),
    (["--frob", "runs"], 2, "--frob"),
    (["runs", "--frob"], 2, "--frob"),
    (["runs", "--active", "show", "1"], 2, "--active"),
    (["--dry-run"], 2, "--batch"),
    (["--timeout", "5", "runs"], 2, "--timeout"),
    (["--batch", str(SWEEP), "--timeout", "-1"], 2, "--timeout"),
    (["--batch", str(SWEEP), "--timeout", "nan"], 2, "--timeout"),
    (["--batch", str(SWEEP), "--timeout", "soon"], 2, "valid"),
    (["--batch", str(SWEEP), "runs"], 2, "--batch"),
    (["--batch", "absent.toml"], 2, "absent.toml"),
    (["--batch", "."], 2, "directory"),
    (["--batch", "broken.toml"], 2, "broken.toml: not TOML"),
    (["--batch", "key.toml"], 2, "did you mean `hours`"),
    (["--batch", "hours.toml"], 2, "hours must be above zero"),
    (["--env-file", "absent.env", "runs"], 2, "absent.env"),
    (["judge", "1", "--engine", "magic"], 2, "codex, openai_api, rules"),
    (["collect", "--policy", "best"], 2, "finished, upstream"),
    (["show", "far:12", "--site", "near"], 2, "near"),
    (["tail", "1", "--from", "1", "-n", "2"], 2, "-n"),
    (["tail", "1", "--from", "-4"], 2, "negative"),
    (["show", "404"], 2, "no run 404"),
]


@pytest.mark.parametrize(("argv", "code", "words"), BAD, ids=[" ".join(argv) for argv, _, _ in BAD])
def test_bad_input_is_one_line_and_a_hint_and_changes_nothing(
    site: FakeSite, capsys: pytest.CaptureFixture[str], tmp_path: Path, argv: list[str], code: int, words: str
) -> None:
    demo = SWEEP.read_text()
    (tmp_path / "broken.toml").write_text("v = = 1")
    (tmp_path / "key.toml").write_text(demo.replace("hours", "hourz"))
    (tmp_path / "hours.toml").write_text(demo.replace("hours = 0.1", "hours = -1"))
    assert cli.main(argv) == code
    shown = capsys.readouterr()
    lines = shown.err.splitlines()
    assert shown.out == "" and 1 <= len(lines) <= 2 and words in shown.err
    assert ": " in lines[0] and all(line.startswith("  ") for line in lines[1:])
    assert cli.main([*argv, "--json"]) == code
    shown = capsys.readouterr()
    (record,) = records(shown.out)
    assert shown.err == "" and set(record["error"]) >= {"type", "title", "message", "hint"}
    assert words in record["error"]["message"] + record["error"]["hint"]
    assert not site.done


def test_an_unexpected_error_is_one_line_and_a_file(env: dict[str, str], tmp_path: Path) -> None:
    done = finish(fake("crash", "runs"), env)
    assert done.returncode == 1 and done.stdout == ""
    first, hint = done.stderr.splitlines()
    assert first == "Error: RuntimeError: a secret mistake in two lines"
    (path,) = tmp_path.glob("ptb-tui-*.txt")
    assert str(path) in hint and "Traceback" in path.read_text() and path.stat().st_mode & 0o077 == 0
    done = finish(fake("crash", "runs", "--json"), env)
    assert records(done.stdout)[0]["error"]["type"] == "PtbError" and done.stderr == ""


def test_json_is_all_that_is_on_stdout(env: dict[str, str]) -> None:
    env["FAKE_SEED"] = str(SWEEP)
    for argv in (["runs"], ["show", str(FIRST)], ["queue"], ["scores"], ["doctor"], ["collect"], ["eval", "1"]):
        done = finish(fake("", "--json", *argv), env)
        assert done.returncode == 0 and records(done.stdout)
        assert done.stdout.isascii() and "\x7f" not in done.stdout


def test_off_a_terminal_nothing_controls_it(env: dict[str, str]) -> None:
    env |= {"FAKE_SEED": str(SWEEP), "TERM": "xterm-256color", "COLUMNS": "0", "FORCE_COLOR": "1"}
    del env["HOME"]
    for argv in (["runs"], ["show", str(FIRST)], ["queue"], ["scores"], ["tail", str(FIRST)]):
        done = finish(fake("", *argv), env)
        assert done.returncode == 0, done.stderr
        text = done.stdout + done.stderr
        assert not {char for char in text if ord(char) < 32 or 127 <= ord(char) < 160} - {"\n"}
        assert "\u202e" not in text
    assert "[bold]not markup[/bold] [/x]" in finish(fake("", "show", str(FIRST)), env).stdout


def test_a_poor_encoding_gets_ascii_glyphs(env: dict[str, str]) -> None:
    env |= {"FAKE_SEED": str(SWEEP), "PYTHONIOENCODING": "ascii"}
    done = finish(fake("", "runs"), env)
    assert done.returncode == 0 and done.stdout.isascii() and "+ done" in done.stdout


@pytest.mark.parametrize("argv", [["runs"], ["scores"], ["--help"], ["show", str(FIRST), "--json"]])
def test_a_reader_that_leaves_early_is_no_error(env: dict[str, str], argv: list[str]) -> None:
    env["FAKE_SEED"] = str(SWEEP)
    process = subprocess.Popen(
        fake("", *argv), env=env, cwd=REPO, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()  # before a byte was written: the first write fails
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(30) == 0


def test_a_full_disk_under_stdout_is_said(env: dict[str, str]) -> None:
    env["FAKE_SEED"] = str(SWEEP)
    with open("/dev/full", "w") as full:
        done = subprocess.run(fake("", "runs"), env=env, cwd=REPO, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2 and done.stderr.startswith("Cannot write: stdout")


def test_colour_on_a_terminal_only_where_it_is_wanted(env: dict[str, str]) -> None:
    env |= {"FAKE_SEED": str(SWEEP), "TERM": "xterm-256color"}
    for more, coloured in (({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)):
        terminal = in_terminal(fake("", "runs"), env | more)
        assert terminal.end() == 0
        assert ("\x1b[" in terminal.text) is coloured
        assert "✓ done" in terminal.text


def test_cancel_asks_on_a_terminal_and_yes_does_not(env: dict[str, str]) -> None:
    env |= {"FAKE_SEED": str(SWEEP), "TERM": "xterm"}
    for key, code in (("n\n", 2), ("y\n", 0), ("\x04", 2), ("\x03", 130)):
        terminal = in_terminal(fake("", "cancel", str(FIRST)), env)
        terminal.until(lambda text: "[y/N]" in text)
        terminal.type(key)
        assert terminal.end() == code, terminal.text
        assert ("cancel done" in terminal.text) is (code == 0)
        assert "Traceback" not in terminal.text
    terminal = in_terminal(fake("", "cancel", str(FIRST), "--yes"), env)
    assert terminal.end() == 0 and "[y/N]" not in terminal.text


def test_ctrl_c_ends_a_followed_trace_quietly(env: dict[str, str]) -> None:
    terminal = in_terminal(fake("stuck", "tail", "1", "-f"), env | {"TERM": "xterm"})
    terminal.until(lambda text: "third" in text)
    terminal.type("\x03")
    assert terminal.end() == 130 and "Traceback" not in terminal.text


def test_without_a_results_folder_it_says_what_to_set(env: dict[str, str], tmp_path: Path) -> None:
    del env["POST_TRAIN_BENCH_RESULTS_DIR"]
    done = finish(real("runs"), env, cwd=tmp_path)
    assert done.returncode == 2 and "POST_TRAIN_BENCH_RESULTS_DIR" in done.stderr and os.listdir(tmp_path) == []
