"""Evidence for the gates, read from a Prometheus that scrapes the gateways.

windows → `queries` (PromQL) → `client` (prometheus-api-client through `session`, in threads) → `samples` (increases of
counters) → `evidence` (what gates are judged by). `readings` puts them in a row; `absence` says why a series is not there.
"""
