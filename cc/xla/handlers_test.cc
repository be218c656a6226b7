// The handlers, called as XLA calls them, by programs that may be wrong.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cc/xla/op.h"
#include "xla/ffi/api/c_api.h"

struct XLA_FFI_Error {
  XLA_FFI_Error_Code code;
  std::string message;
};

// What XLA keeps for a call site in a program, and the pool that it has.
struct XLA_FFI_ExecutionContext {
  std::int64_t num_threads = 0;
  bool takes_tasks = true;
  int num_tasks = 0;
  void* state = nullptr;
  std::int64_t type = 0;
  std::function<void(void*)> deleter;
};

namespace tf_rnn_ops {
namespace {

using ::testing::IsSubstring;

XLA_FFI_Error* MakeError(XLA_FFI_Error_Code code, std::string message) {
  return new XLA_FFI_Error{code, std::move(message)};
}

// A stand-in for XLA. Deletes states as the type says.
class FakeXla {
 public:
  FakeXla() {
    api_.struct_size = XLA_FFI_Api_STRUCT_SIZE;
    api_.XLA_FFI_Error_Create = [](XLA_FFI_Error_Create_Args* args) {
      return MakeError(args->errc, args->message);
    };
    api_.XLA_FFI_Error_Destroy = [](XLA_FFI_Error_Destroy_Args* args) {
      delete args->error;
    };
    api_.XLA_FFI_Type_Register =
        [](XLA_FFI_Type_Register_Args* args) -> XLA_FFI_Error* {
      static std::int64_t num_types = 0;
      args->type_id->type_id = ++num_types;
      deleter_ = args->type_info->deleter;
      return nullptr;
    };
    api_.XLA_FFI_State_Set =
        [](XLA_FFI_State_Set_Args* args) -> XLA_FFI_Error* {
      args->ctx->state = args->state;
      args->ctx->type = args->type_id->type_id;
      return nullptr;
    };
    api_.XLA_FFI_State_Get =
        [](XLA_FFI_State_Get_Args* args) -> XLA_FFI_Error* {
      if (args->ctx->type != args->type_id->type_id) {
        return MakeError(XLA_FFI_Error_Code_NOT_FOUND, "State is not set");
      }
      args->state = args->ctx->state;
      return nullptr;
    };
    api_.XLA_FFI_ThreadPool_NumThreads =
        [](XLA_FFI_ThreadPool_NumThreads_Args* args) -> XLA_FFI_Error* {
      if (args->ctx->num_threads == 0) {
        return MakeError(XLA_FFI_Error_Code_UNIMPLEMENTED, "no pool");
      }
      *args->num_threads = args->ctx->num_threads;
      return nullptr;
    };
    api_.XLA_FFI_ThreadPool_Schedule =
        [](XLA_FFI_ThreadPool_Schedule_Args* args) -> XLA_FFI_Error* {
      ++args->ctx->num_tasks;
      if (!args->ctx->takes_tasks) {
        return MakeError(XLA_FFI_Error_Code_UNAVAILABLE, "no thread");
      }
      std::thread(args->task, args->data).detach();
      return nullptr;
    };
  }

  const XLA_FFI_Api& api() const { return api_; }
  static void Delete(void* state) { deleter_(state); }

 private:
  static inline void (*deleter_)(void*) = nullptr;
  XLA_FFI_Api api_{};
};

const FakeXla& Xla() {
  static const FakeXla* const xla = new FakeXla;
  return *xla;
}

// A buffer with elements.
struct Buffer {
  Buffer(std::vector<std::int64_t> shape, float value,
         XLA_FFI_DataType type = XLA_FFI_DataType_F32)
      : sizes(std::move(shape)), type(type) {
    std::int64_t count = 1;
    for (const std::int64_t size : sizes) count *= size;
    // One more, for those that are to start elsewhere.
    elements.assign(count + 1, value);
  }

  std::vector<std::int64_t> sizes;
  std::vector<float> elements;
  XLA_FFI_DataType type;
  int shift = 0;  // in bytes
};

// A call of an op of a program.
class Call {
 public:
  explicit Call(const std::string& op) {
    for (const OpDefinition& definition : TfRnnOps_FfiOps()) {
      if (definition.name == op) handler_ = definition.handler;
    }
  }
  ~Call() {
    if (context_.state != nullptr) FakeXla::Delete(context_.state);
  }

