"""The gateway: OpenAI-compatible HTTP in front, Triton's gRPC streams behind.

The way of a request: `app` reads and answers HTTP → `openai.requests` validates → `routes` chooses an arm → `dispatch`
tries its pods, then the other arm → `triton` streams events from a pod → `stream` turns them into OpenAI's chunks.
Beside it `watch` keeps the `routes.Table` equal to what the operator and the endpoints of its Services say.
"""
