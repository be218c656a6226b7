"""Tests of the declarations of cuDNN's functions for tools/record_golden.py."""

import ctypes
import pathlib
import re

import cudnn_library
import pytest
import tensorflow as tf

CUDNN_HEADERS = pathlib.Path(tf.sysconfig.get_include()) / "third_party/gpus/cudnn/include"


@pytest.fixture(scope="module")
def cudnn_headers():
    """Returns the text of the cuDNN headers, without comments."""
    headers = [CUDNN_HEADERS / f"cudnn_{name}.h" for name in ("graph", "ops", "adv")]
    if not all(header.is_file() for header in headers):
        pytest.skip("needs the cuDNN headers, which this TensorFlow does not include")
    return re.sub(r"/\*.*?\*/", "", "\n".join(header.read_text() for header in headers), flags=re.DOTALL)


def test_constants_equal_the_headers(cudnn_headers):
    constants = {name: value for name, value in vars(cudnn_library).items() if name.startswith("CUDNN_")}
    assert len(constants) > 20
    for name, value in constants.items():
        (text,) = re.findall(rf"\b{name}\s+(?:=\s*(?=\d)|(?=\())(\d+|\(1U << \d+\))", cudnn_headers)
        shift = re.fullmatch(r"\(1U << (\d+)\)", text)
        assert value == (1 << int(shift[1]) if shift else int(text)), name


def test_signatures_equal_the_headers(cudnn_headers):
    assert len(cudnn_library.SIGNATURES) > 15
    for name, argument_types in cudnn_library.SIGNATURES.items():
        (arguments,) = re.findall(rf"\bcudnnStatus_t CUDNNWINAPI\s+{name}\(([^)]*)\);", cudnn_headers)
        assert [ctypes_type(each) for each in arguments.split(",")] == argument_types, name


def ctypes_type(argument):
    """Returns the ctypes type of an argument in a C header."""
    argument_type = argument.rsplit(maxsplit=1)[0].strip()
    if "*" in argument or "[" in argument or re.search(r"(Descriptor_t|Handle_t|Stream_t)$", argument_type):
        return ctypes.c_void_p
    numbers = {
        "int": ctypes.c_int,
        "int32_t": ctypes.c_int32,
        "uint32_t": ctypes.c_uint32,
        "unsigned long long": ctypes.c_ulonglong,
        "size_t": ctypes.c_size_t,
        "float": ctypes.c_float,
    }
    is_enum = re.fullmatch(r"cudnn\w+_t", argument_type)
    return ctypes.c_int if is_enum else numbers[argument_type]
