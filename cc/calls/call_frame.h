// What an op is written against: the interface through which TensorFlow, XLA
// or any other framework calls it.
//
// An op is a class with a default constructor and two members:
//
//   // Reads the attributes, and refuses those that the op cannot have.
//   Status Init(const Attributes& attributes);
//   // Reads and checks the inputs, makes the outputs and fills them. Several
//   // threads may call it at once.
//   Status Run(CallFrame* frame);

#ifndef TF_RNN_OPS_CC_CALLS_CALL_FRAME_H_
#define TF_RNN_OPS_CC_CALLS_CALL_FRAME_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/calls/array.h"
#include "cc/calls/status.h"
#include "cc/rnn/executor.h"

namespace tf_rnn_ops {

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

  // Two numbers for an op whose attributes seed and seed2 are both 0: other
  // ones each time.
  virtual Status MakeSeeds(std::uint64_t* seed, std::uint64_t* seed2) const = 0;
};

// One call of an op. All names are those of the op definition.
class CallFrame {
 public:
  virtual ~CallFrame() = default;

  // Whether arrays have elements. Where they have none, their `data` is null,
  // but for those inputs that sizes of outputs follow from. An op then checks
  // the shapes, makes its outputs and returns.
  virtual bool has_values() const { return true; }

  // Finds an input.
  virtual Status FindInput(const char* name, Array* array) = 0;

  // Finds the arrays of an input that is a list.
  virtual Status FindInputs(const char* name, std::vector<Array>* arrays) = 0;

  // Makes an output of the op's type for it. Its elements have any values.
  virtual Status MakeOutput(const char* name, const Shape& shape,
                            Array* array) = 0;

  // Makes the outputs of one that is a list. The op has as many of them as
  // NumOutputs says.
  virtual int NumOutputs(const char* name) const = 0;
  virtual Status MakeOutputs(const char* name, const std::vector<Shape>& shapes,
                             std::vector<Array>* arrays) = 0;

  // Whether anything reads an output, as far as is known.
  virtual bool IsWanted(const char* output) const = 0;

  // Memory of the host, at a multiple of 64 bytes, that lasts as long as the
  // frame.
  virtual Status MakeScratch(std::int64_t num_bytes, void** memory) = 0;

  // The threads that the call may use.
  virtual rnn::PoolExecutor MakeExecutor() = 0;
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_CALLS_CALL_FRAME_H_
