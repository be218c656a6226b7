// The kernels of dual_layer.h, for host and device: the steps of a layer on
// pairs of values and tangents. They run the CPU engine's cells with dual
// numbers; docs/design/second_order.md has the formulas. dot_q: tangent of q;
// d_q: gradient with respect to q.
//
// A kernel is a struct with its arguments; Compute(row, col) computes one
// element of [num_rows(), width()]. Arrays are dense and row-major, with S =
// steps, B = batch, U = num_units, O = output_size, G = gates, K = kept values
// and D = directions.

#ifndef TF_RNN_OPS_CC_GPU_DUAL_LAYER_DEVICE_H_
#define TF_RNN_OPS_CC_GPU_DUAL_LAYER_DEVICE_H_

#include <cstdint>

#include "cc/gpu/device_math.h"
#include "cc/rnn/float16.h"
#include "cc/rnn/rnn_config.h"

// The cells for scalars instead of vectors.
#define TF_RNN_OPS_DEVICE_CODE
#define TF_RNN_OPS_INSTRUCTION_SET device_code
#include "cc/rnn/simd/cells/cells.h"

namespace tf_rnn_ops::gpu {

namespace cells = rnn::device_code;
using cells::Dual;

// An array of values and an array of their tangents. Null is zeros.
template <typename C>
struct DualInput {
  const C* value = nullptr;
  const C* tangent = nullptr;

  DualInput At(std::int64_t offset) const {
    return {value == nullptr ? nullptr : value + offset,
            tangent == nullptr ? nullptr : tangent + offset};
  }
  Dual<C> Read(std::int64_t i) const {
    return {value == nullptr ? C(0) : value[i],
            tangent == nullptr ? C(0) : tangent[i]};
  }
};

// The same, for writing. Null if not wanted.
template <typename C>
struct DualArray {
  C* value = nullptr;
  C* tangent = nullptr;

  operator DualInput<C>() const { return {value, tangent}; }

  bool is_wanted() const { return tangent != nullptr; }
  DualArray At(std::int64_t offset) const {
    return is_wanted() ? DualArray{value + offset, tangent + offset} : *this;
  }
  Dual<C> Read(std::int64_t i) const { return {value[i], tangent[i]}; }
  void Write(std::int64_t i, const Dual<C>& x) const {
    value[i] = x.value;
    tangent[i] = x.tangent;
  }
  void WriteIfWanted(std::int64_t i, const Dual<C>& x) const {
    if (is_wanted()) Write(i, x);
  }
};

// The lengths of the sequences of a batch.
struct DeviceLengths {
  const std::int32_t* lengths;  // [B], or null if all are `steps`
  std::int64_t steps;

  bool IsValid(std::int64_t time, std::int64_t sample) const {
    return time >= 0 && time < (lengths == nullptr ? steps : lengths[sample]);
  }
};

// ---------------------------------------------------------------- conversions

// Copies rows [outer, inner, width] to another layout and type. With lengths
// (outer is time, inner is batch), rows of padding become zeros.
template <typename From, typename To>
struct ConvertRows {
  std::int64_t outer, inner, cols;
  const From* source;
  std::int64_t source_outer_stride, source_inner_stride;
  To* target;
  std::int64_t target_outer_stride, target_inner_stride;
  const std::int32_t* lengths;  // [inner], or null: copy all rows

  std::int64_t num_rows() const { return outer * inner; }
  std::int64_t width() const { return cols; }

  void Compute(std::int64_t row, std::int64_t col) const {
    const std::int64_t i = row / inner;
    const std::int64_t j = row % inner;
    const bool is_copied = lengths == nullptr || i < lengths[j];
    const From* const from =
        source + i * source_outer_stride + j * source_inner_stride + col;
    Round(is_copied ? ToCompute(*from) : rnn::ComputeType<From>(0),
          target + i * target_outer_stride + j * target_inner_stride + col);
  }
};

// Copies lengths from the host. Kernel arguments are limited to 4096 bytes.
struct StoreLengths {
  static constexpr std::int64_t kMax = 960;

  std::int32_t values[kMax];
  std::int64_t count;
  std::int32_t* target;

  std::int64_t num_rows() const { return 1; }
  std::int64_t width() const { return count; }

  void Compute(std::int64_t, std::int64_t col) const {
    target[col] = values[col];
  }
};

// Sets *found, which must be 0, to 1 if an array has an element other than 0
// and -0. E: unsigned integer type of the size of an element.
template <typename E>
struct FindNonZero {
  std::int64_t count;
  const E* array;
  std::int32_t* found;

