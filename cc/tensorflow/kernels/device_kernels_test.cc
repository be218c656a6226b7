// Makes kernels through TensorFlow while memory is short.

#include "cc/tensorflow/kernels/device_kernels.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cc/ops/call_frame.h"
#include "cc/ops/op.h"
#include "cc/ops/signature.h"
#include "cc/rnn/status.h"
#include "cc/tensorflow/conversions.h"
#include "tensorflow/core/framework/kernel_def.pb.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/types.h"

namespace {

// While true, `new` fails.
bool is_memory_short = false;

}  // namespace

void* operator new(std::size_t num_bytes) {
  void* const memory = is_memory_short ? nullptr : std::malloc(num_bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace tf_rnn_ops {
namespace {

REGISTER_OP("TfRnnOps>Test").Attr("T: {float, double}").Output("output: T");

class TestOp final : public Op {
 public:
  Status Init(const Attributes&) override { return Status(); }
  Status Run(CallFrame*) override { return Status(); }
};

// Makes the kernel for a type, as TensorFlow does.
absl::Status MakeKernel(tensorflow::DataType type) {
  tensorflow::NodeDef node;
  node.set_name("test");
  node.set_op("TfRnnOps>Test");
  (*node.mutable_attr())["T"].set_type(type);
  absl::Status status;
  const std::unique_ptr<tensorflow::OpKernel> kernel =
      tensorflow::CreateOpKernel(
          tensorflow::DeviceType(tensorflow::DEVICE_CPU), /*device=*/nullptr,
          /*allocator=*/nullptr, node, /*graph_def_version=*/0, &status);
  is_memory_short = false;
  EXPECT_EQ(kernel != nullptr, status.ok());
  return status;
}

TEST(DeviceKernelsTest, KernelsAreNotMadeIfMemoryIsShort) {
  static Signature signature;
  signature.name = "Test";
  static const std::vector<OpEntry> ops = {
      {&signature, ElementType::kFloat,
       []() -> std::unique_ptr<Op> { return std::make_unique<TestOp>(); }},
      {&signature, ElementType::kDouble, []() -> std::unique_ptr<Op> {
         is_memory_short = true;
         return std::make_unique<TestOp>();
       }}};
  RegisterKernels(tensorflow::DEVICE_CPU, "TfRnnOps>", ops);
  EXPECT_EQ(MakeKernel(tensorflow::DT_FLOAT), absl::OkStatus());
  EXPECT_TRUE(absl::IsResourceExhausted(MakeKernel(tensorflow::DT_DOUBLE)));
}

TEST(DeviceKernelsTest, KernelsOfOtherLibrariesStayInUse) {
  static Signature signature;
  signature.name = "TestOnGpu";
  signature.inputs = {{"sizes", ""}, {"x", ""}};
  signature.inputs[0].is_on_host = true;
  static const std::vector<OpEntry> ops = {
      {&signature, ElementType::kFloat,
       []() -> std::unique_ptr<Op> { return std::make_unique<TestOp>(); }}};
  for (const char* device : {tensorflow::DEVICE_GPU, tensorflow::DEVICE_GPU,
                             tensorflow::DEVICE_CPU}) {
    RegisterKernels(device, "TfRnnOps>", ops);
  }
  const tensorflow::KernelList kernels =
      tensorflow::GetRegisteredKernelsForOp("TfRnnOps>TestOnGpu");
  EXPECT_EQ(kernels.kernel_size(), 2);
  for (const tensorflow::KernelDef& kernel : kernels.kernel()) {
    const bool is_gpu = kernel.device_type() == tensorflow::DEVICE_GPU;
    EXPECT_EQ(kernel.host_memory_arg_size(), is_gpu ? 1 : 0);
  }
}

TEST(DeviceKernelsTest, ErrorsAreReturnedIfMemoryIsShort) {
  const absl::Status status = CatchInKernel("Test", []() -> Status {
    is_memory_short = true;
    throw std::bad_alloc();
  });
  is_memory_short = false;
  EXPECT_TRUE(absl::IsResourceExhausted(status));
}

}  // namespace
}  // namespace tf_rnn_ops
