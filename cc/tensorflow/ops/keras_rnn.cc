#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cc/rnn/network_attributes.h"
#include "cc/rnn/rnn_config.h"
#include "cc/tensorflow/ops/cudnn_rnn_network.h"
#include "cc/tensorflow/ops/merge_shape.h"
#include "cc/tensorflow/ops/shape_functions.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/lib/core/errors.h"

namespace tf_rnn_ops {
namespace {

using ::tensorflow::shape_inference::DimensionHandle;
using ::tensorflow::shape_inference::InferenceContext;
using ::tensorflow::shape_inference::ShapeHandle;

// The sizes of a layer and its sequences, inferred from the shapes of an op's
// inputs. Sizes that do not follow from these are unknown.
class LayerShapes {
 public:
  explicit LayerShapes(InferenceContext* c)
      : c_(c),
        batch_(c->UnknownDim()),
        time_(c->UnknownDim()),
        features_(c->UnknownDim()),
        units_(c->UnknownDim()) {}

  // Reads the attributes and all inputs of KerasRNN.
  absl::Status Read() {
    rnn::CellAttributes cell;
    TF_RETURN_IF_ERROR(rnn::ReadCellAttributes(
        [this](const char* name, auto* value) {
          return c_->GetAttr(name, value);
        },
        &cell));
    const std::string error = cell.Error();
    if (!error.empty()) return absl::InvalidArgumentError(error);
    mode_ = cell.mode;
    TF_RETURN_IF_ERROR(c_->GetAttr("return_sequences", &return_sequences_));
    TF_RETURN_IF_ERROR(Merge("sequences", "[batch, time, features]",
                             {&batch_, &time_, &features_}));
    TF_RETURN_IF_ERROR(ReadState("initial_h"));
    TF_RETURN_IF_ERROR(ReadCellState("initial_c"));
    // The kernels determine units if the states do not.
    TF_RETURN_IF_ERROR(ReadKernel("recurrent_kernel", "units", &units_));
    TF_RETURN_IF_ERROR(ReadKernel("kernel", "features", &features_));
    TF_RETURN_IF_ERROR(ReadKernel("recurrent_kernel", "units", &units_));
    TF_RETURN_IF_ERROR(ReadBias());
    return ReadMask();
  }

  absl::Status ReadState(const char* name) {
    return Merge(name, "[batch, units]", {&batch_, &units_});
  }
  // Accepts any shape if there is no cell state.
  absl::Status ReadCellState(const char* name) {
    return has_cell_state() ? ReadState(name) : absl::OkStatus();
  }
  absl::Status ReadOutputs(const char* name) {
    if (!return_sequences_) return ReadState(name);
    return Merge(name, "[batch, time, units]", {&batch_, &time_, &units_});
  }
  absl::Status ReadReserveSpace() {
    DimensionHandle size = c_->UnknownDim();
    return Merge("reserve_space", "[reserve_space_size]", {&size});
  }

  bool has_cell_state() const { return rnn::TraitsOf(mode_).has_cell_state; }
  ShapeHandle Outputs() const {
    return return_sequences_ ? c_->MakeShape({batch_, time_, units_}) : State();
  }
  ShapeHandle State() const { return c_->MakeShape({batch_, units_}); }
  ShapeHandle Sequences() const {
    return c_->MakeShape({batch_, time_, features_});
  }
  // The shape of a cell state or its gradient. Without a cell state, the shape
  // of initial_c.
  ShapeHandle CellState() const {
    return has_cell_state() ? State() : InputShape(c_, "initial_c");
  }

 private:
  std::int64_t num_gates() const { return rnn::TraitsOf(mode_).gates; }

  // Merges the dimensions of an input with dims, and updates these.
  absl::Status Merge(const char* name, const char* meaning,
                     std::initializer_list<DimensionHandle*> dims) {
    std::vector<DimensionHandle> known;
    for (const DimensionHandle* dim : dims) known.push_back(*dim);
    ShapeHandle merged;
    TF_RETURN_IF_ERROR(MergeShape(c_, name, meaning, InputShape(c_, name),
                                  c_->MakeShape(known), &merged));
    int axis = 0;
    for (DimensionHandle* dim : dims) *dim = c_->Dim(merged, axis++);
    return absl::OkStatus();
  }

  absl::Status ReadKernel(const char* name, const char* rows_name,
                          DimensionHandle* rows) {
    DimensionHandle cols;
    TF_RETURN_IF_ERROR(GateUnits(&cols));
    const std::string meaning =
        absl::StrCat("[", rows_name, ", ", num_gates(), " * units]");
    TF_RETURN_IF_ERROR(Merge(name, meaning.c_str(), {rows, &cols}));
    return UnitsFrom(name, cols);
  }

