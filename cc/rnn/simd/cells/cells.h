// The point-wise mathematics of one step of each cell.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_CELLS_CELLS_H_
#define TF_RNN_OPS_CC_RNN_SIMD_CELLS_CELLS_H_

#include <cstdint>

#include "cc/rnn/float16.h"
#include "cc/rnn/simd/matmul/tile_product.h"
#include "cc/rnn/simd/vector/activations.h"
#include "cc/rnn/simd/vector/vector.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// The units in a forward step. Blocks are numbered as the cell says below.
template <typename T, typename Units>
struct ForwardRun {
  Units units;
  // In blocks of kTileCols.
  const T* projected;        // W x and biases, or, if fused, biases alone
  const T* product;          // R h_prev, and, if fused, W x
  const T* recurrent_bias;   // GRU: bR_n
  const T* h_prev;           // GRU
  T* c;                      // LSTM: c_prev, replaced by c
  T* kept;                   // for the backward pass, or null
  std::int64_t kept_stride;  // from one value to the next
  bool keeps_uncached;

  TF_RNN_OPS_VECTOR_INLINE Vector<T> Projected(std::int64_t block) const {
    return units.Read(projected + block * kTileCols<T>);
  }
  TF_RNN_OPS_VECTOR_INLINE Vector<T> Product(std::int64_t block) const {
    return units.Read(product + block * kTileCols<T>);
  }
  TF_RNN_OPS_VECTOR_INLINE void Keep(std::int64_t index, Vector<T> x) const {
    if (kept == nullptr) return;
    T* const to = kept + index * kept_stride;
    if (keeps_uncached) {
      units.WriteUncached(x, to);
    } else {
      units.Write(x, to);
    }
  }
};

// The same units in a backward step. P: the type of products' operands.
template <typename P, typename Units>
struct BackwardRun {
  using T = ComputeType<P>;

  Units units;
  const T* kept;  // by the forward pass
  std::int64_t kept_stride;
  const T* h_prev;  // GRU
  const T* c_prev;  // LSTM
  const T* h;       // rnn_relu, rnn_tanh
  Vector<T> d_h;    // gradient of what the forward step returned
  T* d_c;           // LSTM: that of c, replaced by c_prev's
  P* d_blocks;      // those of the cell's blocks
  std::int64_t d_blocks_stride;
  T* cell_output;  // LSTM: o ∘ tanh(c), where a projection needs it; or null

  TF_RNN_OPS_VECTOR_INLINE Vector<T> Kept(std::int64_t index) const {
    return units.Read(kept + index * kept_stride);
  }
  TF_RNN_OPS_VECTOR_INLINE void StoreBlock(std::int64_t block,
                                           Vector<T> x) const {
    units.Write(x, d_blocks + block * d_blocks_stride);
  }
};

// The units in a step of the tangent sweep. dot_q is what q changes by.
template <typename P, typename Units>
struct TangentRun {
  using T = ComputeType<P>;

  Units units;
  const T* kept;  // by the forward pass
  std::int64_t kept_stride;
  const T* h_prev;  // GRU
  const T* c_prev;  // LSTM
  const T* h;       // rnn_relu, rnn_tanh
  // In blocks of kTileCols.
  const T* projected;   // of W x + bW, in blocks 0 to kGates, or null for zeros
  const T* product;     // of R h_prev + bR, in blocks from kFirstRecurrent on
  const T* dot_h_prev;  // GRU
  T* dot_c;             // LSTM: c_prev's, replaced by c's
  T* dot_kept;          // each kept_stride after the other
  P* cell_output;  // LSTM: o ∘ tanh(c), where a projection needs it; or null

  TF_RNN_OPS_VECTOR_INLINE Vector<T> Kept(std::int64_t index) const {
    return units.Read(kept + index * kept_stride);
  }
  TF_RNN_OPS_VECTOR_INLINE Vector<T> Projected(std::int64_t block) const {
    return projected == nullptr ? Vector<T>{}
                                : units.Read(projected + block * kTileCols<T>);
  }
  TF_RNN_OPS_VECTOR_INLINE Vector<T> Product(std::int64_t block) const {
    return units.Read(product + block * kTileCols<T>);
  }
  TF_RNN_OPS_VECTOR_INLINE void Keep(std::int64_t index, Vector<T> dot) const {
    units.Write(dot, dot_kept + index * kept_stride);
  }
};

