"""Reports C++ calls that can abort the process. Run by `make lint`.

Many of TensorFlow's accessors abort if a tensor has an unexpected rank, type or alignment. Our kernels must accept any
tensor; they use the functions in cc/tensorflow/kernels/tensorflow_frame.h instead.
Mark a line that is known to be safe with `// NOLINT(accessors): reason`.
"""

import pathlib
import re
import sys
from collections.abc import Iterator
from typing import NamedTuple

REPOSITORY = pathlib.Path(__file__).parent.parent
ADAPTERS = ("cc/tensorflow/kernels", "cc/tensorflow/ops", "cc/tensorflow/xla", "cc/ffi")
EVERYWHERE = (*ADAPTERS, "cc/ops", "cc/rnn", "cc/gpu")
KERNELS = ("cc/tensorflow/kernels",)
ALLOWED = "NOLINT(accessors): "


class Rule(NamedTuple):
    """A forbidden call.

    Attributes:
      pattern: a regular expression for code without comments. Its first group is the name to report.
      folders: where the call is forbidden.
      instead: the replacement.
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
    Rule(r"\b((?:TF_)?[DPQ]{0,2}CHECK(?:_\w+)?)\s*\(", EVERYWHERE, "OP_REQUIRES or a status"),
    Rule(r"\bD?V?LOG\s*\(\s*(\w*FATAL)\b", EVERYWHERE, "a status"),
    Rule(r"(?:\.|->)\s*(at)\s*\(", EVERYWHERE, "a check and []"),
    Rule(r"\b(abort|_?_?exit|quick_exit|terminate)\s*\(", EVERYWHERE, "a status"),
    Rule(r"\b(throw)\b", EVERYWHERE, "a status"),
)


def findings(code: str, folder: str) -> Iterator[tuple[int, str, str]]:
    """Finds the forbidden calls in a C++ file.

    Args:
      code: the contents of the file.
      folder: the folder of the file, one of EVERYWHERE.

    Yields:
      The line number, the forbidden name and its replacement.
    """
    text = "\n".join("" if ALLOWED in line else line.split("//")[0] for line in code.split("\n"))
    for rule in RULES:
        if folder in rule.folders:
            for match in re.finditer(rule.pattern, text):
                yield text.count("\n", 0, match.start(1)) + 1, match[1], rule.instead


def sources(folder: str) -> list[pathlib.Path]:
    """Returns the files in a folder that are compiled into the libraries."""
    paths = (REPOSITORY / folder).rglob("*")
    is_for_tests = re.compile(r"_test\.cc$|_fuzz\.cc$|_support\.h$|_reference\.h$|_main\.cc$|/fakes/|/faults/")
    return sorted(each for each in paths if each.suffix in (".cc", ".h") and not is_for_tests.search(str(each)))


def main() -> int:
    """Prints the forbidden calls. Returns 1 if there are any, else 0."""
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
