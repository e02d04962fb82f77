"""`python -m cluster <command>`: see `--help`."""

import argparse
import errno
import sys

from cluster import commands
from cluster.errors import ClusterError


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m cluster", description="The throw-away Kubernetes cluster.")
    commands.add_to(parser.add_subparsers(dest="command", required=True, metavar="COMMAND"))
    arguments = parser.parse_args()
    try:
        return int(arguments.run(arguments) or 0)
    except ClusterError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        sys.stderr.write(f"error: {error}: free some space, for example with `python -m cluster prune`\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; run the command again to go on\n")
        return 130


if __name__ == "__main__":
    sys.exit(main())
