// The data that a cell reads and writes at one step, for a vector of units of
// one sample.
//
// Each pass has one of these types, and the formulas of a cell are the same for
// all. The values are vectors in ForwardRun and BackwardRun, and dual numbers
// in TangentRun and DualRun.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_CELLS_CELL_RUN_H_
#define TF_RNN_OPS_CC_RNN_SIMD_CELLS_CELL_RUN_H_

#include <cstdint>

#include "cc/rnn/float16.h"
#include "cc/rnn/kept.h"
#include "cc/rnn/simd/cells/activation.h"
#include "cc/rnn/simd/cells/dual.h"
#include "cc/rnn/simd/matmul/tile_product.h"
#include "cc/rnn/simd/vector/finite_pair.h"
#include "cc/rnn/simd/vector/vector.h"
#include "cc/rnn/weights.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// Clips x to [-most, most]; not if `most` is 0. NaN stays NaN.
template <typename T>
TF_RNN_OPS_VECTOR_INLINE Vector<T> ClipTo(T most, Vector<T> x) {
  if (most == 0) return x;
  const Vector<T> bound = Broadcast(most);
  return Select<T>(x > bound, bound, Select<T>(x < -bound, -bound, x));
}

// The units of a run, and their peepholes.
template <typename T, typename Units>
struct PeepholeRun {
  Units units;
  Peepholes<const T> peepholes;  // of TensorFlow's LSTM ops

  TF_RNN_OPS_VECTOR_INLINE bool has_peepholes() const {
    return peepholes.any();
  }
  TF_RNN_OPS_VECTOR_INLINE Vector<T> Weight(Peephole peephole) const {
    return units.Read(peepholes.arrays[peephole]);
  }
};

// What the runs of forward passes with values have in common.
template <typename T, typename Units, typename Activations>
struct ValueRun : PeepholeRun<T, Units> {
  Activations activations;
  T clip;  // of the cell state of TensorFlow's LSTM ops, or 0

  // Activates a sum. index: the index of what is kept.
  TF_RNN_OPS_VECTOR_INLINE Activated<T> Gate(std::int64_t /*index*/,
                                             Vector<T> z) const {
    return Activate<T>(activations.gate, z);
  }
  TF_RNN_OPS_VECTOR_INLINE Activated<T> State(std::int64_t /*index*/,
                                              Vector<T> z) const {
    return Activate<T>(activations.state, z);
  }
  // Returns a kept value, which the forward pass has computed as x.
  TF_RNN_OPS_VECTOR_INLINE Vector<T> Recall(std::int64_t /*index*/,
                                            Vector<T> x) const {
    return x;
  }
  TF_RNN_OPS_VECTOR_INLINE Vector<T> Clip(Vector<T> x) const {
    return ClipTo<T>(clip, x);
  }
};

// The run of the forward pass.
// kFirstBlock: the first block in `product`.
template <typename T, typename Units, typename Activations,
          std::int64_t kFirstBlock>
struct ForwardRun : ValueRun<T, Units, Activations> {
  using PeepholeRun<T, Units>::units;

  // In blocks of kTileCols.
  const T* projected;        // W x and biases; if fused, only biases
  const T* product;          // R h_prev; if fused, also W x
  const T* recurrent_bias;   // of the block with only R h_prev, if any
  const T* h_prev;           // if the cell reads it
  T* c;                      // c_prev, replaced by c; if there is a cell state
  T* kept;                   // for the backward pass, or null
  std::int64_t kept_stride;  // between values
  T* carried;                // from the first half of a step to the second
  bool keeps_uncached;
  bool keeps_pairs;  // as ToFinitePair

  // The pre-activation sum of a gate. block: less than kGates.
  TF_RNN_OPS_VECTOR_INLINE Vector<T> Sum(std::int64_t block) const {
    Vector<T> sum = units.Read(projected + block * kTileCols<T>);
    if (block >= kFirstBlock) sum += Product(block);
    return sum;
  }
  // The value of a block that contains only R h_prev + bR. index: its index
  // among the kept values.
  TF_RNN_OPS_VECTOR_INLINE Vector<T> Recurrent(std::int64_t block,
                                               std::int64_t /*index*/) const {
    return Product(block) + units.Read(recurrent_bias);
  }

  TF_RNN_OPS_VECTOR_INLINE Vector<T> CellState() const { return units.Read(c); }
  TF_RNN_OPS_VECTOR_INLINE Vector<T> PreviousHidden() const {
    return units.Read(h_prev);
  }

