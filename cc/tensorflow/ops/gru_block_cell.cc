#include <cstdint>
#include <initializer_list>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cc/tensorflow/ops/merge_shape.h"
#include "cc/tensorflow/ops/shape_functions.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/lib/core/errors.h"

namespace tf_rnn_ops {
namespace {

using ::tensorflow::shape_inference::DimensionHandle;
using ::tensorflow::shape_inference::InferenceContext;
using ::tensorflow::shape_inference::ShapeHandle;

// The sizes of a cell, inferred from the shapes of its inputs. Sizes that do
// not follow from these are unknown.
class CellSizes {
 public:
  explicit CellSizes(InferenceContext* c)
      : c_(c),
        batch_(c->UnknownDim()),
        input_size_(c->UnknownDim()),
        cell_size_(c->UnknownDim()),
        fan_in_(c->UnknownDim()),
        gates_(c->UnknownDim()) {}

  // Reads x, h_prev, w_ru, w_c, b_ru and b_c.
  absl::Status ReadForwardInputs() {
    TF_RETURN_IF_ERROR(
        MergeMatrix("x", "[batch, input_size]", &batch_, &input_size_));
    TF_RETURN_IF_ERROR(ReadState("h_prev"));
    Derive();
    TF_RETURN_IF_ERROR(MergeMatrix(
        "w_ru", "[input_size + cell_size, 2 * cell_size]", &fan_in_, &gates_));
    Derive();
    TF_RETURN_IF_ERROR(MergeMatrix("w_c", "[input_size + cell_size, cell_size]",
                                   &fan_in_, &cell_size_));
    Derive();
    TF_RETURN_IF_ERROR(MergeVector("b_ru", "[2 * cell_size]", &gates_));
    Derive();
    return MergeVector("b_c", "[cell_size]", &cell_size_);
  }

  // Reads an input of the state's shape.
  absl::Status ReadState(const char* name) {
    return MergeMatrix(name, "[batch, cell_size]", &batch_, &cell_size_);
  }

  // Completes the sizes and rejects sizes that contradict one another. Call it
  // after reading all inputs.
  absl::Status Finish() {
    Derive();
    return CheckSums();
  }

  ShapeHandle Input() const { return c_->Matrix(batch_, input_size_); }
  ShapeHandle State() const { return c_->Matrix(batch_, cell_size_); }
  ShapeHandle Gates() const { return c_->Matrix(batch_, gates_); }

 private:
  absl::Status MergeMatrix(const char* name, const char* meaning,
                           DimensionHandle* rows, DimensionHandle* cols) {
    const ShapeHandle expected = c_->Matrix(*rows, *cols);
    ShapeHandle merged;
    TF_RETURN_IF_ERROR(Merge(name, meaning, expected, &merged));
    *rows = c_->Dim(merged, 0);
    *cols = c_->Dim(merged, 1);
    return absl::OkStatus();
  }

  absl::Status MergeVector(const char* name, const char* meaning,
                           DimensionHandle* size) {
    ShapeHandle merged;
    TF_RETURN_IF_ERROR(Merge(name, meaning, c_->Vector(*size), &merged));
    *size = c_->Dim(merged, 0);
    return absl::OkStatus();
  }

  // Merges the shape of the next input with the expected shape.
  absl::Status Merge(const char* name, const char* meaning,
                     ShapeHandle expected, ShapeHandle* merged) {
    return MergeShape(c_, name, meaning, c_->input(next_input_++), expected,
                      merged);
  }

  // Derives unknown sizes from fan_in = input_size + cell_size and
  // gates = 2 * cell_size.
  void Derive() {
    if (!Known(cell_size_) && Known(gates_) && Value(gates_) % 2 == 0) {
      cell_size_ = c_->MakeDim(Value(gates_) / 2);
    }
    if (Known(fan_in_)) {
      DeriveAddend(cell_size_, &input_size_);
      DeriveAddend(input_size_, &cell_size_);
    }
    if (!Known(fan_in_)) {
      DimensionHandle sum;
      if (c_->Add(input_size_, cell_size_, &sum).ok()) fan_in_ = sum;
    }
    if (!Known(gates_)) {
      DimensionHandle product;
      if (c_->Multiply(cell_size_, 2, &product).ok()) gates_ = product;
    }
  }

