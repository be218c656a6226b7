// The floating-point mode in which the engine computes.

#ifndef TF_RNN_OPS_CC_RNN_FLUSH_DENORMALS_H_
#define TF_RNN_OPS_CC_RNN_FLUSH_DENORMALS_H_

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace tf_rnn_ops::rnn {

// While an object of this class exists, the calling thread treats denormal
// numbers as zero, as TensorFlow's own threads do. Denormals carry no
// information in a network and are about a hundred times slower than ordinary
// numbers.
class ScopedFlushDenormals {
 public:
  ScopedFlushDenormals() : saved_(Read()) { Write(saved_ | kFlushBits); }
  ~ScopedFlushDenormals() { Write(saved_); }
  ScopedFlushDenormals(const ScopedFlushDenormals&) = delete;
  ScopedFlushDenormals& operator=(const ScopedFlushDenormals&) = delete;

 private:
#if defined(__x86_64__)
  using Register = std::uint32_t;
  static constexpr Register kFlushBits = 0x8040;  // MXCSR: FTZ | DAZ
  static Register Read() { return _mm_getcsr(); }
  static void Write(Register value) { _mm_setcsr(value); }
#elif defined(__aarch64__)
  using Register = std::uint64_t;
  static constexpr Register kFlushBits = Register{1} << 24;  // FPCR: FZ
  static Register Read() {
    Register value;
    asm volatile("mrs %0, fpcr" : "=r"(value));
    return value;
  }
  static void Write(Register value) {
    asm volatile("msr fpcr, %0" ::"r"(value));
  }
#else
  using Register = int;
  static constexpr Register kFlushBits = 0;
  static Register Read() { return 0; }
  static void Write(Register) {}
#endif

  const Register saved_;
};

}  // namespace tf_rnn_ops::rnn

#endif  // TF_RNN_OPS_CC_RNN_FLUSH_DENORMALS_H_
