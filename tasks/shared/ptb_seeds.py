"""One sampling seed for every generate call (E §1.7.2).

A server seeds one generator per request: the same seed on all requests would give all of them the same noise.
"""

import hashlib

_MASK = 0x7FFFFFFF


def sample_seed(run_seed: int, sample_id: object, epoch: int = 1, call: int = 0) -> int:
    """The seed, 0 to 2**31 - 1, of call number `call` for one sample in one epoch of a run."""
    name = "{}:{}:{}:{}".format(run_seed, sample_id, epoch, call).encode("ascii", "backslashreplace")
    return int.from_bytes(hashlib.sha256(name).digest()[:4], "little") & _MASK
