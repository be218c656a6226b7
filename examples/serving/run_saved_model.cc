// Runs a SavedModel that contains tf_rnn_ops ops, which are linked into this
// program. TensorFlow Serving can link them in the same way:
// docs/guides/serving.md.
//
//   run_saved_model MODEL BATCH TIME FEATURES < numbers
//
// The signature serving_default must have one input, of shape [BATCH, TIME,
// FEATURES]. Its values are read from standard input; the outputs are printed,
// one number per line.

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "tensorflow/cc/saved_model/loader.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/protobuf/meta_graph.pb.h"
#include "tensorflow/core/public/session.h"

namespace {

void Check(const std::string& what, const absl::Status& status) {
  if (status.ok()) return;
  std::cerr << "run_saved_model: " << what << ": " << status << '\n';
  std::exit(1);
}

tensorflow::Tensor ReadNumbers(const tensorflow::TensorShape& shape) {
  tensorflow::Tensor numbers(tensorflow::DT_FLOAT, shape);
  for (std::int64_t i = 0; i < numbers.NumElements(); ++i) {
    if (!(std::cin >> numbers.flat<float>()(i))) {
      std::cerr << "run_saved_model: expected " << numbers.NumElements()
                << " numbers on standard input, but read " << i << '\n';
      std::exit(1);
    }
  }
  return numbers;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::cerr << "usage: run_saved_model MODEL BATCH TIME FEATURES < numbers\n";
    return 2;
  }
  tensorflow::SavedModelBundle model;
  Check(argv[1],
        tensorflow::LoadSavedModel({}, {}, argv[1], {"serve"}, &model));
  const tensorflow::SignatureDef& signature =
      model.GetSignatures().at("serving_default");

  const tensorflow::Tensor x = ReadNumbers(
      {std::atoll(argv[2]), std::atoll(argv[3]), std::atoll(argv[4])});
  std::vector<std::string> names;
  for (const auto& [key, output] : signature.outputs()) {
    names.push_back(output.name());
  }
  std::vector<tensorflow::Tensor> outputs;
  Check(
      "running the model",
      model.GetSession()->Run({{signature.inputs().begin()->second.name(), x}},
                              names, {}, &outputs));
  for (const tensorflow::Tensor& output : outputs) {
    for (std::int64_t i = 0; i < output.NumElements(); ++i) {
      std::cout << output.flat<float>()(i) << '\n';
    }
  }
  return 0;
}
