#include "cc/rnn/simd/gru_block_cell.h"

#include <cstdint>

#include "cc/rnn/simd/convert.h"
#include "cc/rnn/simd/lanes.h"
#include "cc/rnn/simd/matrix_product.h"
#include "cc/rnn/simd/matrix_view.h"
#include "cc/rnn/simd/tile_grid.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {
namespace {

// A weight matrix [I + C, gates * C] as the two that it stacks.
template <typename T>
struct Weights {
  MatrixView<const T> input;      // [I, gates * C]
  MatrixView<const T> recurrent;  // [C, gates * C]

  Weights(const T* data, const GruBlockCellSize& size, std::int64_t gates)
      : input(data, size.input_size, gates * size.cell_size),
        recurrent(data + size.input_size * gates * size.cell_size,
                  size.cell_size, gates * size.cell_size) {}
};

// The multiply-adds that one step of element-wise mathematics is worth.
constexpr std::int64_t kElementwiseDepth = 16;

// A tile of [x state] * weights.
template <typename T>
void ProductTile(const MatrixView<const T>& x, const MatrixView<const T>& state,
                 const Weights<T>& weights, const Tile& tile,
                 const MatrixView<T>& out) {
  Multiply(x.Rows(tile.row, tile.rows), weights.input.Cols(tile.col, tile.cols),
           out);
  MultiplyAdd(state.Rows(tile.row, tile.rows),
              weights.recurrent.Cols(tile.col, tile.cols), out);
}

template <typename T>
class ForwardStep {
 public:
  explicit ForwardStep(const GruBlockCellForward<T>& a)
      : size_(a.size),
        x_(a.x, size_.batch, size_.input_size),
        h_prev_(a.h_prev, size_.batch, size_.cell_size),
        w_ru_(a.w_ru, size_, 2),
        w_c_(a.w_c, size_, 1),
        b_ru_(a.b_ru, 1, 2 * size_.cell_size),
        b_c_(a.b_c, 1, size_.cell_size),
        r_(a.r, size_.batch, size_.cell_size),
        u_(a.u, size_.batch, size_.cell_size),
        c_(a.c, size_.batch, size_.cell_size),
        h_(a.h, size_.batch, size_.cell_size),
        reset_state_(a.workspace, size_.batch, size_.cell_size) {}

  void Run(Executor& executor) const {
    const TileGrid tiles(size_.batch, size_.cell_size,
                         size_.input_size + size_.cell_size);
    executor.ParallelFor(2 * tiles.size(), [&](std::int64_t i) {
      if (i % 2 == 0) {
        ResetGate(tiles[i / 2]);
      } else {
        UpdateGate(tiles[i / 2]);
      }
    });
    executor.ParallelFor(tiles.size(),
                         [&](std::int64_t i) { Candidate(tiles[i]); });
  }

 private:
  // r = sigmoid(r_bar), and h_prev ∘ r
  void ResetGate(const Tile& tile) const {
    GateProduct(tile, 0, r_);
    tile.ForEachRun<T>([&](auto row, auto col, auto count) {
      const Lanes<T> r_bar =
          Load<T>(r_.At(row, col), count) + Load(b_ru_.At(0, col), count);
      const Lanes<T> r = r_bar.logistic();
      const Lanes<T> h_prev = Load(h_prev_.At(row, col), count);
      Store<T>(r, r_.At(row, col), count);
      Store<T>(h_prev * r, reset_state_.At(row, col), count);
    });
  }

  // u = sigmoid(u_bar)
  void UpdateGate(const Tile& tile) const {
    GateProduct(tile, size_.cell_size, u_);
    tile.ForEachRun<T>([&](auto row, auto col, auto count) {
      const Lanes<T> u_bar = Load<T>(u_.At(row, col), count) +
                             Load(b_ru_.At(0, size_.cell_size + col), count);
      Store<T>(u_bar.logistic(), u_.At(row, col), count);
    });
  }

  // The product of the gate whose columns of w_ru begin at `first_col`.
  void GateProduct(const Tile& tile, std::int64_t first_col,
                   const MatrixView<T>& out) const {
    Tile w_ru_tile = tile;
    w_ru_tile.col += first_col;
    ProductTile<T>(x_, h_prev_, w_ru_, w_ru_tile, tile.Of(out));
  }

