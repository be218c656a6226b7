// Shared by the tests of gru_block_cell.h: the engine that runs the cells of
// gru_block_cell_reference.h.

#ifndef TF_RNN_OPS_CC_RNN_GRU_BLOCK_CELL_TEST_SUPPORT_H_
#define TF_RNN_OPS_CC_RNN_GRU_BLOCK_CELL_TEST_SUPPORT_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cc/rnn/gru_block_cell.h"
#include "cc/rnn/gru_block_cell_reference.h"
#include "cc/rnn/test_support.h"

namespace tf_rnn_ops::rnn {

// An array that starts `offset` elements into an allocation, with the given
// values or, for output, with garbage.
template <typename T>
class Shifted {
 public:
  Shifted(const std::vector<T>& values, std::size_t offset)
      : storage_(offset + values.size()), offset_(offset) {
    std::copy(values.begin(), values.end(), data());
  }
  Shifted(std::size_t size, std::size_t offset)
      : storage_(offset + size, FromDouble<T>(77)), offset_(offset) {}

  T* data() { return storage_.data() + offset_; }
  Array ToDoubles() {
    Array result;
    for (auto i = storage_.begin() + offset_; i != storage_.end(); ++i) {
      result.push_back(ToDouble(*i));
    }
    return result;
  }

 private:
  std::vector<T> storage_;
  std::size_t offset_;
};

template <typename T>
struct Engine {
  Engine(InstructionSet instruction_set, Case& k)
      : kernels(GetGruBlockCellKernels<T>(instruction_set)),
        size(k.size),
        x(Rounded<T>(k.x)),
        h_prev(Rounded<T>(k.h_prev)),
        w_ru(Rounded<T>(k.w_ru)),
        w_c(Rounded<T>(k.w_c)),
        b_ru(Rounded<T>(k.b_ru)),
        b_c(Rounded<T>(k.b_c)),
        d_r(Rounded<T>(k.d_r)),
        d_u(Rounded<T>(k.d_u)),
        d_c(Rounded<T>(k.d_c)),
        d_h(Rounded<T>(k.d_h)) {}

  // Every array starts `offset` elements into its allocation.
  ForwardResult Forward(Executor& executor, std::size_t offset = 0) {
    const std::size_t state = size.batch * size.cell_size;
    const auto in = [offset](const std::vector<T>& values) {
      return Shifted<T>(values, offset);
    };
    Shifted<T> x_in = in(x), h_prev_in = in(h_prev), w_ru_in = in(w_ru),
               w_c_in = in(w_c), b_ru_in = in(b_ru), b_c_in = in(b_c);
    Shifted<T> r(state, offset), u(state, offset), c(state, offset),
        h(state, offset);
    GruBlockCellForward<T> a{};
    a.size = size;
    a.x = x_in.data();
    a.h_prev = h_prev_in.data();
    a.w_ru = w_ru_in.data();
    a.w_c = w_c_in.data();
    a.b_ru = b_ru_in.data();
    a.b_c = b_c_in.data();
    a.r = r.data();
    a.u = u.data();
    a.c = c.data();
    a.h = h.data();
    std::vector<ComputeType<T>> workspace =
        Workspace(kernels.forward_workspace(a, executor.num_threads()), offset);
    a.workspace = workspace.data() + offset;
    kernels.forward(a, executor);
    return {r.ToDoubles(), u.ToDoubles(), c.ToDoubles(), h.ToDoubles()};
  }

  // Uses the forward result, which is rounded to T in place.
  BackwardResult Backward(ForwardResult& f, bool with_gate_gradients,
                          Executor& executor, std::size_t offset = 0) {
    const std::size_t state = size.batch * size.cell_size;
    const auto in = [offset](const std::vector<T>& values) {
      return Shifted<T>(values, offset);
    };
    Shifted<T> h_prev_in = in(h_prev), w_ru_in = in(w_ru), w_c_in = in(w_c),
               r = in(Rounded<T>(f.r)), u = in(Rounded<T>(f.u)),
               c = in(Rounded<T>(f.c)), d_r_in = in(d_r), d_u_in = in(d_u),
               d_c_in = in(d_c), d_h_in = in(d_h);
    Shifted<T> d_x(size.batch * size.input_size, offset),
        d_h_prev(state, offset), d_c_bar(state, offset),
        d_r_bar_u_bar(2 * state, offset);
    GruBlockCellBackward<T> a{};
    a.size = size;
    a.h_prev = h_prev_in.data();
    a.w_ru = w_ru_in.data();
    a.w_c = w_c_in.data();
    a.r = r.data();
    a.u = u.data();
    a.c = c.data();
    a.d_r = with_gate_gradients ? d_r_in.data() : nullptr;
    a.d_u = with_gate_gradients ? d_u_in.data() : nullptr;
    a.d_c = with_gate_gradients ? d_c_in.data() : nullptr;
    a.d_h = d_h_in.data();
    a.d_x = d_x.data();
    a.d_h_prev = d_h_prev.data();
    a.d_c_bar = d_c_bar.data();
    a.d_r_bar_u_bar = d_r_bar_u_bar.data();
    std::vector<ComputeType<T>> workspace = Workspace(
        kernels.backward_workspace(a, executor.num_threads()), offset);
    a.workspace = workspace.data() + offset;
    kernels.backward(a, executor);
    return {d_x.ToDoubles(), d_h_prev.ToDoubles(), d_c_bar.ToDoubles(),
            d_r_bar_u_bar.ToDoubles()};
  }

  // `bytes` bytes of garbage, `offset` elements into an allocation.
  static std::vector<ComputeType<T>> Workspace(std::int64_t bytes,
                                               std::size_t offset) {
    return std::vector<ComputeType<T>>(offset + bytes / sizeof(ComputeType<T>),
                                       ComputeType<T>(1e30));
  }

  GruBlockCellKernels<T> kernels;
  BlockCellSize size;
  std::vector<T> x, h_prev, w_ru, w_c, b_ru, b_c, d_r, d_u, d_c, d_h;
};

// Calls check(case, engine) for sizes near those of vectors, tiles, panels,
// chunks and tasks, and for few rows, under every instruction set.
template <typename T>
void ForEachSize(const std::function<void(Case&, Engine<T>&)>& check) {
  for (const BlockCellSize& size : kGruBlockCellSizes) {
    for (InstructionSet instruction_set :
         AllOrOneUnderSanitizers(SupportedInstructionSets())) {
      SCOPED_TRACE(std::string(InstructionSetName(instruction_set)) +
                   " batch " + std::to_string(size.batch) + " input_size " +
                   std::to_string(size.input_size) + " cell_size " +
                   std::to_string(size.cell_size));
      Case k = RandomCase(size, 1);
      Engine<T> engine(instruction_set, k);
      check(k, engine);
    }
  }
}

}  // namespace tf_rnn_ops::rnn

#endif  // TF_RNN_OPS_CC_RNN_GRU_BLOCK_CELL_TEST_SUPPORT_H_
