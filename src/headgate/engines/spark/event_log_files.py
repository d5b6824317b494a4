"""Spark's event logs on disk: which files they consist of, and their lines, unpacked while they are read.

A log is a file, or since Spark 3.0 a folder ``eventlog_v2_…`` whose files follow each other. Each file is packed by
itself, or not at all. What it is packed by is seen from its first bytes, because logs are renamed when they are copied.

Spark's own lz4 and snappy are not those of the command-line tools: its lz4 is the block format of lz4-java, its snappy
the one of snappy-java. Both are lengths followed by plain blocks.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from headgate.core.errors import InputError, cause_of
from headgate.core.extras import needing

IN_PROGRESS = ".inprogress"
_PART = re.compile(r"events_(\d+)_")
_COMPACTED = ".compact"
_CHUNK = 1 << 13
"""Bytes unpacked at a time: at most so many are lost where a file ends in the middle."""
MOST_BYTES_OF_LINE = 1 << 26
"""A longer line is no event of a log."""
_LZ4_BLOCK = b"LZ4Block"
_SNAPPY_JAVA = b"\x82SNAPPY\x00"
_LZF = b"ZV"
_DATABASE = b"SQLite format 3"
_STREAMS = {b"\x28\xb5\x2f\xfd": "zstd", b"\x04\x22\x4d\x18": "lz4", b"\x1f\x8b": "gzip"}
"""The first bytes of formats that Arrow reads as they are."""
_STORED, _PACKED = 0x10, 0x20


@dataclass(frozen=True, slots=True)
class EventLog:
    """The files of one application's log, in the order in which they were written."""

    path: Path
    files: tuple[Path, ...]
    is_open: bool
    """Whether the application was still writing it, or died."""

    @property
    def size(self) -> int:
        return sum(file.stat().st_size for file in self.files)


def find_event_logs(path: Path) -> list[EventLog]:
    """Return the log at a path, or those in a folder, such as that of a history server; by name."""
    if not path.is_dir():
        return [EventLog(path, (path,), path.name.endswith(IN_PROGRESS))]
    try:
        return _logs_in(path)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {cause_of(error)}.") from error


def _logs_in(path: Path) -> list[EventLog]:
    if (log := _rolling_log(path)) is not None:
        return [log]
    found = []
    for entry in sorted(path.iterdir()):
        if entry.name.startswith((".", "_")):
            continue
        if entry.is_dir():
            if (log := _rolling_log(entry)) is not None:
                found.append(log)
        elif entry.stat().st_size:
            found.append(EventLog(entry, (entry,), entry.name.endswith(IN_PROGRESS)))
    return found


def _rolling_log(folder: Path) -> EventLog | None:
    """Return the log in a folder of parts; what was compacted replaces the parts up to it."""
    numbered = [(int(match[1]), path) for path in folder.iterdir() if (match := _PART.match(path.name))]
    if not numbered:
        return None
    compacted = max((number for number, path in numbered if path.name.endswith(_COMPACTED)), default=-1)
    parts = sorted(
        (number, path)
        for number, path in numbered
        if number > compacted or (number == compacted and path.name.endswith(_COMPACTED))
    )
    is_open = any(path.name.endswith(IN_PROGRESS) for path in folder.iterdir())
    return EventLog(folder, tuple(path for _, path in parts), is_open)


def event_lines(log: EventLog, on_fault: Callable[[str], None]) -> Iterator[bytes]:
    """Yield the lines of a log; ``on_fault`` gets a sentence for each file that could not be read to its end."""
    for file in log.files:
        try:
            yield from _lines(_unpacked(file), lambda text, name=file.name: on_fault(f"{name} {text}"))  # type: ignore[misc]  # mypy cannot infer a default of a lambda
        except (OSError, EOFError) as error:
            if not file.exists():
                raise InputError(f"{file} cannot be read: {cause_of(error)}.") from error
            on_fault(f"{file.name} ends in the middle ({cause_of(error)})")


