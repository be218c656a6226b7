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
      found: examples of code, separated by bars, with the name in backquotes.
    """

    pattern: str
    folders: tuple[str, ...]
    instead: str
    found: str


_VIEWS = (
    r"flat(?:_\w+)?|matrix|vec|scalar|tensor|shaped|unaligned_\w+|bit_casted_\w+|reinterpret_last_dimension|"
    r"UnsafeCopyFromInternal|SubSlice|Slice"
)
_SHAPE_CHANGES = r"AddDim|InsertDim|AppendShape|set_dim|RemoveDim|RemoveDimRange|RemoveLastDims|AsEigenDSizes\w*"
_INPUTS = r"input|input_list|mutable_input|mutable_input_list|replace_ref_input|delete_ref_input"

RULES = (
    Rule(
        rf"(?:\.|->)\s*(?:template\s+)?({_VIEWS})\s*[<(]",
        ADAPTERS,
        "Array",
        "x.`flat`<T>() | x->`flat_inner_dims`<T, 2>() | x\n  .`matrix`<float>() | x.`Slice`(0, 1)",
    ),
    Rule(r"(?:\.|->)\s*(dim_size)\s*\(", ADAPTERS, "Shape", "x->`dim_size`(0)"),
    Rule(
        rf"(?:\.|->)\s*({_SHAPE_CHANGES})\s*[<(]",
        ADAPTERS,
        "TensorShape::BuildTensorShape",
        "shape.`RemoveDimRange`(0, 1) | shape.`AsEigenDSizes`<2>()",
    ),
    Rule(
        r"\b((?:Partial)?TensorShape)\s*\w*\s*[({]\s*[^)}\s]",
        ADAPTERS,
        "CallFrame::MakeOutput or TensorShape::BuildTensorShape",
        "`TensorShape`({size}) | tensorflow::`TensorShape` shape({size}); | `PartialTensorShape` shape{size};",
    ),
    Rule(
        rf"(?:\.|->)\s*({_INPUTS})\s*\(",
        KERNELS,
        "CallFrame::FindInput or FindInputs",
        'ctx->`input`(0) | ctx_->`mutable_input_list`("w", &w)',
    ),
    Rule(
        r"(?:\.|->)\s*(mutable_output|release_output|output_list)\s*\(",
        KERNELS,
        "CallFrame::MakeOutput",
        "ctx->`mutable_output`(0)",
    ),
    Rule(
        r"\b(Op\w*(?:Input|Output)List)\b",
        KERNELS,
        "CallFrame::FindInputs or MakeOutputs",
        "tensorflow::`OpInputList` w; | `OpMutableInputList` w;",
    ),
    Rule(r"(?:\.|->)\s*(value)\s*\(", ADAPTERS, "value_or, or `*` after ok()", "status_or.`value`()"),
    Rule(r"\b((?:Consume)?ValueOrDie)\b", ADAPTERS, "`*` after ok()", "status_or.`ConsumeValueOrDie`()"),
    Rule(
        r"\b((?:TF_)?[DPQ]{0,2}CHECK(?:_\w+)?)\s*\(",
        EVERYWHERE,
        "OP_REQUIRES or a status",
        "`CHECK`(ok) | `DCHECK_GE`(a, b) | `TF_CHECK_OK`(status)",
    ),
    Rule(r"\bD?V?LOG\s*\(\s*(\w*FATAL)\b", EVERYWHERE, "a status", "LOG(`FATAL`) << x | LOG(`QFATAL`) << x"),
    Rule(r"(?:\.|->)\s*(at)\s*\(", EVERYWHERE, "a check and []", "sizes.`at`(i)"),
    Rule(
        r"\b(abort|_?_?exit|quick_exit|terminate)\s*\(",
        EVERYWHERE,
        "a status",
        "std::`abort`(); | `_exit`(1); | std::`quick_exit`(1);",
    ),
    Rule(r"\b(throw)\b", EVERYWHERE, "a status", "`throw` std::bad_alloc();"),
)
# Code with names of accessors that is allowed in kernels.
HARMLESS = """
    tensor.data(); tensor.shape().dim_sizes(); tensor.NumElements();
    std::vector<int> vec; matrix = flat; at = scalar;
    // tensor.flat<T>() would abort.
    x.flat<T>();  // NOLINT(accessors): x is our own.
    TensorShape shape; TensorShape(); const TensorShape& shape() const;
    CheckShape(name, meaning, expected, tensor);
    projects.value_or(false); projects.has_value(); LOG(WARNING) << text;
"""


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


def check_rules() -> None:
    """Asserts that the rules find their examples, and nothing in harmless code."""
    for rule in RULES:
        for example in rule.found.split(" | "):
            before, name, after = example.split("`")
            found = list(findings(before + name + after, rule.folders[0]))
            assert found == [(1 + before.count("\n"), name, rule.instead)], example
    assert not list(findings(HARMLESS, *KERNELS))


def sources(folder: str) -> list[pathlib.Path]:
    """Returns the files in a folder that are compiled into the libraries."""
    paths = (REPOSITORY / folder).rglob("*")
    is_for_tests = re.compile(r"_test\.cc$|_fuzz\.cc$|_support\.h$|_reference\.h$|_main\.cc$|/fakes/|/faults/")
    found = sorted(each for each in paths if each.suffix in (".cc", ".h") and not is_for_tests.search(str(each)))
    assert found, folder
    return found


def main() -> int:
    """Prints the forbidden calls. Returns 1 if there are any, else 0."""
    check_rules()
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
