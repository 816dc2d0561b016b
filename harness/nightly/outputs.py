"""Write what a night leaves for people and machines, each file whole or not at all, after every item and at the end.

NIGHT/night.json    everything
NIGHT/junit.xml     for CI
NIGHT/summary.md    for people; at the end also appended to GitHub's step summary
annotations         at the end, to standard output, under GitHub Actions
webhook             at the end: a command that gets night.json on standard input
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from squall.harness.errors import UsageError
from squall.harness.nightly.hooks import run_hook
from squall.harness.nightly.plan.night_file import Hooks
from squall.harness.nightly.results.junit import junit_xml
from squall.harness.nightly.results.night_report import NightView, as_json, cases_of, github_annotations, iso, markdown
from squall.results.history.whole_file import write_whole

NIGHT_JSON, JUNIT_XML, SUMMARY = "night.json", "junit.xml", "summary.md"


@dataclass(frozen=True)
class Outputs:
    """Where a night's results go."""

    directory: Path
    hooks: Hooks
    junit: Path | None = None
    """A further place for the JUnit file."""

    def write(self, view: NightView) -> None:
        """Write the files. Raises OSError."""
        write_whole(self.directory / NIGHT_JSON, json.dumps(as_json(view), indent=2, ensure_ascii=False) + "\n")
        write_whole(self.directory / SUMMARY, markdown(view))
        plan = view.state.plan
        properties = {"suite": plan.suite, "command": plan.command}
        document = junit_xml(plan.night, cases_of(view), started=iso(plan.at)[:19], properties=properties)
        write_whole(self.directory / JUNIT_XML, document)
        if self.junit is not None:
            self.junit.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self.junit, document)

    def publish(self, view: NightView, say: Callable[[str], None], environment: Mapping[str, str] = os.environ) -> None:
        """Tell GitHub and the webhook, at the end. Trouble is reported and changes no exit status."""
        if environment.get("GITHUB_ACTIONS") == "true":
            for line in github_annotations(view):
                say(line)
        if step_summary := environment.get("GITHUB_STEP_SUMMARY"):
            try:
                with Path(step_summary).open("a") as file:
                    file.write(markdown(view))
            except OSError as trouble:
                say(f"{'summary':<11}{step_summary}: {trouble.strerror}")
        if self.hooks.webhook:
            try:
                run_hook(
                    "--webhook", self.hooks.webhook, environment={}, timeout_s=self.hooks.timeout_s,
                    given=json.dumps(as_json(view)), log=self.directory / "webhook.log",
                )  # fmt: skip
            except UsageError as trouble:
                say(f"{'webhook':<11}{trouble}")