// The units in a backward step, together with what each value changes by.
template <typename P, typename Units>
struct BackwardGradRun {
  using T = ComputeType<P>;

  BackwardRun<P, Units> first;
  const T* dot_kept;
  const T* dot_h_prev;  // GRU
  const T* dot_c_prev;  // LSTM
  const T* dot_h;       // rnn_relu, rnn_tanh
  Vector<T> dot_d_h;
  T* dot_d_c;  // LSTM
  P* dot_d_blocks;
  T* dot_cell_output;  // LSTM, where there is first.cell_output

  TF_RNN_OPS_VECTOR_INLINE Vector<T> DotKept(std::int64_t index) const {
    return first.units.Read(dot_kept + index * first.kept_stride);
  }
  TF_RNN_OPS_VECTOR_INLINE void StoreBlock(std::int64_t block, Vector<T> d,
                                           Vector<T> dot_d) const {
    first.StoreBlock(block, d);
    first.units.Write(dot_d, dot_d_blocks + block * first.d_blocks_stride);
  }
};

// A gradient and what it changes by.
template <typename T>
struct GradientAndDot {
  Vector<T> d;
  Vector<T> dot_d;
};

// The gradient through s = sigmoid(z), or t = tanh(z), of which d is that with
// respect to the result, with what it changes by.
template <typename T>
TF_RNN_OPS_VECTOR_INLINE GradientAndDot<T> SigmoidGradient(
    const GradientAndDot<T>& d, Vector<T> s, Vector<T> dot_s) {
  const Vector<T> slope = s * (T(1) - s);
  return {d.d * slope,
          SumOfProducts<T>(d.dot_d, slope, d.d * (T(1) - (s + s)), dot_s)};
}
template <typename T>
TF_RNN_OPS_VECTOR_INLINE GradientAndDot<T> TanhGradient(
    const GradientAndDot<T>& d, Vector<T> t, Vector<T> dot_t) {
  const Vector<T> slope = TanhSlope<T>(t);
  return {d.d * slope,
          SumOfProducts<T>(d.dot_d, slope, d.d * (t * T(-2)), dot_t)};
}

// d ∘ x, and what it changes by.
template <typename T>
TF_RNN_OPS_VECTOR_INLINE GradientAndDot<T> Times(const GradientAndDot<T>& d,
                                                 Vector<T> x, Vector<T> dot_x) {
  return {d.d * x, SumOfProducts<T>(d.dot_d, x, d.d, dot_x)};
}

// A cell has
//   kGates: the gates that W x and R h_prev are made for;
//   kBlocks: the blocks of kGates gates' units that it adds up before they are
//     activated. The first kGates get W x + bW, where block i is of gate
//     (i + kFirstInputGate) % kGates; those from kFirstRecurrent on, kGates of
//     them, get R h_prev + bR in the order of the gates;
//   Forward: returns h, or for an LSTM what a projection makes h of. kFused:
//     whether W x is in the product, which then begins with block 0, or in what
//     is projected, and the product begins with block kFirstRecurrent;
//   Backward: returns what h_prev gets other than through R h_prev;
//   Tangent: returns what the result of Forward changes by;
//   BackwardGrad: as Backward, with what it changes by.

// h = act(W x + bW + R h_prev + bR). Derived: Activate(x), and the gradient
// through it given its result, alone and with what it changes by.
template <typename T, typename Derived>
struct PlainCell {
  static constexpr std::int64_t kGates = 1;
  static constexpr std::int64_t kBlocks = 1;
  static constexpr std::int64_t kFirstRecurrent = 0;
  static constexpr std::int64_t kFirstInputGate = 0;

  template <bool kFused, typename Run>
  static TF_RNN_OPS_VECTOR_INLINE Vector<T> Forward(const Run& run) {
    return Derived::Activate(run.Projected(0) + run.Product(0));
  }

  template <typename Run>
  static TF_RNN_OPS_VECTOR_INLINE Vector<T> Backward(const Run& run) {
    run.StoreBlock(0, Derived::Gradient(run.units.Read(run.h), run.d_h));
    return Vector<T>{};
  }

  template <typename Run>
  static TF_RNN_OPS_VECTOR_INLINE Vector<T> Tangent(const Run& run) {
    return Derived::Gradient(run.units.Read(run.h),
                             run.Projected(0) + run.Product(0));
  }

