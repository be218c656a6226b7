// A multi-layer recurrent network over a sequence, forward and backward. The
// formulas and the params buffer are cuDNN's.
//
//   rnn_relu, rnn_tanh; rnn, only with Keras's weights:
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
//   gru_reset_before, only with Keras's weights, which have one bias:
//     r, u and h as in gru
//     n = tanh(W_n x + b_n + R_n (r ∘ h_prev))
//
// With dropout by gate, W and R of a gate multiply the product of the same with
// the gate's masks.
//
// The input of a layer is the output of the layer below, with both directions
// concatenated, after dropout. All arrays are dense, row-major and owned by the
// caller. Shapes are given in comments: S = steps, B = batch, I = input_size,
// U = num_units, O = output_size, D = num_directions and P = num_layers * D. An
// output must not overlap an input or another output. Arrays of size zero may
// be null.
//
// States and gradients with respect to results may be null for zeros. Results
// may be null if they are not needed.

#ifndef TF_RNN_OPS_CC_RNN_NETWORK_H_
#define TF_RNN_OPS_CC_RNN_NETWORK_H_

#include <cstdint>

#include "cc/rnn/executor.h"
#include "cc/rnn/float16.h"
#include "cc/rnn/instruction_set.h"
#include "cc/rnn/kept.h"
#include "cc/rnn/random_stream.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/weights.h"

namespace tf_rnn_ops::rnn {

// What all passes have. T: Half, BFloat16, float or double.
template <typename T>
struct NetworkPass {
  RnnConfig config;
  RnnSize size;
  // If false, input and output are [B, S, ...] and the states [B, P, ...].
  bool time_major;
  // [B], each at most S, or null if all are S. After the end of a sequence the
  // output is zero. The final states are those of the last valid step, where
  // the backward direction starts.
  const std::int32_t* sequence_lengths;
  StepOrder step_order;  // the default, except for a Keras layer
  // Of the inputs of layers above the first, in training. In [0, 1].
  float dropout;
  const T* input;    // [S, B, I]
  const T* input_h;  // [P, B, O]
  const T* input_c;  // [P, B, U]; LSTM only
  Weights<const T> weights;
  // Dropout masks by gate: see RnnConfig. Those of the input are [B, I], or
  // [S, B, I]; of the state [B, U], or [S, B, U] in the order of the output's
  // steps. For one layer with one direction and Keras's weights.
  const T* input_masks[kMostGates];
  const T* state_masks[kMostGates];
  void* workspace;  // as many bytes as NetworkKernels says
};

template <typename T>
struct NetworkForward : NetworkPass<T> {
  // Training fills a reserve_space, and applies dropout.
  Kept<T> kept;
  RandomStream stream;  // of the dropout masks
  // Whether many calls have the same weights. Such calls are faster if they get
  // them packed. The results have the same bits otherwise.
  bool has_constant_weights;
  T* output;    // [S, B, D * O]
  T* output_h;  // [P, B, O]
  T* output_c;  // [P, B, U]; LSTM only

