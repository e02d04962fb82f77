"""Benchmarks: against the reference servers (`python -m benchmarks.peers`) and of the engine alone (`python -m benchmarks.engine`).

Both write JSON under `benchmarks/results/`, from which `python -m benchmarks.report` makes the tables of docs/benchmarks.md.
"""
