"""What holds for all tests: none adds rows to the lake of the checkout it runs in."""

from __future__ import annotations

import os

os.environ.setdefault("SQUALL_NO_LAKE", "1")
