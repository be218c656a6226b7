// The interface through which a framework, such as TensorFlow or XLA, calls an
// op.

#ifndef TF_RNN_OPS_CC_OPS_CALL_FRAME_H_
#define TF_RNN_OPS_CC_OPS_CALL_FRAME_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cc/ops/array.h"
#include "cc/rnn/status.h"

namespace tf_rnn_ops {

// The attribute that identifies an op's stream of random numbers. Several
// compiled programs of one op share one stream.
constexpr char kDropoutStream[] = "dropout_stream";

// The attribute of an op whose weights are constants of its graph: the format
// in which it multiplies them in inference, one of rnn::WeightFormatNames().
// The format is for ops of type float32; others keep their type.
constexpr char kConstantWeights[] = "_tf_rnn_ops_constant_weights";

// The attributes of an op, by their names.
class Attributes {
 public:
  virtual ~Attributes() = default;

  // Whether this version of the op has the attribute.
  virtual bool Has(const char* name) const = 0;

  virtual Status Get(const char* name, bool* value) const = 0;
  virtual Status Get(const char* name, std::int64_t* value) const = 0;
  virtual Status Get(const char* name, float* value) const = 0;
  virtual Status Get(const char* name, std::string* value) const = 0;
  virtual Status Get(const char* name,
                     std::vector<std::string>* values) const = 0;

  // Makes new random seeds, for an op whose attributes seed and seed2 are both
  // 0.
  virtual Status MakeSeeds(std::uint64_t* seed, std::uint64_t* seed2) const = 0;
};

// The threads that a call may use.
struct Threads {
  // Hands a closure to a pool, which runs it once at any later time.
  std::function<void(std::function<void()>)> schedule;
  // The maximum number of threads, including the calling one.
  std::int64_t count = 1;
  // Whether the call is cancelled. Once true, it stays true. Empty if the call
  // cannot be cancelled.
  std::function<bool()> is_cancelled;
};

// One call of an op. All names are as in the op definition.
class CallFrame {
 public:
  virtual ~CallFrame() = default;

  // Whether arrays have values. If not, their `data` is null, except for inputs
  // that determine the shapes of outputs. An op then checks the shapes, makes
  // its outputs and returns.
  virtual bool has_values() const { return true; }

  // Finds an input. Where has_values() is false, its shape may have unknown
  // sizes. kAnySize - n for n > 0 then stands for the n-th one, so that outputs
  // can have the same size.
  virtual Status FindInput(const char* name, Array* array) {
    std::vector<Array> arrays;
    TF_RNN_OPS_RETURN_IF_ERROR(FindInputs(name, &arrays));
    *array = arrays[0];
    return Status();
  }

  // Identifies the memory of an input that only the framework writes to. Null
  // if others may write to it, or if unknown.
  virtual const void* FindOwnMemory(const char* /*input*/) { return nullptr; }

  // A reference to an input for which FindOwnMemory is not null. While it
  // exists, the memory has the same contents, and no other memory has the same
  // identity.
  virtual std::shared_ptr<const void> Hold(const char* /*input*/) {
    return nullptr;
  }

  // Finds the arrays of an input that is a list.
  virtual Status FindInputs(const char* name, std::vector<Array>* arrays) = 0;

  // Makes an output. Its elements are uninitialized.
  virtual Status MakeOutput(const char* name, const Shape& shape,
                            Array* array) {
    std::vector<Array> arrays;
    TF_RNN_OPS_RETURN_IF_ERROR(MakeOutputs(name, {shape}, &arrays));
    *array = arrays[0];
    return Status();
  }

  // The number of arrays of an output that is a list.
  virtual int NumOutputs(const char* name) const = 0;
  // Makes the arrays of an output that is a list.
  virtual Status MakeOutputs(const char* name, const std::vector<Shape>& shapes,
                             std::vector<Array>* arrays) = 0;

  // Whether anything reads an output. True if unknown. TensorFlow's executor
  // knows; under XLA, the gradient function says so by the attribute
  // _unwanted_outputs. The ops with an attribute `skip` ask
  // IsWanted(frame, skip, output). The engine gets a null pointer instead.
  virtual bool IsWanted(const char* output) const = 0;

  // Allocates host memory, aligned to 64 bytes, that lives as long as the
  // frame.
  virtual Status MakeScratch(std::int64_t num_bytes, void** memory) = 0;

  virtual Threads FindThreads() = 0;
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_OPS_CALL_FRAME_H_
