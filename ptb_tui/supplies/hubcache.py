"""Filling the cache of the hub: resumable, a few files at a time, and nothing half counts as cached (H §5.4)."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from ptb_tui.core import clock, files
from ptb_tui.core.errors import PtbError, StorageError
from ptb_tui.supplies import claims
from ptb_tui.supplies.hub import Repo, record_file, state
from ptb_tui.supplies.hubapi import Hub, HubUnreachable, Listing, RemoteFile

WORKERS = 4
SPARE = 1 << 30  # bytes that stay free
TOKENS = ("HF_TOKEN", "MY_HF_TOKEN")


def token(values: Mapping[str, str], cache: Path) -> str:
    """The account: HF_TOKEN or MY_HF_TOKEN of the settings, else what the hub's own login left in the cache."""
    named = next((values[name] for name in TOKENS if values.get(name)), "")
    return named or (files.read_bytes(cache / "token", 4096) or b"").decode("utf-8", "replace").strip()


@dataclass(frozen=True, slots=True)
class Failure:
    """One repository that is not cached, why, and what to do."""

    repo: Repo
    words: str
    remedy: str = ""


@dataclass(slots=True)
class Outcome:
    """How it went, repository by repository."""

    there: list[Repo] = field(default_factory=list)
    fetched: list[Repo] = field(default_factory=list)
    failed: list[Failure] = field(default_factory=list)


@dataclass(slots=True)
class Tally:
    """Bytes so far, counted by several threads; each change is told on."""

    tell: Callable[[int, int], None]
    total: int = 0
    done: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, count: int) -> None:
        """So many more."""
        with self.lock:
            self.done += count
            done, total = self.done, self.total
        self.tell(done, total)


def sizes(hub: Hub, repos: Sequence[Repo], workers: int = WORKERS) -> dict[Repo, Listing | PtbError]:
    """What the hub has of each: its files, or why it does not say. Stops asking when nothing answers at all."""
    gone = threading.Event()

    def ask(repo: Repo) -> Listing | PtbError:
        if gone.is_set():
            return HubUnreachable(f"{hub.endpoint} gave no answer", hint="the network, a proxy, or HF_ENDPOINT")
        try:
            return hub.listing(repo)
        except PtbError as error:
            if isinstance(error, HubUnreachable):
                gone.set()
            return error

    with ThreadPoolExecutor(workers, "hub") as pool:
        return dict(zip(repos, pool.map(ask, repos), strict=True))


def cache(
    folder: Path,
    repos: Sequence[Repo],
    hub: Hub,
    say: Callable[[str], None],
    tell: Callable[[str, int, int], None],
    *,
    workers: int = WORKERS,
    refresh: bool = False,
) -> Outcome:
    """Cache repositories at what `main` is now, and record the commit; what is whole already is left alone unless
    `refresh` asks for the newest commit. One that fails keeps none of the others.

    NotAllowed while another process fills this cache, StorageError when it cannot be written or has no room.
    """
    outcome = Outcome()
    files.ensure_writable(folder / "ptb", "the cache of the hub", "HF_HOME")
    with claims.claimed(folder / "ptb" / "caching.json", f"the cache {folder}"):
        wanted = []
        for repo in repos:
            if not refresh and state(folder, repo).state == "cached":
                outcome.there.append(repo)
            else:
                wanted.append(repo)
        say(f"{len(outcome.there)} cached, {len(wanted)} to look at")
        tell("asking the hub what there is", 0, 0)
        listings: dict[Repo, Listing] = {}
        for repo, answer in sizes(hub, wanted, workers).items():
            if isinstance(answer, Listing):
                listings[repo] = answer
            else:
                outcome.failed.append(Failure(repo, answer.message, answer.hint))
                say(f"{answer.message}; {answer.hint}" if answer.hint else answer.message)
        _fill(folder, listings, hub, outcome, say, tell, workers)
    return outcome


