"""Ways in, networks and disks of the hosts."""

from __future__ import annotations

import pytest

from tests.testbed.bed import Bed


@pytest.mark.ssh
def test_far_is_reached_through_the_jump_host_alone(testbed: Bed) -> None:
    testbed.up("far", "ws")
    assert testbed.ssh("far", "hostname").stdout == "far.ptb.test\n"
    reach = "timeout 3 bash -c 'exec 3<>/dev/tcp/10.78.0.2/22 && head -c 4 <&3'"
    assert testbed.run("jump", "bash", "-c", reach).stdout == "SSH-"
    assert testbed.run("ws", "bash", "-c", reach).returncode != 0
    assert "default" not in testbed.output("jump", "ip", "route")


@pytest.mark.ssh
def test_root_logs_in_on_ws_only(testbed: Bed) -> None:
    testbed.up("ws", "jump")
    assert testbed.ssh("ws", "id -u", user="root").stdout == "0\n"
    refused = testbed.ssh("jump", "id -u", user="root")
    assert refused.returncode == 255
    assert "Permission denied" in refused.stderr


@pytest.mark.ssh
def test_what_a_console_meets_at_a_login(testbed: Bed) -> None:
    testbed.up("ws")
    assert testbed.ssh("ws", "echo wanted", user="noisy").stdout.startswith("Welcome back")
    assert testbed.ssh("ws", "command -v condor_q sbatch").returncode != 0


@pytest.mark.ssh
def test_a_host_that_lost_its_power_keeps_its_disk_but_no_home_in_memory(testbed: Bed) -> None:
    testbed.up("far")
    for user in ("alice", "fleeting"):
        testbed.output("far", "sh", "-c", "echo kept > file && sync", user=user)
    testbed.crash("far")
    assert not testbed.answers("far")
    testbed.up("far")
    assert testbed.ssh("far", "cat file").stdout == "kept\n"
    assert testbed.ssh("far", "cat file", user="fleeting").returncode != 0


@pytest.mark.testbed
def test_the_results_folder_of_fixed_size_fills_up(testbed: Bed) -> None:
    testbed.up("ws")
    done = testbed.run("ws", "dd", "if=/dev/zero", "of=/quota/alice", "bs=1M", "count=4096")
    testbed.output("ws", "rm", "/quota/alice")
    assert "No space left on device" in done.stderr
