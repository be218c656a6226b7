#include "cc/gpu/arrays.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "cc/gpu/arrays_code.h"
#include "cc/gpu/device_module.h"

namespace tf_rnn_ops::gpu {
namespace {

DeviceModule& Module() {
  static auto* const module = new DeviceModule(kArraysCode);
  return *module;
}

template <typename Kernel>
Status Launch(const Call& call, const char* name, const Kernel& kernel) {
  if (kernel.num_rows() == 0 || kernel.width() == 0) return Status();
  return Module().Launch(call, name,
                         ShapeFor(kernel.num_rows(), kernel.width()), kernel);
}

// E: an integer type of the size of an element.
template <typename E>
Status CopyRowsOf(const Call& call, const char* name, const RowCounts& counts,
                  const void* source, const RowStrides& source_strides,
                  void* target, const RowStrides& target_strides) {
  return Launch(
      call, name,
      CopyRowsKernel<E>{counts, static_cast<const E*>(source), source_strides,
                        static_cast<E*>(target), target_strides});
}

template <typename T>
Status ApplyDropoutTo(const Call& call, const char* name,
                      const RowCounts& counts, const MaskRows& rows,
                      const void* source, const RowStrides& strides,
                      void* target) {
  return Launch(call, name,
                ApplyDropoutKernel<T>{counts, static_cast<const T*>(source),
                                      static_cast<T*>(target), strides,
                                      rows.mask, rows.offset, rows.strides});
}

}  // namespace

Status CopyRows(const Call& call, DataType type, const RowCounts& counts,
                const void* source, const RowStrides& source_strides,
                void* target, const RowStrides& target_strides) {
  switch (SizeOf(type)) {
    case 2:
      return CopyRowsOf<std::uint16_t>(call, "CopyRows16", counts, source,
                                       source_strides, target, target_strides);
    case 4:
      return CopyRowsOf<std::uint32_t>(call, "CopyRows32", counts, source,
                                       source_strides, target, target_strides);
    default:
      return CopyRowsOf<std::uint64_t>(call, "CopyRows64", counts, source,
                                       source_strides, target, target_strides);
  }
}

Status WidenBFloat16(const Call& call, std::int64_t count, const void* source,
                     float* target) {
  return Launch(call, "WidenBFloat16",
                WidenBFloat16Kernel{
                    count, static_cast<const rnn::BFloat16*>(source), target});
}

Status RoundToBFloat16(const Call& call, std::int64_t count,
                       const float* source, void* target) {
  return Launch(call, "RoundToBFloat16",
                RoundToBFloat16Kernel{count, source,
                                      static_cast<rnn::BFloat16*>(target)});
}

Status ApplyDropout(const Call& call, DataType type, const RowCounts& counts,
                    const MaskRows& rows, const void* source,
                    const RowStrides& strides, void* target) {
  switch (type) {
    case DataType::kHalf:
      return ApplyDropoutTo<rnn::Half>(call, "ApplyDropoutHalf", counts, rows,
                                       source, strides, target);
    case DataType::kBFloat16:
      return ApplyDropoutTo<rnn::BFloat16>(call, "ApplyDropoutBFloat16", counts,
                                           rows, source, strides, target);
    case DataType::kFloat:
      return ApplyDropoutTo<float>(call, "ApplyDropoutFloat", counts, rows,
                                   source, strides, target);
    case DataType::kDouble:
      break;
  }
  return ApplyDropoutTo<double>(call, "ApplyDropoutDouble", counts, rows,
                                source, strides, target);
}

Status WriteBytes(const Call& call, const HostBytes& bytes, void* target) {
  WriteBytesKernel kernel;
  static_assert(sizeof(kernel.words) == sizeof(bytes));
  std::memcpy(kernel.words, bytes.data(), bytes.size());
  kernel.target = static_cast<std::uint64_t*>(target);
  return Launch(call, "WriteBytes", kernel);
}

Status CopyBytes(const Call& call, std::size_t num_bytes, const void* source,
                 void* target) {
  if (num_bytes == 0) return Status();
  return call.driver->Check(
      call.driver->cuMemcpyDtoDAsync_v2(
          DevicePointer(target), DevicePointer(source), num_bytes, call.stream),
      "cuMemcpyDtoDAsync");
}

Status ZeroBytes(const Call& call, std::size_t num_bytes, void* target) {
  if (num_bytes == 0) return Status();
  return call.driver->Check(
      call.driver->cuMemsetD8Async(DevicePointer(target), 0, num_bytes,
                                   call.stream),
      "cuMemsetD8Async");
}

}  // namespace tf_rnn_ops::gpu
