#include "cc/gpu/dual_layer.h"

#include <cstddef>
#include <cstdint>

#include "cc/gpu/arrays.h"
#include "cc/gpu/device_code.h"
#include "cc/rnn/cudnn_rnn_params.h"

namespace tf_rnn_ops::gpu {

using rnn::CheckedInt;

DeviceModule& DualLayerModule() {
  static auto* const module = new DeviceModule(kDualLayerCode);
  return *module;
}

// ----------------------------------------------------------------- the engine

template <typename C>
Status DualEngine::Allocate(CheckedInt count, C** array) const {
  const CheckedInt num_bytes = count * static_cast<std::int64_t>(sizeof(C));
  if (!num_bytes.valid()) {
    return Status(StatusCode::kUnimplemented,
                  "the network is too large: the size of its activations "
                  "must fit in 64 bits");
  }
  void* memory;
  TF_RNN_OPS_RETURN_IF_ERROR(call_.scratch->Allocate(
      static_cast<std::size_t>(num_bytes.value()), &memory));
  *array = static_cast<C*>(memory);
  return Status();
}

template <typename C>
Status DualEngine::Allocate(CheckedInt count, DualArray<C>* arrays) const {
  C* both;
  TF_RNN_OPS_RETURN_IF_ERROR(Allocate(count * 2, &both));
  *arrays = both == nullptr ? DualArray<C>{}
                            : DualArray<C>{both, both + count.value()};
  return Status();
}

template <typename C>
Status DualEngine::Multiply(const MatrixProduct<C>& product) const {
  if (product.m == 0 || product.n == 0) return Status();
  if (product.k > 0) return cublas_.Multiply(call_, product, allow_tf32_);
  return product.is_added
             ? Status()
             : ZeroBytes(call_, product.m * product.n * sizeof(C), product.c);
}

template <typename C>
Status DualEngine::Multiply(const DualProduct<C>& p) const {
  // If the arrays are adjacent, one product computes both parts.
  const bool are_adjacent = p.c.value != nullptr &&
                            p.a.tangent == p.a.value + p.m * p.k &&
                            p.c.tangent == p.c.value + p.m * p.n;
  const auto multiply = [&](std::int64_t m, const C* a, const C* w, C* c,
                            bool is_added) {
    return Multiply(
        MatrixProduct<C>{m, p.n, p.k, a, w, p.is_w_transposed, c, is_added});
  };
  if (are_adjacent) {
    TF_RNN_OPS_RETURN_IF_ERROR(
        multiply(2 * p.m, p.a.value, p.w.value, p.c.value, p.is_added));
  } else {
    if (p.c.value != nullptr) {
      TF_RNN_OPS_RETURN_IF_ERROR(
          multiply(p.m, p.a.value, p.w.value, p.c.value, p.is_added));
    }
    if (p.a.tangent != nullptr) {
      TF_RNN_OPS_RETURN_IF_ERROR(
          multiply(p.m, p.a.tangent, p.w.value, p.c.tangent, p.is_added));
    } else if (!p.is_added) {
      TF_RNN_OPS_RETURN_IF_ERROR(
          ZeroBytes(call_, p.m * p.n * sizeof(C), p.c.tangent));
    }
  }
  if (p.w.tangent == nullptr) return Status();
  return multiply(p.m, p.a.value, p.w.tangent, p.c.tangent, /*is_added=*/true);
}

// ------------------------------------------------------------ weights, memory

template <typename C>
DualWeights<C>::DualWeights(const rnn::RnnConfig& config,
                            std::int64_t pseudo_layer, const C* params,
                            const C* dot_params) {
  const rnn::CudnnRnnParamsLayout layout(config);
  const DualInput<C> all = {params, dot_params};
  input = all.At(layout.InputMatrix(pseudo_layer).offset);
  recurrent = all.At(layout.RecurrentMatrix(pseudo_layer).offset);
  projection = all.At(layout.Projection(pseudo_layer).offset);
  input_bias = all.At(layout.InputBias(pseudo_layer).offset);
  recurrent_bias = all.At(layout.RecurrentBias(pseudo_layer).offset);
}

template <typename C>
Status DualScratch<C>::Init(const DualEngine& engine,
                            const rnn::RnnConfig& config,
                            const rnn::RnnSize& size, bool has_gradients,
                            bool wants_params) {
  const CheckedInt batch = size.batch;
  const CheckedInt rows = batch * size.time;
  const CheckedInt gates = CheckedInt(config.num_gates()) * config.num_units;
  const std::int64_t units = config.num_units;
  const std::int64_t hidden = config.output_size();
  const bool is_projected = config.num_proj > 0;
  const bool has_d_recurrent =
      has_gradients && rnn::TraitsOf(config.mode).blocks > config.num_gates();
  const struct {
    bool is_needed;
    CheckedInt count;
    DualArray<C>* arrays;
  } needs[] = {
      {true, rows * gates, &this->gates},
      {true, batch * gates, &recurrent},
      {true, batch * hidden, &state},
      {config.has_cell_state(), batch * units, &cell_state},
      {is_projected || has_gradients, batch * hidden, &product},
      {is_projected, batch * units, &cell_output},
      {is_projected && has_gradients, batch * hidden, &d_hidden},
      {has_d_recurrent, rows * gates, &d_recurrent},
      {wants_params, rows * hidden, &all_h_prev},
      {wants_params && is_projected, rows * units, &all_cell_output},
      {wants_params && is_projected, rows * hidden, &all_d_hidden},
  };
  for (const auto& [is_needed, count, arrays] : needs) {
    if (!is_needed) continue;
    TF_RNN_OPS_RETURN_IF_ERROR(engine.Allocate(count, arrays));
  }
  if (!wants_params) return Status();
  TF_RNN_OPS_RETURN_IF_ERROR(engine.Allocate(rows, &ones));
  return engine.Launch(FillOnes<C>{rows.value(), ones});
}

namespace {

// ----------------------------------------------------------------- the sweeps

template <typename C>
class LayerSweeps {
 public:
  LayerSweeps(const DualEngine& engine, const DualLayer<C>& layer,
              const DualScratch<C>& scratch)
      : engine_(engine), a_(layer), scratch_(scratch) {}

