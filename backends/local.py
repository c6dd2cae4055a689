"""This machine's own slots. The queue is files (`_ptb/queue`), so submitting means: look after the queue now."""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Sequence

from ptb_tui.core.backend import Capabilities, Job, Place, Slot, Submission
from ptb_tui.core.layout import Root


class LocalBackend:
    """Slots of one machine, handed out by dispatch under locks that the work itself holds."""

    capabilities = Capabilities(name="local")

    def __init__(self, place: Place) -> None:
        self.place = place
        self.root = Root(place.root)

    def _dispatch(self) -> None:
        logs = self.root.own("logs")
        logs.mkdir(parents=True, exist_ok=True)
        with open(logs / "dispatch.log", "ab") as log:
            subprocess.Popen(
                [*self.place.command, "dispatch", str(self.root.path)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env={**os.environ, **self.place.env},
                start_new_session=True,
            )

    def submit(self, jobs: Sequence[Job]) -> list[Submission]:
        """Jobs are in the queue already; a process of its own gives them slots."""
        self._dispatch()
        return [Submission(job, handle=str(job.run_id), created=False) for job in jobs]

    def cancel(self, job: Job) -> None:
        """A running job sees `cancel.json` by itself; a queued one leaves the queue at the next look."""
        self._dispatch()

    def capacity(self) -> list[Slot]:
        """The `cpu` slots and whether somebody works in them."""
        return [
            Slot(f"cpu:{number}", busy=self._busy(self.root.state / f"slot-cpu-{number}.lock"))
            for number in range(self.place.slots or 1)
        ]

    def _busy(self, path: os.PathLike[str]) -> bool:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return False
        except OSError:
            return True
        finally:
            os.close(fd)


def create(place: Place) -> LocalBackend:
    """The entry point."""
    return LocalBackend(place)
