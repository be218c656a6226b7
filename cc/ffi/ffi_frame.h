// A call of an op through XLA's foreign function interface (FFI).

#ifndef TF_RNN_OPS_CC_FFI_FFI_FRAME_H_
#define TF_RNN_OPS_CC_FFI_FFI_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "cc/ffi/ffi_op.h"
#include "cc/ops/array.h"
#include "cc/ops/call_frame.h"
#include "cc/rnn/status.h"
#include "xla/ffi/api/c_api.h"

namespace tf_rnn_ops {

// The attributes of a call. A list of strings is one string, joined by commas.
class FfiAttributes final : public Attributes {
 public:
  explicit FfiAttributes(const XLA_FFI_Attrs& attributes)
      : attributes_(attributes) {}

  bool Has(const char* name) const override;
  Status Get(const char* name, bool* value) const override;
  Status Get(const char* name, std::int64_t* value) const override;
  Status Get(const char* name, float* value) const override;
  Status Get(const char* name, std::string* value) const override;
  Status Get(const char* name, std::vector<std::string>* values) const override;
  Status MakeSeeds(std::uint64_t* seed, std::uint64_t* seed2) const override;

 private:
  // The attribute's index, or -1.
  std::int64_t Find(const char* name) const;
  Status Find(const char* name, XLA_FFI_AttrType type, const char* type_name,
              const void** attribute) const;
  template <typename T>
  Status GetScalar(const char* name, XLA_FFI_DataType type,
                   const char* type_name, T* value) const;

  const XLA_FFI_Attrs& attributes_;
};

class FfiFrame final : public CallFrame {
 public:
  // Both outlive the frame.
  FfiFrame(const FfiOp& op, const XLA_FFI_CallFrame& call)
      : op_(op), call_(call) {}

  // Checks the number and types of the operands and results.
  Status Init();

  // The type that the op runs on.
  XLA_FFI_DataType type() const { return type_; }

  Status FindInput(const char* name, Array* array) override;
  Status FindInputs(const char* name, std::vector<Array>* arrays) override;
  int NumOutputs(const char* name) const override;
  Status MakeOutputs(const char* name, const std::vector<Shape>& shapes,
                     std::vector<Array>* arrays) override;
  // XLA does not know which results are unused. The attribute unwanted_outputs
  // may name some. These are arrays of any shape and are not written to.
  bool IsWanted(const char* output) const override;
  Status MakeScratch(std::int64_t num_bytes, void** memory) override;
  Threads FindThreads() override;

 private:
  // The buffers of an argument.
  struct Buffers {
    const Argument* argument;
    const XLA_FFI_Buffer* const* first;
    std::int64_t count;
  };
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };

  Status Place(const std::vector<Argument>& arguments, const char* what,
               void** buffers, std::int64_t num_buffers,
               std::vector<Buffers>* placed) const;
  Status CheckBuffers(const std::vector<Buffers>& placed) const;

  const FfiOp& op_;
  const XLA_FFI_CallFrame& call_;
  XLA_FFI_DataType type_ = XLA_FFI_DataType_INVALID;
  std::vector<Buffers> inputs_, outputs_;
  std::vector<std::unique_ptr<void, Free>> scratch_;
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_FFI_FFI_FRAME_H_