  Status Forward(C* dot_output_h, C* dot_output_c) const {
    TF_RNN_OPS_RETURN_IF_ERROR(SetStates(a_.input_h, a_.input_c));
    TF_RNN_OPS_RETURN_IF_ERROR(ProjectInput());
    for (std::int64_t i = 0; i < a_.lengths.steps; ++i) {
      TF_RNN_OPS_RETURN_IF_ERROR(StepForward(StepAt(i)));
    }
    return CopyStateTangents(dot_output_h, dot_output_c);
  }

  Status Backward(const DualLayerGradients<C>& gradients) const {
    TF_RNN_OPS_RETURN_IF_ERROR(SetStates({gradients.output_h, nullptr},
                                         {gradients.output_c, nullptr}));
    for (std::int64_t i = a_.lengths.steps - 1; i >= 0; --i) {
      TF_RNN_OPS_RETURN_IF_ERROR(StepBackward(StepAt(i), gradients.output));
    }
    TF_RNN_OPS_RETURN_IF_ERROR(FinishStateGradient());
    TF_RNN_OPS_RETURN_IF_ERROR(
        CopyStateTangents(gradients.dot_input_h, gradients.dot_input_c));
    if (gradients.input.is_wanted()) {
      TF_RNN_OPS_RETURN_IF_ERROR(MakeInputGradient(gradients));
    }
    return gradients.dot_params == nullptr
               ? Status()
               : MakeWeightGradients(gradients.dot_params);
  }

 private:
  const rnn::RnnConfig& config() const { return a_.config; }
  std::int64_t steps() const { return a_.lengths.steps; }
  std::int64_t rows() const { return steps() * a_.batch; }
  std::int64_t units() const { return config().num_units; }
  std::int64_t hidden() const { return config().output_size(); }
  std::int64_t gate_units() const { return config().num_gates() * units(); }
  std::int64_t kept() const { return rnn::TraitsOf(config().mode).kept; }
  std::int64_t fan_in() const { return config().fan_in(a_.layer); }
  std::int64_t output_stride() const {
    return config().num_directions * hidden();
  }
  bool is_projected() const { return config().num_proj > 0; }
  bool skips_input() const { return config().skip_input && a_.layer == 0; }

