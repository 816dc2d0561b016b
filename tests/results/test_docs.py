"""The page that explains reports knows every anomaly, in the words the reports use."""

from __future__ import annotations

from pathlib import Path

from squall.results.checks.anomalies import ANOMALIES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reading-a-report.md"


def test_every_anomaly_is_explained_in_the_words_of_the_report() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for name, anomaly in ANOMALIES.items():
        assert f"| `{name}` | {anomaly.meaning} |" in page
