#include "cc/gpu/arrays.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "cc/gpu/device_code.h"
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

// The names of a kernel for words of 16, 32 and 64 bits.
struct NamesBySize {
  const char *of16, *of32, *of64;
};

// Calls function(word, name) for an unsigned integer of the size of an element.
template <typename Function>
Status WithWord(DataType type, const NamesBySize& names,
                const Function& function) {
  switch (SizeOf(type)) {
    case 2:
      return function(std::uint16_t{}, names.of16);
    case 4:
      return function(std::uint32_t{}, names.of32);
    default:
      return function(std::uint64_t{}, names.of64);
  }
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
  const NamesBySize names = {"CopyRows16", "CopyRows32", "CopyRows64"};
  return WithWord(type, names, [&](auto word, const char* name) {
    using W = decltype(word);
    return Launch(
        call, name,
        CopyRowsKernel<W>{counts, static_cast<const W*>(source), source_strides,
                          static_cast<W*>(target), target_strides});
  });
}

std::int64_t NumMarks(DataType type, std::int64_t count) {
  return SizeOf(type) == 2   ? MarkedWords<std::uint16_t>::NumMarks(count)
         : SizeOf(type) == 4 ? MarkedWords<std::uint32_t>::NumMarks(count)
                             : MarkedWords<std::uint64_t>::NumMarks(count);
}

Status MarkNonFinite(const Call& call, DataType type, std::int64_t count,
                     void* words, void* marks) {
  const NamesBySize names = {"MarkNonFinite16", "MarkNonFinite32",
                             "MarkNonFinite64"};
  return WithWord(type, names, [&](auto word, const char* name) {
    using W = decltype(word);
    return Launch(call, name,
                  MarkNonFiniteKernel<W>{
                      {count, static_cast<W*>(words), static_cast<W*>(marks)}});
  });
}

Status RestoreMarked(const Call& call, DataType type, std::int64_t count,
                     const void* marks, void* words) {
  const NamesBySize names = {"RestoreMarked16", "RestoreMarked32",
                             "RestoreMarked64"};
  return WithWord(type, names, [&](auto word, const char* name) {
    using W = decltype(word);
    return Launch(
        call, name,
        RestoreMarkedKernel<W>{{count, static_cast<W*>(words),
                                static_cast<W*>(const_cast<void*>(marks))}});
  });
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