  template <typename Run>
  static TF_RNN_OPS_VECTOR_INLINE GradientAndDot<T> BackwardGrad(
      const Run& run) {
    const GradientAndDot<T> d_z = Derived::Gradient(
        run.first.units.Read(run.first.h), run.first.units.Read(run.dot_h),
        GradientAndDot<T>{run.first.d_h, run.dot_d_h});
    run.StoreBlock(0, d_z.d, d_z.dot_d);
    return {Vector<T>{}, Vector<T>{}};
  }
};

template <typename T>
struct TanhCell : PlainCell<T, TanhCell<T>> {
  static TF_RNN_OPS_VECTOR_INLINE Vector<T> Activate(Vector<T> x) {
    return Tanh<T>(x);
  }
  static TF_RNN_OPS_VECTOR_INLINE Vector<T> Gradient(Vector<T> h,
                                                     Vector<T> d_h) {
    return d_h * TanhSlope<T>(h);
  }
  static TF_RNN_OPS_VECTOR_INLINE GradientAndDot<T> Gradient(
      Vector<T> h, Vector<T> dot_h, const GradientAndDot<T>& d_h) {
    return TanhGradient<T>(d_h, h, dot_h);
  }
};

template <typename T>
struct ReluCell : PlainCell<T, ReluCell<T>> {
  // Not a maximum: that would hide what is not a number.
  static TF_RNN_OPS_VECTOR_INLINE Vector<T> Activate(Vector<T> x) {
    return Select<T>(x < T(0), Vector<T>{}, x);
  }
  static TF_RNN_OPS_VECTOR_INLINE Vector<T> Gradient(Vector<T> h,
                                                     Vector<T> d_h) {
    return Select<T>(h > T(0), d_h, Vector<T>{});
  }
  static TF_RNN_OPS_VECTOR_INLINE GradientAndDot<T> Gradient(
      Vector<T> h, Vector<T>, const GradientAndDot<T>& d_h) {
    return {Gradient(h, d_h.d), Gradient(h, d_h.dot_d)};
  }
};

// c = f ∘ c_prev + i ∘ g, and o ∘ tanh(c). Keeps i, f, g, o and c.
template <typename T>
struct LstmCell {
  static constexpr std::int64_t kGates = 4;
  static constexpr std::int64_t kBlocks = 4;
  static constexpr std::int64_t kFirstRecurrent = 0;
  static constexpr std::int64_t kFirstInputGate = 0;

  template <bool kFused, typename Run>
  static TF_RNN_OPS_VECTOR_INLINE Vector<T> Forward(const Run& run) {
    const Vector<T> i = Sigmoid<T>(run.Projected(0) + run.Product(0));
    const Vector<T> f = Sigmoid<T>(run.Projected(1) + run.Product(1));
    const Vector<T> g = Tanh<T>(run.Projected(2) + run.Product(2));
    const Vector<T> o = Sigmoid<T>(run.Projected(3) + run.Product(3));
    const Vector<T> c = SumOfProducts<T>(f, run.units.Read(run.c), i, g);
    run.units.Write(c, run.c);
    run.Keep(0, i);
    run.Keep(1, f);
    run.Keep(2, g);
    run.Keep(3, o);
    run.Keep(4, c);
    return o * Tanh<T>(c);
  }

  template <typename Run>
  static TF_RNN_OPS_VECTOR_INLINE Vector<T> Backward(const Run& run) {
    const Vector<T> i = run.Kept(0);
    const Vector<T> f = run.Kept(1);
    const Vector<T> g = run.Kept(2);
    const Vector<T> o = run.Kept(3);
    const Vector<T> squashed = Tanh<T>(run.Kept(4));
    const Vector<T> d_c = MultiplyAdd<T>(run.d_h * o, TanhSlope<T>(squashed),
                                         run.units.Read(run.d_c));
    run.StoreBlock(0, d_c * g * i * (T(1) - i));
    run.StoreBlock(1, d_c * run.units.Read(run.c_prev) * f * (T(1) - f));
    run.StoreBlock(2, d_c * i * TanhSlope<T>(g));
    run.StoreBlock(3, run.d_h * squashed * o * (T(1) - o));
    run.units.Write(d_c * f, run.d_c);
    if (run.cell_output != nullptr) {
      run.units.Write(o * squashed, run.cell_output);
    }
    return Vector<T>{};
  }

