// A whole recurrent network over a sequence, forward and backward: what cuDNN
// computes, and the same params buffer.
//
//   rnn_relu, rnn_tanh:
//     h = act(W x + bW + R h_prev + bR)
//   lstm:
//     i = sigmoid(W_i x + bW_i + R_i h_prev + bR_i), f and o alike
//     g = tanh(W_g x + bW_g + R_g h_prev + bR_g)
//     c = f ∘ c_prev + i ∘ g
//     h = o ∘ tanh(c), or with a projection h = P (o ∘ tanh(c))
//   gru:
//     r = sigmoid(W_r x + bW_r + R_r h_prev + bR_r), u alike
//     n = tanh(W_n x + bW_n + r ∘ (R_n h_prev + bR_n))
//     h = (1 - u) ∘ n + u ∘ h_prev
//
// A layer's input is the output of the layer below, both directions
// concatenated, after dropout. All arrays are dense and row-major, owned by the
// caller, and hold S = steps, B = batch, I = input_size, U = num_units,
// O = output_size, D = num_directions and P = num_layers * D as written beside
// them. An output may not overlap an input or another output. Arrays of size
// zero may be null.
//
// A layer of Keras's (RnnConfig::has_keras_weights) has its weights in
// KerasWeights in the place of params, and no use for `output` in its backward
// passes. Where `output` is not wanted, or its gradient zeros, the array may be
// null.

#ifndef TF_RNN_OPS_CC_RNN_CUDNN_RNN_H_
#define TF_RNN_OPS_CC_RNN_CUDNN_RNN_H_

#include <cstdint>

#include "cc/rnn/executor.h"
#include "cc/rnn/float16.h"
#include "cc/rnn/instruction_set.h"
#include "cc/rnn/random_stream.h"
#include "cc/rnn/reserve_space.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/weights.h"