  Call& SetFloat(std::string name, float value) {
    return Set(std::move(name), XLA_FFI_DataType_F32, value);
  }
  Call& SetInt(std::string name, std::int64_t value) {
    return Set(std::move(name), XLA_FFI_DataType_S64, value);
  }
  Call& SetBool(std::string name, bool value) {
    return Set(std::move(name), XLA_FFI_DataType_PRED, value);
  }
  Call& SetString(std::string name, std::string value) {
    attributes_.push_back({std::move(name), std::move(value)});
    return *this;
  }

  // Runs a stage. Returns what is said of an error.
  std::string Run(XLA_FFI_ExecutionStage stage) {
    std::vector<XLA_FFI_Buffer> buffers;
    buffers.reserve(inputs.size() + outputs.size());
    std::vector<void*> args = Append(&inputs, &buffers);
    std::vector<void*> rets = Append(&outputs, &buffers);
    std::vector<XLA_FFI_ByteSpan> names, strings;
    std::vector<XLA_FFI_ByteSpan*> name_pointers;
    std::vector<XLA_FFI_Scalar> scalars;
    std::vector<XLA_FFI_AttrType> types;
    std::vector<void*> values;
    for (auto* list : {&names, &strings}) list->reserve(attributes_.size());
    scalars.reserve(attributes_.size());
    for (Attribute& attribute : attributes_) {
      names.push_back({attribute.name.data(), attribute.name.size()});
      name_pointers.push_back(&names.back());
      if (attribute.type == XLA_FFI_DataType_INVALID) {
        strings.push_back({attribute.value.data(), attribute.value.size()});
        types.push_back(XLA_FFI_AttrType_STRING);
        values.push_back(&strings.back());
      } else {
        scalars.push_back({attribute.type, attribute.value.data()});
        types.push_back(XLA_FFI_AttrType_SCALAR);
        values.push_back(&scalars.back());
      }
    }
    XLA_FFI_CallFrame frame{};
    frame.struct_size = XLA_FFI_CallFrame_STRUCT_SIZE;
    frame.api = &Xla().api();
    frame.ctx = &context_;
    frame.stage = stage;
    frame.args.size = static_cast<std::int64_t>(args.size());
    frame.args.args = args.data();
    frame.rets.size = static_cast<std::int64_t>(rets.size());
    frame.rets.rets = rets.data();
    frame.attrs.size = static_cast<std::int64_t>(values.size());
    frame.attrs.types = types.data();
    frame.attrs.names = name_pointers.data();
    frame.attrs.attrs = values.data();
    const std::unique_ptr<XLA_FFI_Error> error(handler_(&frame));
    return error == nullptr ? "" : error->message;
  }

  std::string Instantiate() { return Run(XLA_FFI_ExecutionStage_INSTANTIATE); }
  std::string Execute() { return Run(XLA_FFI_ExecutionStage_EXECUTE); }

  XLA_FFI_ExecutionContext& context() { return context_; }

  std::vector<Buffer> inputs, outputs;

 private:
  struct Attribute {
    std::string name;
    std::string value;  // the bytes of a scalar
    XLA_FFI_DataType type = XLA_FFI_DataType_INVALID;
  };

  template <typename T>
  Call& Set(std::string name, XLA_FFI_DataType type, T value) {
    std::string bytes(sizeof(T), '\0');
    std::memcpy(bytes.data(), &value, sizeof(T));
    attributes_.push_back({std::move(name), std::move(bytes), type});
    return *this;
  }

  static std::vector<void*> Append(std::vector<Buffer>* from,
                                   std::vector<XLA_FFI_Buffer>* buffers) {
    std::vector<void*> pointers;
    for (Buffer& each : *from) {
      XLA_FFI_Buffer& buffer = buffers->emplace_back();
      buffer.struct_size = XLA_FFI_Buffer_STRUCT_SIZE;
      buffer.dtype = each.type;
      buffer.data = reinterpret_cast<char*>(each.elements.data()) + each.shift;
      buffer.rank = static_cast<std::int64_t>(each.sizes.size());
      buffer.dims = each.sizes.data();
      pointers.push_back(&buffer);
    }
    return pointers;
  }

