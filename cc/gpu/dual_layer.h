// One direction of one layer with cuBLAS and our own kernels, forward and
// backward, on pairs of values and tangents. For the two sweeps described in
// docs/design/second_order.md.
//
// S = steps, B = batch, F = size of the layer's input, U = num_units,
// O = output_size, G = gates, K = kept values, D = directions. d_q: gradient
// with respect to q; dot_q: tangent of q; m: input of the projection P.
// C: float or double.

#ifndef TF_RNN_OPS_CC_GPU_DUAL_LAYER_H_
#define TF_RNN_OPS_CC_GPU_DUAL_LAYER_H_

#include <cstdint>

#include "cc/gpu/call.h"
#include "cc/gpu/cublas.h"
#include "cc/gpu/device_module.h"
#include "cc/gpu/dual_layer_device.h"
#include "cc/rnn/checked_math.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/status.h"

namespace tf_rnn_ops::gpu {

// c = a * w, or c += a * w, of matrices and their tangents:
//   c.value   = a.value * w.value
//   c.tangent = a.tangent * w.value + a.value * w.tangent
// Null parts of c are not computed.
template <typename C>
struct DualProduct {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  DualInput<C> a;  // [m, k]
  DualInput<C> w;  // [k, n], or [n, k] if transposed
  bool is_w_transposed;
  DualArray<C> c;  // [m, n]
  bool is_added;
};

// Allocates memory and launches kernels for layers.
class DualEngine {
 public:
  // allow_tf32: whether float32 operands of products may be rounded to 10 bits.
  DualEngine(const Call& call, Cublas& cublas, bool allow_tf32)
      : call_(call), cublas_(cublas), allow_tf32_(allow_tf32) {}

  const Call& call() const { return call_; }

  // Allocate scratch memory; the two parts of a DualArray are adjacent. Return
  // kUnimplemented if the size overflows.
  template <typename C>
  Status Allocate(rnn::CheckedInt count, C** array) const;
  template <typename C>
  Status Allocate(rnn::CheckedInt count, DualArray<C>* arrays) const;

  // Sizes may be 0.
  template <typename C>
  Status Multiply(const MatrixProduct<C>& product) const;
  template <typename C>
  Status Multiply(const DualProduct<C>& product) const;

  template <typename Kernel>
  Status Launch(const Kernel& kernel) const;

 private:
  const Call& call_;
  Cublas& cublas_;
  const bool allow_tf32_;
};

// The weights of a direction. Null tangents are zeros.
template <typename C>
struct DualWeights {
  // params, dot_params: for the whole network. dot_params may be null.
  DualWeights(const rnn::RnnConfig& config, std::int64_t pseudo_layer,
              const C* params, const C* dot_params);

  DualInput<C> input;           // [G, U, F]
  DualInput<C> recurrent;       // [G, U, O]
  DualInput<C> projection;      // [O, U]
  DualInput<C> input_bias;      // [G, U]
  DualInput<C> recurrent_bias;  // [G, U]
};

// Memory shared by the directions of a network, which run one after another. If
// two contents are listed, they are for the forward and the backward sweep.
template <typename C>
struct DualScratch {
  // has_gradients: whether there is a backward sweep.
  // wants_params: whether it computes the gradient with respect to params.
  Status Init(const DualEngine& engine, const rnn::RnnConfig& config,
              const rnn::RnnSize& size, bool has_gradients, bool wants_params);

  DualArray<C> gates;        // [S, B, G, U]: a = W x, d_a
  DualArray<C> recurrent;    // [B, G, U]: b = R h_prev, d_b of a step
  DualArray<C> state;        // [B, O]: h, d_h
  DualArray<C> cell_state;   // [B, U]: c, d_c
  DualArray<C> product;      // [B, O]: m P^T, d_b R
  DualArray<C> cell_output;  // [B, U]: m, d_m; with a projection

  // Backward sweep only.
  DualArray<C> d_hidden;     // [B, O]: d_h of a step; with a projection
  DualArray<C> d_recurrent;  // [S, B, G, U]: d_b, if different from d_a
  // For the gradients with respect to weights.
  DualArray<C> all_h_prev;       // [S, B, O]
  DualArray<C> all_cell_output;  // [S, B, U]: m; with a projection
  DualArray<C> all_d_hidden;     // [S, B, O]: d_h; with a projection
  C* ones = nullptr;             // [S, B]
};

// A direction of a layer. Units, samples and steps are not empty.
template <typename C>
struct DualLayer {
  rnn::RnnConfig config;
  std::int64_t batch;
  DeviceLengths lengths;
  std::int64_t layer;
  std::int64_t direction;
  DualWeights<C> weights;
  DualInput<C> input;    // [S, B, F], with zeros as padding
  DualInput<C> input_h;  // [B, O]
  DualInput<C> input_c;  // [B, U]; LSTM only
  DualArray<C> output;   // [S, B, D * O], from the direction's first column
  DualArray<C> kept;     // [S, B, K, U], if there is a backward sweep
};

// The inputs and results of its backward sweep.
template <typename C>
struct DualLayerGradients {
  // [S, B, D * O], from the direction's first column.
  DualInput<C> output;
  const C* output_h;    // [B, O]
  const C* output_c;    // [B, U]; LSTM only
  DualArray<C> input;   // d_input, [S, B, F]; null parts are not computed
  bool is_input_added;  // whether to add to d_input
  C* dot_input_h;       // [B, O]: tangent of d_input_h
  C* dot_input_c;       // [B, U]: tangent of d_input_c; LSTM only
  C* dot_params;        // tangent of d_params of the whole network, or null
};

// Computes the layer's `output` and `kept`, and the tangents of the final
// states.
template <typename C>
Status RunDualForward(const DualEngine& engine, const DualLayer<C>& layer,
                      const DualScratch<C>& scratch, C* dot_output_h,
                      C* dot_output_c);

template <typename C>
Status RunDualBackward(const DualEngine& engine, const DualLayer<C>& layer,
                       const DualScratch<C>& scratch,
                       const DualLayerGradients<C>& gradients);

// ----------------------------------------------------------- implementation

template <typename Kernel>
constexpr const char* kDualLayerKernelName = nullptr;
#define TF_RNN_OPS_NAME(name, Kernel) \
  template <>                         \
  constexpr const char* kDualLayerKernelName<Kernel> = #name;
TF_RNN_OPS_DUAL_LAYER_KERNELS(TF_RNN_OPS_NAME)
#undef TF_RNN_OPS_NAME

DeviceModule& DualLayerModule();

template <typename Kernel>
Status LaunchDualLayerKernel(const Call& call, const Kernel& kernel) {
  if (kernel.num_rows() == 0 || kernel.width() == 0) return Status();
  return DualLayerModule().Launch(call, kDualLayerKernelName<Kernel>,
                                  ShapeFor(kernel.num_rows(), kernel.width()),
                                  kernel);
}

template <typename Kernel>
Status DualEngine::Launch(const Kernel& kernel) const {
  return LaunchDualLayerKernel(call_, kernel);
}

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_DUAL_LAYER_H_
