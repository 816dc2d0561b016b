"""Facts that a message must carry, however it is worded.

A fact is a file, a field, a value, a number with its unit, a host, or the command or option that helps.
"""

from __future__ import annotations

import re


def naming(*facts: object) -> str:
    """A pattern for `pytest.raises(…, match=…)`: all facts occur, in any order, each as words of their own."""
    return r"(?s)\A" + "".join(f"(?=.*{_whole(str(fact))})" for fact in facts)


def assert_names(text: str | None, *facts: object) -> None:
    """Fail with the list of facts that `text` does not have as words of their own."""
    assert text is not None, f"there is no text; expected one that names {facts}"
    missing = [str(fact) for fact in facts if not re.search(_whole(str(fact)), text)]
    assert not missing, f"{text!r} does not name {missing}"


def _whole(fact: str) -> str:
    """The fact, neither preceded nor followed by more of the same word or number."""
    before = r"(?<!\w)" if re.match(r"\w", fact) else ""
    after = r"(?!\w)" if re.search(r"\w\Z", fact) else ""
    return before + re.escape(fact) + after