  template <typename Run>
  static TF_RNN_OPS_VECTOR_INLINE Vector<T> Tangent(const Run& run) {
    const Vector<T> i = run.Kept(0);
    const Vector<T> f = run.Kept(1);
    const Vector<T> g = run.Kept(2);
    const Vector<T> o = run.Kept(3);
    const Vector<T> dot_i =
        i * (T(1) - i) * (run.Projected(0) + run.Product(0));
    const Vector<T> dot_f =
        f * (T(1) - f) * (run.Projected(1) + run.Product(1));
    const Vector<T> dot_g =
        TanhSlope<T>(g) * (run.Projected(2) + run.Product(2));
    const Vector<T> dot_o =
        o * (T(1) - o) * (run.Projected(3) + run.Product(3));
    const Vector<T> dot_c = SumOfProducts<T>(dot_f, run.units.Read(run.c_prev),
                                             f, run.units.Read(run.dot_c)) +
                            SumOfProducts<T>(dot_i, g, i, dot_g);
    const Vector<T> squashed = Tanh<T>(run.Kept(4));
    run.units.Write(dot_c, run.dot_c);
    run.Keep(0, dot_i);
    run.Keep(1, dot_f);
    run.Keep(2, dot_g);
    run.Keep(3, dot_o);
    run.Keep(4, dot_c);
    if (run.cell_output != nullptr) {
      run.units.Write(o * squashed, run.cell_output);
    }
    return SumOfProducts<T>(dot_o, squashed, o * TanhSlope<T>(squashed), dot_c);
  }

  template <typename Run>
  static TF_RNN_OPS_VECTOR_INLINE GradientAndDot<T> BackwardGrad(
      const Run& run) {
    const auto& first = run.first;
    const GradientAndDot<T> d_h{first.d_h, run.dot_d_h};
    const Vector<T> o = first.Kept(3), dot_o = run.DotKept(3);
    const Vector<T> squashed = Tanh<T>(first.Kept(4));
    const Vector<T> dot_squashed = TanhSlope<T>(squashed) * run.DotKept(4);
    const GradientAndDot<T> d_o =
        SigmoidGradient<T>(Times<T>(d_h, squashed, dot_squashed), o, dot_o);
    run.StoreBlock(3, d_o.d, d_o.dot_d);
    if (first.cell_output != nullptr) {
      first.units.Write(o * squashed, first.cell_output);
      first.units.Write(SumOfProducts<T>(dot_o, squashed, o, dot_squashed),
                        run.dot_cell_output);
    }
    GradientAndDot<T> d_c =
        TanhGradient<T>(Times<T>(d_h, o, dot_o), squashed, dot_squashed);
    d_c.d += first.units.Read(first.d_c);
    d_c.dot_d += first.units.Read(run.dot_d_c);

    const Vector<T> i = first.Kept(0), dot_i = run.DotKept(0);
    const Vector<T> g = first.Kept(2), dot_g = run.DotKept(2);
    const GradientAndDot<T> d_i =
        SigmoidGradient<T>(Times<T>(d_c, g, dot_g), i, dot_i);
    run.StoreBlock(0, d_i.d, d_i.dot_d);
    const GradientAndDot<T> d_g =
        TanhGradient<T>(Times<T>(d_c, i, dot_i), g, dot_g);
    run.StoreBlock(2, d_g.d, d_g.dot_d);

    const Vector<T> f = first.Kept(1), dot_f = run.DotKept(1);
    const GradientAndDot<T> d_f =
        SigmoidGradient<T>(Times<T>(d_c, first.units.Read(first.c_prev),
                                    first.units.Read(run.dot_c_prev)),
                           f, dot_f);
    run.StoreBlock(1, d_f.d, d_f.dot_d);
    const GradientAndDot<T> d_c_prev = Times<T>(d_c, f, dot_f);
    first.units.Write(d_c_prev.d, first.d_c);
    first.units.Write(d_c_prev.dot_d, run.dot_d_c);
    return {Vector<T>{}, Vector<T>{}};
  }
};

// q = R_n h_prev + bR_n, n = tanh(W_n x + bW_n + r ∘ q), and
// h = (1 - u) ∘ n + u ∘ h_prev. The blocks are n's input, r, u and q. Keeps r,
// u, n and q.
template <typename T>
struct GruCell {
  static constexpr std::int64_t kGates = 3;
  static constexpr std::int64_t kBlocks = 4;
  static constexpr std::int64_t kFirstRecurrent = 1;
  static constexpr std::int64_t kFirstInputGate = 2;

