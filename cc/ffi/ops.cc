// The ops, with the CPU engine.

#include "cc/ops/cpu/ops.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "cc/ffi/handlers.h"
#include "cc/ffi/op.h"
#include "cc/ops/op.h"

namespace tf_rnn_ops {
namespace {

constexpr ElementTypes kBool = SetOf(XLA_FFI_DataType_PRED);
constexpr ElementTypes kInt8 = SetOf(XLA_FFI_DataType_S8);
constexpr ElementTypes kInt32 = SetOf(XLA_FFI_DataType_S32);
constexpr ElementTypes kInt64 = SetOf(XLA_FFI_DataType_S64);
constexpr ElementTypes kFloatOrDouble =
    SetOf(XLA_FFI_DataType_F32) | SetOf(XLA_FFI_DataType_F64);

using Arguments = std::vector<Argument>;

// Concatenates two lists.
Arguments operator+(Arguments first, const Arguments& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

Arguments StepInputs() {
  return {{"x"}, {"h_prev"}, {"w_ru"}, {"w_c"}, {"b_ru"}, {"b_c"}};
}
Arguments StepOutputs() { return {{"r"}, {"u"}, {"c"}, {"h"}}; }
Arguments Gates() { return {{"r"}, {"u"}, {"c"}}; }
Arguments StepGradients() {
  return {{"d_x"}, {"d_h_prev"}, {"d_c_bar"}, {"d_r_bar_u_bar"}};
}

Arguments NetworkInputs() {
  return {{"input"}, {"input_h"}, {"input_c"}, {"params"}};
}
Arguments SequenceLengths() { return {{"sequence_lengths", kInt32}}; }
Arguments NetworkOutputs() { return {{"output"}, {"output_h"}, {"output_c"}}; }
Arguments OutputGradients() {
  return {{"output_backprop"}, {"output_h_backprop"}, {"output_c_backprop"}};
}
Arguments ReserveSpace() { return {{"reserve_space"}}; }
Arguments HostReserved() { return {{"host_reserved", kInt8}}; }
Arguments InputGradients() {
  return {{"input_backprop"},
          {"input_h_backprop"},
          {"input_c_backprop"},
          {"params_backprop"}};
}
Arguments BackpropInputs() {
  return NetworkOutputs() + OutputGradients() + ReserveSpace();
}
Arguments BackpropGradInputs() {
  return NetworkInputs() + SequenceLengths() + Arguments{{"output"}} +
         OutputGradients() + ReserveSpace() +
         Arguments{{"input_backprop_grad"},
                   {"input_h_backprop_grad"},
                   {"input_c_backprop_grad"},
                   {"params_backprop_grad"}};
}
Arguments BackpropGradOutputs() {
  return {{"input_grad"},
          {"input_h_grad"},
          {"input_c_grad"},
          {"params_grad"},
          {"output_backprop_grad"},
          {"output_h_backprop_grad"},
          {"output_c_backprop_grad"}};
}

Arguments NetworkSizes() {
  return {{"num_layers", kInt32, nullptr, /*is_size=*/true},
          {"num_units", kInt32, nullptr, /*is_size=*/true},
          {"input_size", kInt32, nullptr, /*is_size=*/true}};
}
Arguments CanonicalParams(const char* num_weights, const char* num_biases) {
  return {{"weights", kTypeOfOp, num_weights},
          {"biases", kTypeOfOp, num_biases}};
}

Arguments LayerInputs() {
  return {{"sequences"}, {"mask", kBool},      {"initial_h"}, {"initial_c"},
          {"kernel"},    {"recurrent_kernel"}, {"bias"}};
}
Arguments LayerOutputs() { return {{"outputs"}, {"final_h"}, {"final_c"}}; }
Arguments LayerOutputGradients() {
  return {{"outputs_backprop"}, {"final_h_backprop"}, {"final_c_backprop"}};
}
Arguments LayerInputGradients() {
  return {{"sequences_backprop"},        {"initial_h_backprop"},
          {"initial_c_backprop"},        {"kernel_backprop"},
          {"recurrent_kernel_backprop"}, {"bias_backprop"}};
}

}  // namespace

// The handler and the definition of an op.
#define TF_RNN_OPS_HANDLER(op)                                     \
  extern "C" __attribute__((visibility("default"))) XLA_FFI_Error* \
  TfRnnOps_##op(XLA_FFI_CallFrame* call) {                         \
    static const OpDefinition& definition = FindDefinition(#op);   \
    return Handle(definition, call);                               \
  }
#define TF_RNN_OPS_DEFINITION(op, ...) \
  OpDefinition { #op, __VA_ARGS__, "TfRnnOps_" #op, &TfRnnOps_##op }

namespace {

const OpDefinition& FindDefinition(const std::string& op) {
  const auto& ops = TfRnnOps_FfiOps();
  return *std::find_if(ops.begin(), ops.end(), [&op](const auto& definition) {
    return definition.name == op;
  });
}

}  // namespace

TF_RNN_OPS_HANDLER(GRUBlockCell)
TF_RNN_OPS_HANDLER(GRUBlockCellGrad)
TF_RNN_OPS_HANDLER(GRUBlockCellGradV2)
TF_RNN_OPS_HANDLER(CudnnRNN)
TF_RNN_OPS_HANDLER(CudnnRNNV2)
TF_RNN_OPS_HANDLER(CudnnRNNV3)
TF_RNN_OPS_HANDLER(StatelessCudnnRNN)
TF_RNN_OPS_HANDLER(CudnnRNNBackprop)
TF_RNN_OPS_HANDLER(CudnnRNNBackpropV2)
TF_RNN_OPS_HANDLER(CudnnRNNBackpropV3)
TF_RNN_OPS_HANDLER(CudnnRNNBackpropGrad)
TF_RNN_OPS_HANDLER(CudnnRNNDropoutMasks)
TF_RNN_OPS_HANDLER(CudnnRNNParamsSize)
TF_RNN_OPS_HANDLER(CudnnRNNCanonicalToParams)
TF_RNN_OPS_HANDLER(CudnnRNNCanonicalToParamsV2)
TF_RNN_OPS_HANDLER(CudnnRNNParamsToCanonical)
TF_RNN_OPS_HANDLER(CudnnRNNParamsToCanonicalV2)
TF_RNN_OPS_HANDLER(KerasRNN)
TF_RNN_OPS_HANDLER(KerasRNNBackprop)

namespace {

std::vector<OpDefinition> Definitions() {
  return {
      TF_RNN_OPS_DEFINITION(GRUBlockCell, StepInputs(), StepOutputs()),
      TF_RNN_OPS_DEFINITION(GRUBlockCellGrad,
                            StepInputs() + Gates() + Arguments{{"d_h"}},
                            StepGradients()),
      TF_RNN_OPS_DEFINITION(GRUBlockCellGradV2,
                            StepInputs() + Gates() +
                                Arguments{{"d_r"}, {"d_u"}, {"d_c"}, {"d_h"}},
                            StepGradients()),
      TF_RNN_OPS_DEFINITION(CudnnRNN, NetworkInputs(),
                            NetworkOutputs() + ReserveSpace()),
      TF_RNN_OPS_DEFINITION(CudnnRNNV2, NetworkInputs(),
                            NetworkOutputs() + ReserveSpace() + HostReserved()),
      TF_RNN_OPS_DEFINITION(CudnnRNNV3, NetworkInputs() + SequenceLengths(),
                            NetworkOutputs() + ReserveSpace() + HostReserved()),
      TF_RNN_OPS_DEFINITION(
          StatelessCudnnRNN,
          NetworkInputs() + SequenceLengths() + Arguments{{"seed", kInt64}},
          NetworkOutputs() + ReserveSpace() + HostReserved()),
      TF_RNN_OPS_DEFINITION(CudnnRNNBackprop,
                            NetworkInputs() + BackpropInputs(),
                            InputGradients()),
      TF_RNN_OPS_DEFINITION(CudnnRNNBackpropV2,
                            NetworkInputs() + BackpropInputs() + HostReserved(),
                            InputGradients()),
      TF_RNN_OPS_DEFINITION(CudnnRNNBackpropV3,
                            NetworkInputs() + SequenceLengths() +
                                BackpropInputs() + HostReserved(),
                            InputGradients()),
      TF_RNN_OPS_DEFINITION(CudnnRNNBackpropGrad, BackpropGradInputs(),
                            BackpropGradOutputs()),
      TF_RNN_OPS_DEFINITION(
          CudnnRNNDropoutMasks,
          NetworkInputs() + SequenceLengths() + ReserveSpace(),
          (Arguments{{"masks", kFloatOrDouble}})),
      TF_RNN_OPS_DEFINITION(CudnnRNNParamsSize, NetworkSizes(),
                            Arguments{{"params_size"}}),
      TF_RNN_OPS_DEFINITION(
          CudnnRNNCanonicalToParams,
          NetworkSizes() + CanonicalParams("num_params", "num_params"),
          Arguments{{"params"}}),
      TF_RNN_OPS_DEFINITION(
          CudnnRNNCanonicalToParamsV2,
          NetworkSizes() +
              CanonicalParams("num_params_weights", "num_params_biases"),
          Arguments{{"params"}}),
      TF_RNN_OPS_DEFINITION(CudnnRNNParamsToCanonical,
                            NetworkSizes() + Arguments{{"params"}},
                            CanonicalParams("num_params", "num_params")),
      TF_RNN_OPS_DEFINITION(
          CudnnRNNParamsToCanonicalV2, NetworkSizes() + Arguments{{"params"}},
          CanonicalParams("num_params_weights", "num_params_biases")),
      TF_RNN_OPS_DEFINITION(KerasRNN, LayerInputs(),
                            LayerOutputs() + ReserveSpace()),
      TF_RNN_OPS_DEFINITION(
          KerasRNNBackprop,
          LayerInputs() + LayerOutputGradients() + ReserveSpace(),
          LayerInputGradients()),
  };
}

}  // namespace

const std::vector<OpDefinition>& TfRnnOps_FfiOps() {
  static const auto* const ops = [] {
    auto* definitions = new std::vector<OpDefinition>(Definitions());
    for (OpDefinition& definition : *definitions) {
      for (const OpEntry& entry : TfRnnOps_CpuOps()) {
        if (std::string_view(entry.name) == definition.name) {
          definition.entries.push_back(&entry);
        }
      }
    }
    return definitions;
  }();
  return *ops;
}

}  // namespace tf_rnn_ops