  // c = tanh(c_bar), h = u ∘ h_prev + (1 - u) ∘ c
  void Candidate(const Tile& tile) const {
    ProductTile<T>(x_, Constant(reset_state_), w_c_, tile, tile.Of(c_));
    tile.ForEachRun<T>([&](auto row, auto col, auto count) {
      const Lanes<T> c_bar =
          Load<T>(c_.At(row, col), count) + Load(b_c_.At(0, col), count);
      const Lanes<T> c = c_bar.tanh();
      const Lanes<T> u = Load<T>(u_.At(row, col), count);
      const Lanes<T> h_prev = Load(h_prev_.At(row, col), count);
      Store<T>(c, c_.At(row, col), count);
      Store<T>(u * h_prev + (T(1) - u) * c, h_.At(row, col), count);
    });
  }

  const GruBlockCellSize size_;
  const MatrixView<const T> x_;       // [B, I]
  const MatrixView<const T> h_prev_;  // [B, C]
  const Weights<T> w_ru_;
  const Weights<T> w_c_;
  const MatrixView<const T> b_ru_;   // [1, 2C]
  const MatrixView<const T> b_c_;    // [1, C]
  const MatrixView<T> r_;            // [B, C]
  const MatrixView<T> u_;            // [B, C]
  const MatrixView<T> c_;            // [B, C]
  const MatrixView<T> h_;            // [B, C]
  const MatrixView<T> reset_state_;  // [B, C], h_prev ∘ r
};

template <typename T>
class BackwardStep {
 public:
  explicit BackwardStep(const GruBlockCellBackward<T>& a)
      : size_(a.size),
        h_prev_(State(a.h_prev)),
        w_ru_(a.w_ru, size_, 2),
        w_c_(a.w_c, size_, 1),
        r_(State(a.r)),
        u_(State(a.u)),
        c_(State(a.c)),
        d_r_(State(a.d_r)),
        d_u_(State(a.d_u)),
        d_c_(State(a.d_c)),
        d_h_(State(a.d_h)),
        d_x_(a.d_x, size_.batch, size_.input_size),
        d_h_prev_(a.d_h_prev, size_.batch, size_.cell_size),
        d_c_bar_(a.d_c_bar, size_.batch, size_.cell_size),
        d_ru_bar_(a.d_r_bar_u_bar, size_.batch, 2 * size_.cell_size),
        d_r_bar_(d_ru_bar_.Cols(0, size_.cell_size)),
        d_u_bar_(d_ru_bar_.Cols(size_.cell_size, size_.cell_size)) {}

  void Run(Executor& executor) const {
    const TileGrid elements(size_.batch, size_.cell_size, kElementwiseDepth);
    executor.ParallelFor(elements.size(), [&](std::int64_t i) {
      CandidateAndUpdateGate(elements[i]);
    });
    ForEachOperandTile(
        executor, size_.cell_size,
        [this](const Tile& tile) { InputFromCandidate(tile); },
        [this](const Tile& tile) { StateFromCandidate(tile); });
    ForEachOperandTile(
        executor, 2 * size_.cell_size,
        [this](const Tile& tile) { InputFromGates(tile); },
        [this](const Tile& tile) { StateFromGates(tile); });
  }

 private:
  MatrixView<const T> State(const T* data) const {
    return MatrixView<const T>(data, size_.batch, size_.cell_size);
  }

  // Covers [d_x d_h_prev], computed by products of the given depth.
  template <typename OnInput, typename OnState>
  void ForEachOperandTile(Executor& executor, std::int64_t depth,
                          const OnInput& on_input,
                          const OnState& on_state) const {
    const TileGrid input_tiles(size_.batch, size_.input_size, depth);
    const TileGrid state_tiles(size_.batch, size_.cell_size, depth);
    executor.ParallelFor(input_tiles.size() + state_tiles.size(),
                         [&](std::int64_t i) {
                           if (i < state_tiles.size()) {
                             on_state(state_tiles[i]);
                           } else {
                             on_input(input_tiles[i - state_tiles.size()]);
                           }
                         });
  }