  TF_RNN_OPS_VECTOR_INLINE void StoreCellState(Vector<T> x) const {
    units.Write(x, c);
  }
  // Keeps a value that the second half of the step reads.
  TF_RNN_OPS_VECTOR_INLINE void Carry(std::int64_t index, Vector<T> x) const {
    Keep(index, x);
    units.Write(x, carried);
  }
  TF_RNN_OPS_VECTOR_INLINE Vector<T> Carried(std::int64_t /*index*/) const {
    return units.Read(carried);
  }
  TF_RNN_OPS_VECTOR_INLINE void Keep(std::int64_t index, Vector<T> x) const {
    if (kept == nullptr) return;
    T* const to = kept + index * kept_stride;
    if (keeps_pairs) x = ToFinitePair(x);
    if (keeps_uncached) {
      units.WriteUncached(x, to);
    } else {
      units.Write(x, to);
    }
  }

 private:
  TF_RNN_OPS_VECTOR_INLINE Vector<T> Product(std::int64_t block) const {
    return units.Read(product + (block - kFirstBlock) * kTileCols<T>);
  }
};

// Reads the states and activations that a forward pass left.
template <typename T, typename Units>
struct StatesReader {
  Units units;
  bool are_pairs;  // whether they have the form of ToFinitePair

  TF_RNN_OPS_VECTOR_INLINE Vector<T> Read(const T* from) const {
    const Vector<T> x = units.Read(from);
    return are_pairs ? FromFinitePair(x) : x;
  }
};

// The run of the tangent of the forward pass. The values are those that the
// forward pass kept. dot_q: tangent of q.
template <typename T, typename Units, typename Activations,
          std::int64_t kFirstBlock>
struct TangentRun {
  Units units;
  Activations activations;
  StatesReader<T, Units> states;
  const T* kept;  // by the forward pass
  std::int64_t kept_stride;
  const T* h_prev;
  const T* c_prev;
  // In blocks of kTileCols.
  const T* projected;  // tangent of W x + bW, or null for zeros
  const T* product;    // tangent of R h_prev + bR, from block kFirstBlock on
  const T* dot_h_prev;
  T* dot_c;     // tangent of c_prev, replaced by that of c
  T* dot_kept;  // values are kept_stride apart; null if nothing is kept

  TF_RNN_OPS_VECTOR_INLINE Tangent<T> Sum(std::int64_t block) const {
    Vector<T> sum{};
    if (projected != nullptr) {
      sum = units.Read(projected + block * kTileCols<T>);
    }
    if (block >= kFirstBlock) sum += Product(block);
    return {sum};
  }
  TF_RNN_OPS_VECTOR_INLINE Dual<T> Recurrent(std::int64_t block,
                                             std::int64_t index) const {
    return {Kept(index), Product(block)};
  }

  TF_RNN_OPS_VECTOR_INLINE Dual<T> CellState() const {
    return {states.Read(c_prev), units.Read(dot_c)};
  }
  TF_RNN_OPS_VECTOR_INLINE Dual<T> PreviousHidden() const {
    return {states.Read(h_prev), units.Read(dot_h_prev)};
  }

  TF_RNN_OPS_VECTOR_INLINE ActivatedDual<T> Gate(std::int64_t index,
                                                 const Tangent<T>& z) const {
    return FromKept<T>(activations.gate, Kept(index), z);
  }
  TF_RNN_OPS_VECTOR_INLINE ActivatedDual<T> State(std::int64_t index,
                                                  const Tangent<T>& z) const {
    return FromKept<T>(activations.state, Kept(index), z);
  }
  TF_RNN_OPS_VECTOR_INLINE Dual<T> Recall(std::int64_t index,
                                          const Dual<T>& x) const {
    return {Kept(index), x.tangent};
  }

  TF_RNN_OPS_VECTOR_INLINE void StoreCellState(const Dual<T>& x) const {
    units.Write(x.tangent, dot_c);
  }
  TF_RNN_OPS_VECTOR_INLINE void Keep(std::int64_t index,
                                     const Dual<T>& x) const {
    if (dot_kept == nullptr) return;
    units.Write(x.tangent, dot_kept + index * kept_stride);
  }
  TF_RNN_OPS_VECTOR_INLINE void Carry(std::int64_t index,
                                      const Dual<T>& x) const {
    Keep(index, x);
  }
  TF_RNN_OPS_VECTOR_INLINE Dual<T> Carried(std::int64_t index) const {
    return {Kept(index), units.Read(dot_kept + index * kept_stride)};
  }

 private:
  TF_RNN_OPS_VECTOR_INLINE Vector<T> Kept(std::int64_t index) const {
    return states.Read(kept + index * kept_stride);
  }
  TF_RNN_OPS_VECTOR_INLINE Vector<T> Product(std::int64_t block) const {
    return units.Read(product + (block - kFirstBlock) * kTileCols<T>);
  }
};

