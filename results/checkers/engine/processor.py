"""Choose numpy's settings for this processor, so that it sorts as fast as possible.

Numpy sorts with AVX-512 if the processor has it, with an instruction (compress to memory) that takes AMD's Zen 4 some
hundred cycles. There the AVX2 sort is five times as fast: ten million numbers in 0.13 s instead of 0.65 s. Numpy reads
from its environment, when it is loaded, which instructions it must not use.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

PROCESSORS: Final = Path("/proc/cpuinfo")
WITHOUT_AVX512: Final = {"NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_SKX"}
"""The names of numpy 2.4 and of earlier versions; each version ignores a name that it does not know."""
FAMILY: Final = 25
ZEN_4_MODELS: Final = (*range(0x10, 0x20), *range(0x60, 0x80), *range(0xA0, 0xB0))


def quick_sorting(processors: Path = PROCESSORS) -> dict[str, str]:
    """Return the environment in which numpy sorts fast on this processor; empty if none is needed, or if unknown."""
    try:
        told = processors.read_text()
    except OSError:
        return {}
    found = re.search(r"AuthenticAMD.*?cpu family\s*: (\d+).*?model\s*: (\d+)", told, re.DOTALL)
    is_zen_4 = found is not None and int(found[1]) == FAMILY and int(found[2]) in ZEN_4_MODELS
    return dict(WITHOUT_AVX512) if is_zen_4 else {}
