import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ptb_tui.core.errors import NotFound, UsageError
from ptb_tui.core.layout import Root
from ptb_tui.core.query import RunDetail, RunRow
from ptb_tui.results import quick, reading
from ptb_tui.results.records import Place
from ptb_tui.results.store import RunStore, detail, find, row, scan
from tests.results.trees import CLEAN, MODELS, foreign_run, own_run, settle, verdict_text


@pytest.fixture
def root(tmp_path: Path) -> Root:
    root = Root(tmp_path / "results")
    root.ptb.mkdir(parents=True)
    return root


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Every run that is really read, by its path below the root."""
    seen: list[str] = []
    original = reading.read_run

    def counting(root: Root, relative: str, *args: object, **options: object) -> object:
        seen.append(relative)
        return original(root, relative, *args, **options)  # type: ignore[arg-type]

    common = quick.read_quick

    def counting_common(root: Path, relative: str, *args: object) -> object:
        found = common(root, relative, *args)  # type: ignore[arg-type]
        seen.extend([relative] if found is not None else [])
        return found

    monkeypatch.setattr(reading, "read_run", counting)
    monkeypatch.setattr(quick, "read_quick", counting_common)
    yield seen


def test_an_absent_root_has_no_runs(tmp_path: Path) -> None:
    assert scan(Root(tmp_path / "nothing")) == []


def test_every_kind_of_run(root: Root) -> None:
    own_run(root, 2000000001)
    own_run(root, 2000000002, place="queue", outcome="queued")
    own_run(root, 2000000003, place="never_started", outcome="cancelled")
    own_run(root, 2000000004, outcome="running", metrics=None, verdicts=None)
    foreign_run(root, "claude_non_api_opus_10h", "gsm8k", MODELS[2], 17500000, started="2026-08-01T10:00:00Z")
    runs = {record.id: record for record in scan(root, ["claude", "claude_non_api"])}
    assert {run_id: (row(record).state, row(record).worth) for run_id, record in runs.items()} == {
        2000000001: ("done", "scored"),
        2000000002: ("queued", "running"),
        2000000003: ("cancelled", "failed"),
        2000000004: ("running", "running"),
        17500000: ("", "scored"),
    }
    assert runs[17500000].model == "HuggingFaceTB/SmolLM3-3B-Base"
    assert runs[17500000].agent == "claude_non_api"
    assert runs[2000000002].relative == "_ptb/queue/2000000002"
    assert runs[2000000002].method == runs[2000000001].method


def test_rows_and_details_are_what_the_wire_carries(root: Root) -> None:
    own_run(root, 1, sweep="abc", sweep_name="demo")
    own_run(root, 2, outcome="running", metrics=None, verdicts=None)
    foreign_run(root, "a_b_10h", "gsm8k", MODELS[2], 3)
    for record in scan(root):
        assert RunRow.model_validate(row(record).model_dump()) == row(record)
        found = detail(root, record)
        assert RunDetail.model_validate_json(found.model_dump_json()) == found
    rows = {record.id: row(record) for record in scan(root)}
    assert (rows[1].score, rows[1].sweep_name, rows[1].steps_ended, rows[1].steps_total) == (0.7, "demo", 6, 6)
    assert rows[2].step == "agent" and rows[2].remaining is not None and 0 <= rows[2].remaining <= 660
    assert rows[3].origin == "upstream" and rows[3].seconds == 35999


def test_detail_shows_files_metrics_and_the_last_telemetry(root: Root) -> None:
    folder = own_run(root, 1)
    (folder / ".ptb" / "steps" / "001-agent" / "telemetry.jsonl").write_text('{"gpu": 1}\n{"gpu": 2}\n{"gp')
    (folder / "task").mkdir()
    (folder / "task" / "loop").symlink_to(folder)
    found = detail(root, find(root, "1"))
    assert found.metrics == {"accuracy": 0.7, "stderr": 0.01}
    assert found.telemetry == {"gpu": 2, "step_number": 1}
    assert found.files["final_model/config.json"] == 2
    assert not any("loop" in name or ".ptb" in name for name in found.files)
    assert found.spec["agent"] == "reference"
    assert {verdict.judge for verdict in found.verdicts} == set(CLEAN)


def test_settled_runs_are_read_once(root: Root, reads: list[str]) -> None:
    own_run(root, 1)
    foreign_run(root, "a_b_10h", "gsm8k", MODELS[2], 3)
    own_run(root, 4, place="never_started", outcome="cancelled")
    settle(root.path)
    first = scan(root)
    assert len(reads) == 3
    assert scan(root) == first
    assert len(reads) == 3
    assert scan(root, use_cache=False) == first
    assert len(reads) == 6


def test_unsettled_and_fresh_runs_are_read_every_time(root: Root, reads: list[str]) -> None:
    own_run(root, 1, outcome="running", metrics=None, verdicts=None)
    own_run(root, 2, outcome="queued", place="queue")
    foreign_run(root, "a_b_10h", "gsm8k", MODELS[2], 3, metrics=None, time_taken=None)
    settle(root.path)
    own_run(root, 5, experiment="_fresh")
    for count in (4, 8, 12):
        scan(root)
        assert len(reads) == count


@pytest.mark.parametrize(
    "change",
    ["verdict", "rewritten verdict", "review", "metrics", "step", "record", "gone", "overlay"],
)
def test_every_change_is_seen(root: Root, change: str) -> None:
    folder = own_run(root, 1)
    other = foreign_run(root, "a_b_10h", "gsm8k", MODELS[2], 3)
    (folder / ".ptb" / "verdicts" / "general_judge").mkdir(parents=True)
    (folder / ".ptb" / "reviews").mkdir()
    settle(root.path)
    store = RunStore(root)
    before = store.scan().runs
    flagged = verdict_text("data_contamination_judge", ["contamination"])
    void = '{"kind": "void", "reason": "x"}'
    if change == "verdict":
        (folder / "judgement_gpt5_4_rerun.json").write_text(flagged)
    elif change == "rewritten verdict":
        with (folder / "judgement_gpt5_4.json").open("r+") as file:
            file.truncate(0)
            file.write(flagged)
    elif change == "review":
        (folder / ".ptb" / "reviews" / "1.json").write_text(void)
    elif change == "metrics":
        (folder / "metrics.json").write_text('{"accuracy": 0.9}')
    elif change == "step":
        (folder / ".ptb" / "steps" / "007-evaluate-2").mkdir()
    elif change == "record":
        (folder / ".ptb" / "verdicts" / "general_judge" / "001.json").write_text("{}")
    elif change == "overlay":
        reviews = root.own("overlay") / other.relative_to(root.path) / ".ptb" / "reviews"
        reviews.mkdir(parents=True)
        (reviews / "1.json").write_text(void)
    else:
        shutil.rmtree(folder)
    fresh = tuple(scan(root, use_cache=False))
    assert store.scan().runs == fresh
    assert tuple(scan(root)) == fresh
    if change != "record":
        assert fresh != before


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"key": 1}', b'{"key": "K", "runs": {"x": 1}}', b"\xff" * 100])
def test_a_damaged_index_is_rebuilt(root: Root, damage: bytes) -> None:
    own_run(root, 1)
    settle(root.path)
    expected = scan(root)
    index = root.own("cache") / "runs.json"
    key = json.loads(index.read_bytes().partition(b"\n")[0])["key"].encode()
    index.write_bytes(damage.replace(b"K", key))
    assert scan(root) == expected
    first, *lines = index.read_bytes().split(b"\n")
    for damaged in ([line[:9] for line in lines], [b"[1,2]" for _ in lines], [], [*lines, b"[]"]):
        index.write_bytes(b"\n".join((first, *damaged)))
        assert scan(root) == expected


def test_several_threads_may_ask_at_once(root: Root) -> None:
    for number in range(1, 9):
        own_run(root, number)
    settle(root.path)
    store = RunStore(root)
    with ThreadPoolExecutor(8) as pool:
        scans = [future.result() for future in [pool.submit(store.scan) for _ in range(16)]]
    assert all(found == scans[0] for found in scans)


def test_a_run_that_is_about_to_start_is_shown_once(root: Root) -> None:
    queued = own_run(root, 7, place="queue", outcome="queued")
    (root.path / "reference_steps300_0.1h" / "demo_local_demo-base_7").mkdir(parents=True)
    assert [record.place for record in scan(root)] == ["queue"]
    queued.rename(root.path / "reference_steps300_0.1h" / "demo_local_demo-base_7" / ".ptb")
    assert [record.place for record in scan(root)] == ["run"]


def test_a_hostile_tree_is_survived_and_told(root: Root, tmp_path: Path) -> None:
    good = own_run(root, 1)
    bad_names = [b"\xff\xfe", b"new\nline", b"\x1b[31mred", "\u202ebidi".encode(), b"a" * 255]
    for name in bad_names:
        (root.path / os.fsdecode(name)).mkdir()
        (good.parent / os.fsdecode(name)).mkdir()
    (root.path / "dangling").symlink_to("/nowhere")
    (root.path / "circle").symlink_to("circle")
    (root.path / "a_file").write_text("x")
    (root.path / "_aggregated").mkdir()
    (root.path / "baseline" / "gsm8k_Qwen_Q_1").mkdir(parents=True)
    elsewhere = foreign_run(Root(tmp_path / "elsewhere"), "a_b_10h", "gsm8k", MODELS[0], 9)
    (good.parent / elsewhere.name).symlink_to(elsewhere)
    big = own_run(root, 2, experiment="_big")
    with (big / ".ptb" / "spec.json").open("wb") as file:
        file.truncate(100 << 20)
    deep = own_run(root, 3, experiment="_deep")
    (deep / ".ptb" / "spec.json").write_text('{"a":' * 50_000)
    odd = own_run(root, 4, experiment="_odd")
    (odd / ".ptb" / "spec.json").write_text(
        '{"id": {}, "protocol": [], "judges": [1, {"judge": "../../x", "effect": 3}], "created": 7, "hours": 1e400}'
    )
    planted = own_run(root, 5, experiment="_planted")
    shutil.rmtree(planted / ".ptb" / "steps")
    (planted / ".ptb" / "steps").write_text("a file")
    (planted / ".ptb" / "verdicts").symlink_to("/etc")
    (root.own("queue") / "12").mkdir(parents=True)
    (root.own("queue") / "not-an-id").mkdir()
    (root.own("queue") / "13").write_text("a file")
    found = RunStore(root).scan()
    assert {record.id for record in found.runs} == {1, 2, 3, 4, 5, 9, 12}
    assert all(text.isprintable() for text in found.problems)
    told = "\n".join(found.problems)
    for words in ("dangling", "circle", "spec.json is not a readable file", "spec.json cannot be understood", "aaaa"):
        assert words in told
    for record in found.runs:
        row(record)
        detail(root, record)


def test_finding_a_run(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = own_run(root, 1700000001)
    own_run(root, 1700000022)
    own_run(root, 17, experiment="_x")
    assert find(root, "1700000001").id == 1700000001
    assert find(root, "17").id == 17  # an id before a prefix
    assert find(root, "170000002").id == 1700000022
    assert find(root, str(folder)).id == 1700000001
    assert find(root, f"{folder}/").id == 1700000001
    assert find(root, os.fspath(folder.relative_to(root.path))).id == 1700000001
    assert find(root, folder.name).id == 1700000001
    monkeypatch.chdir(folder)
    assert find(root, "./").id == 1700000001
    with pytest.raises(UsageError, match=r"1700000022 .*1700000001|1700000001 .*1700000022") as caught:
        find(root, "1700")
    assert not isinstance(caught.value, NotFound)
    for text in ("99", "", "  ", "no/such/run", "/", "..", "\0", "17\n\x1b[31m", "²"):
        with pytest.raises(NotFound):
            find(root, text)


def test_settled_lists_need_no_pydantic_models(root: Root) -> None:
    own_run(root, 1)
    settle(root.path)
    scan(root)
    code = (
        "import sys; from pathlib import Path; from ptb_tui.core.layout import Root\n"
        "from ptb_tui.results.store import scan, row_values\n"
        "assert [row_values(run)['id'] for run in scan(Root(Path(sys.argv[1])))] == [1]\n"
        "assert 'pydantic' not in sys.modules, 'pydantic was imported'\n"
    )
    subprocess.run([sys.executable, "-c", code, os.fspath(root.path)], check=True, timeout=60)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to read as somebody else")
def test_a_tree_of_somebody_else_that_may_only_be_read() -> None:
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("setpriv is not installed")
    with tempfile.TemporaryDirectory() as folder:  # pytest's own folders are closed to other accounts
        base = Path(folder)
        base.chmod(0o755)
        _read_as_nobody(setpriv, base)


def _read_as_nobody(setpriv: str, base: Path) -> None:
    root = Root(base / "results")
    foreign_run(root, "a_b_10h", "gsm8k", MODELS[0], 9)
    closed = foreign_run(root, "a_b_10h", "gsm8k", MODELS[1], 10)
    settle(root.path)
    for folder, _, files in os.walk(root.path, topdown=False):
        for name in files:
            os.chmod(os.path.join(folder, name), 0o444)
        os.chmod(folder, 0o555)
    closed.chmod(0o000)
    cache = base / "cache"
    cache.mkdir()
    os.chown(cache, 65534, 65534)
    code = (
        "import json, sys; from pathlib import Path; from ptb_tui.core.layout import Root\n"
        "from ptb_tui.results.store import RunStore, detail\n"
        "root = Root(Path(sys.argv[1])); found = RunStore(root).scan()\n"
        "print(json.dumps({run.id: run.assessment.worth for run in found.runs}))\n"
        "print([text for text in found.problems])\n"
        "[detail(root, run) for run in found.runs]\n"
    )
    command = [setpriv, "--reuid", "65534", "--regid", "65534", "--clear-groups", sys.executable, "-c", code]
    code_root = os.fspath(Path(__file__).parents[2])
    env = {**os.environ, "XDG_CACHE_HOME": os.fspath(cache), "PYTHONPATH": code_root, "HOME": "/nonexistent"}
    probe = subprocess.run([*command[:-1], "import ptb_tui"], env=env, capture_output=True, timeout=60)
    if probe.returncode != 0:
        pytest.skip("the interpreter cannot be used by another account")
    for _ in range(2):
        done = subprocess.run([*command, os.fspath(root.path)], env=env, capture_output=True, text=True, timeout=60)
        assert done.stderr == ""
        assert json.loads(done.stdout.splitlines()[0]) == {"9": "scored", "10": "missing"}
        assert "Permission denied" in done.stdout
    assert len(list(cache.rglob("runs.json"))) == 1
    assert not (root.path / "_ptb").exists()


@pytest.mark.parametrize("into", ["run directory", "never_started"])
def test_a_run_that_moves_while_we_look_is_seen(tmp_path: Path, into: str) -> None:
    root = Root(tmp_path)
    queued = own_run(root, 7, place="queue", outcome="queued")
    target = root.own("never_started") / "7"
    if into == "run directory":
        target = root.path / "reference_steps300_0.1h" / "demo_local_demo-base_7" / ".ptb"
    target.parent.mkdir(parents=True)

    class Moving(RunStore):
        def _below_ptb(self, place: Place) -> Iterator[Any]:
            yield from super()._below_ptb(place)
            if place == "never_started" and queued.exists():  # all other places have been looked at by now
                queued.rename(target)

    assert [record.id for record in Moving(root).scan().runs] == [7]
