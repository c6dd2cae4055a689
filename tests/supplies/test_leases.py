import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from ptb_tui.core import clock, files
from ptb_tui.supplies.leases import KEPT, Held, Lease, held

REPOSITORY = Path(__file__).parents[2]


def me() -> dict[str, Any]:
    return {"process": clock.this_process().to_json()}


def test_one_of_two_gets_it_and_then_the_other(tmp_path: Path) -> None:
    one, two = Lease(tmp_path / "locks" / "a"), Lease(tmp_path / "locks" / "a")
    assert one.look().free and one.take(me(), 60) and one.still()
    assert not two.take(me(), 60) and not two.look().free
    one.release()
    assert two.look().free and two.take(me(), 60) and not one.still()
    assert (tmp_path / "locks").stat().st_mode & 0o777 == 0o700
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in (tmp_path / "locks").iterdir())


def test_names_do_not_mix(tmp_path: Path) -> None:
    assert Lease(tmp_path / "a").take(me(), 60)
    assert Lease(tmp_path / "ab").take(me(), 60)
    (tmp_path / "b.refused").write_text("{}")
    (tmp_path / "b.before").write_text("{}")
    assert Lease(tmp_path / "b").look().number == 0


def test_a_dead_holder_is_passed_over_at_once(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    identity = clock.identify(child.pid)
    assert identity is not None
    lease = Lease(tmp_path / "a")
    assert lease.take({"process": identity.to_json()}, 60)
    assert not Lease(tmp_path / "a").take(me(), 60)
    child.kill()
    child.communicate()
    assert Lease(tmp_path / "a").take(me(), 60) and not lease.still()


def test_a_holder_elsewhere_is_passed_over_when_its_patience_is_used_up(tmp_path: Path) -> None:
    said = {"host": f"not-{socket.gethostname()}", "process": {"pid": 1, "start": 1, "boot": "x"}, "nonce": "1"}
    files.create(tmp_path / "a.000007", files.dump(said))
    observer = Lease(tmp_path / "a")
    assert not observer.take(me(), 0.2)
    limit = time.monotonic() + 20
    while not observer.take(me(), 0.2):
        assert time.monotonic() < limit
    assert observer.mine == 8


def test_whoever_took_it_for_a_run_can_give_it_back(tmp_path: Path) -> None:
    assert Lease(tmp_path / "a").take({"run": 7}, 60)
    other = Lease(tmp_path / "a")
    assert not other.release_for(lambda seen: seen.owner["run"] == 8)
    assert other.release_for(lambda seen: seen.owner["run"] == 7) and other.look().free
    assert not other.release_for(lambda seen: True)
    assert Lease(tmp_path / "a").take({"run": 8}, 60, lambda seen: False)


class Late(Lease):
    """Its first look shows a listing from before anybody came."""

    def look(self) -> Held:
        first, self.first = getattr(self, "first", True), False
        return Held(0, {}, True) if first else super().look()


def test_old_numbers_go_and_an_old_listing_takes_nothing(tmp_path: Path) -> None:
    for _ in range(3 * KEPT):
        lease = Lease(tmp_path / "a")
        assert lease.take(me(), 60)
        lease.release()
    assert len(list(tmp_path.iterdir())) <= 2 * KEPT + 2
    late = Late(tmp_path / "a")
    assert not late.take(me(), 60) and Lease(tmp_path / "a").look().free


def _work(folder: str, rounds: int) -> None:
    for _ in range(rounds):
        with held(Path(folder) / "lock", 60, 60) as lease:
            assert lease is not None
            inside = Path(folder) / "inside"
            fd = os.open(inside, os.O_CREAT | os.O_EXCL)  # fails when somebody else is inside
            os.close(fd)
            count = Path(folder) / "count"
            count.write_text(str(int(count.read_text()) + 1))
            inside.unlink()


def test_many_processes_one_at_a_time_with_kills(tmp_path: Path) -> None:
    (tmp_path / "count").write_text("0")
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_work, args=(str(tmp_path), 10)) for _ in range(4)]
    victim = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"import sys, time; sys.path.insert(0, {str(REPOSITORY)!r})\n"
            "from pathlib import Path\nfrom ptb_tui.supplies.leases import held\n"
            f"with held(Path({str(tmp_path)!r}) / 'lock', 60, 60): print('in', flush=True); time.sleep(60)",
        ],
        stdout=subprocess.PIPE,
    )
    assert victim.stdout is not None and victim.stdout.readline() == b"in\n"
    for worker in workers:
        worker.start()
    victim.send_signal(signal.SIGKILL)
    victim.communicate()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    assert (tmp_path / "count").read_text() == "40"


def test_waiting_has_an_end(tmp_path: Path) -> None:
    assert Lease(tmp_path / "a").take(me(), 60)
    with held(tmp_path / "a", 60, 0.0) as lease:
        assert lease is None
