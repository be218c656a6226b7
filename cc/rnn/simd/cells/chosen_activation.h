// Activations that are chosen at run time.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_CELLS_CHOSEN_ACTIVATION_H_
#define TF_RNN_OPS_CC_RNN_SIMD_CELLS_CHOSEN_ACTIVATION_H_

#include <cmath>
#include <cstddef>

#include "cc/rnn/rnn_config.h"
#include "cc/rnn/simd/cells/activation.h"
#include "cc/rnn/simd/cells/dual.h"
#include "cc/rnn/simd/vector/vector.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// An activation of numbers, which is rare enough to be computed one element at
// a time. `Of` has
//   Value(z);
//   Slope(k), the derivative where k is kept: the value y or, with KeepsSum, z;
//   Bend(k), the derivative of Slope.
template <typename T, typename Of, typename Keeps = KeepsResult>
struct ElementActivation : Keeps {
  static Vector<T> Activate(Vector<T> z) {
    return Each([](T x) { return Of::Value(x); }, z);
  }
  static Vector<T> Gradient(Vector<T> d, Vector<T> k) { return d * Slope(k); }
  static Dual<T> Gradient(const Dual<T>& d, const Dual<T>& k) {
    const Vector<T> slope = Slope(k.value);
    const Vector<T> bend = Each([](T x) { return Of::Bend(x); }, k.value);
    return {d.value * slope,
            SumOfProducts<T>(d.tangent, slope, d.value * bend, k.tangent)};
  }

 private:
  static Vector<T> Slope(Vector<T> k) {
    return Each([](T x) { return Of::Slope(x); }, k);
  }
  template <typename Function>
  static Vector<T> Each(const Function& function, Vector<T> x) {
    constexpr std::size_t kSize = sizeof(x) / sizeof(T);
    T elements[kSize];
    __builtin_memcpy(elements, &x, sizeof(x));
    for (T& element : elements) element = function(element);
    __builtin_memcpy(&x, elements, sizeof(x));
    return x;
  }
};

// exp of double has a newer version in the C library than the wheel requires.
inline float Exponentiate(float x) { return std::exp(x); }
inline double Exponentiate(double x) {
  return static_cast<double>(std::exp(static_cast<long double>(x)));
}

template <typename T>
struct Elu {
  static T Value(T z) { return z > 0 ? z : std::expm1(z); }
  static T Slope(T y) { return y > 0 ? T(1) : y + 1; }
  static T Bend(T y) { return y > 0 ? T(0) : T(1); }
};

template <typename T>
struct Selu {
  static constexpr T kScale = T(1.0507009873554804934193349852946);
  static constexpr T kDepth = kScale * T(1.6732632423543772848170429916717);

  static T Value(T z) { return z > 0 ? kScale * z : kDepth * std::expm1(z); }
  static T Slope(T y) { return y > 0 ? kScale : y + kDepth; }
  static T Bend(T y) { return y > 0 ? T(0) : T(1); }
};

template <typename T>
struct Softplus {
  static T Value(T z) {
    return (z > 0 ? z : T(0)) + std::log1p(Exponentiate(-std::abs(z)));
  }
  static T Slope(T y) { return -std::expm1(-y); }
  static T Bend(T y) { return Exponentiate(-y); }
};

template <typename T>
struct LogSigmoid {
  static T Value(T z) { return -Softplus<T>::Value(-z); }
  static T Slope(T y) { return -std::expm1(y); }
  static T Bend(T y) { return -Exponentiate(y); }
};

template <typename T>
struct Softsign {
  static T Value(T z) { return z / (1 + std::abs(z)); }
  static T Slope(T y) { return (1 - std::abs(y)) * (1 - std::abs(y)); }
  static T Bend(T y) { return 2 * (y - std::copysign(T(1), y)); }
};

template <typename T>
struct Exponential {
  static T Value(T z) { return Exponentiate(z); }
  static T Slope(T y) { return y; }
  static T Bend(T) { return 1; }
};

template <typename T>
struct LeakyRelu {
  static constexpr T kSlope = T(0.2f);  // a float in TensorFlow, for any type

  static Vector<T> Activate(Vector<T> z) {
    return Select<T>(z > T(0), z, z * kSlope);
  }
  static Vector<T> Gradient(Vector<T> d, Vector<T> y) {
    return d * Select<T>(y > T(0), Broadcast(T(1)), Broadcast(kSlope));
  }
};

// z, clipped to [kLeast, kMost].
template <typename T, int kLeast, int kMost>
struct Clip {
  static Vector<T> Activate(Vector<T> z) {
    return Select<T>(z < T(kLeast), Broadcast(T(kLeast)),
                     Select<T>(z > T(kMost), Broadcast(T(kMost)), z));
  }
  static Vector<T> Gradient(Vector<T> d, Vector<T> y) {
    const Vector<T> below =
        Select<T>(y < T(kMost), Broadcast(T(1)), Vector<T>{});
    return d * Select<T>(y > T(kLeast), below, Vector<T>{});
  }
};