  bool is_training() const { return kept.is_reserve_space(); }
};

// The weights of a network, to be packed for its forward pass.
template <typename T>
struct WeightPacking {
  RnnConfig config;
  Weights<const T> weights;
  void* packed_weights;  // [NetworkKernels::packed_weights_bytes] bytes
  void* workspace;       // [NetworkKernels::pack_weights_workspace] bytes
};

// The inputs of the backward pass.
template <typename T>
struct NetworkGradients : NetworkPass<T> {
  // Of the forward pass with the same config. To count the workspace of a pass
  // with unsorted samples, its header may be null.
  Kept<const T> kept;
  const T* output;             // [S, B, D * O]; not if keeps_output
  const T* output_backprop;    // [S, B, D * O]
  const T* output_h_backprop;  // [P, B, O]
  const T* output_c_backprop;  // [P, B, U]; LSTM only
};

template <typename T>
struct NetworkBackward : NetworkGradients<T> {
  LstmActivations<const T> activations_backprop;  // if these are kept
  T* input_backprop;                              // [S, B, I]
  T* input_h_backprop;                            // [P, B, O]
  T* input_c_backprop;                            // [P, B, U]; LSTM only
  Weights<T> weights_backprop;
};

// The gradient of the backward pass (docs/design/second_order.md). It
// differentiates the sum of the products of the results of the backward pass
// with dot_input, dot_input_h, dot_input_c and dot_weights. The gradients with
// respect to the inputs of the network are then the tangent of the backward
// pass in that direction, and the gradients with respect to the incoming
// gradients are the tangent of the results of the network.
template <typename T>
struct NetworkBackwardGrad : NetworkGradients<T> {
  // Gradients with respect to the results of the backward pass. Null, or none,
  // means zeros, which cost nothing.
  const T* dot_input;    // [S, B, I]
  const T* dot_input_h;  // [P, B, O]
  const T* dot_input_c;  // [P, B, U]; LSTM only
  Weights<const T> dot_weights;
  // Gradients with respect to the arguments of the backward pass. Those with
  // respect to the inputs of the network are total
  // derivatives: they include the dependence of its results and of what it
  // keeps on the inputs. If all of them are null, only one sweep runs.
  T* input_grad;    // [S, B, I]
  T* input_h_grad;  // [P, B, O]
  T* input_c_grad;  // [P, B, U]; LSTM only
  Weights<T> weights_grad;
  T* output_backprop_grad;    // [S, B, D * O]
  T* output_h_backprop_grad;  // [P, B, O]
  T* output_c_backprop_grad;  // [P, B, U]; LSTM only
};

// The workspace functions return the bytes of scratch memory that a call needs
// with up to `num_threads` threads, or -1 if they overflow std::int64_t. Of the
// arrays they read only sequence_lengths and the header of what is kept, which
// must be the same in the pass itself. A pointer that may be null must be null
// in both calls or in neither.
template <typename T>
struct NetworkKernels {
  std::int64_t (*forward_workspace)(const NetworkForward<T>&, int num_threads);
  std::int64_t (*backward_workspace)(const NetworkBackward<T>&,
                                     int num_threads);
  std::int64_t (*backward_grad_workspace)(const NetworkBackwardGrad<T>&,
                                          int num_threads);
  // The results are bit-identical for any executor.
  void (*forward)(const NetworkForward<T>&, Executor&);
  void (*backward)(const NetworkBackward<T>&, Executor&);
  void (*backward_grad)(const NetworkBackwardGrad<T>&, Executor&);
  // The bytes of a network's packed weights, aligned like Arena's arrays, or -1
  // if they overflow std::int64_t. Their form depends on the instruction set.
  std::int64_t (*packed_weights_bytes)(const RnnConfig&);
  std::int64_t (*pack_weights_workspace)(const WeightPacking<T>&,
                                         int num_threads);
  void (*pack_weights)(const WeightPacking<T>&, Executor&);
  // The dropout masks of a pass with this stream: the factors of the input of
  // each layer above the first.
  // masks: [num_layers - 1, S, B, D * O]
  void (*dropout_masks)(const RnnConfig&, const RnnSize&, float dropout,
                        const RandomStream&, ComputeType<T>* masks, Executor&);
};

// The kernels for networks such as `config`, for a supported instruction set.
template <typename T>
NetworkKernels<T> GetNetworkKernels(InstructionSet instruction_set,
                                    const RnnConfig& config);

// The kernels for inference with weights in another format. The others are
// null. A format that the instruction set does not multiply is replaced by
// kFloat32.
NetworkKernels<float> GetInferenceKernels(InstructionSet instruction_set,
                                          const RnnConfig& config,
                                          WeightFormat format);

}  // namespace tf_rnn_ops::rnn

#endif  // TF_RNN_OPS_CC_RNN_NETWORK_H_
