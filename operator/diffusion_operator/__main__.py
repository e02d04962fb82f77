"""`python -m diffusion_operator`, and the console script `diffusion-operator`."""

import sys

from diffusion_operator.shell.cli import main

if __name__ == "__main__":
    sys.exit(main())
