"""What holds for all tests: none adds rows to the lake of the checkout it runs in, and Ctrl-C works in what they start.

A shell without job control starts programs in the background with SIGINT ignored, and a program hands that on to all
that it starts. A run that a test interrupts would then go on.
"""

from __future__ import annotations

import os
import signal

os.environ.setdefault("SQUALL_NO_LAKE", "1")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
