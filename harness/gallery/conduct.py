"""Conduct one arm of an entry: nodes up, schedule, final reads; the history lies in a run directory afterwards.

    run_dir = Conductor(arm, directory, say).run()

Raises NotReproduced if the schedule could not be carried out as written, and UsageError if something is missing on
this machine. Every process that was started has ended when it returns, however it returns.
"""

from __future__ import annotations

import dataclasses
import datetime
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import singledispatchmethod
from pathlib import Path
from typing import Final, Literal

from squall.harness.gallery.core.clients import ClientProgram, Sent
from squall.harness.gallery.core.entry import Arm
from squall.harness.gallery.core.family import Observer, Say
from squall.harness.gallery.core.frame_proxy import FrameProxy, HoldRule
from squall.harness.gallery.core.node_process import NodeProcess
from squall.harness.gallery.core.observations import Position, position_of
from squall.harness.gallery.core.steps import (
    Await,
    Hold,
    HoldWrites,
    InSync,
    Load,
    Node,
    Reassign,
    Release,
    Send,
    Step,
    Stop,
    Transaction,
    Wait,
    WriteRegister,
)
from squall.harness.gallery.core.steps import Position as PositionStep
from squall.harness.gallery.core.trouble import NotReproduced
from squall.harness.gallery.core.write_hold import WriteHold
from squall.harness.gallery.families import family_of
from squall.harness.gallery.history import operations_of, write_run
from squall.results.history.segments import FaultWindow
from squall.results.synthetic.forge import ORIGIN

START_SECONDS: Final = 120.0
NODE_SECONDS: Final = 10.0
LOOK_EVERY_S: Final = 0.005
PROCESS_FAULTS: Final = {"kill": "kill", "lose-power": "power-loss", "pause": "pause"}
"""The fault that each step on a broker's process is, by what it does."""


@dataclass
class Scene:
    """What an arm runs on."""

    nodes: Mapping[int, NodeProcess]
    proxies: Mapping[int, FrameProxy]
    client: ClientProgram
    observer: Observer
    began: int = field(default_factory=time.monotonic_ns)