  std::int64_t num_rows() const { return 1; }
  std::int64_t width() const { return count; }

  // Threads may race, but all write the same value.
  void Compute(std::int64_t, std::int64_t col) const {
    if (static_cast<E>(array[col] << 1) != 0) *found = 1;
  }
};

template <typename C>
struct FillOnes {
  std::int64_t count;
  C* target;

  std::int64_t num_rows() const { return 1; }
  std::int64_t width() const { return count; }

  void Compute(std::int64_t, std::int64_t col) const { target[col] = 1; }
};

// With skip_input: the gradient with respect to an input that is added to all
// gates.
template <typename C>
struct SumGates {
  std::int64_t rows, units, gates;
  const C* d_gates;  // [rows, G, U]
  C* d_input;        // [rows, U]
  bool is_added;

  std::int64_t num_rows() const { return rows; }
  std::int64_t width() const { return units; }

  void Compute(std::int64_t row, std::int64_t col) const {
    C* const to = d_input + row * units + col;
    C sum = is_added ? *to : C(0);
    for (std::int64_t gate = 0; gate < gates; ++gate) {
      sum += d_gates[(row * gates + gate) * units + col];
    }
    *to = sum;
  }
};

// ------------------------------------------------------------------ the state

// One step of a direction.
struct Step {
  DeviceLengths lengths;
  std::int64_t batch;
  std::int64_t time;
  std::int64_t time_step;  // 1 or -1: to the next step of the direction

  bool IsValid(std::int64_t sample) const {
    return lengths.IsValid(time, sample);
  }
  bool HasNext(std::int64_t sample) const {
    return lengths.IsValid(time + time_step, sample);
  }
};

// The state before a step: after the previous step, or initial.
template <typename C>
struct PreviousState {
  DualInput<C> states;   // after each step, [S, B, ...]
  std::int64_t stride;   // from one sample to the next
  DualInput<C> initial;  // [B, cols]
  std::int64_t cols;

  Dual<C> Read(const Step& step, std::int64_t sample, std::int64_t col) const {
    const std::int64_t time = step.time - step.time_step;
    if (!step.lengths.IsValid(time, sample)) {
      return initial.Read(sample * cols + col);
    }
    return states.Read((time * step.batch + sample) * stride + col);
  }
};

// Gathers the hidden states before all steps, with zeros as padding.
template <typename C>
struct GatherPrevious {
  DeviceLengths lengths;
  std::int64_t batch;
  std::int64_t time_step;
  PreviousState<C> previous;
  DualArray<C> gathered;  // [S, B, O]

  std::int64_t num_rows() const { return lengths.steps * batch; }
  std::int64_t width() const { return previous.cols; }

  void Compute(std::int64_t row, std::int64_t col) const {
    const Step step = {lengths, batch, row / batch, time_step};
    const std::int64_t sample = row % batch;
    gathered.Write(
        row * previous.cols + col,
        step.IsValid(sample) ? previous.Read(step, sample, col) : Dual<C>{});
  }
};

// Stores the hidden state of a step.
template <typename C>
struct HiddenState {
  DualArray<C> state;          // [B, O]
  DualArray<C> output;         // of the step, [B, ...], O columns
  std::int64_t output_stride;  // from one sample to the next
  std::int64_t cols;           // O

  Dual<C> Read(std::int64_t row, std::int64_t col) const {
    return state.Read(row * cols + col);
  }
  // Past the end of a sequence, the state is unchanged and the output is zero.
  void Store(std::int64_t row, std::int64_t col, bool is_valid,
             const Dual<C>& h) const {
    if (is_valid) state.Write(row * cols + col, h);
    output.Write(row * output_stride + col, is_valid ? h : Dual<C>{});
  }
};

// -------------------------------------------------------------------- forward

// The data of a forward step of a cell, for one unit and sample.
template <typename C, typename Cell, typename Activations>
struct ForwardRun {
  Activations activations;
  std::int64_t units;
  DualInput<C> projected;
  std::int64_t gate_stride;
  DualInput<C> input_bias;
  DualInput<C> recurrent;
  DualInput<C> recurrent_bias;
  Dual<C> h_prev;
  DualArray<C> c;
  DualArray<C> kept;

