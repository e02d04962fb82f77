"""What our gateway costs beside litellm's proxy and Envoy, in front of a worker that does nothing: `python -m benchmarks.gateway`.

A stub answers over OpenAI's HTTP for the others and over Triton's gRPC for ours, at the same pace. Envoy parses no body and decides nothing: it is the
bound. What a proxy can carry is told from its own CPU time, so that a client that is slower than the proxy does not hide it.
"""
