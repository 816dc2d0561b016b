"""A client program for tests that does what its settings say: answers like a log in a file, or misbehaves."""

import json
import os
import sys
import time


def main() -> None:
    settings: dict[str, str] = {}
    for line in sys.stdin:
        request = json.loads(line)
        if request["f"] == "open":
            settings = request["settings"]
            if os.path.exists(settings.get("broken", "")):  # noqa: PTH110  # a program imports little
                answer(request, type="fail", error="no server answers")
                continue
            answer(request, type="ok", client="scripted")
            continue
        misbehave(settings.get(request["f"], ""), request)
        if request["f"] == "send":
            with open(settings["log"], "a+") as log:
                log.write(f"{request['value']}\n")
                log.seek(0)
                answer(request, type="ok", offset=len(log.readlines()) - 1)
        elif request["f"] == "poll":
            with open(settings["log"], "a+") as log:
                log.seek(0)
                values = [int(one) for one in log]
            records = list(enumerate(values))[request.get("position", 0) :]
            answer(request, type="ok", records=records[: request["most"]])


def misbehave(how: str, request: dict[str, object]) -> None:
    if how == "exit":
        sys.exit(3)
    if how == "die":
        os.kill(os.getpid(), 9)
    if how == "babble":
        print("this is no answer", flush=True)
    if how == "omit":
        answer(request, type="ok")
    if how == "twice":
        answer(request, type="info", error="first")
    if how == "hang":
        time.sleep(3600)  # longer than any test waits; the client kills it


def answer(request: dict[str, object], **said: object) -> None:
    print(json.dumps({"id": request["id"], **said}), flush=True)


main()
