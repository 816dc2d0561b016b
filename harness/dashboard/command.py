"""`squall dashboard build` and `squall dashboard serve`."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer

from squall.harness.errors import UsageError
from squall.harness.terminal.console import console
from squall.harness.terminal.lake_options import DEFAULT_LAKE, LakeOption

DEFAULT_FOLDER = Path("runs/dashboard")
DEFAULT_PORT = 8470
TOKEN_LENGTH_MIN = 16
REBUILD_EVERY_S = 60.0

FolderArgument = Annotated[Path, typer.Argument(metavar="[DIR]", help="the folder of the pages")]

dashboard_app = typer.Typer(
    help="Pages about many runs: what broke, since when, and whether system, testbed or machine is to blame.",
    epilog="Examples: squall dashboard build · squall dashboard build public --lake runs/lake · squall dashboard serve",
)


@dashboard_app.command("build", epilog="Examples: squall dashboard build · squall dashboard build public")
def build(folder: FolderArgument = DEFAULT_FOLDER, lake: LakeOption = DEFAULT_LAKE) -> int:
    """Build the pages of a lake, or only those that changed. They open from disk, and can be published as they are."""
    _build(folder, lake)
    console().print(f"{'look':<11}{folder / 'index.html'}", markup=False, soft_wrap=True)
    return 0


@dashboard_app.command(
    "serve",
    epilog="Examples: squall dashboard serve · squall dashboard serve --port 8080 · "
    "squall dashboard serve --host 0.0.0.0 --token 9f2c4be07d1a4c53",
)
def serve(
    folder: FolderArgument = DEFAULT_FOLDER,
    lake: LakeOption = DEFAULT_LAKE,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="listen on this address; any but loopback needs --token")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="listen on this port; 0 takes a free one")] = DEFAULT_PORT,
    token: Annotated[
        str | None,
        typer.Option(
            metavar="TOKEN", envvar="SQUALL_DASHBOARD_TOKEN", help="ask for this token; at least 16 characters"
        ),
    ] = None,
) -> int:
    """Build the pages and serve them until Ctrl-C; build again when runs are added to the lake."""
    from squall.harness.dashboard.server import DashboardServer, Served, is_loopback

    if token is not None and len(token) < TOKEN_LENGTH_MIN:
        raise UsageError(f"--token: has {len(token)} characters", remedy=f"use at least {TOKEN_LENGTH_MIN}, at random")
    if token is None and not is_loopback(host):
        raise UsageError(
            f"--host {host}: is not a loopback address, so that others could read the dashboard",
            remedy="add --token TOKEN, or leave --host out",
        )
    try:
        server = DashboardServer((host, port), Served(folder, token or ""))
    except OSError as trouble:
        raise UsageError(
            f"--host {host} --port {port}: cannot listen there: {trouble.strerror or trouble}",
            remedy="choose another --port, or 0 for a free one",
        ) from None
    with server:
        _build(folder, lake)
        shown = f"[{host}]" if ":" in host else host
        query = f"?token={quote(token, safe='')}" if token else ""
        console().print(f"{'serve':<11}http://{shown}:{server.server_address[1]}/{query}", markup=False, soft_wrap=True)
        stop = threading.Event()
        again = threading.Thread(target=_rebuild, args=(folder, lake, stop), daemon=True)
        again.start()
        try:
            server.serve_forever()
        finally:
            stop.set()
    return 0


def _rebuild(folder: Path, lake: Path, stop: threading.Event) -> None:
    """Build again from time to time; a build without news takes no time. Trouble is reported, and tried again."""
    while not stop.wait(REBUILD_EVERY_S):
        try:
            _build(folder, lake, quiet=True)
        except (UsageError, OSError) as trouble:
            _say(f"not built again: {trouble}")


def _build(folder: Path, lake: Path, *, quiet: bool = False) -> None:
    from squall.harness.dashboard.gallery_entries import gallery_entries
    from squall.results.dashboard.build import NotOurs
    from squall.results.dashboard.build import build as build_pages
    from squall.results.lake.store import Lake, LakeTrouble

    opened = Lake(lake, say=_say)
    if not opened.exists:
        raise UsageError(
            f"{lake}: there is no lake",
            remedy="squall run adds its runs to one; of earlier runs: squall lake rebuild runs",
        )
    began = time.perf_counter()
    try:
        built = build_pages(opened, folder, _say, gallery_entries(_say))
    except NotOurs as trouble:
        raise UsageError(str(trouble), remedy="name a new folder, or the folder of earlier pages") from None
    except LakeTrouble as trouble:
        raise UsageError(str(trouble)) from None
    if built.unchanged:
        if not quiet:
            _say(f"{built.pages} files, as they are: the lake has not changed")
        return
    removed = f", {built.removed} removed" if built.removed else ""
    _say(f"{built.pages} files, {built.written} written{removed}, {time.perf_counter() - began:.1f} s")


def _say(line: str) -> None:
    console().print(f"{'dashboard':<11}{line}", markup=False, soft_wrap=True)
