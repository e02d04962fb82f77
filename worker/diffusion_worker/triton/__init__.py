"""Our engine behind Triton.

`diffusion-worker serve` runs the `launcher`: it reads what the operator wrote (`repository`), finds Triton
(`installation`), starts it and watches it (`watch`). Triton's python stub loads `model`, which hands requests to the
engine and gives its events to `delivery`, the thread that talks to Triton; `metrics` are counted there as well.
"""
