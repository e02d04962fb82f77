"""What the operator wrote, from the throw-away cluster's audit log."""

import json

from cluster.paths import StateFolder


def operator_writes() -> int:
    """Requests of the operator's service account that changed something, since the cluster was started."""
    count = 0
    with StateFolder.of_this_checkout().audit_log.open() as log:
        for line in log:
            event = json.loads(line)
            mine = event.get("user", {}).get("username", "").endswith(":diffusion-operator")
            written = event.get("verb") in {"create", "update", "patch", "delete", "deletecollection"}
            count += mine and written and event.get("stage") == "ResponseComplete"
    return count
