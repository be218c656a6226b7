// The type-erased interface of the ops, for adapters to frameworks.

#ifndef TF_RNN_OPS_CC_OPS_OP_H_
#define TF_RNN_OPS_CC_OPS_OP_H_

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <vector>

#include "cc/ops/call_frame.h"
#include "cc/ops/status.h"
#include "cc/rnn/float16.h"

namespace tf_rnn_ops {

// An op for one element type.
class Op {
 public:
  virtual ~Op() = default;

  // Reads the attributes and rejects invalid ones.
  virtual Status Init(const Attributes& attributes) = 0;
  // Reads and checks the inputs, makes the outputs and fills them. Several
  // threads may call it at once.
  virtual Status Run(CallFrame* frame) = 0;
};

enum class ElementType { kFloat, kDouble, kHalf, kBFloat16, kInt32, kInt64 };

// What a framework needs to register an op for one element type.
struct OpEntry {
  // The name in the op definition.
  const char* name;
  // The attribute whose value is the type.
  const char* type_attribute;
  ElementType type;
  // Inputs and outputs that are in host memory on every device.
  std::vector<const char*> on_host;
  // Whether TensorFlow has an op of the same name, with kernels only for GPUs.
  bool is_tensorflows = false;
  std::unique_ptr<Op> (*make)() = nullptr;
};

// A list of ops. Each op has one entry per element type; these are consecutive.
class OpList {
 public:
  // Adds an op for float, double, rnn::Half and rnn::BFloat16, the values of
  // its attribute T. Call: the class of the op for an element type, with a
  // default constructor
  //   and the members of `Op`.
  template <template <typename> class Call>
  void AddForEachFloat(const char* name,
                       std::initializer_list<const char*> on_host = {}) {
    Add<Call<float>>({name, "T", ElementType::kFloat, on_host});
    Add<Call<double>>({name, "T", ElementType::kDouble, on_host});
    Add<Call<rnn::Half>>({name, "T", ElementType::kHalf, on_host});
    Add<Call<rnn::BFloat16>>({name, "T", ElementType::kBFloat16, on_host});
  }

  // Adds an op for std::int32_t and std::int64_t, the values of type_attribute.
  template <template <typename> class Call>
  void AddForEachInteger(const char* name, const char* type_attribute,
                         std::initializer_list<const char*> on_host = {}) {
    Add<Call<std::int32_t>>(
        {name, type_attribute, ElementType::kInt32, on_host});
    Add<Call<std::int64_t>>(
        {name, type_attribute, ElementType::kInt64, on_host});
  }

  // Marks all ops added so far as ops that TensorFlow has, too.
  void MarkAsTensorFlows() {
    for (OpEntry& entry : entries_) entry.is_tensorflows = true;
  }

  const std::vector<OpEntry>& entries() const { return entries_; }

 private:
  template <typename Call>
  class OpOf final : public Op {
   public:
    Status Init(const Attributes& attributes) override {
      return call_.Init(attributes);
    }
    Status Run(CallFrame* frame) override { return call_.Run(frame); }

   private:
    Call call_;
  };

  template <typename Call>
  void Add(OpEntry entry) {
    entry.make = []() -> std::unique_ptr<Op> {
      return std::make_unique<OpOf<Call>>();
    };
    entries_.push_back(entry);
  }

  std::vector<OpEntry> entries_;
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_OPS_OP_H_
