"""The head of a GGUF file, read before anything else reads it: whatever it counts and points to has to be in the file.

    magic, version, number of tensors, number of fields
    fields:  key, type, value                 key and text: length, bytes; array: type, length, values
    tensors: name, dimensions, type, offset   from the next multiple of the alignment on
    data

Readers believe what stands there: llama.cpp ends the process where some of it is wrong, and the `gguf` package
takes memory by it.
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from agentform.errors import WeightsCorrupt

__all__ = ["check_gguf"]

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_WIDTHS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Bytes of a number, by GGUF's number for its type."""
_BOOL, _TEXT, _ARRAY, _UINT32 = 7, 8, 9, 4
_LEAST_FIELD, _LEAST_TENSOR = 8 + 4 + 1, 8 + 4 + 4 + 8
_MOST_TENSORS, _MOST_FIELDS = 1 << 17, 1 << 16
_MOST_VALUES = 1 << 24
"""Of one array; the largest vocabularies have a million."""
_MOST_TEXT = 1 << 26
_MOST_KEY, _MOST_NAME = 1 << 16, 63
_MOST_DIMENSIONS = 4
_MOST_ELEMENTS = 1 << 62
_MOST_ALIGNMENT = 1 << 20
_MOST_SIZE = 1 << 28
"""Of whatever a field of the architecture counts: longer than any context. Bases of rotations are no counts."""
_MOST_BLOCKS = 512
_FORMS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 10: "<Q", 11: "<q", 12: "<d"}
_ROTATION_BASE = b".rope.freq_base"
"""Thousands of millions where a model was made for millions of tokens."""
_DIVISORS = (b"_interval", b".rope.dimension_count")
_NOT_OF_ARCHITECTURE = (b"general.", b"tokenizer.", b"split.", b"quantize.")
_BLOCKS = {
    **{0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 40)},
    **{10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292)},
    **{16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82)},
    **{23: (256, 136), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2)},
    **{34: (256, 54), 35: (256, 66), 39: (32, 17), 40: (64, 36), 41: (128, 18)},
}
"""Elements and bytes of a block, by ggml's number for a tensor's type. Of a newer one only the offset is checked."""
_REMOVED_TYPES = frozenset({4, 5, 31, 32, 33, 36, 37, 38})


def check_gguf(path: Path) -> None:
    """Read the head of a GGUF file and compare it with the size of the file; no weights are read.

    Raises:
        WeightsCorrupt: it is none, or something in it cannot be; says what, and where.
    """
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            _Head(path, data).check()
    except (OSError, ValueError) as error:
        raise WeightsCorrupt(f"{path} cannot be read: {error}") from error


