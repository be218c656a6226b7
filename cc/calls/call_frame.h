// What an op is written against: the interface through which TensorFlow, XLA
// or any other framework calls it.

#ifndef TF_RNN_OPS_CC_CALLS_CALL_FRAME_H_
#define TF_RNN_OPS_CC_CALLS_CALL_FRAME_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cc/calls/array.h"
#include "cc/calls/status.h"

namespace tf_rnn_ops {

// The attribute that names an op's stream of random numbers, where one op is
// compiled several times to programs that are to draw from one stream.
constexpr char kDropoutStream[] = "dropout_stream";

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

// The threads that a call may use.
struct Threads {
  // Hands a closure to a pool, to be run once at any later time.
  std::function<void(std::function<void()>)> schedule;
  // The most at once, with the calling one.
  std::int64_t count = 1;
  // Whether nobody needs the call's results any more. Once true, it stays true.
  // Empty if the call is never cancelled.
  std::function<bool()> is_cancelled;
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

  virtual Threads FindThreads() = 0;
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_CALLS_CALL_FRAME_H_
