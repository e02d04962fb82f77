"""What the operator wrote, from the throw-away cluster's audit log."""

import json

from cluster.paths import StateFolder


def operator_writes() -> int:
    """Requests of the operator's service account that changed something, since the cluster was started.

    Its Lease is left out: it is renewed each half minute, whatever happens.
    """
    count = 0
    with StateFolder.of_this_checkout().audit_log.open() as log:
        for line in log:
            event = json.loads(line)
            mine = event.get("user", {}).get("username", "").endswith(":diffusion-operator")
            written = event.get("verb") in {"create", "update", "patch", "delete", "deletecollection"}
            is_lease = event.get("objectRef", {}).get("resource") == "leases"
            count += mine and written and not is_lease and event.get("stage") == "ResponseComplete"
    return count
