"""How far a model's weights are from a base model and from the base's instruct twin, and what that says."""

from __future__ import annotations

import hashlib
import math
import os
import time
from dataclasses import dataclass, field
from typing import Dict, List, Optional

import numpy as np

from weights.tensors import SIZES, Tensor, Unreadable, opened, rounded, sampled_rows, tensors_of, together

# Behind each: what was measured on invented models of 0.1 million weights. Unverified on real ones.
SAME = 0.9999  # share of equal elements, after rounding to the candidate's type, of a model that is another unchanged
INSTRUCT = 0.02  # distance to the twin, of that between base and twin: 0 for it; 0.25 for it trained on; 1.2 tuned
TOWARDS = 0.8  # cosine of the two deltas: 1 for the twin, 0.97 for one trained on; 0.0 for a fine-tune
UNRELATED = 0.9  # distance to the base, of the base's length: 1.4 for another model; 0.05 for a fine-tune
LOW_RANK = 0.25  # part of the full rank with 90 % of the delta's energy: 0.06 for an adapter; 0.7 for a fine-tune
COVERED = 0.95  # share of weights that must be compared before anything is concluded
SAMPLE_ROWS, SAMPLE_COLUMNS = 256, 512
MATRICES = 24  # of which the rank is taken


@dataclass
class Sums:
    """Sums over the compared elements: of squares of the base, of differences, and of the deltas' product."""

    count: int = 0
    base: float = 0.0
    moved: float = 0.0  # candidate − base
    apart: float = 0.0  # twin − base
    left: float = 0.0  # candidate − twin
    product: float = 0.0
    equal: int = 0  # elements equal to the base's
    equal_twin: int = 0
    with_twin: int = 0  # elements compared with the twin

    def add(self, other: "Sums") -> None:
        """Add another tensor's."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


@dataclass
class Compared:
    """The comparison of a whole model. `rank` is a part of the full one, and None when no matrix moved."""

    total: Sums = field(default_factory=Sums)
    tensors: Dict[str, float] = field(default_factory=dict)  # name → relative distance to the base
    not_compared: List[str] = field(default_factory=list)
    covered: float = 0.0  # share of the candidate's weights that were compared
    covered_twin: float = 0.0
    rank: Optional[float] = None
    unchanged: int = 0  # tensors equal to the base's

    @property
    def to_base(self) -> float:
        """‖candidate − base‖ / ‖base‖."""
        return math.sqrt(self.total.moved / self.total.base) if self.total.base else 0.0

    @property
    def to_twin(self) -> Optional[float]:
        """‖candidate − twin‖ / ‖twin − base‖; None without a twin that differs from the base."""
        return math.sqrt(self.total.left / self.total.apart) if self.total.apart else None

    @property
    def cosine(self) -> Optional[float]:
        """Between candidate − base and twin − base."""
        length = math.sqrt(self.total.moved * self.total.apart)
        return self.total.product / length if length else None


def squares(values: object) -> float:
    """The sum of squares, in double precision."""
    flat = np.asarray(values, np.float64)
    return float(np.dot(flat, flat))


def measure(candidate: Tensor, base: Tensor, twin: Optional[Tensor]) -> Sums:
    """The sums of one tensor; of rows that all have when an embedding was made longer."""
    sums = Sums()
    for mine, theirs, other in together([candidate, base, twin]):
        with np.errstate(all="ignore"):
            mine, theirs = (np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0) for values in (mine, theirs))
            close = rounded(theirs, candidate.dtype)
            delta = np.subtract(mine, close)
            sums.count += len(mine)
            sums.equal += int(np.count_nonzero(delta == 0))
            sums.base += squares(theirs)
            sums.moved += squares(delta)
            if other is not None:
                other = rounded(np.nan_to_num(other, nan=0.0, posinf=0.0, neginf=0.0), candidate.dtype)
                away, left = np.subtract(other, close), np.subtract(mine, other)
                sums.apart += squares(away)
                sums.left += squares(left)
                sums.product += float(np.dot(delta.astype(np.float64), away.astype(np.float64)))
                sums.equal_twin += int(np.count_nonzero(left == 0))
                sums.with_twin += len(mine)
    return sums


def fits(one: Optional[Tensor], other: Tensor) -> bool:
    """Whether two tensors can be compared: of a type with numbers, and equal but for the number of rows."""
    return (
        one is not None and one.dtype in SIZES and other.dtype in SIZES
        and len(one.shape) == len(other.shape) and one.shape[1:] == other.shape[1:] and one.count > 0 < other.count
    )  # fmt: skip


def rank_of(candidate: Tensor, base: Tensor) -> Optional[float]:
    """Singular values with 90 % of the delta's energy, as a part of all, on a sample of its rows and columns."""
    delta = sampled_rows(candidate, SAMPLE_ROWS, SAMPLE_COLUMNS) - sampled_rows(base, SAMPLE_ROWS, SAMPLE_COLUMNS)
    if not np.isfinite(delta).all() or not delta.any():
        return None
    energy = np.cumsum(np.linalg.svd(delta.astype(np.float64), compute_uv=False) ** 2)
    return float((np.searchsorted(energy, 0.9 * energy[-1]) + 1) / len(energy))