  // d_c_bar = (d_c + d_h ∘ (1 - u)) ∘ (1 - c ∘ c)
  // d_u_bar = (d_u + d_h ∘ (h_prev - c)) ∘ u ∘ (1 - u)
  void CandidateAndUpdateGate(const Tile& tile) const {
    tile.ForEachRun<T>([&](auto row, auto col, auto count) {
      const Lanes<T> h_prev = Load(h_prev_.At(row, col), count);
      const Lanes<T> u = Load(u_.At(row, col), count);
      const Lanes<T> c = Load(c_.At(row, col), count);
      const Lanes<T> d_h = Load(d_h_.At(row, col), count);
      Lanes<T> d_c = d_h * (T(1) - u);
      Lanes<T> d_u = d_h * (h_prev - c);
      if (d_c_.data != nullptr) d_c += Load(d_c_.At(row, col), count);
      if (d_u_.data != nullptr) d_u += Load(d_u_.At(row, col), count);
      Store<T>(d_c * (T(1) - c * c), d_c_bar_.At(row, col), count);
      Store<T>(d_u * u * (T(1) - u), d_u_bar_.At(row, col), count);
    });
  }

  // d_x = d_x_2
  void InputFromCandidate(const Tile& tile) const {
    MultiplyTransposed<T>(Constant(d_c_bar_).Rows(tile.row, tile.rows),
                          w_c_.input.Rows(tile.col, tile.cols), tile.Of(d_x_));
  }

  // d_r_bar = (d_r + d_h_prevr ∘ h_prev) ∘ r ∘ (1 - r)
  // d_h_prev = d_h_prevr ∘ r + d_h ∘ u
  void StateFromCandidate(const Tile& tile) const {
    const MatrixView<T>& d_h_prevr_ = d_h_prev_;  // replaced run by run
    MultiplyTransposed<T>(Constant(d_c_bar_).Rows(tile.row, tile.rows),
                          w_c_.recurrent.Rows(tile.col, tile.cols),
                          tile.Of(d_h_prevr_));
    tile.ForEachRun<T>([&](auto row, auto col, auto count) {
      const Lanes<T> d_h_prevr = Load<T>(d_h_prevr_.At(row, col), count);
      const Lanes<T> h_prev = Load(h_prev_.At(row, col), count);
      const Lanes<T> r = Load(r_.At(row, col), count);
      const Lanes<T> u = Load(u_.At(row, col), count);
      const Lanes<T> d_h = Load(d_h_.At(row, col), count);
      Lanes<T> d_r = d_h_prevr * h_prev;
      if (d_r_.data != nullptr) d_r += Load(d_r_.At(row, col), count);
      Store<T>(d_r * r * (T(1) - r), d_r_bar_.At(row, col), count);
      Store<T>(d_h_prevr * r + d_h * u, d_h_prev_.At(row, col), count);
    });
  }

  // d_x += d_x_1
  void InputFromGates(const Tile& tile) const {
    MultiplyTransposedAdd<T>(Constant(d_ru_bar_).Rows(tile.row, tile.rows),
                             w_ru_.input.Rows(tile.col, tile.cols),
                             tile.Of(d_x_));
  }

  // d_h_prev += d_h_prev_1
  void StateFromGates(const Tile& tile) const {
    MultiplyTransposedAdd<T>(Constant(d_ru_bar_).Rows(tile.row, tile.rows),
                             w_ru_.recurrent.Rows(tile.col, tile.cols),
                             tile.Of(d_h_prev_));
  }

  const GruBlockCellSize size_;
  const MatrixView<const T> h_prev_;  // [B, C]
  const Weights<T> w_ru_;
  const Weights<T> w_c_;
  const MatrixView<const T> r_;    // [B, C]
  const MatrixView<const T> u_;    // [B, C]
  const MatrixView<const T> c_;    // [B, C]
  const MatrixView<const T> d_r_;  // [B, C] or null
  const MatrixView<const T> d_u_;  // [B, C] or null
  const MatrixView<const T> d_c_;  // [B, C] or null
  const MatrixView<const T> d_h_;  // [B, C]
  const MatrixView<T> d_x_;        // [B, I]
  const MatrixView<T> d_h_prev_;   // [B, C]
  const MatrixView<T> d_c_bar_;    // [B, C]
  const MatrixView<T> d_ru_bar_;   // [B, 2C]: [d_r_bar d_u_bar]
  const MatrixView<T> d_r_bar_;    // [B, C]
  const MatrixView<T> d_u_bar_;    // [B, C]
};

template <typename T>
void Forward(const GruBlockCellForward<T>& arguments, Executor& executor) {
  ForwardStep<T>(arguments).Run(executor);
}

template <typename T>
void Backward(const GruBlockCellBackward<T>& arguments, Executor& executor) {
  BackwardStep<T>(arguments).Run(executor);
}

// Float32 copies of a step's arrays, taken one after another from its
// workspace.
class FloatCopies {
 public:
  FloatCopies(float* workspace, Executor& executor)
      : next_(workspace), executor_(executor) {}

