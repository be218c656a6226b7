// The type-erased interface of the ops, for adapters to frameworks.

#ifndef TF_RNN_OPS_CC_OPS_OP_H_
#define TF_RNN_OPS_CC_OPS_OP_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "cc/ops/call_frame.h"
#include "cc/ops/signature.h"
#include "cc/rnn/float16.h"
#include "cc/rnn/status.h"

namespace tf_rnn_ops {

// The body of an op for one element type.
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

// An op for one element type.
struct OpEntry {
  const Signature* signature;
  // The value of the signature's type_attribute.
  ElementType type;
  std::unique_ptr<Op> (*make)();
};

// Sets of element types.
struct Halves {
  template <typename Add>
  static void ForEach(const Add& add) {
    add(ElementType::kHalf, rnn::Half());
    add(ElementType::kBFloat16, rnn::BFloat16());
  }
};
struct Floats {
  template <typename Add>
  static void ForEach(const Add& add) {
    add(ElementType::kFloat, float());
    add(ElementType::kDouble, double());
    Halves::ForEach(add);
  }
};
struct Integers {
  template <typename Add>
  static void ForEach(const Add& add) {
    add(ElementType::kInt32, std::int32_t());
    add(ElementType::kInt64, std::int64_t());
  }
};

// A list of ops. Each op has one entry per element type; these are consecutive.
class OpList {
 public:
  // Adds an op for each of some element types.
  // make_body: returns the body for the type of its argument, of a class with a
  //   default constructor and the members of `Op`.
  template <typename Types, typename MakeBody>
  void Add(std::string_view name, const MakeBody& make_body) {
    Types::ForEach([&](ElementType type, auto zero) {
      using Body = decltype(make_body(zero));
      entries_.push_back(
          {&FindSignature(name), type, []() -> std::unique_ptr<Op> {
             return std::make_unique<OpOf<Body>>();
           }});
    });
  }

  const std::vector<OpEntry>& entries() const { return entries_; }

 private:
  template <typename Body>
  class OpOf final : public Op {
   public:
    Status Init(const Attributes& attributes) override {
      return body_.Init(attributes);
    }
    Status Run(CallFrame* frame) override { return body_.Run(frame); }

   private:
    Body body_;
  };

  std::vector<OpEntry> entries_;
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_OPS_OP_H_