  // The offset of a step in an array of all steps.
  std::int64_t Offset(const Step& step, std::int64_t stride) const {
    return step.time * a_.batch * stride;
  }

  // The i-th step in the direction's order; -1 is before the first.
  Step StepAt(std::int64_t i) const {
    const bool is_forward = a_.direction == 0;
    return {a_.lengths, a_.batch, is_forward ? i : steps() - 1 - i,
            is_forward ? 1 : -1};
  }

  Status SetState(const DualInput<C>& from, std::int64_t width,
                  const DualArray<C>& to) const {
    const std::size_t num_bytes = a_.batch * width * sizeof(C);
    const auto set = [&](const C* source, C* target) {
      return source == nullptr
                 ? ZeroBytes(engine_.call(), num_bytes, target)
                 : CopyBytes(engine_.call(), num_bytes, source, target);
    };
    TF_RNN_OPS_RETURN_IF_ERROR(set(from.value, to.value));
    return set(from.tangent, to.tangent);
  }
  Status SetStates(const DualInput<C>& h, const DualInput<C>& c) const {
    TF_RNN_OPS_RETURN_IF_ERROR(SetState(h, hidden(), scratch_.state));
    if (!config().has_cell_state()) return Status();
    return SetState(c, units(), scratch_.cell_state);
  }

  Status CopyStateTangents(C* h, C* c) const {
    TF_RNN_OPS_RETURN_IF_ERROR(CopyBytes(engine_.call(),
                                         a_.batch * hidden() * sizeof(C),
                                         scratch_.state.tangent, h));
    if (!config().has_cell_state()) return Status();
    return CopyBytes(engine_.call(), a_.batch * units() * sizeof(C),
                     scratch_.cell_state.tangent, c);
  }

  PreviousState<C> PreviousHidden() const {
    return {a_.output, output_stride(), a_.input_h, hidden()};
  }
  // The last kept value is c.
  PreviousState<C> PreviousCellState() const {
    return {a_.kept.At((kept() - 1) * units()), kept() * units(), a_.input_c,
            units()};
  }

  // ------------------------------------------------------------------ forward

  // W x of all steps.
  Status ProjectInput() const {
    if (skips_input()) return Status();
    return engine_.Multiply(DualProduct<C>{
        rows(), gate_units(), fan_in(), a_.input, a_.weights.input,
        /*is_w_transposed=*/true, scratch_.gates, /*is_added=*/false});
  }

  Status StepForward(const Step& step) const {
    TF_RNN_OPS_RETURN_IF_ERROR(engine_.Multiply(DualProduct<C>{
        a_.batch, gate_units(), hidden(), scratch_.state, a_.weights.recurrent,
        /*is_w_transposed=*/true, scratch_.recurrent, /*is_added=*/false}));
    TF_RNN_OPS_RETURN_IF_ERROR(LaunchCell([&](auto cell, auto activations) {
      return engine_.Launch(
          Forward<decltype(cell), decltype(activations)>(step));
    }));
    if (!is_projected()) return Status();
    TF_RNN_OPS_RETURN_IF_ERROR(engine_.Multiply(DualProduct<C>{
        a_.batch, hidden(), units(), scratch_.cell_output,
        a_.weights.projection, /*is_w_transposed=*/true, scratch_.product,
        /*is_added=*/false}));
    return engine_.Launch(
        StoreProjected<C>{step, scratch_.product, HiddenStateOf(step)});
  }

  // Returns launch(cell, activations) for those of the mode.
  template <typename Launch>
  Status LaunchCell(const Launch& launch) const {
    Status status;
    cells::WithCudnnCell<C>(config().mode, [&](auto cell, auto activations) {
      status = launch(cell, activations);
    });
    return status;
  }

  HiddenState<C> HiddenStateOf(const Step& step) const {
    return {scratch_.state, a_.output.At(Offset(step, output_stride())),
            output_stride(), hidden()};
  }

