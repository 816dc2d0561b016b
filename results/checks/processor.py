"""What numpy must be told about the processor, so that it sorts as fast as it can.

Numpy sorts with AVX-512 where there is any, by an instruction (compress to memory) that AMD's Zen 4 takes some hundred
cycles for. There the AVX2 sort is five times as fast: ten million numbers in 0.13 s instead of 0.65 s. Numpy reads
which instructions it shall not use from its environment, when it is loaded.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

PROCESSORS: Final = Path("/proc/cpuinfo")
WITHOUT_AVX512: Final = {"NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_SKX"}
"""By the names of numpy 2.4 and of those before it; each says nothing of a name it does not know."""
FAMILY: Final = 25
ZEN_4_MODELS: Final = (*range(0x10, 0x20), *range(0x60, 0x80), *range(0xA0, 0xB0))


def quick_sorting(processors: Path = PROCESSORS) -> dict[str, str]:
    """The environment in which numpy sorts fast on this processor; nothing where it does by itself, or if unknown."""
    try:
        told = processors.read_text()
    except OSError:
        return {}
    found = re.search(r"AuthenticAMD.*?cpu family\s*: (\d+).*?model\s*: (\d+)", told, re.DOTALL)
    is_zen_4 = found is not None and int(found[1]) == FAMILY and int(found[2]) in ZEN_4_MODELS
    return dict(WITHOUT_AVX512) if is_zen_4 else {}