class Conductor:
    """Conducts one arm; `run_dir` must not exist yet."""

    def __init__(self, arm: Arm, run_dir: Path, say: Say) -> None:
        self._arm = arm
        self._run_dir = run_dir
        self._say = say
        self._faults: dict[str, FaultWindow] = {}
        self._latest: dict[str, str] = {}
        """The name of the latest fault of each broker's process."""
        self._holds: dict[str, Hold] = {}
        self._write_holds: dict[str, WriteHold] = {}
        self._register_writes: dict[int, str] = {}
        """The register that each such operation of the client writes."""
        self._sends: dict[str, tuple[int, int]] = {}
        """The operation and the number of records of each send, by its name."""
        self._loads: dict[str, int] = {}
        self._positions: list[Position] = []
        self._uncommitted: list[Position] = []
        """Positions of the transaction that has not ended; they share its fate."""
        self._groups: dict[str, tuple[str, str, int]] = {}

    def run(self) -> Path:
        """Conduct the arm, write its history, and return the run directory."""
        started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        with ExitStack() as stack:
            scene = self._scene(stack)
            for step in self._arm.schedule:
                self._carry_out(step, scene)
            for operation in self._loads.values():
                scene.client.stop(operation)
            self._settle(scene)
            scene.client.close()
            self._write(scene, started, load_ended=time.monotonic_ns() - scene.began)
        return self._run_dir

    def _scene(self, stack: ExitStack) -> Scene:
        arm, family = self._arm, family_of(self._arm.entry)
        command = family.command_of(arm, self._say)
        self._run_dir.mkdir(parents=True)
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="squall-gallery-")))
        stage = family.stage(arm, work, self._run_dir / "nodes", self._say, stack)
        for name, topic in arm.cluster.topics.items():
            stage.observer.create_topic(name, topic.replicas, topic.config)
        for name, topic in arm.cluster.topics.items():
            for partition, replicas in enumerate(topic.replicas):
                self._await_in_sync(
                    stage.observer, InSync(topic=name, partition=partition, isr=replicas), START_SECONDS
                )
        client = stack.enter_context(ClientProgram(command, self._run_dir / "client.log"))
        opened = client.open(family.settings_of(arm, stage.bootstrap))
        if opened.split()[-1] != arm.client.version:
            raise NotReproduced(f"the client says it is {opened}, and {arm.client.words} is meant")
        return Scene(stage.nodes, stage.proxies, client, stage.observer)

    # --- steps -------------------------------------------------------------------------------------------------

    @singledispatchmethod
    def _carry_out(self, step: Step, scene: Scene) -> None:
        raise AssertionError(f"no step {step}")

    @_carry_out.register
    def _(self, step: Hold, scene: Scene) -> None:
        until = None if step.until is None else (step.until.api, step.until.direction, step.until.messages)
        rule = HoldRule(step.label, step.api, step.direction, step.count, step.pass_others, step.outlive, until)
        scene.proxies[step.broker].hold(rule)
        self._holds[step.label] = step
        alone = f" ({step.count} alone)" if step.count is not None and step.pass_others else ""
        self._begin(step.label, "rpc-hold", f"broker {step.broker}", f"{step.api} {step.direction}{alone}", scene)

    @_carry_out.register
    def _(self, step: HoldWrites, scene: Scene) -> None:
        writes = scene.nodes[step.broker].writes
        assert writes is not None, "the family watches nodes whose writes are held"
        self._begin(step.label, "disk-hang", f"broker {step.broker}", "writes and fsyncs of its data", scene)
        writes.begin()
        self._write_holds[step.label] = writes

    @_carry_out.register
    def _(self, step: WriteRegister, scene: Scene) -> None:
        operation = scene.client.write_register(step.register_name, step.value)
        self._sends[step.label] = operation, 1
        self._register_writes[operation] = step.register_name

    @_carry_out.register
    def _(self, step: Release, scene: Scene) -> None:
        self._release(step.hold, scene)

    @_carry_out.register
    def _(self, step: Send, scene: Scene) -> None:
        operation = scene.client.send(step.topic, step.partitions, each=step.each, size=step.size)
        self._sends[step.label] = operation, step.each * len(step.partitions)

    @_carry_out.register
    def _(self, step: Load, scene: Scene) -> None:
        self._loads[step.label] = scene.client.load(step.topic, step.partitions, rate=step.rate, size=step.size)

    @_carry_out.register
    def _(self, step: Stop, scene: Scene) -> None:
        scene.client.stop(self._loads.pop(step.load))

    @_carry_out.register
    def _(self, step: Transaction, scene: Scene) -> None:
        scene.client.transaction(step.do)
        if step.do != "begin":
            fate: Literal["ok", "fail"] = "ok" if step.do == "commit" else "fail"
            now = time.monotonic_ns()
            self._positions += [dataclasses.replace(one, completed=now, type=fate) for one in self._uncommitted]
            self._uncommitted.clear()

    @_carry_out.register
    def _(self, step: PositionStep, scene: Scene) -> None:
        begun = time.monotonic_ns()
        scene.client.position(step.group, step.topic, step.partition, step.offset)
        name = position_of(step.group, step.topic, step.partition)
        self._uncommitted.append(Position(name, "write", begun, None, step.offset))
        self._groups[name] = (step.group, step.topic, step.partition)

    @_carry_out.register
    def _(self, step: Reassign, scene: Scene) -> None:
        scene.observer.reassign(step.topic, step.partition, step.replicas)

    @_carry_out.register
    def _(self, step: Wait, scene: Scene) -> None:
        time.sleep(step.time)

    @_carry_out.register
    def _(self, step: Await, scene: Scene) -> None:
        if step.sent is not None:
            scene.client.wait_for(*self._sends[step.sent], step.within)
        elif step.appended is not None:
            scene.client.wait_until_appended(*self._sends[step.appended], step.within)
        elif step.in_sync is not None:
            self._await_in_sync(scene.observer, step.in_sync, step.within)
        else:
            name, count = next(
                (name, count)
                for name, count in (
                    (step.held, "met"),
                    (step.dropped, "dropped"),
                    (step.delivered, "delivered"),
                    (step.answered, "answered"),
                )
                if name is not None
            )
            self._await_message(name, count, scene, step.within)

    @_carry_out.register
    def _(self, step: Node, scene: Scene) -> None:
        node, target = scene.nodes[step.broker], f"broker {step.broker}"
        if step.do in ("start", "resume"):
            node.start() if step.do == "start" else node.resume()
            after = f"process {'started' if step.do == 'start' else 'goes on'}"
            self._end(self._latest.get(target, ""), scene, undone=node.runs and not node.is_paused, after=after)
            return
        name = self._latest[target] = self._fresh_name(target)
        self._begin(name, PROCESS_FAULTS[step.do], target, step.do, scene)
        if step.do == "pause":
            node.pause()
            self._await(lambda: node.is_paused, f"{target} is stopped")
            self._note(name, took=True, during="process stopped")
        elif step.do == "kill":
            node.kill()
            self._note(name, took=not node.runs, during="process gone")
        else:
            gone = node.lose_power()
            self._note(name, took=gone > 0, during=f"process gone, and {gone} bytes that were not fsynced")

    def _fresh_name(self, target: str) -> str:
        """A name for the next fault of a broker's process: the broker's, with a number from the second fault on."""
        kinds = PROCESS_FAULTS.values()
        earlier = sum(one.targets == (target,) and one.fault in kinds for one in self._faults.values())
        return f"{target} ({earlier + 1})" if earlier else target

    # --- waiting -----------------------------------------------------------------------------------------------

    @staticmethod
    def _await(holds: Callable[[], bool], what: str, seconds: float = NODE_SECONDS) -> None:
        end = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > end:
                raise NotReproduced(f"{what}: not so after {seconds:g} s")
            time.sleep(LOOK_EVERY_S)

    def _await_message(self, name: str, count: str, scene: Scene, seconds: float) -> None:
        if name in self._write_holds:
            self._await(lambda: self._write_holds[name].held > 0, f"{name}: a write is held", seconds)
            return
        proxy = scene.proxies[self._holds[name].broker]
        words = {"met": "held", "dropped": "lost with its connection"}.get(count, count)
        self._await(lambda: getattr(proxy.effect(name), count) > 0, f"{name}: a message is {words}", seconds)

    @staticmethod
    def _await_in_sync(observer: Observer, wanted: InSync, seconds: float) -> None:
        isr = None if wanted.isr is None else tuple(sorted(wanted.isr))

        def holds() -> bool:
            leader, found = observer.in_sync(wanted.topic, wanted.partition)
            led = wanted.leader is None or leader == wanted.leader
            return (isr is None or found == isr) and led and leader != wanted.deposed

        what = f"{wanted.topic}-{wanted.partition}: " + ", ".join(
            [
                *([] if isr is None else [f"ISR {list(isr)}"]),
                *([] if wanted.leader is None else [f"leader {wanted.leader}"]),
                *([] if wanted.deposed is None else [f"no longer led by {wanted.deposed}"]),
            ]
        )
        observer.wait_until(holds, what, seconds)

    # --- faults as evidence --------------------------------------------------------------------------------------

    def _begin(self, name: str, fault: str, target: str, summary: str, scene: Scene) -> None:
        injected = time.monotonic_ns() - scene.began + ORIGIN
        self._faults[name] = FaultWindow(
            id=name, fault=fault, targets=(target,), summary=summary, injected=injected, before="nothing of it"
        )

    def _note(self, name: str, **facts: object) -> None:
        known = {field: getattr(self._faults[name], field) for field in FaultWindow.__struct_fields__}
        self._faults[name] = FaultWindow(**{**known, **facts})

    def _end(self, name: str, scene: Scene, **facts: object) -> None:
        """Note how a fault ended; of a hold that is noted again at the end of the schedule, the first time counts."""
        if name in self._faults:
            healed = self._faults[name].healed or time.monotonic_ns() - scene.began + ORIGIN
            self._note(name, healed=healed, **facts)

    def _release(self, name: str, scene: Scene) -> None:
        if name in self._write_holds:
            writes = self._write_holds.pop(name)
            writes.end()
            self._end(name, scene, took=writes.held > 0, during=f"{writes.held} held", undone=True, after="none held")
            return
        proxy = scene.proxies[self._holds[name].broker]
        proxy.release(name)
        effect = proxy.effect(name)
        done = [
            f"{effect.met} held",
            *(
                f"{count} {fate}"
                for fate in ("delivered", "late", "answered", "dropped")
                if (count := getattr(effect, fate))
            ),
        ]
        held = proxy.waiting(name)
        # What was to outlive its sender, and was delivered before, is not the fault that was written.
        took = effect.late > 0 if self._holds[name].outlive else effect.met > 0
        self._end(name, scene, took=took, during=", ".join(done), undone=held == 0, after=f"{held} held")

    def _settle(self, scene: Scene) -> None:
        """End what is still open. A broker that is down at the end of the schedule stays down."""
        for name in (*self._holds, *self._write_holds):
            self._release(name, scene)

    # --- the history -------------------------------------------------------------------------------------------

    def _write(self, scene: Scene, started: str, load_ended: int) -> None:
        topics = {name: len(topic.replicas) for name, topic in self._arm.cluster.topics.items()}
        places = [(topic, partition) for topic, count in topics.items() for partition in range(count)]
        marked = scene.observer.mark(places)
        reads = scene.observer.read_all(marked)
        written = [one for one in scene.client.sent if one.op in self._register_writes]
        positions = [
            *self._positions,
            *(_written(one, self._register_writes[one.op]) for one in written),
            *(scene.observer.position(*one) for one in self._groups.values()),
            *(scene.observer.read_register(name) for name in sorted(set(self._register_writes.values()))),
        ]
        sent = [one for one in scene.client.sent if one.op not in self._register_writes]
        write_run(
            self._run_dir,
            self._arm,
            operations_of(sent, marked, reads, began=scene.began, idempotent=self._arm.entry.idempotent),
            positions=[one for one in positions if one.completed is not None],
            began=scene.began,
            topics=topics,
            faults=tuple(self._faults.values()),
            fault_free=not self._faults,
            findings=scene.observer.findings,
            started=started,
            load_ended=load_ended,
        )


def _written(one: Sent, name: str) -> Position:
    """A write to a register; one of unknown outcome has no end."""
    fate: Literal["ok", "info"] = "ok" if one.type == "ok" else "info"
    return Position(name, "write", one.invoked, one.completed, one.value, fate)
