#include "cc/tensorflow/kernels/tensorflow_frame.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/ops/arguments.h"
#include "tensorflow/c/tf_tensor_internal.h"
#include "tensorflow/core/common_runtime/dma_helper.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.pb.h"
#include "tensorflow/core/lib/core/threadpool.h"
#include "tensorflow/core/util/guarded_philox_random.h"
#include "tensorflow/core/util/work_sharder.h"

namespace tf_rnn_ops {
namespace {

using ::tensorflow::Tensor;
using ::tensorflow::TensorShape;

// Returns an error for invalid sizes, for which the constructors of TensorShape
// would abort.
Status ToTensorShape(const Shape& shape, TensorShape* tensor_shape) {
  return FromAbslStatus(TensorShape::BuildTensorShape(
      absl::MakeConstSpan(shape.begin(), shape.rank()), tensor_shape));
}

std::uint64_t Concatenate(std::uint32_t low, std::uint32_t high) {
  return std::uint64_t{high} << 32 | low;
}

}  // namespace

Status TensorFlowAttributes::Get(const char* name, bool* value) const {
  return FromAbslStatus(ctx_->GetAttr(name, value));
}
Status TensorFlowAttributes::Get(const char* name, std::int64_t* value) const {
  return FromAbslStatus(ctx_->GetAttr(name, value));
}
Status TensorFlowAttributes::Get(const char* name, float* value) const {
  return FromAbslStatus(ctx_->GetAttr(name, value));
}
Status TensorFlowAttributes::Get(const char* name, std::string* value) const {
  return FromAbslStatus(ctx_->GetAttr(name, value));
}
Status TensorFlowAttributes::Get(const char* name,
                                 std::vector<std::string>* values) const {
  return FromAbslStatus(ctx_->GetAttr(name, values));
}

// Makes the same seeds as TensorFlow's random ops. Returns an error if op
// determinism is enabled.
Status TensorFlowAttributes::MakeSeeds(std::uint64_t* seed,
                                       std::uint64_t* seed2) const {
  tensorflow::GuardedPhiloxRandom generator;
  TF_RNN_OPS_RETURN_IF_ERROR(FromAbslStatus(generator.Init(ctx_)));
  const tensorflow::random::PhiloxRandom random =
      generator.ReserveSamples128(0);
  *seed = Concatenate(random.key()[0], random.key()[1]);
  *seed2 = Concatenate(random.counter()[2], random.counter()[3]);
  return Status();
}

Status TensorFlowFrame::FindInput(const char* name, Array* array) {
  const Tensor* tensor;
  TF_RNN_OPS_RETURN_IF_ERROR(
      FromAbslStatus(ctx_->input(name, &tensor)));  // NOLINT(accessors): status
  *array = ToArray(*tensor);
  return CheckAddress(name, *array);
}

// TensorFlow writes to a buffer of its own only if there is one reference to
// it, except in assignments to variables of TensorFlow 1, InplaceUpdate and its
// like. It does not own memory of NumPy, DLPack and others, and whoever passes
// a tensor through the C API may write to it later even if TensorFlow has
// allocated it.
const void* TensorFlowFrame::FindOwnMemory(const char* input) {
  static constexpr char kNoElements = 0;
  const Tensor* tensor;
  if (!ctx_->input(input, &tensor).ok()) {  // NOLINT(accessors): status
    return nullptr;
  }
  if (tensor->NumElements() == 0) return &kNoElements;
  const tensorflow::TensorBuffer* const buffer =
      const_cast<tensorflow::TensorBuffer*>(
          tensorflow::DMAHelper::buffer(tensor))
          ->root_buffer();
  const bool is_own = buffer->OwnsMemory() &&
                      dynamic_cast<const TF_ManagedBuffer*>(buffer) == nullptr;
  return is_own ? buffer : nullptr;
}

std::shared_ptr<const void> TensorFlowFrame::Hold(const char* input) {
  const Tensor* tensor;
  const bool is_found =
      ctx_->input(input, &tensor).ok();  // NOLINT(accessors): status
  return is_found ? std::make_shared<Tensor>(*tensor) : nullptr;
}

Status TensorFlowFrame::FindInputs(const char* name,
                                   std::vector<Array>* arrays) {
  int begin, end;
  TF_RNN_OPS_RETURN_IF_ERROR(
      FromAbslStatus(ctx_->op_kernel().InputRange(name, &begin, &end)));
  for (int i = begin; i < end; ++i) {
    const auto tensor = ctx_->get_input(i);
    TF_RNN_OPS_RETURN_IF_ERROR(FromAbslStatus(tensor.status()));
    arrays->push_back(ToArray(**tensor));
    TF_RNN_OPS_RETURN_IF_ERROR(
        CheckAddress(absl::StrCat(name, "[", i - begin, "]"), arrays->back()));
  }
  return Status();
}

Status TensorFlowFrame::MakeOutput(const char* name, const Shape& shape,
                                   Array* array) {
  TensorShape tensor_shape;
  TF_RNN_OPS_RETURN_IF_ERROR(ToTensorShape(shape, &tensor_shape));
  Tensor* tensor;
  TF_RNN_OPS_RETURN_IF_ERROR(
      FromAbslStatus(ctx_->allocate_output(name, tensor_shape, &tensor)));
  *array = ToArray(*tensor);
  return Status();
}

int TensorFlowFrame::NumOutputs(const char* name) const {
  int begin, end;
  return ctx_->op_kernel().OutputRange(name, &begin, &end).ok() ? end - begin
                                                                : 0;
}

Status TensorFlowFrame::MakeOutputs(const char* name,
                                    const std::vector<Shape>& shapes,
                                    std::vector<Array>* arrays) {
  int begin, end;
  TF_RNN_OPS_RETURN_IF_ERROR(
      FromAbslStatus(ctx_->op_kernel().OutputRange(name, &begin, &end)));
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    TensorShape shape;
    TF_RNN_OPS_RETURN_IF_ERROR(ToTensorShape(shapes[i], &shape));
    Tensor* tensor;
    TF_RNN_OPS_RETURN_IF_ERROR(FromAbslStatus(
        ctx_->allocate_output(begin + static_cast<int>(i), shape, &tensor)));
    arrays->push_back(ToArray(*tensor));
  }
  return Status();
}

