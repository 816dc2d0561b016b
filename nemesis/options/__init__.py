"""The `nemesis:` list of a suite: its syntax, checked before anything starts.

    nemesis:
      - fault: isolate
        target: leader of events/*
        repeat: {every: 20s, for: 10s}        # 10–20 s, 30–40 s, … each window at the end of its period
      - fault: kill
        target: active controller
        at: 35s
        for: {from: 500ms, to: 10s}           # drawn log-uniformly from the seed
      - at: 45s
        sequence:                             # one after the other
          - {fault: pause, target: followers of events/0, for: 1s}
          - {fault: kill, target: leader of events/0, for: 12s, after: 500ms}
      - {fault: kill, target: one follower of events/0, as: outsider, at: 60s, for: 5s}
      - {fault: wipe-disk, target: same as outsider, at: 70s, for: 1s}
      - at: 80s
        parallel:                             # side by side, each `after` that long since 80 s
          - {fault: pause, target: b1, for: 2s}
          - {fault: kill, target: c1, for: 1s, after: 500ms}
      - at: 90s
        mix:                                  # a random step, again and again, each after a quiet period
          - {fault: kill, target: one broker, for: {from: 1s, to: 5s}}
          - {fault: isolate, target: active controller, for: 3s}
        stable: {from: 1s, to: 5s}
        for: 60s

Each fault has a separate model, selected by `fault`. Unknown keys are errors, and a misspelt fault name ends in
pydantic's `union_tag_invalid`, which lists the known ones (`nearest_fault` suggests one). There is one module for each
family; `base.py` has their common part. `nemesis/entries.py` makes the syntax of entries of all registered faults.

A fault with options may also be nested: `fault: {isolate: {from: everyone}}`.
"""

from __future__ import annotations

from squall.nemesis.options.base import FaultOptions, Timed
from squall.nemesis.options.clock import ClockFreeze, ClockMonotonic, ClockSkew, ClockStrobe
from squall.nemesis.options.damage import (
    BitFlip,
    CopyChunk,
    FileCopyRestore,
    LoseFile,
    TruncateFile,
)
from squall.nemesis.options.disk import (
    DiskError,
    DiskFull,
    DiskLoad,
    DiskSlow,
    DiskStall,
    LyingFsync,
    PowerLoss,
    ReadOnlyDisk,
    WipeDisk,
)
from squall.nemesis.options.link import BadLink, Bandwidth, Burst, SlowLink
from squall.nemesis.options.network import (
    Bridge,
    ConnectionStorm,
    CutPort,
    Flood,
    Halves,
    InterfaceDown,
    Isolate,
    MajoritiesRing,
    OneWay,
    Reset,
    Thirds,
)
from squall.nemesis.options.operation import (
    AdminMix,
    AlterConfig,
    ElectLeaders,
    MoveController,
    Reassign,
    RemoveVoter,
    SetFeature,
)
from squall.nemesis.options.process import (
    Bounce,
    Command,
    CpuStress,
    CpuThrottle,
    HostDown,
    Kill,
    KillAtCall,
    LeaderKillLagging,
    MemoryStress,
    Pause,
    PauseClients,
    ProcessLimit,
    Reconfigure,
    Restart,
    RollingRestart,
)
from squall.nemesis.options.rpc import BlackHole, CutAfter, RpcCut, RpcHold, Slice, SlowClose

__all__ = [
    "AdminMix",
    "AlterConfig",
    "BadLink",
    "Bandwidth",
    "BitFlip",
    "BlackHole",
    "Bounce",
    "Bridge",
    "Burst",
    "ClockFreeze",
    "ClockMonotonic",
    "ClockSkew",
    "ClockStrobe",
    "Command",
    "ConnectionStorm",
    "CopyChunk",
    "CpuStress",
    "CpuThrottle",
    "CutAfter",
    "CutPort",
    "DiskError",
    "DiskFull",
    "DiskLoad",
    "DiskSlow",
    "DiskStall",
    "ElectLeaders",
    "FaultOptions",
    "FileCopyRestore",
    "Flood",
    "Halves",
    "HostDown",
    "InterfaceDown",
    "Isolate",
    "Kill",
    "KillAtCall",
    "LeaderKillLagging",
    "LoseFile",
    "LyingFsync",
    "MajoritiesRing",
    "MemoryStress",
    "MoveController",
    "OneWay",
    "Pause",
    "PauseClients",
    "PowerLoss",
    "ProcessLimit",
    "ReadOnlyDisk",
    "Reassign",
    "Reconfigure",
    "RemoveVoter",
    "Reset",
    "Restart",
    "RollingRestart",
    "RpcCut",
    "RpcHold",
    "SetFeature",
    "Slice",
    "SlowClose",
    "SlowLink",
    "Thirds",
    "Timed",
    "TruncateFile",
    "WipeDisk",
]