  Dual<C> Sum(std::int64_t block) const {
    const std::int64_t gate = cells::InputGate<Cell>(block);
    const Dual<C> sum =
        projected.Read(gate * gate_stride) + input_bias.Read(gate * units);
    return block < Cell::kFirstRecurrent ? sum : sum + Recurrent(block, 0);
  }
  Dual<C> Recurrent(std::int64_t block, std::int64_t /*index*/) const {
    const std::int64_t at = (block - Cell::kFirstRecurrent) * units;
    return recurrent.Read(at) + recurrent_bias.Read(at);
  }
  Dual<C> CellState() const { return c.Read(0); }
  Dual<C> PreviousHidden() const { return h_prev; }

  cells::ActivatedDual<C> Gate(std::int64_t /*index*/, const Dual<C>& z) const {
    return cells::Activate<C>(activations.gate, z);
  }
  cells::ActivatedDual<C> State(std::int64_t /*index*/,
                                const Dual<C>& z) const {
    return cells::Activate<C>(activations.state, z);
  }
  Dual<C> Recall(std::int64_t /*index*/, const Dual<C>& x) const { return x; }

  void StoreCellState(const Dual<C>& x) const { c.Write(0, x); }
  void Keep(std::int64_t index, const Dual<C>& x) const {
    if (index < Cell::kKept) kept.WriteIfWanted(index * units, x);
  }
};

// A forward step, except its matrix products.
template <typename C, typename Cell,
          typename Activations = cells::StandardActivations<C>>
struct CellForward {
  Step step;
  std::int64_t units;
  // W x, [B, G, U]; with skip_input: x, [B, U], with gate_stride 0.
  DualInput<C> projected;
  std::int64_t projected_stride;  // from one sample to the next
  std::int64_t gate_stride;
  DualInput<C> input_bias;      // [G, U]
  DualInput<C> recurrent;       // R h_prev, [B, G, U]
  DualInput<C> recurrent_bias;  // [G, U]
  HiddenState<C> h;             // h_prev, replaced by h
  DualArray<C> c;               // [B, U]: c_prev, replaced by c; LSTM only
  DualArray<C> kept;            // [B, K, U], if wanted
  DualArray<C> cell_output;     // [B, U]: input of the projection, if any

  std::int64_t num_rows() const { return step.batch; }
  std::int64_t width() const { return units; }

  void Compute(std::int64_t row, std::int64_t col) const {
    const bool is_valid = step.IsValid(row);
    const Dual<C> result = is_valid ? RunCell(row, col) : Dual<C>{};
    if (cell_output.is_wanted()) {
      cell_output.Write(row * units + col, result);
    } else {
      h.Store(row, col, is_valid, result);
    }
  }

 private:
  Dual<C> RunCell(std::int64_t row, std::int64_t col) const {
    return Cell::Forward(ForwardRun<C, Cell, Activations>{
        {},
        units,
        projected.At(row * projected_stride + col),
        gate_stride,
        input_bias.At(col),
        recurrent.At(row * Cell::kGates * units + col),
        recurrent_bias.At(col),
        Cell::kReadsPreviousHidden ? h.Read(row, col) : Dual<C>{},
        c.At(row * units + col),
        kept.At(row * Cell::kKept * units + col),
    });
  }
};

// Stores the hidden state after a projection.
template <typename C>
struct StoreProjected {
  Step step;
  DualInput<C> projected;  // [B, O]
  HiddenState<C> h;

  std::int64_t num_rows() const { return step.batch; }
  std::int64_t width() const { return h.cols; }

  void Compute(std::int64_t row, std::int64_t col) const {
    h.Store(row, col, step.IsValid(row), projected.Read(row * h.cols + col));
  }
};

// ------------------------------------------------------------------- backward

// The gradient with respect to the state after a step: the sum of the gradients
// from the step's output and from the next step. Past the end of a sequence,
// the gradient of the state is carried over instead.
template <typename C>
struct StateGradient {
  DualInput<C> output;         // of the step, [B, ...]
  std::int64_t output_stride;  // from one sample to the next
  // [B, cols]: gradients from the next step, except and from its product.
  DualInput<C> carried;
  DualInput<C> product;
  std::int64_t cols;

  Dual<C> Sum(const Step& step, std::int64_t row, std::int64_t col) const {
    Dual<C> sum = carried.Read(row * cols + col);
    if (step.HasNext(row)) sum = sum + product.Read(row * cols + col);
    if (step.IsValid(row)) sum = sum + output.Read(row * output_stride + col);
    return sum;
  }
};

// Computes the sum for a projection, or before the first step.
template <typename C>
struct SumStateGradient {
  Step step;
  StateGradient<C> gradient;
  DualArray<C> sum;      // [B, O], with zeros as padding
  DualArray<C> kept;     // the same, if wanted
  DualArray<C> carried;  // [B, O]: the sum of padding, else zeros

