"""The page that explains reports knows every anomaly, in the words the reports use."""

from __future__ import annotations

from pathlib import Path

from squall.results.checkers.anomalies import ANOMALIES
from squall.results.checkers.further import check_further
from squall.results.history.operation_tables import GROUPS
from squall.results.synthetic.forge_catalogue import FAMILIES
from squall.results.synthetic.forge_groups import group_table
from squall.results.verdict.further import tell_further
from squall.results.witnesses.witness import Surroundings

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reading-a-report.md"


def test_every_anomaly_is_explained_in_the_words_of_the_report() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for name, anomaly in ANOMALIES.items():
        assert f"| `{name}` | {anomaly.meaning} |" in page


def test_the_witness_of_a_group_that_is_shown_is_one_that_is_told() -> None:
    page = PAGE.read_text(encoding="utf-8")
    history = FAMILIES[GROUPS].case("commit of a zombie").history(1)
    (told,) = tell_further([check_further(GROUPS, group_table(history), {})], Surroundings(0))
    subjects = max(len(line.subject) for line in told.lines)
    shown = [told.title, *(f"  {line.subject:<{subjects}}  {line.text}" for line in told.lines)]
    assert "\n".join(shown) in page