  template <bool kFused, typename Run>
  static TF_RNN_OPS_VECTOR_INLINE Vector<T> Forward(const Run& run) {
    constexpr std::int64_t kFirst = kFused ? 0 : kFirstRecurrent;
    const Vector<T> r = Sigmoid<T>(run.Projected(1) + run.Product(1 - kFirst));
    const Vector<T> u = Sigmoid<T>(run.Projected(2) + run.Product(2 - kFirst));
    const Vector<T> q =
        run.Product(3 - kFirst) + run.units.Read(run.recurrent_bias);
    Vector<T> input = run.Projected(0);
    if constexpr (kFused) input += run.Product(0);
    const Vector<T> n = Tanh<T>(MultiplyAdd<T>(r, q, input));
    run.Keep(0, r);
    run.Keep(1, u);
    run.Keep(2, n);
    run.Keep(3, q);
    return SumOfProducts<T>(T(1) - u, n, u, run.units.Read(run.h_prev));
  }

  template <typename Run>
  static TF_RNN_OPS_VECTOR_INLINE Vector<T> Backward(const Run& run) {
    const Vector<T> r = run.Kept(0);
    const Vector<T> u = run.Kept(1);
    const Vector<T> n = run.Kept(2);
    const Vector<T> q = run.Kept(3);
    const Vector<T> d_n = run.d_h * (T(1) - u) * TanhSlope<T>(n);
    const Vector<T> d_u = run.d_h * (run.units.Read(run.h_prev) - n);
    run.StoreBlock(0, d_n);
    run.StoreBlock(1, d_n * q * r * (T(1) - r));
    run.StoreBlock(2, d_u * u * (T(1) - u));
    run.StoreBlock(3, d_n * r);
    return run.d_h * u;
  }

  template <typename Run>
  static TF_RNN_OPS_VECTOR_INLINE Vector<T> Tangent(const Run& run) {
    const Vector<T> r = run.Kept(0);
    const Vector<T> u = run.Kept(1);
    const Vector<T> n = run.Kept(2);
    const Vector<T> dot_q = run.Product(2);
    const Vector<T> dot_r =
        r * (T(1) - r) * (run.Projected(1) + run.Product(0));
    const Vector<T> dot_u =
        u * (T(1) - u) * (run.Projected(2) + run.Product(1));
    const Vector<T> dot_n =
        TanhSlope<T>(n) *
        (run.Projected(0) + SumOfProducts<T>(dot_r, run.Kept(3), r, dot_q));
    run.Keep(0, dot_r);
    run.Keep(1, dot_u);
    run.Keep(2, dot_n);
    run.Keep(3, dot_q);
    return MultiplyAdd<T>(
        dot_u, run.units.Read(run.h_prev) - n,
        SumOfProducts<T>(T(1) - u, dot_n, u, run.units.Read(run.dot_h_prev)));
  }

  template <typename Run>
  static TF_RNN_OPS_VECTOR_INLINE GradientAndDot<T> BackwardGrad(
      const Run& run) {
    const auto& first = run.first;
    const GradientAndDot<T> d_h{first.d_h, run.dot_d_h};
    const Vector<T> r = first.Kept(0), dot_r = run.DotKept(0);
    const Vector<T> u = first.Kept(1), dot_u = run.DotKept(1);
    const Vector<T> n = first.Kept(2), dot_n = run.DotKept(2);
    const GradientAndDot<T> d_n =
        TanhGradient<T>(Times<T>(d_h, T(1) - u, -dot_u), n, dot_n);
    run.StoreBlock(0, d_n.d, d_n.dot_d);
    const GradientAndDot<T> d_r = SigmoidGradient<T>(
        Times<T>(d_n, first.Kept(3), run.DotKept(3)), r, dot_r);
    run.StoreBlock(1, d_r.d, d_r.dot_d);
    const GradientAndDot<T> d_u =
        SigmoidGradient<T>(Times<T>(d_h, first.units.Read(first.h_prev) - n,
                                    first.units.Read(run.dot_h_prev) - dot_n),
                           u, dot_u);
    run.StoreBlock(2, d_u.d, d_u.dot_d);
    const GradientAndDot<T> d_q = Times<T>(d_n, r, dot_r);
    run.StoreBlock(3, d_q.d, d_q.dot_d);
    return Times<T>(d_h, u, dot_u);
  }
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_CELLS_CELLS_H_