bool TensorFlowFrame::IsWanted(const char* output) const {
  int begin, end;
  return !ctx_->op_kernel().OutputRange(output, &begin, &end).ok() ||
         ctx_->output_required(begin);
}

Status TensorFlowFrame::MakeScratch(std::int64_t num_bytes, void** memory) {
  tensorflow::AllocatorAttributes on_host;
  on_host.set_on_host(true);
  TensorShape shape;
  TF_RNN_OPS_RETURN_IF_ERROR(ToTensorShape({num_bytes}, &shape));
  scratch_.emplace_back();
  TF_RNN_OPS_RETURN_IF_ERROR(FromAbslStatus(ctx_->allocate_temp(
      tensorflow::DT_UINT8, shape, &scratch_.back(), on_host)));
  *memory = scratch_.back().data();
  return Status();
}

Threads TensorFlowFrame::FindThreads() {
  const auto* workers = ctx_->device()->tensorflow_cpu_worker_threads();
  Threads threads;
  threads.schedule = [pool = workers->workers](std::function<void()> closure) {
    pool->Schedule(std::move(closure));
  };
  threads.count =
      std::min(workers->num_threads, tensorflow::GetPerThreadMaxParallelism());
  if (auto* manager = ctx_->cancellation_manager()) {
    threads.is_cancelled = [manager] { return manager->IsCancelled(); };
  }
  return threads;
}

}  // namespace tf_rnn_ops
