// Exported functions of the engine library about the instruction sets of the
// CPU.

#include <string>

#include "cc/rnn/instruction_set.h"

#define TF_RNN_OPS_EXPORT extern "C" __attribute__((visibility("default")))

// The instruction set that the CPU kernels use. The string lives as long as
// the library.
TF_RNN_OPS_EXPORT const char* TfRnnOps_ActiveInstructionSet() {
  return tf_rnn_ops::rnn::InstructionSetName(
      tf_rnn_ops::rnn::ActiveInstructionSet());
}

// The instruction sets that the CPU kernels can use on this CPU, in ascending
// order, separated by spaces. The string lives as long as the library.
TF_RNN_OPS_EXPORT const char* TfRnnOps_SupportedInstructionSets() {
  static const std::string* const names = [] {
    auto* joined = new std::string;
    for (auto each : tf_rnn_ops::rnn::SupportedInstructionSets()) {
      if (!joined->empty()) joined->append(" ");
      joined->append(tf_rnn_ops::rnn::InstructionSetName(each));
    }
    return joined;
  }();
  return names->c_str();
}