// The run of the backward pass. d_q: gradient with respect to q.
// P: the operand type of products.
template <typename P, typename Units, typename Activations>
struct BackwardRun : PeepholeRun<ComputeType<P>, Units> {
  using T = ComputeType<P>;
  using PeepholeRun<T, Units>::units;

  Activations activations;
  StatesReader<T, Units> states;
  const T* kept;  // by the forward pass
  std::int64_t kept_stride;
  const T* h_prev;
  const T* c_prev;
  Vector<T> d_h;  // with respect to the result of the step, or its first half
  T* d_c;         // with respect to c, replaced by that with respect to c_prev
  P* d_blocks;    // with respect to the blocks of the cell
  std::int64_t d_blocks_stride;
  // What the second half of a step multiplies, if the gradient of its weights
  // is needed.
  T* cell_output;
  // With respect to the outputs of TensorFlow's LSTM ops.
  LstmActivations<const T> d_activations;

  TF_RNN_OPS_VECTOR_INLINE Vector<T> Kept(std::int64_t index) const {
    return states.Read(kept + index * kept_stride);
  }
  TF_RNN_OPS_VECTOR_INLINE Vector<T> PreviousHidden() const {
    return states.Read(h_prev);
  }
  TF_RNN_OPS_VECTOR_INLINE Vector<T> PreviousCellState() const {
    return states.Read(c_prev);
  }
  TF_RNN_OPS_VECTOR_INLINE Vector<T> HiddenGradient() const { return d_h; }
  TF_RNN_OPS_VECTOR_INLINE Vector<T> CellStateGradient() const {
    return units.Read(d_c);
  }
  // Adds the gradient with respect to an output. index: of the output among the
  // kept values.
  TF_RNN_OPS_VECTOR_INLINE Vector<T> AddOutputGradient(std::int64_t index,
                                                       Vector<T> sum) const {
    const T* const gradient = d_activations.arrays[index];
    return gradient == nullptr ? sum : sum + units.Read(gradient);
  }

  TF_RNN_OPS_VECTOR_INLINE void StoreBlock(std::int64_t block,
                                           Vector<T> x) const {
    units.Write(x, d_blocks + block * d_blocks_stride);
  }
  TF_RNN_OPS_VECTOR_INLINE void StoreCellStateGradient(Vector<T> x) const {
    units.Write(x, d_c);
  }
  TF_RNN_OPS_VECTOR_INLINE bool has_cell_output() const {
    return cell_output != nullptr;
  }
  TF_RNN_OPS_VECTOR_INLINE void StoreCellOutput(Vector<T> x) const {
    units.Write(x, cell_output);
  }
};

// The run of the backward pass and its tangent: one run for the values and one
// for their tangents.
template <typename P, typename Units, typename Activations>
struct DualRun {
  using T = ComputeType<P>;

  Activations activations;
  BackwardRun<P, Units, Activations> value;
  BackwardRun<P, Units, Activations> tangent;

  TF_RNN_OPS_VECTOR_INLINE Dual<T> Kept(std::int64_t index) const {
    return {value.Kept(index), tangent.Kept(index)};
  }
  TF_RNN_OPS_VECTOR_INLINE Dual<T> PreviousHidden() const {
    return {value.PreviousHidden(), tangent.PreviousHidden()};
  }
  TF_RNN_OPS_VECTOR_INLINE Dual<T> PreviousCellState() const {
    return {value.PreviousCellState(), tangent.PreviousCellState()};
  }
  TF_RNN_OPS_VECTOR_INLINE Dual<T> HiddenGradient() const {
    return {value.HiddenGradient(), tangent.HiddenGradient()};
  }
  TF_RNN_OPS_VECTOR_INLINE Dual<T> CellStateGradient() const {
    return {value.CellStateGradient(), tangent.CellStateGradient()};
  }

  TF_RNN_OPS_VECTOR_INLINE void StoreBlock(std::int64_t block,
                                           const Dual<T>& x) const {
    value.StoreBlock(block, x.value);
    tangent.StoreBlock(block, x.tangent);
  }
  TF_RNN_OPS_VECTOR_INLINE void StoreCellStateGradient(const Dual<T>& x) const {
    value.StoreCellStateGradient(x.value);
    tangent.StoreCellStateGradient(x.tangent);
  }
  TF_RNN_OPS_VECTOR_INLINE bool has_cell_output() const {
    return value.has_cell_output();
  }
  TF_RNN_OPS_VECTOR_INLINE void StoreCellOutput(const Dual<T>& x) const {
    value.StoreCellOutput(x.value);
    tangent.StoreCellOutput(x.tangent);
  }
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_CELLS_CELL_RUN_H_
