// Eigen for the files of this folder, which are compiled once for each
// instruction set.
//
// Eigen is made of inline functions. Compiled for two instruction sets under
// one name, the linker would keep either, and a CPU without AVX-512 could be
// handed the AVX-512 one. So Eigen's namespace, like ours, carries the name of
// the instruction set. A test reads the object files' symbols and holds them to
// that.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_EIGEN_H_
#define TF_RNN_OPS_CC_RNN_SIMD_EIGEN_H_

#ifndef TF_RNN_OPS_INSTRUCTION_SET
#error "files in cc/rnn/simd are built by simd_library, which names the set"
#endif

#define TF_RNN_OPS_CONCATENATE_EXPANDED(a, b) a##b
#define TF_RNN_OPS_CONCATENATE(a, b) TF_RNN_OPS_CONCATENATE_EXPANDED(a, b)

// Defined for all that follows, so that our code too says Eigen::.
#define Eigen TF_RNN_OPS_CONCATENATE(Eigen_, TF_RNN_OPS_INSTRUCTION_SET)

#include "Eigen/Core"

#endif  // TF_RNN_OPS_CC_RNN_SIMD_EIGEN_H_
