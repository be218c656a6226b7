#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cc/tensorflow/ops/cudnn_rnn_network.h"
#include "cc/tensorflow/ops/merge_shape.h"
#include "cc/tensorflow/ops/shape_functions.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/lib/core/errors.h"

namespace tf_rnn_ops {
namespace {

using ::tensorflow::Tensor;
using ::tensorflow::shape_inference::DimensionHandle;
using ::tensorflow::shape_inference::InferenceContext;
using ::tensorflow::shape_inference::ShapeHandle;

bool Known(DimensionHandle dim) { return InferenceContext::ValueKnown(dim); }
std::int64_t Value(DimensionHandle dim) { return InferenceContext::Value(dim); }

// Reads a size from a scalar input. It is known if the input is a constant.
absl::Status ReadSize(InferenceContext* c, int index, const char* name,
                      std::int32_t minimum, DimensionHandle* size) {
  const Tensor* constant = c->input_tensor(index);
  // TensorFlow may know the value of a constant without inferring its shape.
  ShapeHandle shape = c->input(index), merged;
  if (constant != nullptr) {
    TF_RETURN_IF_ERROR(c->MakeShapeFromTensorShape(constant->shape(), &shape));
  }
  if (!c->Merge(shape, c->Scalar(), &merged).ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, " must be a scalar, but has the shape ", c->DebugString(shape)));
  }
  if (constant == nullptr) {
    *size = c->UnknownDim();
    return absl::OkStatus();
  }
  const auto value = *static_cast<const std::int32_t*>(constant->data());
  if (value < minimum) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " must be at least ", minimum, ", but is ", value));
  }
  *size = c->MakeDim(value);
  return absl::OkStatus();
}

// Reads the attributes, num_layers, num_units and input_size.
absl::Status ReadNetwork(InferenceContext* c, CudnnRnnNetwork* network) {
  TF_RETURN_IF_ERROR(network->ReadAttributes());
  DimensionHandle num_layers, num_units, input_size;
  TF_RETURN_IF_ERROR(ReadSize(c, 0, "num_layers", 1, &num_layers));
  TF_RETURN_IF_ERROR(ReadSize(c, 1, "num_units", 0, &num_units));
  TF_RETURN_IF_ERROR(ReadSize(c, 2, "input_size", 0, &input_size));
  network->set_num_layers(num_layers);
  network->set_num_units(num_units);
  network->set_input_size(input_size);
  return network->Finish();
}

// The shapes of the matrices and biases of a network, in their canonical order.
class CanonicalShapes {
 public:
  CanonicalShapes(InferenceContext* c, const CudnnRnnNetwork& network,
                  std::int64_t num_weights, std::int64_t num_biases)
      : c_(c),
        network_(network),
        num_weights_(num_weights),
        num_biases_(num_biases) {}

  // Rejects numbers of weights and biases that do not fit the network.
  absl::Status CheckCounts() const {
    TF_RETURN_IF_ERROR(CheckNumBiases());
    return CheckNumWeights();
  }

  // Returns the shape of a weight, [rows, columns]. Call CheckCounts first.
  absl::Status Weight(std::int64_t index, DimensionHandle* rows,
                      DimensionHandle* columns) const {
    const std::int64_t gates = network_.num_gates();
    const std::int64_t per_pseudo_layer = num_weights_ / num_pseudo_layers();
    const bool is_first_layer =
        index / per_pseudo_layer < network_.num_directions();
    const std::int64_t place = index % per_pseudo_layer;
    *rows = network_.num_units();
    if (place < gates) {
      *columns = network_.FirstInputColumns();
      return is_first_layer ? absl::OkStatus() : network_.OutputWidth(columns);
    }
    if (place < 2 * gates) {
      *columns = network_.output_size();
      return absl::OkStatus();
    }
    *rows = network_.output_size();
    *columns = network_.num_units();
    return absl::OkStatus();
  }

  ShapeHandle Bias() const { return c_->Vector(network_.num_units()); }

 private:
  std::int64_t biases_per_pseudo_layer() const {
    return 2 * network_.num_gates();
  }
  std::int64_t num_pseudo_layers() const {
    return num_biases_ / biases_per_pseudo_layer();
  }

  absl::Status CheckNumBiases() const {
    const std::int64_t per_layer =
        biases_per_pseudo_layer() * network_.num_directions();
    const DimensionHandle num_layers = network_.num_layers();
    if (num_biases_ % per_layer == 0 &&
        (!Known(num_layers) || num_biases_ / per_layer == Value(num_layers))) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "biases must be a list of num_layers * num_directions * 2 * num_gates "
        "= ",
        c_->DebugString(num_layers), " * ", network_.num_directions(),
        " * 2 * ", network_.num_gates(), " vectors, but has ", num_biases_));
  }

  // A pseudo-layer has more matrices than biases only with a projection.
  absl::Status CheckNumWeights() const {
    const bool projects =
        network_.has_projection().value_or(num_weights_ != num_biases_);
    if (num_weights_ == num_biases_ + (projects ? num_pseudo_layers() : 0)) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        absl::StrCat("weights must be a list of num_layers * num_directions * ",
                     projects ? "(2 * num_gates + 1) = " : "2 * num_gates = ",
                     num_pseudo_layers(), " * ",
                     biases_per_pseudo_layer() + (projects ? 1 : 0),
                     " matrices, but has ", num_weights_));
  }

  InferenceContext* const c_;
  const CudnnRnnNetwork& network_;
  const std::int64_t num_weights_;
  const std::int64_t num_biases_;
};