  float* Take(std::int64_t size) {
    float* taken = next_;
    next_ += size;
    return taken;
  }

  template <typename T>
  const float* Widened(const T* from, std::int64_t size) {
    if (from == nullptr) return nullptr;
    float* to = Take(size);
    ParallelConvert(from, to, size, executor_);
    return to;
  }

 private:
  float* next_;
  Executor& executor_;
};

template <typename T>
void ForwardThroughFloat(const GruBlockCellForward<T>& a, Executor& executor) {
  const auto [batch, input_size, cell_size] = a.size;
  const std::int64_t state = batch * cell_size;
  const std::int64_t fan_in = input_size + cell_size;
  FloatCopies copies(a.workspace, executor);
  GruBlockCellForward<float> f;
  f.size = a.size;
  f.x = copies.Widened(a.x, batch * input_size);
  f.h_prev = copies.Widened(a.h_prev, state);
  f.w_ru = copies.Widened(a.w_ru, fan_in * 2 * cell_size);
  f.w_c = copies.Widened(a.w_c, fan_in * cell_size);
  f.b_ru = copies.Widened(a.b_ru, 2 * cell_size);
  f.b_c = copies.Widened(a.b_c, cell_size);
  f.r = copies.Take(state);
  f.u = copies.Take(state);
  f.c = copies.Take(state);
  f.h = copies.Take(state);
  f.workspace = copies.Take(state);
  Forward(f, executor);
  ParallelConvert(f.r, a.r, state, executor);
  ParallelConvert(f.u, a.u, state, executor);
  ParallelConvert(f.c, a.c, state, executor);
  ParallelConvert(f.h, a.h, state, executor);
}

template <typename T>
void BackwardThroughFloat(const GruBlockCellBackward<T>& a,
                          Executor& executor) {
  const auto [batch, input_size, cell_size] = a.size;
  const std::int64_t state = batch * cell_size;
  const std::int64_t fan_in = input_size + cell_size;
  FloatCopies copies(a.workspace, executor);
  GruBlockCellBackward<float> f;
  f.size = a.size;
  f.h_prev = copies.Widened(a.h_prev, state);
  f.w_ru = copies.Widened(a.w_ru, fan_in * 2 * cell_size);
  f.w_c = copies.Widened(a.w_c, fan_in * cell_size);
  f.r = copies.Widened(a.r, state);
  f.u = copies.Widened(a.u, state);
  f.c = copies.Widened(a.c, state);
  f.d_r = copies.Widened(a.d_r, state);
  f.d_u = copies.Widened(a.d_u, state);
  f.d_c = copies.Widened(a.d_c, state);
  f.d_h = copies.Widened(a.d_h, state);
  f.d_x = copies.Take(batch * input_size);
  f.d_h_prev = copies.Take(state);
  f.d_c_bar = copies.Take(state);
  f.d_r_bar_u_bar = copies.Take(2 * state);
  f.workspace = nullptr;
  Backward(f, executor);
  ParallelConvert(f.d_x, a.d_x, batch * input_size, executor);
  ParallelConvert(f.d_h_prev, a.d_h_prev, state, executor);
  ParallelConvert(f.d_c_bar, a.d_c_bar, state, executor);
  ParallelConvert(f.d_r_bar_u_bar, a.d_r_bar_u_bar, 2 * state, executor);
}

}  // namespace

template <>
GruBlockCellKernels<float> GruBlockCell<float>() {
  return {&Forward<float>, &Backward<float>};
}
template <>
GruBlockCellKernels<double> GruBlockCell<double>() {
  return {&Forward<double>, &Backward<double>};
}
template <>
GruBlockCellKernels<Half> GruBlockCell<Half>() {
  return {&ForwardThroughFloat<Half>, &BackwardThroughFloat<Half>};
}
template <>
GruBlockCellKernels<BFloat16> GruBlockCell<BFloat16>() {
  return {&ForwardThroughFloat<BFloat16>, &BackwardThroughFloat<BFloat16>};
}

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET
