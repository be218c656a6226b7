"""Refuses calls that can end the process: `make lint` runs it.

Many of TensorFlow's accessors abort where a tensor has another rank, type or alignment than they assume, and a user's
tensor may have any. cc/kernels/tensorflow_frame.h has what our kernels use in their place.
A line that is shown to be safe says so: `// NOLINT(accessors): why`.
"""

import pathlib
import re
import sys
from collections.abc import Iterator
from typing import NamedTuple

REPOSITORY = pathlib.Path(__file__).parent.parent
EVERYWHERE = ("cc/kernels", "cc/xla", "cc/ops", "cc/calls", "cc/rnn", "cc/gpu")
ADAPTERS = ("cc/kernels", "cc/xla", "cc/ops")
KERNELS = ("cc/kernels",)
ALLOWED = "NOLINT(accessors): "


class Rule(NamedTuple):
    """What is refused.

    Attributes:
      pattern: what finds it in code without comments. Its first group is the name.
      folders: where it is refused.
      instead: what to use.
    """

    pattern: str
    folders: tuple[str, ...]
    instead: str


_VIEWS = (
    r"flat(?:_\w+)?|matrix|vec|scalar|tensor|shaped|unaligned_\w+|bit_casted_\w+|reinterpret_last_dimension|"
    r"UnsafeCopyFromInternal|SubSlice|Slice"
)
_SHAPE_CHANGES = r"AddDim|InsertDim|AppendShape|set_dim|RemoveDim|RemoveDimRange|RemoveLastDims|AsEigenDSizes\w*"
_INPUTS = r"input|input_list|mutable_input|mutable_input_list|replace_ref_input|delete_ref_input"

RULES = (
    Rule(rf"(?:\.|->)\s*(?:template\s+)?({_VIEWS})\s*[<(]", ADAPTERS, "Array"),
    Rule(r"(?:\.|->)\s*(dim_size)\s*\(", ADAPTERS, "Shape"),
    Rule(rf"(?:\.|->)\s*({_SHAPE_CHANGES})\s*[<(]", ADAPTERS, "TensorShape::BuildTensorShape"),
    Rule(
        r"\b((?:Partial)?TensorShape)\s*\w*\s*[({]\s*[^)}\s]",
        ADAPTERS,
        "CallFrame::MakeOutput or TensorShape::BuildTensorShape",
    ),
    Rule(rf"(?:\.|->)\s*({_INPUTS})\s*\(", KERNELS, "CallFrame::FindInput or FindInputs"),
    Rule(r"(?:\.|->)\s*(mutable_output|release_output|output_list)\s*\(", KERNELS, "CallFrame::MakeOutput"),
    Rule(r"\b(Op\w*(?:Input|Output)List)\b", KERNELS, "CallFrame::FindInputs or MakeOutputs"),
    Rule(r"(?:\.|->)\s*(value)\s*\(", ADAPTERS, "value_or, or `*` after ok()"),
    Rule(r"\b((?:Consume)?ValueOrDie)\b", ADAPTERS, "`*` after ok()"),
    Rule(r"\b((?:TF_)?[DPQ]{0,2}CHECK(?:_\w+)?)\s*\(", EVERYWHERE, "OP_REQUIRES, or a status"),
    Rule(r"\bD?V?LOG\s*\(\s*(\w*FATAL)\b", EVERYWHERE, "a status"),
    Rule(r"(?:\.|->)\s*(at)\s*\(", EVERYWHERE, "a check, and []"),
    Rule(r"\b(abort|_?_?exit|quick_exit|terminate)\s*\(", EVERYWHERE, "a status"),
    Rule(r"\b(throw)\b", EVERYWHERE, "a status"),
)


def findings(code: str, folder: str) -> Iterator[tuple[int, str, str]]:
    """Finds what is refused in a C++ file.

    Args:
      code: the file's contents.
      folder: one of EVERYWHERE, where the file is.

    Yields:
      The number of the line, the name that is refused there and what to use in its place.
    """
    text = "\n".join("" if ALLOWED in line else line.split("//")[0] for line in code.split("\n"))
    for rule in RULES:
        if folder in rule.folders:
            for match in re.finditer(rule.pattern, text):
                yield text.count("\n", 0, match.start(1)) + 1, match[1], rule.instead


def sources(folder: str) -> list[pathlib.Path]:
    """Returns the files of a folder that go into the libraries."""
    paths = (REPOSITORY / folder).rglob("*")
    is_for_tests = re.compile(r"_test\.cc$|_fuzz\.cc$|_support\.h$|_reference\.h$|_main\.cc$|/fakes/|/faults/")
    return sorted(each for each in paths if each.suffix in (".cc", ".h") and not is_for_tests.search(str(each)))


def main() -> int:
    """Prints what is refused. Returns 1 if there is something, else 0."""
    found = [
        f"{path.relative_to(REPOSITORY)}:{line}: {name} can end the process; use {instead}"
        for folder in EVERYWHERE
        for path in sources(folder)
        for line, name, instead in findings(path.read_text(), folder)
    ]
    for each in found:
        print(each)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
