"""The picture of a register's witness: well-formed, a bar per operation, an arrow per order in time."""

from __future__ import annotations

from xml.etree import ElementTree

from squall.results.checkers.registers.check import check_registers
from squall.results.checkers.registers.operations import RegisterOperation, register_table
from squall.results.checkers.registers.result import RegisterOperationFacts
from squall.results.history.segments import FaultWindow
from squall.results.synthetic.forge_registers import REGISTER_INJECTIONS
from squall.results.witnesses.register_diagram import label, register_diagram

SVG = "{http://www.w3.org/2000/svg}"


def test_every_forged_witness_has_a_picture_with_all_its_operations() -> None:
    for name, case in REGISTER_INJECTIONS.items():
        for witness in check_registers(register_table(case.history(3))).witnesses:
            picture = ElementTree.fromstring(register_diagram(witness))
            assert len(picture.findall(f"{SVG}rect")) == len(witness.operations), name
            assert len(picture.findall(f"{SVG}circle")) == len(witness.orders), name


def test_an_arrow_leads_forward_in_time_and_a_fault_is_a_shade() -> None:
    history = [
        RegisterOperation("write", 1, 100, 200, value=5),
        RegisterOperation("write", 2, 300, 400, value=7),
        RegisterOperation("read", 3, 500, 600, found=7),
        RegisterOperation("read", 4, 700, 800, found=5),
    ]
    (witness,) = check_registers(register_table(history)).witnesses
    fault = FaultWindow(id="1", fault="isolate", targets=("c2",), summary="", injected=250)
    drawn = register_diagram(witness, faults=(fault,))
    picture = ElementTree.fromstring(drawn)
    arrows = [one for one in picture.findall(f"{SVG}line") if one.get("stroke") == "#666666"]
    assert len(arrows) == 2 and all(float(one.get("x1", 0)) < float(one.get("x2", 0)) for one in arrows)
    assert [one.text for one in picture.findall(f"{SVG}text") if one.get("class") == "faultname"] == ["isolate c2"]
    assert drawn == register_diagram(witness, faults=(fault,)), "the same witness has the same picture"


def test_operations_in_the_fewest_words() -> None:
    facts = RegisterOperationFacts(op_id=1, f="cas", type="fail", process=1, invoked=0, expected=1, value=2)
    refused = RegisterOperationFacts(
        op_id=1, f="cas", type="fail", process=1, invoked=0, expected=1, value=2, found=3, refused=True, version=8
    )
    unknown = RegisterOperationFacts(op_id=1, f="write", type="info", process=1, invoked=0, value=2)
    assert [label(one) for one in (facts, refused, unknown)] == [
        "cas 1 to 2 → fail",
        "cas 1 to 2 → refused, held 3 (version 8)",
        "write 2 → unknown",
    ]