  void DeriveAddend(DimensionHandle other, DimensionHandle* addend) {
    if (Known(*addend) || !Known(other)) return;
    if (Value(fan_in_) < Value(other)) return;
    *addend = c_->MakeDim(Value(fan_in_) - Value(other));
  }

  // Rejects sizes that contradict one another.
  absl::Status CheckSums() const {
    if (Known(gates_) &&
        (Value(gates_) % 2 != 0 ||
         (Known(cell_size_) && Value(gates_) / 2 != Value(cell_size_)))) {
      return absl::InvalidArgumentError(absl::StrCat(
          "w_ru must have 2 * cell_size columns and b_ru 2 * cell_size "
          "elements, but they have ",
          Value(gates_), " with cell_size = ", c_->DebugString(cell_size_)));
    }
    // After Derive, a size is unknown next to two known ones only if it would
    // be negative or overflow.
    const int known = Known(fan_in_) + Known(input_size_) + Known(cell_size_);
    if (known == 2 || (known == 3 && Value(fan_in_) - Value(input_size_) !=
                                         Value(cell_size_))) {
      return absl::InvalidArgumentError(absl::StrCat(
          "w_ru and w_c must have input_size + cell_size rows, but have ",
          c_->DebugString(fan_in_),
          " with input_size = ", c_->DebugString(input_size_),
          " and cell_size = ", c_->DebugString(cell_size_)));
    }
    return absl::OkStatus();
  }

  static bool Known(DimensionHandle dim) {
    return InferenceContext::ValueKnown(dim);
  }
  static std::int64_t Value(DimensionHandle dim) {
    return InferenceContext::Value(dim);
  }

  InferenceContext* const c_;
  int next_input_ = 0;
  DimensionHandle batch_;
  DimensionHandle input_size_;
  DimensionHandle cell_size_;
  DimensionHandle fan_in_;  // input_size + cell_size
  DimensionHandle gates_;   // 2 * cell_size
};

absl::Status ForwardShape(InferenceContext* c) {
  CellSizes sizes(c);
  TF_RETURN_IF_ERROR(sizes.ReadForwardInputs());
  TF_RETURN_IF_ERROR(sizes.Finish());
  for (int i = 0; i < c->num_outputs(); ++i) c->set_output(i, sizes.State());
  return absl::OkStatus();
}

// The shape function of a gradient op.
// states: its inputs after those of the forward op, all of the state's shape.
absl::Status GradShape(InferenceContext* c,
                       std::initializer_list<const char*> states) {
  CellSizes sizes(c);
  TF_RETURN_IF_ERROR(sizes.ReadForwardInputs());
  for (const char* name : states) TF_RETURN_IF_ERROR(sizes.ReadState(name));
  TF_RETURN_IF_ERROR(sizes.Finish());
  c->set_output(0, sizes.Input());
  c->set_output(1, sizes.State());
  c->set_output(2, sizes.State());
  c->set_output(3, sizes.Gates());
  return absl::OkStatus();
}

}  // namespace

ShapeFunctions GruBlockCellShapes() {
  return {{"GRUBlockCell", ForwardShape},
          {"GRUBlockCellGrad",
           [](InferenceContext* c) {
             return GradShape(c, {"r", "u", "c", "d_h"});
           }},
          {"GRUBlockCellGradV2", [](InferenceContext* c) {
             return GradShape(c, {"r", "u", "c", "d_r", "d_u", "d_c", "d_h"});
           }}};
}

}  // namespace tf_rnn_ops
