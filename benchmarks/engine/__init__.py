"""Our engine alone, on one core: how it scales, how far it is from the hardware, what it holds in memory.

Each benchmark is a file with a `measure` that returns what goes into the result file of the same name: `scaling`, `limit` (beside the lower
bound: `products` timed by `gemm`), `memory` (with `memory_child`, the process that is measured), `window`, `passes`. `drive` asks the engine for them.
"""