def compare_weights(candidate: str, base: str, twin: str = "", seconds: float = math.inf) -> Compared:
    """Compare the safetensors of model folders, tensor by tensor. Raises Unreadable, also after so many seconds."""
    ends = time.monotonic() + seconds
    mine, theirs = tensors_of(candidate), tensors_of(base, follow=True)
    others = tensors_of(twin, follow=True) if twin else {}
    result, matrices = Compared(), []
    for name, tensor in sorted(mine.items()):
        if time.monotonic() > ends:
            raise Unreadable("it took longer than %d seconds" % seconds)
        reference, other = theirs.get(name), others.get(name)
        if reference is None or not fits(reference, tensor):
            result.not_compared.append(name)
            continue
        sums = measure(tensor, reference, other if other is not None and fits(other, tensor) else None)
        result.total.add(sums)
        result.tensors[name] = math.sqrt(sums.moved / sums.base) if sums.base else float(sums.moved > 0)
        result.unchanged += sums.equal == sums.count
        if sums.moved and tensor.shape == reference.shape and len(tensor.shape) == 2 and min(tensor.shape) >= 16:
            matrices.append((tensor, reference))
    whole = sum(tensor.count for tensor in mine.values())
    result.covered = result.total.count / whole if whole else 0.0
    result.covered_twin = result.total.with_twin / whole if whole else 0.0
    step = max(1, len(matrices) // MATRICES)
    ranks = [rank for pair in matrices[::step] if (rank := rank_of(*pair)) is not None]
    result.rank = float(np.median(ranks)) if ranks else None
    return result


def conclusions(found: Compared) -> List[str]:
    """What the distances say, by name: `nothing compared`, `unchanged base`, `equals instruct`, `towards instruct`,
    `unrelated`, `adapter merged`, `fine-tuned`."""
    if found.covered < COVERED:
        return ["nothing compared"]
    total, said = found.total, []
    if total.equal >= SAME * total.count:
        return ["unchanged base"]
    if found.covered_twin >= COVERED and found.to_twin is not None:
        same = total.equal_twin >= SAME * total.with_twin
        if same or found.to_twin <= INSTRUCT:
            said.append("equals instruct")
        elif (found.cosine or 0.0) >= TOWARDS:
            said.append("towards instruct")
    if not said and found.to_base >= UNRELATED:
        said.append("unrelated")
    if not said:
        said.append("adapter merged" if found.rank is not None and found.rank <= LOW_RANK else "fine-tuned")
    return said


def tokenizer_digest(folder: str, follow: bool = False) -> str:
    """sha256 of tokenizer.json; empty when there is none that can be read."""
    try:
        fd = opened(os.path.join(folder, "tokenizer.json"), follow)
    except Unreadable:
        return ""
    digest, left = hashlib.sha256(), 256 << 20
    with os.fdopen(fd, "rb") as file:
        while left > 0 and (data := file.read(1 << 20)):
            digest.update(data)
            left -= len(data)
    return digest.hexdigest()
