"""Checks the file of a library before it is loaded.

The dynamic loader does not check the length of a file. If the file is truncated or its end is zeros, the process
crashes.
"""

import os
import pathlib
import platform
import struct
from typing import BinaryIO, NamedTuple

# ELF, 64 bits, little-endian.
_IDENTIFICATION = b"\x7fELF\x02\x01"
_MACHINES = {"x86_64": 62, "aarch64": 183}
_STRING_TABLE = 3


class _Header(NamedTuple):
    """The header of an ELF file, with the field names of the specification."""

    e_ident: bytes
    e_type: int
    e_machine: int
    e_version: int
    e_entry: int
    e_phoff: int
    e_shoff: int
    e_flags: int
    e_ehsize: int
    e_phentsize: int
    e_phnum: int
    e_shentsize: int
    e_shnum: int
    e_shstrndx: int


_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
# The type, offset and size of a segment.
_SEGMENT = struct.Struct("<I4xQ16xQ16x")
# The type of a section.
_SECTION = struct.Struct("<4xI56x")


def why_not_loadable(path: pathlib.Path) -> str | None:
    """Returns what is wrong with the file of a library, as a predicate ("is missing"), or None.

    Detects a file that is not a library, a library for another CPU architecture, and a file whose end is missing or,
    after a crash of the system, was never written.
    """
    if not path.is_file():
        return "is not a file" if os.path.lexists(path) else "is missing"
    try:
        with path.open("rb") as file:
            return _why_not_loadable(file, os.fstat(file.fileno()).st_size)
    except OSError as error:
        return f"cannot be read ({error.strerror})"


def _why_not_loadable(file: BinaryIO, size: int) -> str | None:
    if size < _HEADER.size:
        return f"is not a library ({size} bytes)"
    header = _Header._make(_HEADER.unpack(file.read(_HEADER.size)))
    if not header.e_ident.startswith(_IDENTIFICATION):
        return "is not a library for 64-bit Linux"
    if header.e_machine != _MACHINES.get(platform.machine(), header.e_machine):
        return f"is not for this CPU architecture, {platform.machine()}"
    if _end_of_tables(header) > size or _end_of_segments(file, header) > size:
        return f"is truncated to {size} bytes"
    if header.e_shnum and not _has_section_names(file, header):
        return "is damaged: its end is missing"
    return None


def _end_of_tables(header: _Header) -> int:
    """Returns the end of the tables of segments and sections."""
    return max(
        header.e_phoff + header.e_phnum * _SEGMENT.size,
        header.e_shoff + header.e_shnum * _SECTION.size,
    )


def _end_of_segments(file: BinaryIO, header: _Header) -> int:
    """Returns the end of the last segment."""
    file.seek(header.e_phoff)
    table = file.read(header.e_phnum * _SEGMENT.size)
    return max((offset + size for _, offset, size in _SEGMENT.iter_unpack(table)), default=0)


def _has_section_names(file: BinaryIO, header: _Header) -> bool:
    """Returns whether the section of names, which the linker writes last before the section table, is intact."""
    file.seek(header.e_shoff)
    kinds = [kind for (kind,) in _SECTION.iter_unpack(file.read(header.e_shnum * _SECTION.size))]
    return kinds[header.e_shstrndx : header.e_shstrndx + 1] == [_STRING_TABLE]
