"""Histories of other tools become runs that are judged as the tools would judge them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from squall.results.check import check_run
from squall.results.checkers.engine.engines import InProcess
from squall.results.history.manifest import Manifest, RateRule, Required
from squall.results.history.segments import read_faults
from squall.results.importing.run import NAMES_FILE, import_history
from squall.results.importing.trouble import ForeignTrouble
from squall.results.verdict.verdict import Verdict

Event = tuple[object, ...]
"""Process, type, function, value as EDN, and more of the map as EDN."""


def edn(*events: Event) -> str:
    rows = []
    for process, kind, f, value, *more in events:
        rows.append(f"{{:process {process}, :type :{kind}, :f :{f}, :value {value} {' '.join(map(str, more))}}}")
    return "\n".join(rows)


def op(process: int, f: str, value: str, answer: str | None = None, kind: str = "ok", more: str = "") -> list[Event]:
    """An invocation with its completion."""
    return [(process, "invoke", f, value, more), (process, kind, f, value if answer is None else answer, more)]


def imported(tmp_path: Path, text: str, tool: str = "jepsen", **options: object) -> Path:
    file, run = tmp_path / "history.edn", tmp_path / "run"
    file.write_text(text)
    run.mkdir()
    import_history(tool, file, run, command="", **{"model": None, "initial": None, **options})  # type: ignore[arg-type]
    return run


def judged(tmp_path: Path, *parts: list[Event], tool: str = "jepsen", **options: object) -> Verdict:
    text = edn(*(event for part in parts for event in part))
    return check_run(imported(tmp_path, text, tool, **options), InProcess())


def found(verdict: Verdict) -> list[str]:
    return [one.name for one in verdict.anomalies]


# Registers ------------------------------------------------------------------------------------------------------------

WRITE, READ = op(0, "write", "3"), op(1, "read", "nil", "3")


def test_a_register_that_works_is_valid_and_a_stale_read_is_not(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir(), (tmp_path / "b").mkdir()
    assert judged(tmp_path / "a", WRITE, READ).verdict == "valid"
    stale = judged(tmp_path / "b", op(1, "read", "nil"), WRITE, READ, op(0, "write", "4"), READ)
    assert (stale.verdict, found(stale)) == ("invalid", ["lost_register_write"])


def test_pairs_are_a_register_per_key(tmp_path: Path) -> None:
    run = judged(
        tmp_path, op(0, "write", '["x" 3]'), op(1, "read", "[:y nil]", "[:y nil]"), op(0, "cas", '["x" [3 4]]')
    )
    assert run.verdict == "valid" and run.further[0].counts["registers"] == 2


def test_a_write_of_unknown_outcome_may_count_and_its_process_goes_on(tmp_path: Path) -> None:
    unknown = op(0, "write", "3", kind="info")
    assert judged(tmp_path, unknown, op(0, "read", "nil", "3")).verdict == "valid"


def test_the_initial_value_of_a_register_may_be_stated(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir(), (tmp_path / "b").mkdir()
    history = [op(0, "read", "nil", "0"), op(0, "cas", "[0 1]"), op(0, "read", "nil", "1")]
    assert found(judged(tmp_path / "a", *history)) == ["register_phantom"]
    assert judged(tmp_path / "b", *history, initial=0).verdict == "valid"


def test_values_of_any_type_are_told_apart_and_named(tmp_path: Path) -> None:
    run = imported(tmp_path, edn(*op(0, "write", '"1"'), *op(0, "write", ":one"), *op(0, "read", "nil", ":one")))
    assert check_run(run, InProcess()).verdict == "valid"
    names = [json.loads(line)["name"] for line in (run / NAMES_FILE).read_text().splitlines()]
    assert names == ['"1"', ":one"]


def test_porcupine_takes_a_failed_cas_for_an_answer_and_jepsen_does_not(tmp_path: Path) -> None:
    lines = ["0 :invoke :write 3", "0 :ok :write 3", "1 :invoke :cas [3 4]", "1 :fail :cas [3 4]"]
    lines += ["1 :invoke :read nil", "1 :ok :read 3"]
    log = "".join(f"INFO  jepsen.util - {line.replace(' ', chr(9), 2)}\n" for line in lines)
    for tool, verdict in (("jepsen", "valid"), ("porcupine", "invalid")):
        (tmp_path / tool).mkdir()
        assert check_run(imported(tmp_path / tool, log, tool), InProcess()).verdict == verdict


# Keys of Porcupine ----------------------------------------------------------------------------------------------------


def test_gets_and_puts_are_registers_and_gets_and_appends_are_lists(tmp_path: Path) -> None:
    def keyed(name: str, *events: tuple[str, str, str, str]) -> Verdict:
        (tmp_path / name).mkdir()
        text = "\n".join(
            f'{{:process {process}, :type :{kind}, :f :{f}, :key "k", :value {value}}}'
            for process, kind, f, value in events
        )
        return check_run(imported(tmp_path / name, text, "porcupine"), InProcess())

    put, append = (("0", kind, f, '"a"') for kind in ("invoke",) for f in ("put", "append"))
    done = {"put": ("0", "ok", "put", '"a"'), "append": ("0", "ok", "append", '"a"')}
    ask, empty, full = ("1", "invoke", "get", "nil"), ("1", "ok", "get", '""'), ("1", "ok", "get", '"a"')
    assert keyed("put", put, done["put"], ask, full).verdict == "valid"
    assert found(keyed("stale put", put, done["put"], ask, empty)) == ["lost_register_write"]
    assert keyed("append", append, done["append"], ask, full).verdict == "valid"
    assert keyed("stale append", append, done["append"], ask, full, ask, empty).verdict == "invalid"
    with pytest.raises(ForeignTrouble, match=r"history.edn:1: puts and appends in one history have no check"):
        keyed("both", put, done["put"], append, done["append"])


# Lists of Elle --------------------------------------------------------------------------------------------------------


def test_list_append_is_judged_by_a_model_in_edn_and_in_json(tmp_path: Path) -> None:
    events = [
        *op(0, "txn", "[[:r 1 nil] [:append 2 5]]", "[[:r 1 nil] [:append 2 5]]"),
        *op(1, "txn", "[[:append 1 4] [:r 2 nil]]", "[[:append 1 4] [:r 2 []]]"),
        *op(2, "txn", "[[:r 1 nil] [:r 2 nil]]", "[[:r 1 [4]] [:r 2 [5]]]"),
    ]
    order = [events[0], events[2], events[1], events[3], events[4], events[5]]
    as_json = [
        {"process": 0, "type": "invoke", "value": [["r", 1, None], ["append", 2, 5]]},
        {"process": 1, "type": "invoke", "value": [["append", 1, 4], ["r", 2, None]]},
        {"process": 0, "type": "ok", "value": [["r", 1, None], ["append", 2, 5]]},
        {"process": 1, "type": "ok", "value": [["append", 1, 4], ["r", 2, []]]},
        {"process": 2, "type": "invoke", "value": [["r", 1, None], ["r", 2, None]]},
        {"process": 2, "type": "ok", "value": [["r", 1, [4]], ["r", 2, [5]]]},
    ]
    texts = {"edn": edn(*order), "lines": "\n".join(map(json.dumps, as_json)), "array": json.dumps(as_json, indent=1)}
    for name, text in texts.items():
        (tmp_path / name).mkdir()
        assert found(check_run(imported(tmp_path / name, text, "elle"), InProcess())) == ["G2"], name
    (tmp_path / "weaker").mkdir()
    weaker = check_run(imported(tmp_path / "weaker", texts["edn"], "elle", model="read-committed"), InProcess())
    assert (weaker.verdict, weaker.further[0].noted) == ("valid", {"G2": 1})


def test_transactions_of_registers_are_refused_with_a_reason(tmp_path: Path) -> None:
    with pytest.raises(ForeignTrouble, match=r"history.edn:2: \[:w 1 2\] writes a register: .*rw-register") as refused:
        imported(tmp_path, edn(*op(0, "txn", "[[:w 1 2]]")), "elle")
    assert refused.value.remedy is not None and "Elle" in refused.value.remedy


# Logs of jepsen.tests.kafka -------------------------------------------------------------------------------------------

SEEK = ":seek-to-beginning? true"


def send(process: int, offset: int | str, value: int | str, kind: str = "ok", key: str = "5") -> list[Event]:
    return op(process, "send", f"[[:send {key} {value}]]", f"[[:send {key} [{offset} {value}]]]", kind)


def poll(process: int, *records: tuple[int, int | str], key: str = "5", more: str = "") -> list[Event]:
    listed = " ".join(f"[{offset} {value}]" for offset, value in records)
    return op(process, "poll", "[[:poll]]", f"[[:poll {{{key} [{listed}]}}]]", more=more)


def seek(process: int, key: str = "5") -> list[Event]:
    return op(process, "assign", f"[{key}]", more=SEEK)


TWO_SENDS = [send(0, 0, 1), send(0, 1, 2)]


def test_a_log_read_to_its_last_record_is_valid(tmp_path: Path) -> None:
    verdict = judged(tmp_path, *TWO_SENDS, seek(9), poll(9, (0, 1)), poll(9, (1, 2)))
    assert (verdict.verdict, verdict.reasons) == ("valid", ())
    assert [one.holds for one in verdict.statements] == [True, True, True]
    assert verdict.not_known == ("whether faults took hold",)


def test_without_a_final_read_to_the_end_what_was_lost_is_unknown(tmp_path: Path) -> None:
    """What is not known never becomes green."""
    for name, end in {"no seek": poll(9, (0, 1), (1, 2)), "too short": [*seek(9), *poll(9, (0, 1))]}.items():
        (tmp_path / name).mkdir()
        verdict = judged(tmp_path / name, *TWO_SENDS, end)
        assert verdict.verdict == "unknown", name
        assert "the final read of 5-0 did not reach its marker" in " ".join(verdict.reasons)


@pytest.mark.parametrize(
    ("anomaly", "history"),
    [
        ("lost_write", [*TWO_SENDS, seek(9), poll(9, (1, 2))]),
        ("inconsistent_offset", [*TWO_SENDS, send(1, 1, 3)]),
        ("duplicate", [*TWO_SENDS, poll(2, (0, 1), (1, 1))]),
        ("aborted_read", [*TWO_SENDS, send(1, "nil", 3, "fail"), poll(2, (2, 3))]),
        ("phantom", [*TWO_SENDS, poll(2, (2, 9))]),
        (
            "poll_skip",
            [*TWO_SENDS, send(0, 2, 3), op(2, "assign", "[5]"), poll(2, (0, 1)), poll(2, (2, 3)), poll(3, (1, 2))],
        ),
        ("nonmonotonic_poll", [*TWO_SENDS, op(2, "assign", "[5]"), poll(2, (0, 1), (1, 2)), poll(2, (0, 1))]),
        ("int_nonmonotonic", [*TWO_SENDS, poll(2, (1, 2), (0, 1))]),
        ("nonmonotonic_send", [send(0, 4, 1), send(0, 3, 2)]),
    ],
)
def test_an_anomaly_of_a_log_is_found_by_its_name(tmp_path: Path, anomaly: str, history: list[list[Event]]) -> None:
    verdict = judged(tmp_path, *history)
    assert verdict.verdict == "invalid" and anomaly in found(verdict)


def test_polls_need_not_continue_after_subscribe_or_in_a_rebalance(tmp_path: Path) -> None:
    final = [seek(9), poll(9, (0, 1), (1, 2))]
    back = poll(2, (0, 1))
    for name, history in {
        "subscribed": [op(2, "subscribe", "[5]"), poll(2, (0, 1), (1, 2)), back],
        "assigned anew": [op(2, "assign", "[5]"), poll(2, (0, 1), (1, 2)), op(2, "assign", "[5]"), back],
        "rebalanced": [op(2, "assign", "[5]"), poll(2, (1, 2), (0, 1), more=":rebalance-log [{:keys [5]}]")],
    }.items():
        (tmp_path / name).mkdir()
        assert judged(tmp_path / name, *TWO_SENDS, *history, *final).verdict == "valid", name


def txn(process: int, *micros: str, kind: str = "ok") -> list[Event]:
    return op(process, "txn", "[[:poll]]", f"[{' '.join(micros)}]", kind)


BOTH = txn(0, "[:send :x [0 1]]", "[:send :y [0 1]]")
WHOLE = [op(9, "assign", "[:x :y]", more=SEEK), txn(9, "[:poll {:x [[0 1]], :y [[0 1]]}]", "[:poll]")]


def test_operations_of_several_micro_operations_are_transactions(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir(), (tmp_path / "b").mkdir()
    whole = judged(tmp_path / "a", BOTH, *WHOLE)
    assert (whole.verdict, whole.not_known) == ("valid", ("whether faults took hold",))
    torn = judged(
        tmp_path / "b", BOTH, WHOLE[0], txn(9, "[:poll {:x [[0 1]]}]", "[:poll]"), txn(8, "[:poll {:y [[1 2]]}]")
    )
    assert torn.verdict == "invalid"


def test_what_an_unknown_transaction_was_told_counts_once_a_poll_proves_it(tmp_path: Path) -> None:
    unknown = txn(0, "[:send :x [0 1]]", "[:send :y 1]", kind="info")
    (tmp_path / "a").mkdir(), (tmp_path / "b").mkdir()
    proven = judged(tmp_path / "a", unknown, send(1, 0, 2, key=":x"), poll(2, (5, 1), key=":y"))
    assert found(proven) == ["inconsistent_offset"]
    assert found(judged(tmp_path / "b", unknown, send(1, 0, 2, key=":x"))) == []


def test_a_transaction_that_no_final_read_looks_for_is_unknown(tmp_path: Path) -> None:
    verdict = judged(tmp_path, BOTH, txn(8, "[:poll {:x [[0 1]]}]", "[:poll]"))
    assert verdict.verdict == "unknown"
    assert "no final read came to the last acknowledged record of any topic-partition" in verdict.not_known


# What is not known ----------------------------------------------------------------------------------------------------


def test_the_manifest_says_what_was_imported_and_required_rules_are_unknown(tmp_path: Path) -> None:
    run = imported(tmp_path, edn(*(event for part in (WRITE, READ) for event in part)))
    manifest = Manifest.load(run)
    assert manifest.imported is not None
    assert (manifest.imported.tool, manifest.imported.notation, manifest.imported.operations) == ("jepsen", "EDN", 2)
    assert manifest.imported.file.endswith("history.edn") and len(manifest.imported.sha256) == 64
    rule = RateRule(during=(0, 1), at_least=0.5, compared_with=(1, 2))
    manifest.with_changes(require=Required(rate=rule, calm=True)).save(run)
    verdict = check_run(run, InProcess())
    assert verdict.verdict == "unknown"
    assert [one.holds for one in verdict.statements] == [None, None]


def test_what_the_nemesis_did_becomes_windows_without_evidence(tmp_path: Path) -> None:
    def nemesis(f: str, value: str = "nil") -> list[Event]:
        return [(":nemesis", "info", f, value, "")] * 2

    run = imported(
        tmp_path,
        edn(
            *nemesis("start-partition", "{:n1 #{:n2}}"), *WRITE, *nemesis("stop-partition"), *nemesis("kill"), *READ,
            *nemesis("start"),
        ),
    )  # fmt: skip
    partition, kill = read_faults(run)
    assert (partition.fault, kill.fault) == ("partition", "kill")
    assert partition.injected is not None and partition.healed is not None and partition.healed > partition.injected
    assert (partition.took, partition.undone, kill.took) == (None, None, None)
    verdict = check_run(run, InProcess())
    assert (verdict.verdict, verdict.coverage.faults, verdict.coverage.faults_proven) == ("valid", 2, 0)


def test_the_order_of_lines_counts_where_times_disagree(tmp_path: Path) -> None:
    lines = [(0, "invoke", "write", 3), (0, "ok", "write", 3), (1, "invoke", "read", "nil"), (1, "ok", "read", "nil")]
    times = [100, 200, 150, 300]  # by these the read might have come first
    text = edn(*((*line, f":time {time}") for line, time in zip(lines, times, strict=True)), *op(1, "read", "nil", "3"))
    text = text.replace(":value 3 }", ":value 3 :time 400}").replace(":value nil }", ":value nil :time 350}")
    assert found(check_run(imported(tmp_path, text), InProcess())) == ["stale_register_read"]


# Errors ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "history.edn: has no operations"),
        ("{:process 0 :f :read}", "history.edn:1: has no :type"),
        ("{:type :ok :f :read}", "history.edn:1: has no :process"),
        ("{:process 0 :type :done}", "history.edn:1: :type 'done' is not one of invoke, ok, fail, info"),
        ("{:process 0 :type :ok :f :read}", "history.edn:1: process 0 ends read .ok. and has begun nothing"),
        (edn(*WRITE[:1], *WRITE[:1]), "history.edn:2: process 0 begins write while its write of line 1 is open"),
        (edn(*WRITE[:1], (0, "ok", "read", 3)), "history.edn:2: process 0 ends read and has begun write on line 1"),
        (edn(*WRITE, *op(0, "cas", "7")), r"history.edn:3: a cas of 7"),
        (edn(*op(0, "write", "nil")), r"history.edn:1: a write of nil"),
        (edn(*WRITE, *op(0, "enqueue", "7")), "operations such as :f 'write' are not mapped"),
        ('{"process": 0, "type": "invoke",\n', "history.edn:2: is not JSON"),
        ("[1, 2]", "history.edn:1: 1 is not an operation"),
        ("{:process 0 :type :invoke :time 1.5}", ":time 1.5 is not a whole number of nanoseconds"),
        ("0 :invoke :read nil\nnonsense\n", "history.edn:2: 'nonsense' is not an operation"),
        (edn(*op(0, "send", "[[:send 5 1]]", "[[:poll 7]]")), "history.edn:2: a poll of 7"),
        (edn(*op(0, "poll", "[[:poll]]", "[[:poll {5 [[-1 2]]}]]")), "history.edn:2: a poll of key 5 delivers"),
        (
            edn(*op(0, "txn", "[[:append 1 2]]", "[[:r 1 7]]")),
            r"history.edn:2: \[:r 1 7\] reads 7, which is not a list",
        ),
    ],
)
def test_what_cannot_be_imported_is_named_with_file_line_and_value(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ForeignTrouble, match=problem):
        imported(tmp_path, text)
