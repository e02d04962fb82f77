"""The plan beside what torch's allocator had at its peak: `python -m benchmarks.sizing`."""
