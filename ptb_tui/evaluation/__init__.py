"""The final evaluation: is the model loadable, which seeds, which attempts, what came of them (E §1.7)."""