namespace tf_rnn_ops::rnn {

// T: Half, BFloat16, float or double.
template <typename T>
struct CudnnRnnForward {
  RnnConfig config;
  RnnSize size;
  // Otherwise input and output are [B, S, ...] and the states [B, P, ...].
  bool time_major;
  // [B], each at most S, or null where all are S. Past a sequence's end the
  // output is zero; the final states are those of its last step, at which the
  // backward direction starts.
  const std::int32_t* sequence_lengths;
  StepOrder step_order;  // as it is, but for a Keras layer
  // Whether to apply dropout and to fill reserve_space.
  bool is_training;
  float dropout;        // in [0, 1]
  RandomStream stream;  // of the dropout masks
  const T* input;       // [S, B, I]
  const T* input_h;     // [P, B, O]
  const T* input_c;     // [P, B, U]; LSTM only
  const T* params;      // [CudnnRnnParamsSize(config)]
  KerasWeights<const T> keras_weights;
  T* output;         // [S, B, D * O]
  T* output_h;       // [P, B, O]
  T* output_c;       // [P, B, U]; LSTM only
  T* reserve_space;  // [ReserveSpaceSize<T>(config, size)]; training only
  void* workspace;   // [CudnnRnnForwardWorkspace(this)] bytes
};

template <typename T>
struct CudnnRnnBackward {
  RnnConfig config;
  RnnSize size;
  bool time_major;
  const std::int32_t* sequence_lengths;
  StepOrder step_order;
  float dropout;
  const T* input;    // [S, B, I]
  const T* input_h;  // [P, B, O]
  const T* input_c;  // [P, B, U]; LSTM only
  const T* params;   // [CudnnRnnParamsSize(config)]
  KerasWeights<const T> keras_weights;
  const T* output;             // [S, B, D * O]
  const T* output_backprop;    // [S, B, D * O]
  const T* output_h_backprop;  // [P, B, O]
  const T* output_c_backprop;  // [P, B, U]; LSTM only
  const T* reserve_space;      // as the forward pass of the same config left it
  // A copy of reserve_space's header, of which ReserveSpaceMismatch is empty;
  // null while only workspaces are counted, of samples that were not sorted.
  const ReserveSpaceHeader* reserve_space_header;
  T* input_backprop;    // [S, B, I], or null if not wanted
  T* input_h_backprop;  // [P, B, O]
  T* input_c_backprop;  // [P, B, U]; LSTM only
  T* params_backprop;   // [CudnnRnnParamsSize(config)], or null if not wanted
  KerasWeights<T> keras_weights_backprop;  // likewise
  void* workspace;  // [CudnnRnnBackwardWorkspace(this)] bytes
};

// The gradient of the backward pass (docs/design/second_order.md): what is
// differentiated is the sum of the products of its results with dot_input,
// dot_input_h, dot_input_c and dot_params. Then the gradients with respect to
// the network's inputs are the tangent of the backward pass in that direction,
// and those with respect to the incoming gradients the tangent of the network's
// results.
template <typename T>
struct CudnnRnnBackwardGrad {
  RnnConfig config;
  RnnSize size;
  bool time_major;
  const std::int32_t* sequence_lengths;
  StepOrder step_order;
  float dropout;
  // As the backward pass was given them.
  const T* input;    // [S, B, I]
  const T* input_h;  // [P, B, O]
  const T* input_c;  // [P, B, U]; LSTM only
  const T* params;   // [CudnnRnnParamsSize(config)]
  KerasWeights<const T> keras_weights;
  const T* output;             // [S, B, D * O]
  const T* output_backprop;    // [S, B, D * O]
  const T* output_h_backprop;  // [P, B, O]
  const T* output_c_backprop;  // [P, B, U]; LSTM only
  const T* reserve_space;
  const ReserveSpaceHeader* reserve_space_header;  // as above
  // Gradients with respect to the results of the backward pass, each null for
  // zeros, which then cost nothing.
  const T* dot_input;    // [S, B, I]
  const T* dot_input_h;  // [P, B, O]
  const T* dot_input_c;  // [P, B, U]; LSTM only
  const T* dot_params;   // [CudnnRnnParamsSize(config)]
  KerasWeights<const T> dot_keras_weights;
  // Gradients with respect to what the backward pass was given, each null if
  // not wanted. Those of the network's inputs are total: its results and the
  // reserve_space follow from them. If none of these is wanted, there is only
  // one sweep.
  T* input_grad;    // [S, B, I]
  T* input_h_grad;  // [P, B, O]
  T* input_c_grad;  // [P, B, U]; LSTM only
  T* params_grad;   // [CudnnRnnParamsSize(config)]
  KerasWeights<T> keras_weights_grad;
  T* output_backprop_grad;    // [S, B, D * O]
  T* output_h_backprop_grad;  // [P, B, O]
  T* output_c_backprop_grad;  // [P, B, U]; LSTM only
  void* workspace;            // [CudnnRnnBackwardGradWorkspace(this)] bytes
};

// How many bytes of scratch memory a call needs with up to `num_threads`
// threads, or -1 if they exceed what std::int64_t can count. Of the arrays only
// sequence_lengths and reserve_space_header are read: they must be the same in
// the pass itself, and what may be null must be so in both or in neither.
template <typename T>
struct CudnnRnnKernels {
  std::int64_t (*forward_workspace)(const CudnnRnnForward<T>&, int num_threads);
  std::int64_t (*backward_workspace)(const CudnnRnnBackward<T>&,
                                     int num_threads);
  std::int64_t (*backward_grad_workspace)(const CudnnRnnBackwardGrad<T>&,
                                          int num_threads);
  // The same bits for any executor.
  void (*forward)(const CudnnRnnForward<T>&, Executor&);
  void (*backward)(const CudnnRnnBackward<T>&, Executor&);
  void (*backward_grad)(const CudnnRnnBackwardGrad<T>&, Executor&);
  // The masks that a pass with this stream applies: what it multiplies the
  // input of each layer above the first by.
  // masks: [num_layers - 1, S, B, D * O]
  void (*dropout_masks)(const RnnConfig&, const RnnSize&, float dropout,
                        const RandomStream&, ComputeType<T>* masks, Executor&);
};

// The kernels for networks like `config`, for a supported instruction set.
template <typename T>
CudnnRnnKernels<T> GetCudnnRnnKernels(InstructionSet instruction_set,
                                      const RnnConfig& config);

}  // namespace tf_rnn_ops::rnn

#endif  // TF_RNN_OPS_CC_RNN_CUDNN_RNN_H_