  std::int64_t num_rows() const { return step.batch; }
  std::int64_t width() const { return gradient.cols; }

  void Compute(std::int64_t row, std::int64_t col) const {
    const std::int64_t i = row * gradient.cols + col;
    const bool is_valid = step.IsValid(row);
    const Dual<C> all = gradient.Sum(step, row, col);
    const Dual<C> of_step = is_valid ? all : Dual<C>{};
    sum.WriteIfWanted(i, of_step);
    kept.WriteIfWanted(i, of_step);
    carried.Write(i, is_valid ? Dual<C>{} : all);
  }
};

// The data of a backward step of a cell, for one unit and sample.
template <typename C, typename Cell, typename Activations>
struct BackwardRun {
  Activations activations;
  std::int64_t units;
  DualInput<C> kept;
  Dual<C> h_prev, c_prev, d_h;
  DualArray<C> d_c;
  DualArray<C> d_input, d_recurrent, d_recurrent_step;
  DualArray<C> cell_output;

  Dual<C> Kept(std::int64_t index) const { return kept.Read(index * units); }
  Dual<C> PreviousHidden() const { return h_prev; }
  Dual<C> PreviousCellState() const { return c_prev; }
  Dual<C> HiddenGradient() const { return d_h; }
  Dual<C> CellStateGradient() const { return d_c.Read(0); }

  void StoreBlock(std::int64_t block, const Dual<C>& x) const {
    if (block < Cell::kGates) {
      d_input.WriteIfWanted(cells::InputGate<Cell>(block) * units, x);
    }
    if (block >= Cell::kFirstRecurrent) {
      const std::int64_t at = (block - Cell::kFirstRecurrent) * units;
      d_recurrent.WriteIfWanted(at, x);
      d_recurrent_step.Write(at, x);
    }
  }
  void StoreCellStateGradient(const Dual<C>& x) const { d_c.Write(0, x); }
  bool has_cell_output() const { return cell_output.is_wanted(); }
  void StoreCellOutput(const Dual<C>& x) const { cell_output.Write(0, x); }
};

// A backward step, except its matrix products.
template <typename C, typename Cell,
          typename Activations = cells::StandardActivations<C>>
struct CellBackward {
  Step step;
  std::int64_t units;
  DualInput<C> kept;        // [B, K, U]
  PreviousState<C> h_prev;  // for cells that read it
  PreviousState<C> c_prev;  // LSTM only
  DualInput<C> h;         // of the step, [B, ...]; for cells that keep nothing
  std::int64_t h_stride;  // from one sample to the next
  // With respect to h, or to the input of the projection.
  StateGradient<C> d_h;
  DualArray<C> carried;           // [B, U]: of d_h, if wanted
  DualArray<C> d_c;               // [B, U], replaced by d_c_prev; LSTM only
  DualArray<C> d_input;           // [B, G, U]: with respect to W x + bW
  DualArray<C> d_recurrent;       // [B, G, U]: to R h_prev + bR, if different
  DualArray<C> d_recurrent_step;  // [B, G, U]: the same, for the next product
  DualArray<C> cell_output;       // [B, U]: input of the projection, if wanted

  std::int64_t num_rows() const { return step.batch; }
  std::int64_t width() const { return units; }

  void Compute(std::int64_t row, std::int64_t col) const {
    const Dual<C> d_result = d_h.Sum(step, row, col);
    const Dual<C> d_carried = step.IsValid(row) ? RunCell(row, col, d_result)
                                                : SkipCell(row, col, d_result);
    carried.WriteIfWanted(row * units + col, d_carried);
  }

 private:
  BackwardRun<C, Cell, Activations> Run(std::int64_t row,
                                        std::int64_t col) const {
    const std::int64_t gates = row * Cell::kGates * units + col;
    BackwardRun<C, Cell, Activations> run{};
    run.units = units;
    run.d_c = d_c.At(row * units + col);
    run.d_input = d_input.At(gates);
    run.d_recurrent = d_recurrent.At(gates);
    run.d_recurrent_step = d_recurrent_step.At(gates);
    run.cell_output = cell_output.At(row * units + col);
    return run;
  }

