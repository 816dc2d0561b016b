"""Write JUnit XML: one testcase for each scenario. What is not known is an error, and never a pass. Pure.

    valid, as expected             a testcase without a child
    a finding, or a missed one     <failure>
    unknown, error, refused        <error>
    not run; excused by quarantine <skipped> with the reason

Properties of a testcase hold seed, verdict and the command that repeats it. Earlier attempts are in its <system-out>.
`tests/harness/nightly/junit.xsd` is the schema that files hold to.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

_NOT_XML: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Case:
    """A testcase."""

    name: str
    classname: str
    seconds: float = 0.0
    outcome: Literal["passed", "failure", "error", "skipped"] = "passed"
    message: str = ""
    detail: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    output: str = ""


def junit_xml(
    suite: str, cases: Sequence[Case], *, started: str = "", properties: Mapping[str, str] | None = None
) -> str:
    """Return the document. `started` is a time in ISO 8601 without a zone, UTC."""
    counts = {
        "tests": str(len(cases)),
        "failures": str(sum(one.outcome == "failure" for one in cases)),
        "errors": str(sum(one.outcome == "error" for one in cases)),
        "skipped": str(sum(one.outcome == "skipped" for one in cases)),
        "time": f"{sum(one.seconds for one in cases):.3f}",
    }
    root = ET.Element("testsuites", {"name": _text(suite), **counts})
    of = ET.SubElement(
        root, "testsuite", {"name": _text(suite), **counts, **({"timestamp": started} if started else {})}
    )
    _add_properties(of, properties or {})
    for one in cases:
        _add_case(of, one)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _add_case(of: ET.Element, one: Case) -> None:
    names = {"name": _text(one.name), "classname": _text(one.classname), "time": f"{one.seconds:.3f}"}
    case = ET.SubElement(of, "testcase", names)
    _add_properties(case, one.properties)
    if one.outcome != "passed":
        attributes = {"message": _text(one.message)}
        if one.outcome != "skipped":
            attributes["type"] = _text(one.properties.get("verdict", one.outcome))
        ET.SubElement(case, one.outcome, attributes).text = _text(one.detail) or None
    if one.output:
        ET.SubElement(case, "system-out").text = _text(one.output)


def _add_properties(of: ET.Element, properties: Mapping[str, str]) -> None:
    if properties:
        parent = ET.SubElement(of, "properties")
        for name, value in properties.items():
            ET.SubElement(parent, "property", {"name": _text(name), "value": _text(value)})


def _text(text: str) -> str:
    """Return the text without characters that XML cannot hold, not even escaped."""
    return _NOT_XML.sub("�", text)
