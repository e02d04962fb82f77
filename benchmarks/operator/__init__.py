"""The operator with a thousand models in mid-canary, on a real API server."""