template <typename T>
struct HardShrink {
  static Vector<T> Activate(Vector<T> z) {
    const Vector<T> above = Select<T>(z <= T(0.5), Vector<T>{}, z);
    return Select<T>(z < T(-0.5), z, above);
  }
  static Vector<T> Gradient(Vector<T> d, Vector<T> y) {
    return d * Select<T>(y == T(0), Vector<T>{}, Broadcast(T(1)));
  }
};

template <typename T>
struct SoftShrink {
  static Vector<T> Activate(Vector<T> z) {
    const Vector<T> above = Select<T>(z <= T(0.5), Vector<T>{}, z - T(0.5));
    return Select<T>(z < T(-0.5), z + T(0.5), above);
  }
  static Vector<T> Gradient(Vector<T> d, Vector<T> y) {
    return HardShrink<T>::Gradient(d, y);
  }
};

// (z + 1) / 2, clipped to [0, 1].
template <typename T>
struct SparseSigmoid {
  static Vector<T> Activate(Vector<T> z) {
    return Clip<T, 0, 1>::Activate((z + T(1)) * T(0.5));
  }
  static Vector<T> Gradient(Vector<T> d, Vector<T> y) {
    return Clip<T, 0, 1>::Gradient(d * T(0.5), y);
  }
};

// (z + sqrt(z² + 4)) / 2
template <typename T>
struct Squareplus {
  static T Value(T z) {
    const T root = std::sqrt(z * z + 4);
    return z < 0 ? 2 / (root - z) : (z + root) / 2;
  }
  static T Slope(T y) { return y * y / (1 + y * y); }
  static T Bend(T y) { return 2 * y / ((1 + y * y) * (1 + y * y)); }
};

// The derivatives of the following are functions of z.

// z Φ(z), where Φ is the distribution function of the normal distribution. In
// double, TensorFlow's has the precision of float.
template <typename T>
struct Gelu {
  static T Value(T z) { return z * Distribution(z); }
  static T Slope(T z) { return Distribution(z) + z * Density(z); }
  static T Bend(T z) {
    return 2 * (Density(z) - z / kRoot * Density(z) * (z / kRoot));
  }

 private:
  static constexpr T kRoot = T(1.4142135623730950488);             // √2
  static constexpr T kDensity = T(0.5641895835477562869) / kRoot;  // 1 / √π

  static T Distribution(T z) { return std::erfc(-z / kRoot) / 2; }
  static T Density(T z) {
    return Exponentiate(-(z / kRoot) * (z / kRoot)) * kDensity;
  }
};

// z (1 + t) / 2 for t = tanh(a (z + b z³)), near z Φ(z).
template <typename T>
struct GeluApproximate {
  static T Value(T z) { return z * (1 + Factor(z)) / 2; }
  static T Slope(T z) {
    const T t = Factor(z);
    return (1 + t + z * (1 - t * t) * ArgumentSlope(z)) / 2;
  }
  static T Bend(T z) {
    const T t = Factor(z), slope = ArgumentSlope(z);
    return (1 - t * t) * (slope + z * (3 * kA * kB * z - t * slope * slope));
  }

 private:
  static constexpr T kA = T(0.7978845608028653559);  // sqrt(2 / pi)
  static constexpr T kB = T(0.044715f);              // a float in TensorFlow

  static T Factor(T z) { return std::tanh(kA * (z + kB * z * z * z)); }
  static T ArgumentSlope(T z) { return kA * (1 + 3 * kB * z * z); }
};

// z / (1 + e^-z)
template <typename T>
struct Silu {
  static T Value(T z) { return z * Logistic(z); }
  static T Slope(T z) { return Logistic(z) * (1 + z * Logistic(-z)); }
  static T Bend(T z) {
    const T s = Logistic(z);
    return s * Logistic(-z) * (2 + z * (1 - 2 * s));
  }

  static T Logistic(T z) { return 1 / (1 + Exponentiate(-z)); }
};

// z tanh(softplus(z))
template <typename T>
struct Mish {
  static T Value(T z) { return z * Factor(z); }
  static T Slope(T z) { return Factor(z) + z * FactorSlope(z); }
  static T Bend(T z) {
    const T s = Silu<T>::Logistic(z);
    return FactorSlope(z) * (2 + z * (1 - s - 2 * s * Factor(z)));
  }

 private:
  static T Factor(T z) { return std::tanh(Softplus<T>::Value(z)); }
  static T FactorSlope(T z) {
    const T factor = Factor(z);
    return (1 - factor) * (1 + factor) * Silu<T>::Logistic(z);
  }
};

// z (z / 6 + 1 / 2), where the second factor is clipped to [0, 1].
template <typename T>
struct HardSilu {
  static T Value(T z) {
    return z <= -3 ? T(0) : z >= 3 ? z : z * ((z + 3) / 6);
  }
  static T Slope(T z) {
    return z <= -3 ? T(0) : z >= 3 ? T(1) : (2 * z + 3) / 6;
  }
  static T Bend(T z) { return z > -3 && z < 3 ? T(1) / 3 : T(0); }
};