absl::Status ParamsSizeShape(InferenceContext* c) {
  CudnnRnnNetwork network(c);
  TF_RETURN_IF_ERROR(ReadNetwork(c, &network));
  // Rejects networks that are too large.
  DimensionHandle size;
  TF_RETURN_IF_ERROR(network.ParamsSize(&size));
  c->set_output(0, c->Vector(1));
  return absl::OkStatus();
}

absl::Status ParamsToCanonicalShape(InferenceContext* c,
                                    std::int64_t num_weights,
                                    std::int64_t num_biases) {
  CudnnRnnNetwork network(c);
  TF_RETURN_IF_ERROR(ReadNetwork(c, &network));
  const CanonicalShapes shapes(c, network, num_weights, num_biases);
  TF_RETURN_IF_ERROR(shapes.CheckCounts());
  DimensionHandle size;
  TF_RETURN_IF_ERROR(network.ParamsSize(&size));
  ShapeHandle merged;
  TF_RETURN_IF_ERROR(MergeShape(c, "params", "[params_size]", c->input(3),
                                c->Vector(size), &merged));

  std::vector<ShapeHandle> weights, biases;
  for (std::int64_t i = 0; i < num_weights; ++i) {
    DimensionHandle rows, columns;
    TF_RETURN_IF_ERROR(shapes.Weight(i, &rows, &columns));
    weights.push_back(c->Matrix(rows, columns));
  }
  biases.assign(num_biases, shapes.Bias());
  TF_RETURN_IF_ERROR(c->set_output("weights", weights));
  return c->set_output("biases", biases);
}

// Rejects a weight that is neither [rows, columns] nor [rows * columns].
absl::Status CheckWeight(InferenceContext* c, std::int64_t index,
                         ShapeHandle weight, DimensionHandle rows,
                         DimensionHandle columns) {
  DimensionHandle size;
  TF_RETURN_IF_ERROR(c->Multiply(rows, columns, &size));
  const ShapeHandle flat = c->Vector(size);
  const ShapeHandle matrix = c->Matrix(rows, columns);
  ShapeHandle merged;
  if (c->Merge(weight, matrix, &merged).ok() ||
      c->Merge(weight, flat, &merged).ok()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("weights[", index, "] must have the shape ",
                   c->DebugString(matrix), " or, flattened, ",
                   c->DebugString(flat), ", but has ", c->DebugString(weight)));
}

absl::Status CanonicalToParamsShape(InferenceContext* c) {
  CudnnRnnNetwork network(c);
  TF_RETURN_IF_ERROR(ReadNetwork(c, &network));
  std::vector<ShapeHandle> weights, biases;
  TF_RETURN_IF_ERROR(c->input("weights", &weights));
  TF_RETURN_IF_ERROR(c->input("biases", &biases));
  const CanonicalShapes shapes(c, network, weights.size(), biases.size());
  TF_RETURN_IF_ERROR(shapes.CheckCounts());
  DimensionHandle size;
  TF_RETURN_IF_ERROR(network.ParamsSize(&size));

  for (std::size_t i = 0; i < weights.size(); ++i) {
    DimensionHandle rows, columns;
    TF_RETURN_IF_ERROR(shapes.Weight(i, &rows, &columns));
    TF_RETURN_IF_ERROR(CheckWeight(c, i, weights[i], rows, columns));
  }
  for (std::size_t i = 0; i < biases.size(); ++i) {
    ShapeHandle merged;
    TF_RETURN_IF_ERROR(MergeShape(c, absl::StrCat("biases[", i, "]"),
                                  "[num_units]", biases[i], shapes.Bias(),
                                  &merged));
  }
  c->set_output(0, c->Vector(size));
  return absl::OkStatus();
}

}  // namespace

ShapeFunctions CudnnRnnParamsShapes() {
  const auto to_canonical = [](const char* weights, const char* biases) {
    return [weights, biases](InferenceContext* c) {
      std::int64_t num_weights, num_biases;
      TF_RETURN_IF_ERROR(c->GetAttr(weights, &num_weights));
      TF_RETURN_IF_ERROR(c->GetAttr(biases, &num_biases));
      return ParamsToCanonicalShape(c, num_weights, num_biases);
    };
  };
  return {
      {"CudnnRNNParamsSize", ParamsSizeShape},
      {"CudnnRNNCanonicalToParams", CanonicalToParamsShape},
      {"CudnnRNNCanonicalToParamsV2", CanonicalToParamsShape},
      {"CudnnRNNParamsToCanonical", to_canonical("num_params", "num_params")},
      {"CudnnRNNParamsToCanonicalV2",
       to_canonical("num_params_weights", "num_params_biases")}};
}

}  // namespace tf_rnn_ops
