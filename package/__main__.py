"""What `pulumi package add` runs: the plugin, from this checkout."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from infra.package.provider import main

main()
