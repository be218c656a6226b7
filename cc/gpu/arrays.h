// Operations on arrays on the GPU: change layout or type, and apply dropout.

#ifndef TF_RNN_OPS_CC_GPU_ARRAYS_H_
#define TF_RNN_OPS_CC_GPU_ARRAYS_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "cc/gpu/arrays_device.h"
#include "cc/gpu/call.h"
#include "cc/gpu/data_type.h"
#include "cc/gpu/dropout_device.h"
#include "cc/rnn/status.h"

namespace tf_rnn_ops::gpu {

// Copies rows from one layout to another. The arrays must not overlap.
Status CopyRows(const Call& call, DataType type, const RowCounts& counts,
                const void* source, const RowStrides& source_strides,
                void* target, const RowStrides& target_strides);

// Converts elements, rounding to nearest, ties to even.
Status WidenBFloat16(const Call& call, std::int64_t count, const void* source,
                     float* target);
Status RoundToBFloat16(const Call& call, std::int64_t count,
                       const float* source, void* target);

// Makes elements of `type` finite, whatever they are, and marks those that it
// changes in NumMarks(type, count) further elements, which are finite, too.
Status MarkNonFinite(const Call& call, DataType type, std::int64_t count,
                     void* words, void* marks);
std::int64_t NumMarks(DataType type, std::int64_t count);
// Restores the elements.
Status RestoreMarked(const Call& call, DataType type, std::int64_t count,
                     const void* marks, void* words);

// Rows of a dropout mask.
struct MaskRows {
  DropoutMask mask;
  std::int64_t offset;  // of the first row in the mask, in elements
  RowStrides strides;
};

// target = source ∘ mask, or the mask if source is null. Source and target have
// the same layout and may be the same array.
Status ApplyDropout(const Call& call, DataType type, const RowCounts& counts,
                    const MaskRows& rows, const void* source,
                    const RowStrides& strides, void* target);

// Copies bytes from the host to GPU memory that is aligned to 8 bytes. `bytes`
// may be freed when the call returns.
using HostBytes = std::array<char, 256>;
Status WriteBytes(const Call& call, const HostBytes& bytes, void* target);

// Copies bytes within GPU memory, and sets them to zero.
Status CopyBytes(const Call& call, std::size_t num_bytes, const void* source,
                 void* target);
Status ZeroBytes(const Call& call, std::size_t num_bytes, void* target);

// Converts to the driver's type for addresses.
inline CUdeviceptr DevicePointer(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_ARRAYS_H_
