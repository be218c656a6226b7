// The function that replaces the loop of a recurrent layer.

#ifndef TF_RNN_OPS_CC_TENSORFLOW_LOOPS_LAYER_FUNCTION_H_
#define TF_RNN_OPS_CC_TENSORFLOW_LOOPS_LAYER_FUNCTION_H_

#include "absl/status/status.h"
#include "cc/tensorflow/loops/loop.h"
#include "cc/tensorflow/loops/recurrent_layer.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/function.pb.h"

namespace tf_rnn_ops {

// Makes a function that computes what a loop does with the op KerasRNN, or
// BlockLSTM for an LSTM with peepholes or clipping, or StatelessCudnnRNN for
// one with a projection. Its arguments are the initial values of the loop's
// variables, but for each list that the loop reads, the tensor that the list is
// made from. Its results are the final values of the variables, and the tensor
// of the list of outputs, [time or 1, batch, units]. Its name follows from its
// contents.
absl::Status MakeLayerFunction(
    const Loop& loop, const RecurrentLayer& layer,
    const tensorflow::FunctionLibraryDefinition& library,
    tensorflow::FunctionDef* function);

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_TENSORFLOW_LOOPS_LAYER_FUNCTION_H_
