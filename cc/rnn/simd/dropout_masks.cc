#include "cc/rnn/simd/dropout_masks.h"

#include <algorithm>
#include <cstdint>

#include "cc/rnn/reserve_space.h"
#include "cc/rnn/simd/convert.h"
#include "cc/rnn/simd/dropout.h"

namespace tf_rnn_ops::rnn {

template <typename T>
void FillDropoutMasks(const RnnConfig& config, const RnnSize& size,
                      float dropout, const RandomStream& stream, T* masks,
                      Executor& executor) {
  const std::int64_t layer_size = LayerOutputSize(config, size).value();
  if (layer_size == 0) return;  // of any number of layers
  const std::int64_t layer_samples = NumLayerDropoutSamples(config, size);
  for (std::int64_t i = 0; i < config.num_layers - 1; ++i) {
    const TF_RNN_OPS_INSTRUCTION_SET::DropoutMask mask(dropout, stream,
                                                       i * layer_samples);
    TF_RNN_OPS_INSTRUCTION_SET::ForEachPiece(
        layer_size, executor, [&](std::int64_t offset, std::int64_t length) {
          T* const piece = masks + i * layer_size + offset;
          std::fill_n(piece, length, T(1));
          mask.Apply(piece, piece, offset, length);
        });
  }
}

template void FillDropoutMasks<float>(const RnnConfig&, const RnnSize&, float,
                                      const RandomStream&, float*, Executor&);
template void FillDropoutMasks<double>(const RnnConfig&, const RnnSize&, float,
                                       const RandomStream&, double*, Executor&);

}  // namespace tf_rnn_ops::rnn