// z - tanh(z)
template <typename T>
struct TanhShrink {
  static T Value(T z) { return z - std::tanh(z); }
  static T Slope(T z) { return std::tanh(z) * std::tanh(z); }
  static T Bend(T z) { return 2 * std::tanh(z) * (1 - Slope(z)); }
};

// (z + 1)² / 4 between 0, where z <= -1, and z, where z >= 1.
template <typename T>
struct SparsePlus {
  static T Value(T z) {
    return z <= -1 ? T(0) : z >= 1 ? z : (z + 1) * (z + 1) / 4;
  }
  static T Slope(T z) { return z <= -1 ? T(0) : z >= 1 ? T(1) : (z + 1) / 2; }
  static T Bend(T z) { return z > -1 && z < 1 ? T(0.5) : T(0); }
};

// Any activation, chosen at run time. Its functions are not inlined: a cell
// would contain the code of all activations several times.
template <typename T>
class ChosenActivation {
 public:
  ChosenActivation() = default;
  explicit ChosenActivation(Activation kind)
      : kind_(kind),
        keeps_sum_(
            With([](auto activation) { return activation.keeps_sum(); })) {}

  bool keeps_sum() const { return keeps_sum_; }

  __attribute__((noinline)) Vector<T> Activate(Vector<T> z) const {
    return With([&](auto activation) { return activation.Activate(z); });
  }
  // V: Vector<T> or Dual<T>.
  template <typename V>
  __attribute__((noinline)) V Gradient(V d, V k) const {
    return With([&](auto activation) { return activation.Gradient(d, k); });
  }

 private:
  template <typename Run>
  TF_RNN_OPS_VECTOR_INLINE auto With(const Run& run) const {
    switch (kind_) {
      case Activation::kSigmoid:
        return run(SigmoidActivation<T>());
      case Activation::kRelu:
        return run(ReluActivation<T>());
      case Activation::kLinear:
        return run(LinearActivation<T>());
      case Activation::kHardSigmoid:
        return run(HardSigmoidActivation<T>());
      case Activation::kElu:
        return run(ElementActivation<T, Elu<T>>());
      case Activation::kSelu:
        return run(ElementActivation<T, Selu<T>>());
      case Activation::kSoftplus:
        return run(ElementActivation<T, Softplus<T>>());
      case Activation::kSoftsign:
        return run(ElementActivation<T, Softsign<T>>());
      case Activation::kExponential:
        return run(ElementActivation<T, Exponential<T>>());
      case Activation::kLeakyRelu:
        return run(PiecewiseLinear<T, LeakyRelu<T>>());
      case Activation::kRelu6:
        return run(PiecewiseLinear<T, Clip<T, 0, 6>>());
      case Activation::kHardTanh:
        return run(PiecewiseLinear<T, Clip<T, -1, 1>>());
      case Activation::kLogSigmoid:
        return run(ElementActivation<T, LogSigmoid<T>>());
      case Activation::kSquareplus:
        return run(ElementActivation<T, Squareplus<T>>());
      case Activation::kHardShrink:
        return run(PiecewiseLinear<T, HardShrink<T>>());
      case Activation::kSoftShrink:
        return run(PiecewiseLinear<T, SoftShrink<T>>());
      case Activation::kSparseSigmoid:
        return run(PiecewiseLinear<T, SparseSigmoid<T>>());
      case Activation::kGelu:
        return run(ElementActivation<T, Gelu<T>, KeepsSum>());
      case Activation::kGeluApproximate:
        return run(ElementActivation<T, GeluApproximate<T>, KeepsSum>());
      case Activation::kSilu:
        return run(ElementActivation<T, Silu<T>, KeepsSum>());
      case Activation::kMish:
        return run(ElementActivation<T, Mish<T>, KeepsSum>());
      case Activation::kHardSilu:
        return run(ElementActivation<T, HardSilu<T>, KeepsSum>());
      case Activation::kTanhShrink:
        return run(ElementActivation<T, TanhShrink<T>, KeepsSum>());
      case Activation::kSparsePlus:
        return run(ElementActivation<T, SparsePlus<T>, KeepsSum>());
      case Activation::kTanh:
        break;
    }
    return run(TanhActivation<T>());
  }

  Activation kind_ = Activation::kTanh;
  bool keeps_sum_ = false;
};

template <typename T>
struct ChosenActivations {
  ChosenActivation<T> state;
  ChosenActivation<T> gate;
};

// Calls run(activations). Those of cuDNN's modes are inlined; TensorFlow's LSTM
// ops have no others.
template <typename T, typename Cell, typename Run>
TF_RNN_OPS_VECTOR_INLINE void WithActivations(const RnnConfig& config,
                                              const Run& run) {
  if constexpr (Cell::kGates == 1) {
    if (config.mode == RnnMode::kRelu) return run(ReluActivations<T>());
  }
  if constexpr (!Cell::kIsBlockLstm) {
    const Activations& kinds = config.activations;
    if (!kinds.are_standard()) {
      return run(ChosenActivations<T>{ChosenActivation<T>(kinds.state),
                                      ChosenActivation<T>(kinds.gate)});
    }
  }
  run(StandardActivations<T>());
}

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_CELLS_CHOSEN_ACTIVATION_H_
