"""PostTrainBench: runs, judges, scores and the operator's console."""

__version__ = "0.1.0"
