"""streams by path -> an OLE file, and a message of Outlook in one."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

SECTOR, MINI_SECTOR, MINI_LIMIT = 512, 64, 4096
END, FREE, FAT_SECTOR = 0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFD


def _padded(data: bytes | bytearray, size: int) -> bytes:
    return bytes(data) + bytes(-len(data) % size)


class _Sectors:
    """Sectors of one size, and the chains through them."""

    def __init__(self, size: int) -> None:
        self.size, self.data, self.next = size, bytearray(), list[int]()

    def add(self, data: bytes | bytearray) -> int:
        """Store data; return its first sector."""
        if not data:
            return END
        first, count = len(self.next), -(-len(data) // self.size)
        self.data += _padded(data, self.size)
        self.next += [*range(first + 1, first + count), END]
        return first


def compound(streams: Mapping[str, bytes | bytearray]) -> bytes:
    """Return an OLE file of these streams; their paths may have storages: `a/b`."""
    large, small = _Sectors(SECTOR), _Sectors(MINI_SECTOR)
    starts = {path: (small if len(data) < MINI_LIMIT else large).add(data) for path, data in streams.items()}
    storages = {path.rpartition("/")[0] for path in streams} - {""}
    storages |= {storage.partition("/")[0] for storage in storages}
    nodes = ["", *sorted({*storages, *streams})]
    children = {node: [child for child in nodes[1:] if child.rpartition("/")[0] == node] for node in nodes}
    siblings = {child: after for group in children.values() for child, after in pairwise(group)}
    small_start = large.add(bytes(small.data))
    entries = b""
    for node in nodes:
        name = (node.rpartition("/")[2] or "Root Entry").encode("utf-16-le") + b"\0\0"
        kind = 5 if not node else 2 if node in streams else 1
        first = nodes.index(children[node][0]) if children[node] else FREE
        after = nodes.index(siblings[node]) if node in siblings else FREE
        start, size = (small_start, len(small.data)) if not node else (starts.get(node, 0), len(streams.get(node, b"")))
        entries += struct.pack("<64sHBBIII36xIQ", name, len(name), kind, 1, FREE, after, first, start, size)
    directory = large.add(_padded(entries, SECTOR))
    mini_fat = large.add(b"".join(struct.pack("<I", each) for each in small.next))
    count = 1
    while count * SECTOR // 4 < len(large.next) + count:
        count += 1
    fat_starts = [len(large.next) + number for number in range(count)]
    fat = struct.pack(f"<{len(large.next) + count}I", *large.next, *[FAT_SECTOR] * count)
    fat += struct.pack("<I", FREE) * ((-len(fat) % SECTOR) // 4)
    header = struct.pack(
        "<8s16xHHHHH6xIIIIIIIII", bytes.fromhex("d0cf11e0a1b11ae1"), 62, 3, 0xFFFE, 9, 6, 0, count, directory, 0,
        MINI_LIMIT, mini_fat, -(-len(small.next) * 4 // SECTOR), END, 0,
    )  # fmt: skip
    return header + struct.pack("<109I", *fat_starts, *[FREE] * (109 - count)) + bytes(large.data) + fat


Values = Mapping[int, Any]  # texts, bytes, numbers and times, by the number of the property


def storage(values: Values, path: str = "", *, header: int = 32, code_page: str = "") -> dict[str, bytes]:
    """Return the streams of the properties of a message, recipient or attachment."""
    streams, table = dict[str, bytes](), bytes(header)
    for number, value in values.items():
        kind, amount = 0x0003, value
        if isinstance(value, datetime):
            kind, amount = 0x0040, int((value - datetime(1601, 1, 1, tzinfo=UTC)).total_seconds()) * 10_000_000
        elif isinstance(value, str | bytes):
            kind = 0x0102 if isinstance(value, bytes) else 0x001E if code_page else 0x001F
            data = value if isinstance(value, bytes) else value.encode(code_page or "utf-16-le", "surrogatepass")
            streams[f"{path}__substg1.0_{number:04X}{kind:04X}"] = data
            amount = len(data)
        table += struct.pack("<HHIQ", kind, number, 6, amount)
    return {**streams, f"{path}__properties_version1.0": table}


def message(values: Values, *parts: tuple[str, Values], code_page: str = "") -> bytes:
    """Return a message; its parts are recipients and attachments with their kind."""
    return compound(message_streams(values, parts, code_page=code_page))


def message_streams(
    values: Values, parts: Sequence[tuple[str, Values]], path: str = "", *, code_page: str = ""
) -> dict[str, bytes]:
    streams = storage(values, path, header=24 if path else 32, code_page=code_page)
    for number, (kind, inner) in enumerate(parts):
        streams |= storage(inner, f"{path}__{kind}_version1.0_#{number:08X}/", header=8, code_page=code_page)
    return streams
