"""Real hosts for the tests: an HTCondor pool, a Slurm cluster, workstations, and Apptainer on all of them.

Each host is a tree of processes in pid, mount, network, uts and ipc namespaces of its own, above one root file system
that `build` makes from Debian packages. The addresses exist only in network namespaces that `up` makes: the machine
that runs the tests has no route to them, nor they to anything else. `python -m tests.testbed --help` lists the verbs.

Standard library only; needs root, overlayfs, iproute2, util-linux, openssh-client and, to build, mmdebstrap.
"""
