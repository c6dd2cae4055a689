"""Brings hosts up until they answer, cuts their power, shuts them down, and takes everything away."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from functools import partial
from pathlib import Path

from tests.testbed import configuration, network, processes, rootfs, runtime
from tests.testbed.hosts import DOMAIN, GROUP, HOSTS, USERS, Host, known, with_needs
from tests.testbed.place import (
    BASE,
    FILES,
    IMAGE_ROOT,
    IMAGES,
    LAYERS,
    REPOSITORY,
    ROOTFS,
    RUN,
    Problem,
    locked,
    remove_tree,
    say,
    wait_for,
)
from tests.testbed.processes import Up

QUOTA_MIB = int(os.environ.get("PTB_TESTBED_QUOTA_MIB", "64"))


def build(force: bool = False) -> None:
    """Makes the root file system and the runtime where they are missing or outdated."""
    with locked("build"):
        stale = force or not rootfs.built()
        if stale and processes.anything_up(BASE):
            raise Problem("the recipe has changed but hosts are up: python -m tests.testbed down, then build")
        if stale:
            rootfs.build()
        runtime.build()
        if not processes.anything_up(BASE):
            for path in runtime.outdated():
                remove_tree(path)


def up(names: tuple[str, ...]) -> None:
    """Builds what is missing, boots the named hosts and those they need, and waits until every service answers."""
    wanted = with_needs(names)
    if any(not processes.state(name) for name in wanted):
        build()
    start = time.monotonic()
    RUN.mkdir(parents=True, exist_ok=True)
    configuration.operator_key()
    network.lay()
    for name in wanted:
        if not processes.state(name):
            _boot(name, HOSTS[name])
    configuration.ssh_configuration()
    booted = time.monotonic() - start
    for name in wanted:
        wait_for(f"{name}: sshd", partial(network.sshd_answers, name), 30)
    reachable = time.monotonic() - start
    for name in wanted:
        wait_for(f"{name}: schedulers", partial(schedulers_ready, name), 60, 0.1)
    say(
        f"up: {' '.join(wanted)} (boot {booted:.2f} s, sshd {reachable:.2f} s, schedulers "
        f"{time.monotonic() - start:.2f} s); ssh -F {RUN}/ssh/config-proxy {wanted[-1]}"
    )


def halt(name: str, graceful: bool = False) -> None:
    """Ends every process of a host. Its disk stays. Without grace it is a power cut: SIGKILL to process 1."""
    known(name)
    found = processes.state(name)
    if found:
        if graceful:
            _signal(found, signal.SIGTERM)
            with contextlib.suppress(Problem):
                wait_for(f"{name}: shutdown", lambda: not processes.state(name), 20)
        if processes.state(name):
            _signal(found, signal.SIGKILL)
            wait_for(f"{name}: end of its processes", lambda: not processes.state(name), 20)
    processes.forget(name)
    network.end_strays(name)
    network.remove(name)


def down() -> None:
    """Ends all hosts and throws their disks, keys and homes away."""
    for name in HOSTS:
        halt(name)
    network.remove("op")
    remove_tree(RUN)


def clean() -> None:
    """Takes everything down and removes what `build` made. Problem when another testbed in the folder is up."""
    down()
    with locked("build"):
        if processes.anything_up(BASE):
            raise Problem(f"another testbed in {BASE} is up; nothing that they share was removed")
        for path in (ROOTFS, LAYERS, IMAGES, IMAGE_ROOT, *BASE.glob("runtime*")):
            remove_tree(path)
        for path in (*BASE.glob("build-*.log"), BASE / "built.json", BASE / "pins"):
            path.unlink(missing_ok=True)


def status() -> dict[str, dict[str, str | int | bool]]:
    """Per host: whether it is up, and whether its services answer."""
    answer: dict[str, dict[str, str | int | bool]] = {}
    for name, host in HOSTS.items():
        found = processes.state(name)
        answer[name] = {"up": bool(found), "ip": host.ip}
        if found:
            answer[name] |= {"init": found.init, "sshd": network.sshd_answers(name), "link": network.link_state(name)}
            if host.condor or host.slurm_node:
                answer[name]["schedulers"] = schedulers_ready(name)
    return answer


def schedulers_ready(name: str) -> bool:
    """Whether the pool has the ads of this host, from this boot and no earlier one, and Slurm its node."""
    host = HOSTS[name]
    found = processes.state(name)
    booted = found.booted if found else 0
    for kind, roles in (("-startd", {"condor-exec"}), ("-schedd", {"condor-head", "condor-submit"})):
        if roles & set(host.roles):
            done = processes.run_inside(name, "condor_status", kind, "-af", "Machine", "DaemonStartTime")
            ads = [line.split() for line in done.stdout.splitlines()]
            mine = (ad[1] for ad in ads if len(ad) == 2 and ad[0] == f"{name}.{DOMAIN}")
            if not any(start.isdigit() and int(start) >= booted for start in mine):
                return False
    if host.slurm_node:
        done = processes.run_inside(name, "sinfo", "-h", "-n", name, "-o", "%T")
        return bool(set(done.stdout.split()) & {"idle", "mixed", "allocated", "completing"})
    return True


def _boot(name: str, host: Host) -> None:
    place = RUN / "hosts" / name
    network.end_strays(name)
    tree = configuration.prepare(name, host)
    home, shared = configuration.make_site(host.site)
    network.plug(name, host)
    environment = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "PTB_HOST": f"{name}.{DOMAIN}",
        "PTB_LOWER": ":".join(str(path) for path in (*(LAYERS / f"no-{one}" for one in host.hide), ROOTFS)),
        "PTB_STATE": str(place),
        "PTB_TREE": str(tree),
        "PTB_HOME": str(home),
        "PTB_SHARED": str(shared),
        "PTB_IMAGES": str(IMAGES),
        "PTB_FILES": str(FILES),
        "PTB_RUNTIME": str(runtime.folder()),
        "PTB_REPOSITORY": str(REPOSITORY),
        "PTB_FOLDERS": " ".join(runtime.FOLDERS),
        "PTB_FLEETING": " ".join(f"{one}:{user.uid}:{GROUP}" for one, user in USERS.items() if user.tmpfs_home),
        "PTB_QUOTA_MIB": str(QUOTA_MIB),
        "PTB_ROLES": " ".join(host.roles),
    }
    inside = ("nsenter", f"--net=/run/netns/{network.namespace(name)}", "--")
    alone = ("unshare", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child=SIGKILL", "--wd=/")
    words = (*inside, *alone, "--propagation", "private", "--", "/bin/bash", str(FILES / "ptb-boot"))
    log = place / "console.log"
    append = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    outputs = [(os.POSIX_SPAWN_OPEN, number, str(log), append, 0o644) for number in (1, 2)]
    files = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0), *outputs]
    # Not subprocess: the host is to outlive us, and nobody waits for it.
    booted = int(time.time())
    pid = os.posix_spawnp(words[0], words, environment, file_actions=files, setsid=True)
    started = processes.started_at(pid)

    def alive() -> None:
        if processes.started_at(pid) != started:
            raise Problem(f"{name} did not boot: {log.read_text()[-2000:]}")

    def first() -> int | None:
        alive()
        with contextlib.suppress(OSError):
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            return int(children[0]) if children else None
        return None

    init = wait_for(f"{name}: first process", first, 10, 0.005)
    processes.note(name, Up(pid, started or "", init, booted))

    def services_started() -> bool:
        alive()
        return Path(f"/proc/{init}/root/run/ptb/started").exists()

    wait_for(f"{name}: boot", services_started, 20, 0.01)


def _signal(found: Up, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(found.init, number)
