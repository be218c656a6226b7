"""Tests of the check in `make lint` for code in kernels that can abort the process."""

import check_accessors
import pytest

# Code with a finding, and the name in the finding.
REJECTED = {
    "tensor.flat<T>().data()": "flat",
    "tensor->flat_inner_dims<T, 2>()": "flat_inner_dims",
    "tensor.template flat<T>()": "flat",
    "tensor\n        .matrix<float>()": "matrix",
    "tensor->vec<std::int8_t>()(0)": "vec",
    "constant->scalar<std::int32_t>()()": "scalar",
    "inputs.x->tensor<T, 3>()": "tensor",
    "tensor.shaped<T, 2>({1, 2})": "shaped",
    "tensor.unaligned_flat<T>()": "unaligned_flat",
    "tensor.unaligned_shaped<T, 2>({1, 2})": "unaligned_shaped",
    "tensor.bit_casted_shaped<T, 2>({1, 2})": "bit_casted_shaped",
    "tensor.bit_casted_tensor<T, 2>()": "bit_casted_tensor",
    "tensor.reinterpret_last_dimension<T, 2>()": "reinterpret_last_dimension",
    "tensor.UnsafeCopyFromInternal(other, dtype, shape)": "UnsafeCopyFromInternal",
    "tensor.Slice(0, 1)": "Slice",
    "tensor.SubSlice(0)": "SubSlice",
    "x->dim_size(0)": "dim_size",
    "shape.AddDim(size)": "AddDim",
    "shape.InsertDim(0, size)": "InsertDim",
    "shape.AppendShape(other)": "AppendShape",
    "shape.set_dim(0, size)": "set_dim",
    "shape.RemoveDim(0)": "RemoveDim",
    "shape.RemoveDimRange(0, 1)": "RemoveDimRange",
    "shape.RemoveLastDims(1)": "RemoveLastDims",
    "shape.AsEigenDSizes<2>()": "AsEigenDSizes",
    "TensorShape({size})": "TensorShape",
    "tensorflow::TensorShape shape({size});": "TensorShape",
    "TensorShape shape{size};": "TensorShape",
    "PartialTensorShape({size})": "PartialTensorShape",
    "ctx->input(0)": "input",
    "ctx_->input(name, &tensor)": "input",
    'ctx->input_list("weights", &weights)': "input_list",
    "ctx->mutable_input(0, false)": "mutable_input",
    'ctx->mutable_input_list("weights", &weights)': "mutable_input_list",
    "ctx->replace_ref_input(0, tensor, false)": "replace_ref_input",
    "ctx->delete_ref_input(0, false)": "delete_ref_input",
    "ctx->mutable_output(0)": "mutable_output",
    "ctx->release_output(0)": "release_output",
    'ctx->output_list("weights", &weights)': "output_list",
    "tensorflow::OpInputList weights;": "OpInputList",
    "OpMutableInputList weights;": "OpMutableInputList",
    "OpOutputList weights;": "OpOutputList",
    "status_or.value()": "value",
    "status_or.ValueOrDie()": "ValueOrDie",
    "status_or.ConsumeValueOrDie()": "ConsumeValueOrDie",
    "CHECK(condition)": "CHECK",
    "CHECK_EQ(a, b)": "CHECK_EQ",
    "DCHECK(condition)": "DCHECK",
    "DCHECK_GE(a, b)": "DCHECK_GE",
    "QCHECK(condition)": "QCHECK",
    "PCHECK(condition)": "PCHECK",
    "TF_CHECK_OK(status)": "TF_CHECK_OK",
    "TF_DCHECK_OK(status)": "TF_DCHECK_OK",
    "LOG(FATAL) << text": "FATAL",
    "LOG(QFATAL) << text": "QFATAL",
    "LOG(DFATAL) << text": "DFATAL",
    "sizes.at(i)": "at",
    "std::abort();": "abort",
    "exit(1);": "exit",
    "_exit(1);": "_exit",
    "std::quick_exit(1);": "quick_exit",
    "std::terminate();": "terminate",
    "throw std::bad_alloc();": "throw",
}
ALLOWED = (
    "tensor.data(); tensor.shape().dim_sizes(); tensor.NumElements();",
    "std::vector<int> vec; matrix = flat; at = scalar;",
    "// tensor.flat<T>() would abort.",
    "x;  // or x.flat<T>()",
    "x.flat<T>();  // NOLINT(accessors): x is our own.",
    "TensorShape shape; TensorShape(); const TensorShape& shape() const;",
    "TensorShape::BuildTensorShape(sizes, &shape);",
    "CheckShape(name, meaning, expected, tensor);",
    "projects.value_or(false); projects.has_value();",
    "LOG(WARNING) << text;",
)


@pytest.mark.parametrize(("code", "name"), REJECTED.items(), ids=REJECTED.values())
def test_names_are_found(code, name):
    found = list(check_accessors.findings(f"first;\n  {code}\nlast;", "cc/tensorflow/kernels"))
    line = 3 if "\n" in code else 2
    assert [each[:2] for each in found] == [(line, name)]


@pytest.mark.parametrize("code", ALLOWED)
def test_allowed_code_has_no_findings(code):
    assert list(check_accessors.findings(code, "cc/tensorflow/kernels")) == []


def test_every_rule_is_tested():
    for rule in check_accessors.RULES:
        alone = [check_accessors.re.search(rule.pattern, code) for code in REJECTED]
        assert any(alone), rule


def test_input_is_allowed_in_shape_functions():
    assert list(check_accessors.findings("c->input(0)", "cc/tensorflow/ops")) == []


def test_our_sources_have_no_findings(capsys):
    assert check_accessors.main() == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("folder", check_accessors.EVERYWHERE)
def test_sources_are_checked(folder):
    names = {each.name for each in check_accessors.sources(folder)}
    one_of_them = {
        "cc/tensorflow/kernels": "tensorflow_frame.cc",
        "cc/tensorflow/ops": "infer_shapes.cc",
        "cc/tensorflow/xla": "xla_call_op.cc",
        "cc/ffi": "handlers.cc",
        "cc/ops": "cudnn_rnn_inputs.cc",
        "cc/rnn": "network.cc",
    }.get(folder, "cudnn_rnn.cc")
    assert one_of_them in names
    assert not any("_test" in name for name in names)