  template <typename Cell, typename Activations>
  CellForward<C, Cell, Activations> Forward(const Step& step) const {
    CellForward<C, Cell, Activations> kernel{};
    kernel.step = step;
    kernel.units = units();
    if (skips_input()) {
      kernel.projected = a_.input.At(Offset(step, fan_in()));
      kernel.projected_stride = fan_in();
    } else {
      const DualInput<C> gates = scratch_.gates;
      kernel.projected = gates.At(Offset(step, gate_units()));
      kernel.projected_stride = gate_units();
      kernel.gate_stride = units();
    }
    kernel.input_bias = a_.weights.input_bias;
    kernel.recurrent = scratch_.recurrent;
    kernel.recurrent_bias = a_.weights.recurrent_bias;
    kernel.h = HiddenStateOf(step);
    kernel.c = scratch_.cell_state;
    kernel.kept = a_.kept.At(Offset(step, kept() * units()));
    kernel.cell_output = scratch_.cell_output;
    return kernel;
  }

  // ----------------------------------------------------------------- backward

  // d_output: of all steps.
  Status StepBackward(const Step& step, const DualInput<C>& d_output) const {
    StateGradient<C> d_h = {d_output.At(Offset(step, output_stride())),
                            output_stride(), scratch_.state, scratch_.product,
                            hidden()};
    if (is_projected()) {
      TF_RNN_OPS_RETURN_IF_ERROR(ProjectGradient(step, d_h));
      d_h = {scratch_.cell_output, units(), {}, {}, units()};
    }
    TF_RNN_OPS_RETURN_IF_ERROR(LaunchCell([&](auto cell, auto activations) {
      return engine_.Launch(
          Backward<decltype(cell), decltype(activations)>(step, d_h));
    }));
    return engine_.Multiply(DualProduct<C>{
        a_.batch, hidden(), gate_units(), scratch_.recurrent,
        a_.weights.recurrent, /*is_w_transposed=*/false, scratch_.product,
        /*is_added=*/false});
  }

  // Makes d_m.
  Status ProjectGradient(const Step& step, const StateGradient<C>& d_h) const {
    TF_RNN_OPS_RETURN_IF_ERROR(engine_.Launch(SumStateGradient<C>{
        step, d_h, scratch_.d_hidden,
        scratch_.all_d_hidden.At(Offset(step, hidden())), scratch_.state}));
    return engine_.Multiply(DualProduct<C>{
        a_.batch, units(), hidden(), scratch_.d_hidden, a_.weights.projection,
        /*is_w_transposed=*/false, scratch_.cell_output, /*is_added=*/false});
  }

  // d_h: with respect to the cell's result.
  template <typename Cell, typename Activations>
  CellBackward<C, Cell, Activations> Backward(
      const Step& step, const StateGradient<C>& d_h) const {
    CellBackward<C, Cell, Activations> kernel{};
    kernel.step = step;
    kernel.units = units();
    kernel.kept = a_.kept.At(Offset(step, kept() * units()));
    kernel.h_prev = PreviousHidden();
    if (Cell::kHasCellState) kernel.c_prev = PreviousCellState();
    kernel.h = a_.output.At(Offset(step, output_stride()));
    kernel.h_stride = output_stride();
    kernel.d_h = d_h;
    if (!is_projected()) kernel.carried = scratch_.state;
    kernel.d_c = scratch_.cell_state;
    kernel.d_input = scratch_.gates.At(Offset(step, gate_units()));
    kernel.d_recurrent = scratch_.d_recurrent.At(Offset(step, gate_units()));
    kernel.d_recurrent_step = scratch_.recurrent;
    kernel.cell_output = scratch_.all_cell_output.At(Offset(step, units()));
    return kernel;
  }

  // Adds the contribution of the first step's product to the state gradient.
  Status FinishStateGradient() const {
    const StateGradient<C> d_h = {
        {}, 0, scratch_.state, scratch_.product, hidden()};
    return engine_.Launch(
        SumStateGradient<C>{StepAt(-1), d_h, {}, {}, scratch_.state});
  }

  Status MakeInputGradient(const DualLayerGradients<C>& gradients) const {
    if (skips_input()) {
      return engine_.Launch(SumGates<C>{
          rows(), units(), config().num_gates(), scratch_.gates.tangent,
          gradients.input.tangent, gradients.is_input_added});
    }
    return engine_.Multiply(DualProduct<C>{
        rows(), fan_in(), gate_units(), scratch_.gates, a_.weights.input,
        /*is_w_transposed=*/false, gradients.input, gradients.is_input_added});
  }

