"""Run every check of this folder that needs no compiler.

python -m tools.check
"""

from __future__ import annotations

import sys

from tools.check import adjoints, includes, sizes, tags

if __name__ == "__main__":
    sys.exit(max(check.main() for check in (includes, tags, sizes, adjoints)))