def _lines(chunks: Iterator[bytes], on_fault: Callable[[str], None]) -> Iterator[bytes]:
    parts: list[bytes] = []
    size = 0
    for chunk in chunks:
        head, newline, tail = chunk.partition(b"\n")
        if not newline:
            size += len(chunk)
            if size <= MOST_BYTES_OF_LINE:
                parts.append(chunk)
            continue
        if size > MOST_BYTES_OF_LINE:
            on_fault(f"has a line of {size} bytes, which was skipped")
        else:
            yield b"".join((*parts, head))
        *lines, rest = tail.split(b"\n")
        yield from lines
        parts, size = [rest], len(rest)
    if rest := b"".join(parts):
        yield rest


def _unpacked(path: Path) -> Iterator[bytes]:
    """Yield the content of a file."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {cause_of(error)}.") from error
    with file:
        start = file.read(len(_DATABASE))
        file.seek(0)
        packed_by = next((name for magic, name in _STREAMS.items() if start.startswith(magic)), None)
        if packed_by is not None:
            yield from _arrow_stream(path, packed_by)
        elif start.startswith(_LZ4_BLOCK):
            yield from _lz4_java(file)
        elif start.startswith(_SNAPPY_JAVA):
            yield from _snappy_java(file)
        elif start == _DATABASE:
            raise InputError(
                f"{path} is a database, such as a journal, and no event log; headgate replay reads journals."
            )
        elif start.startswith(_LZF):
            raise InputError(
                f"{path} is packed by lzf, which cannot be read; plain, zstd, lz4, snappy and gzip can "
                "(spark.eventLog.compression.codec)."
            )
        else:
            while chunk := file.read(_CHUNK):
                yield chunk


def _arrow_stream(path: Path, packed_by: str) -> Iterator[bytes]:
    with needing(f"an event log packed by {packed_by}"):
        import pyarrow as pa
    with pa.CompressedInputStream(pa.OSFile(str(path)), packed_by) as stream:
        while chunk := stream.read(_CHUNK):
            yield chunk


def _lz4_java(file: BinaryIO) -> Iterator[bytes]:
    """Yield the blocks of ``LZ4BlockOutputStream``: magic, method, both sizes, checksum, data."""
    with needing("an event log packed by lz4"):
        import pyarrow as pa
    codec = pa.Codec("lz4_raw")
    while head := file.read(21):
        if len(head) < 21 or not head.startswith(_LZ4_BLOCK):
            raise EOFError("a block is incomplete")
        method, packed_size, size, _ = struct.unpack("<BiiI", head[8:])
        packed = file.read(packed_size)
        if len(packed) < packed_size:
            raise EOFError("a block is incomplete")
        if method & 0xF0 == _STORED:
            yield packed
        elif method & 0xF0 == _PACKED and size:
            yield codec.decompress(packed, decompressed_size=size, asbytes=True)
        # A block of size 0 ends a stream; another may follow it.


def _snappy_java(file: BinaryIO) -> Iterator[bytes]:
    """Yield the blocks of ``SnappyOutputStream``: a header of 16 bytes, then sizes and data; headers may repeat."""
    with needing("an event log packed by snappy"):
        import pyarrow as pa
    codec = pa.Codec("snappy")
    while head := file.read(4):
        if head == _SNAPPY_JAVA[:4]:
            file.read(12)
            continue
        size = struct.unpack(">i", head)[0] if len(head) == 4 else -1
        packed = file.read(max(0, size))
        if size < 0 or len(packed) < size:
            raise EOFError("a block is incomplete")
        yield codec.decompress(packed, decompressed_size=_snappy_size(packed), asbytes=True)


def _snappy_size(packed: bytes) -> int:
    """Return the size of unpacked data, which begins it: seven bits to a byte, the lowest first.

    >>> _snappy_size(b"\\x05"), _snappy_size(b"\\x80\\x02")
    (5, 256)
    """
    size = 0
    for place, byte in enumerate(packed[:5]):
        size |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            break
    return size
