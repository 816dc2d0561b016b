"""Structure-aware nonsense: requests that decode, and whose values are chosen to mislead.

Each field is drawn from what is near the truth (ids, epochs, offsets and names that exist, and those just beside them)
and from the ends of its range. A seed gives the same messages again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any, cast

from squall.nodes.protocol.compiler import is_flexible
from squall.nodes.protocol.messages import APIS
from squall.nodes.protocol.records import Record, build_batch
from squall.nodes.protocol.requests.headers import encode_request
from squall.nodes.protocol.requests.session import Versions
from squall.nodes.protocol.schema import FieldSchema, Message, fields_of

_BITS = {"int8": 8, "int16": 16, "uint16": 16, "int32": 32, "int64": 64}
_ELEMENTS_MAX = 3


@dataclass
class Forger:
    """Draws messages. `numbers`, `names` and `ids` are the truths to stay near."""

    rng: Random
    numbers: list[int] = field(default_factory=lambda: [0, 1, 2, 3])
    names: list[str] = field(default_factory=lambda: ["__cluster_metadata", "squall-cluster-00000-A", "topic"])
    ids: list[bytes] = field(default_factory=lambda: [bytes(16), bytes(15) + b"\x01"])

    def frame(self, versions: Versions, correlation_id: int = 0) -> bytes:
        """A request that a listener of these versions serves, without its length."""
        key = self.rng.choice(list(versions))
        message, version = self.request(versions, key)
        return b"".join(encode_request(key, version, correlation_id, "forger", message))

    def request(self, versions: Versions, key: int) -> tuple[Message, int]:
        """A request of this API, and its version."""
        version = self.rng.randint(max(versions[key][0], APIS[key].versions[0]), versions[key][1])
        return self.message(APIS[key].request, version), version

    def message(self, cls: Any, version: int) -> Message:
        """One message, or a part of one."""
        made = cls()
        for name, schema in fields_of(cls):
            needed = getattr(made, name) is None
            if version in schema.versions and (needed or self.rng.random() < 0.9):
                setattr(made, name, self._value(schema, version, is_flexible(cls, version)))
        return cast(Message, made)

    def _value(self, schema: FieldSchema, version: int, flexible: bool) -> Any:
        if schema.nullable is not None and version in schema.nullable and self.rng.random() < 0.1:
            return None
        if schema.type == "array":
            return [self._element(schema.element, version, flexible) for _ in range(self._length())]
        if schema.type == "struct":
            return self.message(schema.element, version)
        return self._primitive(schema.type)

    def _element(self, element: Any, version: int, flexible: bool) -> Any:
        return self._primitive(element) if isinstance(element, str) else self.message(element, version)

    def _length(self) -> int:
        return self.rng.choice((0, 1, 1, 1, 1, _ELEMENTS_MAX))

    def _primitive(self, kind: str) -> Any:
        rng = self.rng
        if kind in _BITS:
            return self._number(kind)
        if kind == "bool":
            return rng.random() < 0.5
        if kind == "float64":
            return rng.choice((0.0, -1.0, 1e300, float("inf")))
        if kind == "uuid":
            return rng.choice([*self.ids, rng.randbytes(16)])
        if kind == "string":
            return rng.choice([*self.names, "", "\x00", "../..", "x" * 300, "ü" * 20])
        if kind == "bytes":
            return rng.randbytes(rng.choice((0, 1, 16, 300)))
        return self._records()

    def _number(self, kind: str) -> int:
        bits = _BITS[kind]
        low, high = (0, 2**16 - 1) if kind == "uint16" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        near = self.rng.choice(self.numbers) + self.rng.choice((-1, 0, 0, 0, 1))
        number = (
            near
            if self.rng.random() < 0.8
            else self.rng.choice((low, high, high - 1, 0, -1, self.rng.randint(low, high)))
        )
        return min(max(number, low), high)

    def _records(self) -> bytearray:
        """A batch, most often with a field of its header overwritten."""
        rng = self.rng
        batch = build_batch(
            [Record(key=None, value=b"value")] * rng.randint(1, 3),
            base_offset=rng.choice(self.numbers),
            leader_epoch=rng.choice(self.numbers),
            timestamp=1,
        )
        if rng.random() < 0.6:
            at = rng.randrange(len(batch))
            batch[at : at + 4] = rng.choice((b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\0", rng.randbytes(4)))[
                : len(batch) - at
            ]
        return batch

    def distorted(self, message: Message, version: int, share: float = 0.15) -> Message:
        """A copy of a message in which a share of the fields says something else."""
        made = cast(Any, type(message))()
        flexible = is_flexible(type(message), version)
        for name, schema in fields_of(type(message)):
            value = getattr(message, name)
            if version in schema.versions:
                value = self._distorted(value, schema, version, flexible, share)
            setattr(made, name, value)
        return cast(Message, made)

    def _distorted(self, value: Any, schema: FieldSchema, version: int, flexible: bool, share: float) -> Any:
        if self.rng.random() < (share / 3 if schema.type in ("array", "struct") else share):
            return self._value(schema, version, flexible)
        if isinstance(value, Message):
            return self.distorted(value, version, share)
        if schema.type == "array" and value is not None:
            return [self.distorted(one, version, share) if isinstance(one, Message) else one for one in value]
        return value
