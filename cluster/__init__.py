"""The throw-away Kubernetes cluster that the demo and the end-to-end tests run on.

Real Kubernetes programs, compiled from pinned Go modules, in namespaces of their own: see `README.md`.
"""
