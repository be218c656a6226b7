#include "cc/rnn/simd/vector/vector_functions.h"

#include "cc/rnn/simd/vector/activations.h"
#include "cc/rnn/simd/vector/vector.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {
namespace {

template <typename T, Vector<T> (*function)(Vector<T>)>
void Apply(const T* x, T* result, std::int64_t size) {
  std::int64_t i = 0;
  for (; i + kVectorElements<T> <= size; i += kVectorElements<T>) {
    Store(function(Load(x + i)), result + i);
  }
  StorePartial(function(LoadPartial(x + i, size - i)), result + i, size - i);
}

template <typename T>
void LoadPartialLanes(const T* from, std::int64_t count, T* lanes) {
  Store(LoadPartial(from, count), lanes);
}

template <typename T>
void StorePartialLanes(const T* lanes, T* to, std::int64_t count) {
  StorePartial(Load(lanes), to, count);
}

}  // namespace

template <typename T>
VectorFunctions<T> GetVectorFunctions() {
  return {kVectorElements<T>, &Apply<T, &Tanh<T>>, &Apply<T, &Sigmoid<T>>,
          &LoadPartialLanes<T>, &StorePartialLanes<T>};
}

template VectorFunctions<float> GetVectorFunctions();
template VectorFunctions<double> GetVectorFunctions();

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET
