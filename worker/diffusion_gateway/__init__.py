"""The gateway: OpenAI-compatible HTTP in front, Triton's gRPC streams or another server's HTTP behind.

The way of a request: `connections` and `edge` take it in (`access` and `keys` say whose) → `app` → `openai.requests` checks it →
`routes` plans which arms are asked, by rules (`workload` guesses what for), weights and users (`sticky`) → `dispatch` asks them one
after another → `attempts` asks an arm's pods, as `breakers` allow → `pool` connects, to `triton` or `external` → `answers` reads the
events of all rows, `shortcomings` says whether they are good enough to be sent → `stream` turns them into OpenAI's chunks. Meanwhile
its `trace` is filled, from which `metrics`, the access log and `spans` are made at the end.

Beside it `watch` and `table_source` keep the `routes.Table` equal to what the operator and the endpoints of its Services say, and
`pairs` has AR answer a share of the prompts as well.
"""