  bool MayHaveNoElements(const char* name) const {
    const DimensionHandle elements = c_->NumElements(InputShape(c_, name));
    return !InferenceContext::ValueKnown(elements) ||
           InferenceContext::Value(elements) == 0;
  }

  absl::Status ReadBias() {
    if (MayHaveNoElements("bias")) return absl::OkStatus();
    DimensionHandle cols;
    TF_RETURN_IF_ERROR(GateUnits(&cols));
    const std::string columns = absl::StrCat(num_gates(), " * units]");
    if (mode_ != rnn::RnnMode::kGru) {
      return Merge("bias", ("[" + columns).c_str(), {&cols});
    }
    DimensionHandle rows = c_->MakeDim(2);
    return Merge("bias", ("[2, " + columns).c_str(), {&rows, &cols});
  }

  absl::Status ReadMask() {
    if (MayHaveNoElements("mask")) return absl::OkStatus();
    return Merge("mask", "[batch, time]", {&batch_, &time_});
  }

  absl::Status GateUnits(DimensionHandle* gate_units) const {
    if (c_->Multiply(units_, num_gates(), gate_units).ok()) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "initial_h must have fewer units: ", num_gates(),
        " * units overflows int64 for units = ", c_->DebugString(units_)));
  }
  absl::Status UnitsFrom(const char* name, DimensionHandle gate_units) {
    if (InferenceContext::ValueKnown(units_) ||
        !InferenceContext::ValueKnown(gate_units)) {
      return absl::OkStatus();
    }
    if (c_->Divide(gate_units, num_gates(), true, &units_).ok()) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        name, " must have ", num_gates(), " * units columns, a multiple of ",
        num_gates(), ", but has the shape ",
        c_->DebugString(InputShape(c_, name))));
  }

  InferenceContext* const c_;
  rnn::RnnMode mode_ = rnn::RnnMode::kLstm;
  bool return_sequences_ = false;
  DimensionHandle batch_;
  DimensionHandle time_;
  DimensionHandle features_;
  DimensionHandle units_;
};

absl::Status KerasRnnShape(InferenceContext* c) {
  LayerShapes shapes(c);
  TF_RETURN_IF_ERROR(shapes.Read());
  TF_RETURN_IF_ERROR(c->set_output("outputs", {shapes.Outputs()}));
  TF_RETURN_IF_ERROR(c->set_output("final_h", {shapes.State()}));
  TF_RETURN_IF_ERROR(c->set_output("final_c", {shapes.CellState()}));
  bool is_training;
  TF_RETURN_IF_ERROR(c->GetAttr("is_training", &is_training));
  return c->set_output(
      "reserve_space",
      {c->Vector(is_training ? c->UnknownDim() : c->MakeDim(0))});
}

absl::Status ReadBackpropInputs(LayerShapes* shapes) {
  TF_RETURN_IF_ERROR(shapes->Read());
  TF_RETURN_IF_ERROR(shapes->ReadOutputs("outputs_backprop"));
  TF_RETURN_IF_ERROR(shapes->ReadState("final_h_backprop"));
  TF_RETURN_IF_ERROR(shapes->ReadCellState("final_c_backprop"));
  return shapes->ReadReserveSpace();
}

absl::Status KerasRnnBackpropShape(InferenceContext* c) {
  LayerShapes shapes(c);
  TF_RETURN_IF_ERROR(ReadBackpropInputs(&shapes));
  TF_RETURN_IF_ERROR(c->set_output("sequences_backprop", {shapes.Sequences()}));
  TF_RETURN_IF_ERROR(c->set_output("initial_h_backprop", {shapes.State()}));
  TF_RETURN_IF_ERROR(c->set_output("initial_c_backprop", {shapes.CellState()}));
  TF_RETURN_IF_ERROR(
      c->set_output("kernel_backprop", {InputShape(c, "kernel")}));
  TF_RETURN_IF_ERROR(c->set_output("recurrent_kernel_backprop",
                                   {InputShape(c, "recurrent_kernel")}));
  return c->set_output("bias_backprop", {InputShape(c, "bias")});
}

}  // namespace

ShapeFunctions KerasRnnShapes() {
  return {{"KerasRNN", KerasRnnShape},
          {"KerasRNNBackprop", KerasRnnBackpropShape}};
}

}  // namespace tf_rnn_ops