def _fill(
    folder: Path,
    listings: Mapping[Repo, Listing],
    hub: Hub,
    outcome: Outcome,
    say: Callable[[str], None],
    tell: Callable[[str, int, int], None],
    workers: int,
) -> None:
    jobs: list[tuple[Repo, RemoteFile]] = []
    missing = total = 0
    for repo, listing in listings.items():
        blobs = folder / "hub" / repo.folder / "blobs"
        blobs.mkdir(parents=True, exist_ok=True)
        for file in {file.etag: file for file in listing.files}.values():
            total += file.size
            if not (blobs / file.etag).is_file():
                missing += file.size - _have(blobs, file)
                jobs.append((repo, file))
    free = shutil.disk_usage(folder).free
    if missing + SPARE > free:
        raise StorageError(
            f"{folder} has {free / 1e9:.1f} GB free, and {missing / 1e9:.1f} GB are to be fetched",
            hint="free space, choose another HF_HOME, or fetch less with --only",
        )
    left = {repo: sum(1 for job in jobs if job[0] == repo) for repo in listings}
    errors: dict[Repo, PtbError] = {}
    current = ""

    def told(done: int, whole: int) -> None:
        tell(current, done, whole)

    tally = Tally(told, total, total - missing)

    def settle(repo: Repo) -> None:
        if repo in errors:
            error = errors[repo]
            outcome.failed.append(Failure(repo, error.message, error.hint))
            say(f"{error.message}; {error.hint}" if error.hint else error.message)
            return
        _publish(folder, repo, listings[repo])
        outcome.fetched.append(repo)
        say(f"cached {repo} at {listings[repo].commit[:12]}, {listings[repo].size / 1e6:.1f} MB")

    def work(job: tuple[Repo, RemoteFile]) -> None:
        nonlocal current
        repo, file = job
        if repo not in errors:
            current = f"{repo.id}: {file.path}"
            target = folder / "hub" / repo.folder / "blobs" / file.etag
            try:
                hub.fetch(repo, listings[repo].commit, file, target, tally.add)
            except PtbError as error:
                errors[repo] = error
        with tally.lock:
            left[repo] -= 1
            last = left[repo] == 0
        if last:
            settle(repo)

    for repo, count in left.items():
        if not count:
            settle(repo)
    with ThreadPoolExecutor(workers, "hub") as pool:
        _wait(pool.submit(work, job) for job in jobs)
    outcome.fetched.sort(key=list(listings).index)  # the order in which they were asked for


def _wait(futures: Iterable[object]) -> None:
    """All of them; the first error that is nobody's result (a full disk) ends the rest."""
    pending = list(futures)
    try:
        for future in pending:
            future.result()  # type: ignore[attr-defined]
    except BaseException:
        for future in pending:
            future.cancel()  # type: ignore[attr-defined]
        raise


def _have(blobs: Path, file: RemoteFile) -> int:
    with contextlib.suppress(OSError):
        return min(file.size, (blobs / f"{file.etag}.ptb-part").stat().st_size)
    return 0


def _publish(folder: Path, repo: Repo, listing: Listing) -> None:
    """Name the files of a commit, then the commit, then record it: an interruption in between counts as partial."""
    top = folder / "hub" / repo.folder
    snapshot = top / "snapshots" / listing.commit
    for file in listing.files:
        path = snapshot / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        target = os.path.relpath(top / "blobs" / file.etag, path.parent)
        if path.is_symlink() and os.readlink(path) == target:
            continue
        path.unlink(missing_ok=True)
        path.symlink_to(target)
    snapshot.mkdir(parents=True, exist_ok=True)
    (top / "refs").mkdir(exist_ok=True)
    files.replace(top / "refs" / "main", listing.commit)
    record = {
        "v": 1,
        "kind": repo.kind,
        "id": repo.id,
        "revision": "main",
        "commit": listing.commit,
        "t": clock.utc_text(),
        "files": [[file.path, file.size, file.etag] for file in listing.files],
    }
    files.replace(record_file(folder, repo), files.dump(record))


def summary(outcome: Outcome) -> str:
    """One line; PtbError names what is missing when something is."""
    words = f"{len(outcome.there) + len(outcome.fetched)} cached, {len(outcome.fetched)} of them new"
    if not outcome.failed:
        return words
    first = outcome.failed[0]
    more = f" (and {len(outcome.failed) - 1} more: `ptb-tui data status`)" if len(outcome.failed) > 1 else ""
    raise PtbError(f"{words}; {len(outcome.failed)} not: {first.words}{more}", hint=first.remedy)