  XLA_FFI_Handler* handler_ = nullptr;
  XLA_FFI_ExecutionContext context_;
  std::vector<Attribute> attributes_;
};

// A step of a cell of zeros: h = u * h_prev, where u is 1 / 2.
std::unique_ptr<Call> MakeStep(std::int64_t batch = 2, std::int64_t units = 4) {
  auto call = std::make_unique<Call>("GRUBlockCell");
  call->inputs = {
      {{batch, 3}, 0},         {{batch, units}, 8}, {{3 + units, 2 * units}, 0},
      {{3 + units, units}, 0}, {{2 * units}, 0},    {{units}, 0}};
  call->outputs.assign(4, {{batch, units}, 7});
  return call;
}

// Two layers with dropout, of ones.
std::unique_ptr<Call> MakeNetwork() {
  auto call = std::make_unique<Call>("CudnnRNN");
  call->SetString("rnn_mode", "rnn_relu")
      .SetString("input_mode", "linear_input")
      .SetString("direction", "unidirectional")
      .SetFloat("dropout", 0.5)
      .SetInt("seed", 0)
      .SetInt("seed2", 0)
      .SetBool("is_training", false);
  call->inputs = {{{5, 2, 3}, 1}, {{2, 2, 4}, 1}, {{}, 0}, {{76}, 1}};
  call->outputs = {{{5, 2, 4}, 0}, {{2, 2, 4}, 0}, {{}, 0}, {{0}, 0}};
  return call;
}

TEST(HandlersTest, Runs) {
  const auto call = MakeStep();
  ASSERT_EQ(call->Instantiate(), "");
  ASSERT_EQ(call->Execute(), "");
  const std::vector<float> u(8, 0.5), h(8, 4);
  call->outputs[1].elements.pop_back();
  call->outputs[3].elements.pop_back();
  EXPECT_EQ(call->outputs[1].elements, u);
  EXPECT_EQ(call->outputs[3].elements, h);
}

TEST(HandlersTest, ReadsAttributes) {
  const auto call = MakeNetwork();
  ASSERT_EQ(call->Instantiate(), "");
  EXPECT_EQ(call->Execute(), "");
}

TEST(HandlersTest, RefusesAttributes) {
  EXPECT_PRED_FORMAT2(IsSubstring, "num_proj",
                      MakeNetwork()->SetInt("num_proj", 3).Instantiate());
  EXPECT_PRED_FORMAT2(IsSubstring, "The attribute rnn_mode must be given",
                      Call("CudnnRNN").Instantiate());
  EXPECT_PRED_FORMAT2(IsSubstring, "The attribute rnn_mode must be a string",
                      Call("CudnnRNN").SetInt("rnn_mode", 1).Instantiate());
  EXPECT_PRED_FORMAT2(IsSubstring,
                      "The attribute dropout must be a float32, but is of "
                      "type int64",
                      Call("CudnnRNNBackprop")
                          .SetString("rnn_mode", "gru")
                          .SetString("input_mode", "linear_input")
                          .SetString("direction", "unidirectional")
                          .SetInt("dropout", 0)
                          .Instantiate());
}

TEST(HandlersTest, RefusesToRunWhatWasNotInstantiated) {
  EXPECT_EQ(MakeStep()->Execute(), "State is not set");
}

TEST(HandlersTest, RefusesOtherNumbersOfOperands) {
  const auto call = MakeStep();
  ASSERT_EQ(call->Instantiate(), "");
  call->inputs.pop_back();
  EXPECT_EQ(call->Execute(),
            "The operands of GRUBlockCell must be x, h_prev, w_ru, w_c, b_ru, "
            "b_c, but there are 5 of them");
  call->inputs.clear();
  EXPECT_PRED_FORMAT2(IsSubstring, "but there are 0 of them", call->Execute());
}

TEST(HandlersTest, RefusesOtherNumbersOfResults) {
  const auto call = MakeStep();
  ASSERT_EQ(call->Instantiate(), "");
  call->outputs.pop_back();
  EXPECT_EQ(call->Execute(),
            "The results of GRUBlockCell must be r, u, c, h, but there are 3 "
            "of them");
}

TEST(HandlersTest, RefusesOtherLengthsOfLists) {
  for (const std::int64_t count : {std::int64_t{-1}, INT64_MAX}) {
    Call call("CudnnRNNCanonicalToParams");
    call.SetString("rnn_mode", "gru")
        .SetString("input_mode", "linear_input")
        .SetString("direction", "unidirectional")
        .SetFloat("dropout", 0)
        .SetInt("num_params", count);
    ASSERT_EQ(call.Instantiate(), "");
    call.inputs.assign(5, {{}, 0, XLA_FFI_DataType_S32});
    call.outputs.assign(1, {{3}, 0});
    EXPECT_PRED_FORMAT2(IsSubstring, "weights, biases, but there are 5",
                        call.Execute());
  }
}

TEST(HandlersTest, RefusesTypes) {
  const auto call = MakeStep();
  ASSERT_EQ(call->Instantiate(), "");
  call->inputs[2].type = XLA_FFI_DataType_F64;
  EXPECT_EQ(call->Execute(), "w_ru must be of type float32, but is float64");
  for (Buffer& input : call->inputs) input.type = XLA_FFI_DataType_S32;
  for (Buffer& output : call->outputs) output.type = XLA_FFI_DataType_S32;
  EXPECT_EQ(call->Execute(),
            "x must be of type bfloat16 or float16 or float32 or float64, but "
            "is int32");
}

TEST(HandlersTest, RefusesShapes) {
  const auto call = MakeStep();
  ASSERT_EQ(call->Instantiate(), "");
  call->inputs[4].sizes = {7};
  EXPECT_EQ(call->Execute(), "b_ru must be [2 * cell_size] = [8], but is [7]");
}

TEST(HandlersTest, RefusesShapesOfResults) {
  const auto call = MakeStep();
  ASSERT_EQ(call->Instantiate(), "");
  call->outputs[3].sizes = {4, 2};
  EXPECT_EQ(call->Execute(), "The result h must be [2,4], but is [4,2]");
}

TEST(HandlersTest, RefusesMoreElementsThanCanBeCounted) {
  const auto call = MakeStep();
  ASSERT_EQ(call->Instantiate(), "");
  call->inputs[0].sizes = {INT64_MAX, 2, 0};
  EXPECT_PRED_FORMAT2(IsSubstring, "x must have no more elements",
                      call->Execute());
}

TEST(HandlersTest, RefusesElementsThatStartAnywhere) {
  const auto call = MakeStep();
  ASSERT_EQ(call->Instantiate(), "");
  call->inputs[1].shift = 2;
  EXPECT_PRED_FORMAT2(IsSubstring, "h_prev must start at a multiple of 4 bytes",
                      call->Execute());
}

TEST(HandlersTest, RunsWithAnyPool) {
  struct Pool {
    std::int64_t num_threads;
    bool takes_tasks;
  };
  for (const Pool& pool :
       {Pool{0, true}, Pool{1, true}, Pool{4, false}, Pool{4, true}}) {
    const auto call = MakeStep(64, 256);
    call->context().num_threads = pool.num_threads;
    call->context().takes_tasks = pool.takes_tasks;
    ASSERT_EQ(call->Instantiate(), "");
    ASSERT_EQ(call->Execute(), "");
    if (pool.num_threads < 2) EXPECT_EQ(call->context().num_tasks, 0);
    EXPECT_EQ(call->outputs[3].elements[64 * 256 - 1], 4);
  }
}

TEST(HandlersTest, SayWhichVersionTheySpeak) {
  XLA_FFI_Metadata metadata{};
  XLA_FFI_Metadata_Extension extension{};
  extension.extension_base.type = XLA_FFI_Extension_Metadata;
  extension.metadata = &metadata;
  for (const OpDefinition& definition : TfRnnOps_FfiOps()) {
    metadata.api_version.minor_version = -1;
    XLA_FFI_CallFrame frame{};
    frame.extension_start = &extension.extension_base;
    EXPECT_EQ(definition.handler(&frame), nullptr);
    EXPECT_EQ(metadata.api_version.major_version, XLA_FFI_API_MAJOR);
    EXPECT_EQ(metadata.api_version.minor_version, XLA_FFI_API_MINOR);
  }
}

TEST(HandlersTest, EveryOpHasABody) {
  for (const OpDefinition& definition : TfRnnOps_FfiOps()) {
    EXPECT_NE(definition.make, nullptr) << definition.name;
  }
}

}  // namespace
}  // namespace tf_rnn_ops
