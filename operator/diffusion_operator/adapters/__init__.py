"""What touches the world: the API server, the gateways, the clock. Nothing here decides.

`cluster` and `gateways` raise only what `errors` defines.
"""