@dataclass(eq=False)
class _Head:
    path: Path
    data: mmap.mmap
    at: int = 0
    """What was read up to here."""
    alignment: int = 32
    _keys: set[bytes] = field(default_factory=set[bytes])

    def check(self) -> None:
        magic = self._read(min(4, len(self.data)), "the mark")
        if magic != _MAGIC:
            raise WeightsCorrupt(f"{self.path} is not a GGUF file: it begins with {magic!r}")
        version = self._number("<I", "the version")
        if version not in _VERSIONS:
            raise self._wrong(f"version {version}", "this reads versions 2 and 3")
        num_tensors = self._count("the number of tensors", _LEAST_TENSOR, _MOST_TENSORS)
        num_fields = self._count("the number of fields", _LEAST_FIELD, _MOST_FIELDS)
        for number in range(num_fields):
            self._field(number)
        self._check_extents([self._tensor(number) for number in range(num_tensors)])

    def _field(self, number: int) -> None:
        key = self._text(f"the key of field {number}", _MOST_KEY)
        where = f"the field {_shown(key)}"
        if not key or key in self._keys:
            raise self._wrong(where, "it has no name" if not key else "it stands there twice")
        self._keys.add(key)
        kind = self._number("<I", f"the type of {where}")
        if key == b"general.alignment":
            self._read_alignment(kind)
        else:
            start = self.at
            self._value(kind, where)
            self._check_value(key, kind, start, where)

    def _check_value(self, key: bytes, kind: int, start: int, where: str) -> None:
        """Sizes that llama.cpp believes, and ends the process over."""
        if key == b"tokenizer.ggml.tokens" and kind == _ARRAY:
            self._check_tokens(start, where)
        if kind not in _FORMS or key.startswith(_NOT_OF_ARCHITECTURE):
            return
        (value,) = struct.unpack_from(_FORMS[kind], self.data, start)
        if not math.isfinite(value) or (abs(value) > _MOST_SIZE and _ROTATION_BASE not in key):
            raise self._wrong(where, f"{value} is larger than anything is")
        if key.endswith(b"_epsilon") and not 0 < value < 1:
            raise self._wrong(where, f"{value} does not lie between 0 and 1")
        if key.endswith(_DIVISORS) and not value > 0:
            raise self._wrong(where, f"{value} is not above zero")
        if key.endswith(b".rope.dimension_count") and value % 2:
            raise self._wrong(where, f"{value} is odd; dimensions are turned in pairs")
        if key.endswith(b".block_count") and not 0 < value <= _MOST_BLOCKS:
            raise self._wrong(where, f"{value} blocks; from 1 to {_MOST_BLOCKS} are possible")

    def _check_tokens(self, start: int, where: str) -> None:
        kind, length = struct.unpack_from("<IQ", self.data, start)
        if kind != _TEXT:
            raise self._wrong(where, "they are no texts")
        tokens: set[bytes] = set()
        unpack, data, at = struct.Struct("<Q").unpack_from, self.data, start + 12
        for _ in range(length):
            end = at + 8 + unpack(data, at)[0]
            tokens.add(data[at + 8 : end])
            at = end
        if len(tokens) < length:
            raise self._wrong(where, "a token stands there twice")

    def _read_alignment(self, kind: int) -> None:
        if kind != _UINT32:
            raise self._wrong("the field 'general.alignment'", f"its type is {kind}, not {_UINT32}")
        self.alignment = self._number("<I", "general.alignment")
        if not 0 < self.alignment <= _MOST_ALIGNMENT or self.alignment & (self.alignment - 1):
            raise self._wrong("the field 'general.alignment'", f"{self.alignment} is no power of two up to 2**20")

    def _value(self, kind: int, where: str) -> None:
        if kind == _TEXT:
            self._text(where, _MOST_TEXT)
        elif kind == _ARRAY:
            self._array(where)
        elif kind == _BOOL:
            self._booleans(1, where)
        elif kind in _WIDTHS:
            self._skip(_WIDTHS[kind], where)
        else:
            raise self._wrong(where, f"{kind} is no type of a value")

    def _array(self, where: str) -> None:
        kind = self._number("<I", f"the type of {where}")
        width = 8 if kind == _TEXT else _WIDTHS.get(kind)
        if width is None:
            raise self._wrong(where, f"{kind} is no type that the values of an array can have")
        length = self._count(f"the length of {where}", width, _MOST_VALUES)
        if kind == _BOOL:
            self._booleans(length, where)
        elif kind != _TEXT:
            self._skip(length * width, where)
        else:
            self._texts(length, where)

    def _texts(self, length: int, where: str) -> None:
        unpack, data, at, size = struct.Struct("<Q").unpack_from, self.data, self.at, len(self.data)
        try:
            for _ in range(length):  # hundreds of thousands
                at += 8 + unpack(data, at)[0]
        except (struct.error, OverflowError):
            at = size + 1
        if at > size:
            raise self._wrong(where, "the file ends inside it")
        self.at = at

    def _booleans(self, length: int, where: str) -> None:
        if self._read(length, where).strip(b"\x00\x01"):
            raise self._wrong(where, "a boolean is neither 0 nor 1")

    def _tensor(self, number: int) -> tuple[str, int, int]:
        """What to call it, where it begins in the data, and its bytes; 0 for a type of unknown size."""
        name = self._text(f"the name of tensor {number}", _MOST_NAME)
        where = f"the tensor {_shown(name)}"
        if (named := b"tensor " + name) in self._keys:
            raise self._wrong(where, "it stands there twice")
        self._keys.add(named)
        shape = list(self._shape(where))
        kind = self._number("<I", f"the type of {where}")
        return where, self._offset(where), self._bytes(where, kind, shape)

    def _shape(self, where: str) -> Iterator[int]:
        count = self._number("<I", f"the number of dimensions of {where}")
        if count > _MOST_DIMENSIONS:
            raise self._wrong(where, f"it has {count:,} dimensions; {_MOST_DIMENSIONS} are possible")
        elements = 1
        for _ in range(count):
            size = self._number("<Q", f"the dimensions of {where}")
            elements *= size
            if not 0 < elements <= _MOST_ELEMENTS:
                raise self._wrong(where, f"a dimension of {size:,} makes it larger than anything is, or empty")
            yield size

    def _offset(self, where: str) -> int:
        offset = self._number("<Q", f"the offset of {where}")
        if offset % self.alignment:
            raise self._wrong(where, f"its offset {offset:,} is no multiple of the alignment {self.alignment}")
        return offset

    def _bytes(self, where: str, kind: int, shape: list[int]) -> int:
        if kind in _REMOVED_TYPES or kind > 255:
            raise self._wrong(where, f"{kind} is no type of a tensor")
        if kind not in _BLOCKS:
            return 0
        elements, size = _BLOCKS[kind]
        row, rows = shape[0] if shape else 1, 1
        for count in shape[1:]:
            rows *= count
        if row % elements:
            raise self._wrong(where, f"its rows of {row:,} are no multiple of the {elements} elements of a block")
        return row // elements * size * rows

    def _check_extents(self, tensors: list[tuple[str, int, int]]) -> None:
        start = -(-self.at // self.alignment) * self.alignment
        end = 0
        for where, offset, size in sorted(tensors, key=lambda tensor: tensor[1:]):
            if start + offset + size > len(self.data):
                needed = start + offset + size
                raise self._wrong(
                    where, f"it ends at byte {needed:,} of a file that has {len(self.data):,}; is it cut off?"
                )
            if offset < end:
                raise self._wrong(where, "it overlaps with another")
            end = offset + size

    def _text(self, what: str, most: int) -> bytes:
        return self._read(self._length(what, most), what)

    def _length(self, what: str, most: int) -> int:
        return self._count(f"the length of {what}", 1, most)

    def _count(self, what: str, least_bytes: int, most: int) -> int:
        """A number of things that take at least so many bytes each."""
        count = self._number("<Q", what)
        left = len(self.data) - self.at
        if count > most or count * least_bytes > left:
            raise self._wrong(what, f"it is {count:,}, with {left:,} bytes left; {most:,} are possible")
        return count

    def _number(self, form: str, what: str) -> int:
        return struct.unpack(form, self._read(struct.calcsize(form), what))[0]

    def _skip(self, size: int, what: str) -> None:
        if self.at + size > len(self.data):
            raise self._wrong(what, "the file ends inside it")
        self.at += size

    def _read(self, size: int, what: str) -> bytes:
        start = self.at
        self._skip(size, what)
        return self.data[start : self.at]

    def _wrong(self, what: str, why: str) -> WeightsCorrupt:
        return WeightsCorrupt(f"{self.path} cannot be read: {what}: {why} (byte {self.at:,})")


def _shown(name: bytes) -> str:
    return repr(name[:80].decode(errors="replace"))