  Status MakeWeightGradients(C* dot_params) const {
    const rnn::CudnnRnnParamsLayout layout(config());
    const std::int64_t pseudo_layer =
        a_.layer * config().num_directions + a_.direction;
    const DualInput<C> d_input = scratch_.gates;
    const DualInput<C> d_recurrent = scratch_.d_recurrent.is_wanted()
                                         ? scratch_.d_recurrent
                                         : scratch_.gates;
    TF_RNN_OPS_RETURN_IF_ERROR(engine_.Launch(
        GatherPrevious<C>{a_.lengths, a_.batch, StepAt(0).time_step,
                          PreviousHidden(), scratch_.all_h_prev}));
    TF_RNN_OPS_RETURN_IF_ERROR(MakeMatrixGradient(
        d_input, a_.input, layout.InputMatrix(pseudo_layer), dot_params));
    TF_RNN_OPS_RETURN_IF_ERROR(
        MakeMatrixGradient(d_recurrent, scratch_.all_h_prev,
                           layout.RecurrentMatrix(pseudo_layer), dot_params));
    TF_RNN_OPS_RETURN_IF_ERROR(
        MakeBiasGradient(d_input, layout.InputBias(pseudo_layer), dot_params));
    TF_RNN_OPS_RETURN_IF_ERROR(MakeBiasGradient(
        d_recurrent, layout.RecurrentBias(pseudo_layer), dot_params));
    return MakeMatrixGradient(scratch_.all_d_hidden, scratch_.all_cell_output,
                              layout.Projection(pseudo_layer), dot_params);
  }

  // The tangent of d^T x, summed over all steps.
  Status MakeMatrixGradient(const DualInput<C>& d, const DualInput<C>& x,
                            const rnn::ParamsRegion& region,
                            C* dot_params) const {
    const auto multiply = [&](const C* a, const C* b, bool is_added) {
      return engine_.Multiply(MatrixProduct<C>{
          region.rows, region.cols, rows(), a, b, /*is_b_transposed=*/false,
          dot_params + region.offset, is_added, /*is_a_transposed=*/true});
    };
    TF_RNN_OPS_RETURN_IF_ERROR(
        multiply(d.tangent, x.value, /*is_added=*/false));
    if (x.tangent == nullptr) return Status();
    return multiply(d.value, x.tangent, /*is_added=*/true);
  }

  // The tangent of d, summed over all steps.
  Status MakeBiasGradient(const DualInput<C>& d,
                          const rnn::ParamsRegion& region,
                          C* dot_params) const {
    return engine_.Multiply(
        MatrixProduct<C>{1, region.rows, rows(), scratch_.ones, d.tangent,
                         /*is_b_transposed=*/false, dot_params + region.offset,
                         /*is_added=*/false});
  }

  const DualEngine& engine_;
  const DualLayer<C>& a_;
  const DualScratch<C>& scratch_;
};

}  // namespace

template <typename C>
Status RunDualForward(const DualEngine& engine, const DualLayer<C>& layer,
                      const DualScratch<C>& scratch, C* dot_output_h,
                      C* dot_output_c) {
  return LayerSweeps<C>(engine, layer, scratch)
      .Forward(dot_output_h, dot_output_c);
}

template <typename C>
Status RunDualBackward(const DualEngine& engine, const DualLayer<C>& layer,
                       const DualScratch<C>& scratch,
                       const DualLayerGradients<C>& gradients) {
  return LayerSweeps<C>(engine, layer, scratch).Backward(gradients);
}

template Status DualEngine::Allocate(CheckedInt, std::int32_t**) const;

#define INSTANTIATE(C)                                                    \
  template Status DualEngine::Allocate(CheckedInt, C**) const;            \
  template Status DualEngine::Allocate(CheckedInt, DualArray<C>*) const;  \
  template struct DualWeights<C>;                                         \
  template struct DualScratch<C>;                                         \
  template Status RunDualForward(const DualEngine&, const DualLayer<C>&,  \
                                 const DualScratch<C>&, C*, C*);          \
  template Status RunDualBackward(const DualEngine&, const DualLayer<C>&, \
                                  const DualScratch<C>&,                  \
                                  const DualLayerGradients<C>&)

INSTANTIATE(float);
INSTANTIATE(double);

#undef INSTANTIATE

}  // namespace tf_rnn_ops::gpu