  Dual<C> RunCell(std::int64_t row, std::int64_t col,
                  const Dual<C>& d_result) const {
    BackwardRun<C, Cell, Activations> run = Run(row, col);
    run.kept = Cell::kKept > 0 ? kept.At(row * Cell::kKept * units + col)
                               : h.At(row * h_stride + col);
    run.d_h = d_result;
    if (Cell::kReadsPreviousHidden) run.h_prev = h_prev.Read(step, row, col);
    if (Cell::kHasCellState) run.c_prev = c_prev.Read(step, row, col);
    return Cell::Backward(run);
  }

  // Past the end of a sequence: d_h and d_c are unchanged.
  Dual<C> SkipCell(std::int64_t row, std::int64_t col,
                   const Dual<C>& d_result) const {
    const BackwardRun<C, Cell, Activations> run = Run(row, col);
    for (std::int64_t block = 0; block < Cell::kBlocks; ++block) {
      run.StoreBlock(block, {});
    }
    if (run.has_cell_output()) run.StoreCellOutput({});
    return d_result;
  }
};

// ---------------------------------------------------------------- all kernels

template <typename C>
using ReluForward =
    CellForward<C, cells::PlainCell<C>, cells::ReluActivations<C>>;
template <typename C>
using TanhForward = CellForward<C, cells::PlainCell<C>>;
template <typename C>
using LstmForward = CellForward<C, cells::LstmCell<C>>;
template <typename C>
using GruForward = CellForward<C, cells::GruCell<C>>;
template <typename C>
using ReluBackward =
    CellBackward<C, cells::PlainCell<C>, cells::ReluActivations<C>>;
template <typename C>
using TanhBackward = CellBackward<C, cells::PlainCell<C>>;
template <typename C>
using LstmBackward = CellBackward<C, cells::LstmCell<C>>;
template <typename C>
using GruBackward = CellBackward<C, cells::GruCell<C>>;

template <typename T>
using Widen = ConvertRows<T, rnn::ComputeType<T>>;
template <typename T>
using Narrow = ConvertRows<rnn::ComputeType<T>, T>;

// Calls F(name, Kernel) for every kernel.
#define TF_RNN_OPS_DUAL_LAYER_KERNELS(F)                             \
  F(dual_layer_find_non_zero_16, FindNonZero<std::uint16_t>)         \
  F(dual_layer_find_non_zero_32, FindNonZero<std::uint32_t>)         \
  F(dual_layer_find_non_zero_64, FindNonZero<std::uint64_t>)         \
  F(dual_layer_store_lengths, StoreLengths)                          \
  F(dual_layer_widen_half, Widen<::tf_rnn_ops::rnn::Half>)           \
  F(dual_layer_widen_bfloat16, Widen<::tf_rnn_ops::rnn::BFloat16>)   \
  F(dual_layer_narrow_half, Narrow<::tf_rnn_ops::rnn::Half>)         \
  F(dual_layer_narrow_bfloat16, Narrow<::tf_rnn_ops::rnn::BFloat16>) \
  TF_RNN_OPS_DUAL_LAYER_KERNELS_OF(F, float)                         \
  TF_RNN_OPS_DUAL_LAYER_KERNELS_OF(F, double)
#define TF_RNN_OPS_DUAL_LAYER_KERNELS_OF(F, C)              \
  F(dual_layer_copy_##C, Widen<C>)                          \
  F(dual_layer_fill_ones_##C, FillOnes<C>)                  \
  F(dual_layer_sum_gates_##C, SumGates<C>)                  \
  F(dual_layer_gather_previous_##C, GatherPrevious<C>)      \
  F(dual_layer_relu_forward_##C, ReluForward<C>)            \
  F(dual_layer_tanh_forward_##C, TanhForward<C>)            \
  F(dual_layer_lstm_forward_##C, LstmForward<C>)            \
  F(dual_layer_gru_forward_##C, GruForward<C>)              \
  F(dual_layer_store_projected_##C, StoreProjected<C>)      \
  F(dual_layer_sum_state_gradient_##C, SumStateGradient<C>) \
  F(dual_layer_relu_backward_##C, ReluBackward<C>)          \
  F(dual_layer_tanh_backward_##C, TanhBackward<C>)          \
  F(dual_layer_lstm_backward_##C, LstmBackward<C>)          \
  F(dual_layer_gru_backward_##C, GruBackward<C>)

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_DUAL_LAYER_DEVICE_H_
