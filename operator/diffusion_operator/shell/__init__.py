"""What runs: one loop per resource, woken by kopf's watches, and the process around the loops."""
