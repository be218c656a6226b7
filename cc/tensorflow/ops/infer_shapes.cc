#include "cc/tensorflow/ops/infer_shapes.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cc/ops/array.h"
#include "cc/ops/call_frame.h"
#include "cc/ops/cpu/ops.h"
#include "cc/ops/op.h"
#include "cc/rnn/status.h"
#include "cc/tensorflow/conversions.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.pb.h"

namespace tf_rnn_ops {
namespace {

using ::tensorflow::shape_inference::DimensionHandle;
using ::tensorflow::shape_inference::InferenceContext;
using ::tensorflow::shape_inference::ShapeHandle;

class NodeAttributes final : public Attributes {
 public:
  explicit NodeAttributes(InferenceContext* c) : c_(c) {}

  bool Has(const char* name) const override {
    return c_->GetAttr(name) != nullptr;
  }
  Status Get(const char* name, bool* value) const override {
    return Read(name, value);
  }
  Status Get(const char* name, std::int64_t* value) const override {
    return Read(name, value);
  }
  Status Get(const char* name, float* value) const override {
    return Read(name, value);
  }
  Status Get(const char* name, std::string* value) const override {
    return Read(name, value);
  }
  Status Get(const char* name,
             std::vector<std::string>* values) const override {
    return Read(name, values);
  }
  // Nothing is random here.
  Status MakeSeeds(std::uint64_t*, std::uint64_t*) const override {
    return Status();
  }

 private:
  template <typename T>
  Status Read(const char* name, T* value) const {
    return FromAbslStatus(c_->GetAttr(name, value));
  }

  InferenceContext* const c_;
};

// A call of which only the shapes are known, as far as a graph determines them.
class ShapeFrame final : public CallFrame {
 public:
  ShapeFrame(const Signature& op, InferenceContext* c) : op_(op), c_(c) {}

  bool has_values() const override { return false; }

  Status FindInputs(const char* name, std::vector<Array>* arrays) override {
    std::vector<ShapeHandle> shapes;
    TF_RNN_OPS_RETURN_IF_ERROR(FromAbslStatus(c_->input(name, &shapes)));
    arrays->clear();
    for (const ShapeHandle shape : shapes) arrays->push_back(ArrayOf(shape));
    // Sizes are the first inputs, and no lists.
    for (std::size_t i = 0; i < op_.inputs.size(); ++i) {
      if (!op_.inputs[i].is_size || op_.inputs[i].name != name) continue;
      const auto* constant = c_->input_tensor(static_cast<int>(i));
      if (constant != nullptr) arrays->front() = ToArray(*constant);
    }
    return Status();
  }

  int NumOutputs(const char* name) const override {
    for (const Argument& output : op_.outputs) {
      if (output.name != name || output.count == nullptr) continue;
      std::int64_t count;
      return c_->GetAttr(output.count, &count).ok() ? static_cast<int>(count)
                                                    : 0;
    }
    return 1;
  }

  Status MakeOutputs(const char* name, const std::vector<Shape>& shapes,
                     std::vector<Array>* arrays) override {
    // The size of data for the gradient in the device's memory depends on the
    // device.
    const bool is_of_device = std::any_of(
        op_.outputs.begin(), op_.outputs.end(), [name](const Argument& output) {
          return output.is_opaque && !output.is_on_host && output.name == name;
        });
    std::vector<ShapeHandle> handles;
    for (const Shape& shape : shapes) {
      handles.push_back(is_of_device && shape[0] != 0
                            ? c_->Vector(c_->UnknownDim())
                            : ToHandle(shape));
    }
    arrays->resize(shapes.size());
    return FromAbslStatus(c_->set_output(name, handles));
  }

  bool IsWanted(const char*) const override { return true; }

  Status MakeScratch(std::int64_t, void**) override {
    return Status(StatusCode::kInternal,
                  "MakeScratch must not be called to infer shapes.");
  }
  Threads FindThreads() override { return Threads(); }

 private:
  Array ArrayOf(ShapeHandle handle) {
    Array array;
    array.num_elements = kAnySize;
    if (!InferenceContext::RankKnown(handle)) {
      array.shape = Shape::OfAnyRank();
      return array;
    }
    std::vector<std::int64_t> sizes;
    for (int i = 0; i < InferenceContext::Rank(handle); ++i) {
      const DimensionHandle dim = c_->Dim(handle, i);
      sizes.push_back(InferenceContext::ValueKnown(dim)
                          ? InferenceContext::Value(dim)
                          : NumberOf(dim));
      if (sizes.back() == 0) array.num_elements = 0;
    }
    array.shape = Shape(sizes.data(), sizes.size());
    if (array.shape.is_known()) array.num_elements = array.shape.NumElements();
    return array;
  }

  // Numbers an unknown size, so that outputs have the same one. TensorFlow then
  // knows that they are equal.
  std::int64_t NumberOf(DimensionHandle dim) {
    unknown_.push_back(dim);
    return kAnySize - static_cast<std::int64_t>(unknown_.size());
  }

  ShapeHandle ToHandle(const Shape& shape) {
    if (!shape.has_rank()) return c_->UnknownShape();
    std::vector<DimensionHandle> dims;
    for (const std::int64_t size : shape) {
      const auto number = static_cast<std::size_t>(kAnySize - size - 1);
      if (size >= 0) {
        dims.push_back(c_->MakeDim(size));
      } else if (number < unknown_.size()) {
        dims.push_back(unknown_[number]);
      } else {
        dims.push_back(c_->UnknownDim());
      }
    }
    return c_->MakeShape(dims);
  }

  const Signature& op_;
  InferenceContext* const c_;
  std::vector<DimensionHandle> unknown_;
};

// The body of an op for its element type. All devices have the same checks.
std::unique_ptr<Op> MakeBody(const Signature& op, InferenceContext* c) {
  tensorflow::DataType type;
  if (!c->GetAttr(op.type_attribute, &type).ok()) return nullptr;
  for (const OpEntry& entry : TfRnnOps_CpuOps()) {
    // The engine library has its own copy of the signatures.
    if (entry.signature->name == op.name && ToDataType(entry.type) == type) {
      return entry.make();
    }
  }
  return nullptr;
}

}  // namespace

absl::Status InferShapes(const Signature& op, InferenceContext* c) {
  return CatchInKernel(op.name, [&] {
    const std::unique_ptr<Op> body = MakeBody(op, c);
    if (body == nullptr) {
      return Status(StatusCode::kInternal, "the op has no CPU kernel");
    }
    TF_RNN_OPS_RETURN_IF_ERROR(body->Init(NodeAttributes(c)));
    ShapeFrame frame(op, c);
    return body->Run(&frame);
  });
}

}  // namespace tf_rnn_ops
