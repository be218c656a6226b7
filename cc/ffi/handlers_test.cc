// Calls the handlers as XLA does, but without XLA: with valid calls and with
// calls that are invalid in one place.

#include "cc/ffi/handlers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cc/ffi/ffi_op.h"
#include "cc/ffi/ffi_versions.h"
#include "cc/rnn/cudnn_rnn_params.h"
#include "cc/rnn/float16.h"
#include "cc/rnn/float16_conversion.h"
#include "cc/rnn/reserve_space.h"
#include "cc/rnn/rnn_config.h"
#include "xla/ffi/api/c_api.h"

extern "C" std::int64_t TfRnnOps_KerasRNNReserveSpaceSize(
    const char* rnn_mode, std::int64_t batch, std::int64_t time,
    std::int64_t units, std::int64_t element_bytes);

struct XLA_FFI_Error {
  std::string message;
  XLA_FFI_Error_Code code;
};

namespace tf_rnn_ops {
namespace {

using Shape = std::vector<std::int64_t>;

// ------------------------------------------------------------ a fake XLA

// What a handler's context is here.
struct Program {
  void* state = nullptr;
  void (*delete_state)(void*) = nullptr;
  int num_threads = 0;
  bool takes_tasks = true;
  std::vector<std::pair<XLA_FFI_Task*, void*>> tasks;
};

Program& ProgramOf(FfiContext* context) {
  return *reinterpret_cast<Program*>(context);
}

void (*registered_deleter)(void*) = nullptr;

const XLA_FFI_Api& FakeApi() {
  static const XLA_FFI_Api api = [] {
    XLA_FFI_Api api{};
    api.struct_size = XLA_FFI_Api_STRUCT_SIZE;
    api.XLA_FFI_Error_Create = [](XLA_FFI_Error_Create_Args* args) {
      return new XLA_FFI_Error{args->message, args->errc};
    };
    api.XLA_FFI_Error_Destroy = [](XLA_FFI_Error_Destroy_Args* args) {
      delete args->error;
    };
    api.XLA_FFI_Type_Register =
        [](XLA_FFI_Type_Register_Args* args) -> XLA_FFI_Error* {
      args->type_id->type_id = 1;
      registered_deleter = args->type_info->deleter;
      return nullptr;
    };
    api.XLA_FFI_State_Set = [](XLA_FFI_State_Set_Args* args) -> XLA_FFI_Error* {
      ProgramOf(args->ctx).state = args->state;
      ProgramOf(args->ctx).delete_state = registered_deleter;
      return nullptr;
    };
    api.XLA_FFI_State_Get = [](XLA_FFI_State_Get_Args* args) -> XLA_FFI_Error* {
      args->state = ProgramOf(args->ctx).state;
      return nullptr;
    };
    api.XLA_FFI_ThreadPool_NumThreads =
        [](XLA_FFI_ThreadPool_NumThreads_Args* args) -> XLA_FFI_Error* {
      if (ProgramOf(args->ctx).num_threads == 0) {
        return new XLA_FFI_Error{"no pool", XLA_FFI_Error_Code_UNIMPLEMENTED};
      }
      *args->num_threads = ProgramOf(args->ctx).num_threads;
      return nullptr;
    };
    api.XLA_FFI_ThreadPool_Schedule =
        [](XLA_FFI_ThreadPool_Schedule_Args* args) -> XLA_FFI_Error* {
      if (!ProgramOf(args->ctx).takes_tasks) {
        return new XLA_FFI_Error{"no thread", XLA_FFI_Error_Code_UNAVAILABLE};
      }
      ProgramOf(args->ctx).tasks.emplace_back(args->task, args->data);
      return nullptr;
    };
    return api;
  }();
  return api;
}

// An array, in memory of exactly its size so that sanitizers detect accesses
// beyond it.
struct Buffer {
  Buffer(XLA_FFI_DataType type, Shape shape)
      : type(type), shape(std::move(shape)) {
    memory.resize(Size() * SizeOf(type));
  }

  static std::int64_t SizeOf(XLA_FFI_DataType type) {
    switch (type) {
      case XLA_FFI_DataType_F64:
      case XLA_FFI_DataType_S64:
        return 8;
      case XLA_FFI_DataType_PRED:
      case XLA_FFI_DataType_S8:
        return 1;
      case XLA_FFI_DataType_F16:
      case XLA_FFI_DataType_BF16:
        return 2;
      default:
        return 4;
    }
  }
  std::int64_t Size() const {
    std::int64_t size = 1;
    for (const std::int64_t each : shape) size *= each;
    return size;
  }
  template <typename T>
  T* As() {
    return reinterpret_cast<T*>(memory.data());
  }

  XLA_FFI_DataType type;
  Shape shape;
  std::vector<char> memory;
  int shift = 0;  // where the elements start
};

// A type of attribute stands for any value of that type.
using Attribute =
    std::variant<bool, std::int64_t, float, std::string, XLA_FFI_AttrType>;

// One op in a program: its attributes, operands and results.
struct Call {
  const FfiOp* op;
  std::map<std::string, Attribute> attributes;
  std::vector<Buffer> operands;
  std::vector<Buffer> results;
  int num_threads = 0;
  bool takes_tasks = true;
  const XLA_FFI_Api* api = &FakeApi();

  // Loads and runs the program. Returns the error message; empty if there is no
  // error.
  std::string Run(int times = 1) {
    return Run([] { return ""; }, times);
  }

  // Calls `then` before unloading the program. Returns the first error.
  std::string Run(const std::function<std::string()>& then, int times = 1) {
    Program program;
    program.num_threads = num_threads;
    program.takes_tasks = takes_tasks;
    std::string error = Stage(XLA_FFI_ExecutionStage_INSTANTIATE, &program);
    for (int i = 0; i < times && error.empty(); ++i) {
      error = Stage(XLA_FFI_ExecutionStage_EXECUTE, &program);
    }
    if (error.empty()) error = then();
    for (const auto& [task, data] : program.tasks) task(data);
    if (program.state) program.delete_state(program.state);
    return error;
  }

 private:
  std::string Stage(XLA_FFI_ExecutionStage stage, Program* program) {
    XLA_FFI_CallFrame frame{};
    frame.struct_size = XLA_FFI_CallFrame_STRUCT_SIZE;
    frame.api = api;
    frame.ctx = reinterpret_cast<FfiContext*>(program);
    frame.stage = stage;
    Attributes passed(attributes);
    frame.attrs = passed.attrs;
    Buffers given(&operands), made(&results);
    if (stage == XLA_FFI_ExecutionStage_EXECUTE) {
      frame.args.size = static_cast<std::int64_t>(operands.size());
      frame.args.args = given.pointers.data();
      frame.rets.size = static_cast<std::int64_t>(results.size());
      frame.rets.rets = made.pointers.data();
    }
    const std::unique_ptr<XLA_FFI_Error> error(op->handler(&frame));
    return error ? error->message : "";
  }

  struct Buffers {
    explicit Buffers(std::vector<Buffer>* buffers) {
      views.reserve(buffers->size());
      for (Buffer& buffer : *buffers) {
        views.push_back({XLA_FFI_Buffer_STRUCT_SIZE, nullptr, buffer.type,
                         buffer.memory.data() + buffer.shift,
                         static_cast<std::int64_t>(buffer.shape.size()),
                         buffer.shape.data()});
        pointers.push_back(&views.back());
      }
    }

    std::vector<XLA_FFI_Buffer> views;
    std::vector<void*> pointers;
  };

  struct Attributes {
    explicit Attributes(std::map<std::string, Attribute>& values) {
      scalars.reserve(values.size());
      texts.reserve(2 * values.size());
      for (auto& [name, value] : values) {
        texts.push_back({name.data(), name.size()});
        names.push_back(&texts.back());
        if (auto* text = std::get_if<std::string>(&value)) {
          texts.push_back({text->data(), text->size()});
          types.push_back(XLA_FFI_AttrType_STRING);
          pointers.push_back(&texts.back());
          continue;
        }
        if (auto* type = std::get_if<XLA_FFI_AttrType>(&value)) {
          types.push_back(*type);
          pointers.push_back(nullptr);
          continue;
        }
        XLA_FFI_Scalar scalar{};
        if (auto* flag = std::get_if<bool>(&value)) {
          scalar = {XLA_FFI_DataType_PRED, flag};
        } else if (auto* number = std::get_if<std::int64_t>(&value)) {
          scalar = {XLA_FFI_DataType_S64, number};
        } else {
          scalar = {XLA_FFI_DataType_F32, &std::get<float>(value)};
        }
        scalars.push_back(scalar);
        types.push_back(XLA_FFI_AttrType_SCALAR);
        pointers.push_back(&scalars.back());
      }
      attrs.size = static_cast<std::int64_t>(names.size());
      attrs.types = types.data();
      attrs.names = names.data();
      attrs.attrs = pointers.data();
    }

    XLA_FFI_Attrs attrs{};
    std::vector<XLA_FFI_Scalar> scalars;
    std::vector<XLA_FFI_ByteSpan> texts;
    std::vector<XLA_FFI_AttrType> types;
    std::vector<XLA_FFI_ByteSpan*> names;
    std::vector<void*> pointers;
  };
};

// ------------------------------------------------------------- valid calls

constexpr std::int64_t kTime = 3, kBatch = 2, kInput = 4, kUnits = 5;
constexpr std::int64_t kLayers = 2;
constexpr float kDropout = 0.5f;

// Two LSTM layers, or one Keras LSTM layer.
rnn::RnnConfig Config(bool is_keras) {
  return {rnn::RnnMode::kLstm,
          /*skip_input=*/false,
          /*num_directions=*/1,
          is_keras ? 1 : kLayers,
          kInput,
          kUnits,
          /*num_proj=*/0,
          is_keras};
}

bool IsKeras(const FfiOp& op) {
  return op.signature->name.find("KerasRNN") != std::string::npos;
}

// The type with which to call an op: float, unless it is for 16-bit types only.
XLA_FFI_DataType CallType(const FfiOp& op) {
  for (const auto type : {XLA_FFI_DataType_F32, XLA_FFI_DataType_BF16}) {
    if (op.types() & SetOf(type)) return type;
  }
  return XLA_FFI_DataType_S64;
}

// The sizes that the documentation of arguments mentions.
std::int64_t SizeOf(const std::string& name) {
  const std::map<std::string, std::int64_t> sizes = {
      {"time", kTime},
      {"batch", kBatch},
      {"input_size", kInput},
      {"features", kInput},
      {"cell_size", kUnits},
      {"num_units", kUnits},
      {"output_size", kUnits},
      {"units", kUnits},
      {"gates", 4},
      {"num_layers", kLayers},
      {"num_directions", 1},
      {"params_size", rnn::CudnnRnnParamsSize(Config(false))}};
  const auto size = sizes.find(name);
  if (size != sizes.end()) return size->second;
  return std::isdigit(name[0]) ? std::stoll(name) : -1;
}

// The sizes in the first brackets of a text in which all names are sizes, as in
// "[time, 4 * units]".
bool FindSizes(const std::string& text, Shape* shape) {
  static const std::regex brackets(R"(\[([^\]]*)\])"), word(R"([^\s,]+|,)");
  for (std::sregex_iterator found(text.begin(), text.end(), brackets), end;
       found != end; ++found) {
    const std::string inside = (*found)[1].str() + ",";
    *shape = {};
    std::int64_t size = 0;
    char operation = '+';
    bool are_sizes = true;
    for (std::sregex_iterator each(inside.begin(), inside.end(), word);
         each != end; ++each) {
      const std::string text = each->str();
      if (text == ",") {
        shape->push_back(size);
        size = 0;
        operation = '+';
      } else if (text == "+" || text == "-" || text == "*") {
        operation = text[0];
      } else {
        const std::int64_t value = SizeOf(text);
        are_sizes = are_sizes && value >= 0;
        size = operation == '*'   ? size * value
               : operation == '-' ? size - value
                                  : size + value;
      }
    }
    if (are_sizes) return true;
  }
  return false;
}

// The shapes of an argument, one for each array of a list. They follow from its
// documentation, and from that of the argument that it refers to, of this or
// another op.
std::vector<Shape> ShapesOf(const FfiOp& op, const Argument& argument) {
  if (IsKeras(op) && argument.count != nullptr) {  // masks
    Shape shape;
    EXPECT_TRUE(FindSizes(argument.doc, &shape));
    return std::vector<Shape>(SizeOf("gates"), shape);
  }
  if (argument.count != nullptr) {
    const rnn::CudnnRnnParamsLayout layout(Config(false));
    const bool are_weights = argument.name == "weights";
    std::vector<Shape> shapes;
    for (std::int64_t i = 0; i < layout.num_biases(); ++i) {
      const auto region = are_weights ? layout.Weight(i) : layout.Bias(i);
      shapes.push_back(are_weights ? Shape{region.rows, region.cols}
                                   : Shape{region.rows});
    }
    return shapes;
  }
  if (argument.is_opaque) {
    if (argument.is_on_host) {
      const std::string& name = op.signature->name;
      return {name.substr(name.size() - 2) == "V2" ? Shape{2} : Shape{}};
    }
    const auto size = CallType(op) == XLA_FFI_DataType_BF16
                          ? &rnn::ReserveSpaceSize<rnn::BFloat16>
                          : &rnn::ReserveSpaceSize<float>;
    return {{size(Config(IsKeras(op)), {kTime, kBatch})}};
  }
  Shape shape;
  if (argument.doc.find(", a scalar") != std::string::npos) return {shape};
  if (FindSizes(argument.doc, &shape)) return {shape};
  static const std::regex other("(?:same shape as|with respect to) (\\w+)");
  std::smatch name;
  std::regex_search(argument.doc, name, other);
  std::vector<const FfiOp*> ops = {&op};
  for (const FfiOp& each : TfRnnOps_FfiOps()) ops.push_back(&each);
  for (const FfiOp* each : ops) {
    for (const auto* arguments :
         {&each->signature->inputs, &each->signature->outputs}) {
      for (const Argument& like : *arguments) {
        if (like.name == name[1]) return ShapesOf(*each, like);
      }
    }
  }
  ADD_FAILURE() << op.signature->name << ": the shape of " << argument.name
                << " is unknown: " << argument.doc;
  return {shape};
}

// The type of an argument: the first allowed one, or the type of the op.
XLA_FFI_DataType TypeOf(const FfiOp& op, const Argument& argument,
                        XLA_FFI_DataType type_of_op) {
  for (int type = 0; type < 32; ++type) {
    const auto each = static_cast<XLA_FFI_DataType>(type);
    if (op.TypesOf(argument) & SetOf(each)) return each;
  }
  return type_of_op;
}

void FillInput(const std::string& name, Buffer* buffer) {
  for (std::int64_t i = 0; i < buffer->Size(); ++i) {
    if (buffer->type == XLA_FFI_DataType_F32) {
      buffer->As<float>()[i] = std::sin(static_cast<float>(i + name.size()));
    } else if (buffer->type == XLA_FFI_DataType_BF16) {
      buffer->As<rnn::BFloat16>()[i] =
          rnn::ToBFloat16(std::sin(static_cast<float>(i + name.size())));
    } else if (buffer->type == XLA_FFI_DataType_S32) {
      const std::int64_t size = SizeOf(name);
      buffer->As<std::int32_t>()[i] =
          static_cast<std::int32_t>(size < 0 ? kTime : size);
    } else if (buffer->type == XLA_FFI_DataType_S64) {
      buffer->As<std::int64_t>()[i] = 3 + i;  // as the seeds of AttributesOf
    } else {
      buffer->memory[i] = 1;  // of a mask
    }
  }
}

// The attributes of a call: the defaults in the definitions, with changes.
std::map<std::string, Attribute> AttributesOf(const FfiOp& op) {
  const rnn::CudnnRnnParamsLayout layout(Config(false));
  const std::map<std::string, Attribute> changes = {
      {"dropout", kDropout},
      {"seed", std::int64_t{3}},
      {"seed2", std::int64_t{4}},
      {"return_sequences", true},
      {"use_peephole", true},
      {"new_cell_second", true},
      {"num_params", layout.num_weights()},
      {"num_params_weights", layout.num_weights()},
      {"num_params_biases", layout.num_biases()},
      {"num_input_masks", SizeOf("gates")},
      {"num_state_masks", SizeOf("gates")}};
  std::map<std::string, Attribute> attributes;
  for (const auto& each : op.signature->attributes) {
    static const std::regex syntax(R"((\w+): ([\w(]+|\{'?)[^=]*(?:= (.*))?)");
    std::smatch parts;
    EXPECT_TRUE(std::regex_match(each.definition, parts, syntax));
    const std::string name = parts[1], type = parts[2], value = parts[3];
    const auto change = changes.find(name);
    if (change != changes.end()) {
      attributes[name] = change->second;
    } else if (type == "bool") {
      attributes[name] = value == "true";
    } else if (type == "int") {
      attributes[name] = std::int64_t{std::stoll(value)};
    } else if (type == "float") {
      attributes[name] = std::stof(value);
    } else if (type == "{'") {
      attributes[name] = value.substr(1, value.size() - 2);
    } else if (type == "list(") {
      attributes[name] = "";
    }
  }
  return attributes;
}

// Runs calls of all ops. Operands are the results of earlier calls where
// available.
std::vector<Call> RunAll() {
  std::map<std::string, Buffer> made;
  std::vector<Call> calls;
  for (const FfiOp& op : TfRnnOps_FfiOps()) {
    const auto type = CallType(op);
    Call call{&op, AttributesOf(op), {}, {}};
    for (const Argument& argument : op.signature->inputs) {
      for (const Shape& shape : ShapesOf(op, argument)) {
        const auto before = made.find(argument.name);
        const auto argument_type = TypeOf(op, argument, type);
        if (before != made.end() && before->second.shape == shape &&
            before->second.type == argument_type) {
          call.operands.push_back(before->second);
          continue;
        }
        call.operands.emplace_back(argument_type, shape);
        FillInput(argument.name, &call.operands.back());
      }
    }
    for (const Argument& argument : op.signature->outputs) {
      for (const Shape& shape : ShapesOf(op, argument)) {
        call.results.emplace_back(TypeOf(op, argument, type), shape);
      }
    }
    EXPECT_EQ(call.Run(), "") << op.signature->name;
    std::size_t i = 0;
    for (const Argument& argument : op.signature->outputs) {
      if (argument.count == nullptr) {
        made.insert_or_assign(argument.name, call.results[i]);
      }
      i += ShapesOf(op, argument).size();
    }
    calls.push_back(std::move(call));
  }
  return calls;
}

const std::vector<Call>& AllCalls() {
  static const auto& calls = *new std::vector<Call>(RunAll());
  return calls;
}

const Call& CallOf(const std::string& op) {
  return *std::find_if(
      AllCalls().begin(), AllCalls().end(),
      [&](const Call& each) { return each.op->signature->name == op; });
}

// Whether a message names one of the op's arguments.
bool NamesAnArgument(const FfiOp& op, const std::string& message) {
  for (const auto* arguments :
       {&op.signature->inputs, &op.signature->outputs}) {
    for (const Argument& argument : *arguments) {
      if (message.find(argument.name) != std::string::npos) return true;
    }
  }
  return false;
}

TEST(HandlersTest, RunEveryOp) {
  EXPECT_EQ(AllCalls().size(), Signatures().size());
  for (const Call& call : AllCalls()) {
    for (Buffer result : call.results) {
      if (result.type != XLA_FFI_DataType_F32) continue;
      double sum = 0;
      for (std::int64_t i = 0; i < result.Size(); ++i) {
        sum += std::abs(result.As<float>()[i]);
      }
      EXPECT_GT(sum, 0) << call.op->signature->name;
    }
  }
}

TEST(HandlersTest, ReturnTheSameBitsForAnyNumberOfThreads) {
  for (const Call& call : AllCalls()) {
    Call again = call;
    again.num_threads = 4;
    EXPECT_EQ(again.Run(), "");
    for (std::size_t i = 0; i < call.results.size(); ++i) {
      EXPECT_EQ(again.results[i].memory, call.results[i].memory)
          << call.op->signature->name;
    }
  }
}

// The random numbers repeat when a program is loaded again, not when it runs
// again.
TEST(HandlersTest, DrawNewMasksInEachRun) {
  const Call& call = CallOf("CudnnRNNV3");
  Call again = call;
  EXPECT_EQ(again.Run(2), "");
  EXPECT_NE(again.results[0].memory, call.results[0].memory);
  Call third = call;
  EXPECT_EQ(third.Run(2), "");
  EXPECT_EQ(again.results[0].memory, third.results[0].memory);
}

TEST(HandlersTest, DrawTheMasksOfSeedsThatAreAnInput) {
  Call stateless = CallOf("StatelessCudnnRNN");
  EXPECT_EQ(stateless.Run(2), "");
  EXPECT_EQ(stateless.results[0].memory,
            CallOf("CudnnRNNV3").results[0].memory);
}

// Programs that name the same stream share it, for any shapes.
TEST(HandlersTest, ShareTheStreamThatTheyName) {
  const Call& call = CallOf("CudnnRNNV3");
  Call twice = call, first = call, second = call;
  EXPECT_EQ(twice.Run(2), "");
  first.attributes["dropout_stream"] = std::int64_t{17};
  second.attributes["dropout_stream"] = std::int64_t{17};
  EXPECT_EQ(first.Run([&] { return second.Run(); }), "");
  EXPECT_EQ(first.results[0].memory, call.results[0].memory);
  EXPECT_EQ(second.results[0].memory, twice.results[0].memory);
  // The stream restarts when no program uses it any more.
  EXPECT_EQ(second.Run(), "");
  EXPECT_EQ(second.results[0].memory, call.results[0].memory);
}

// Calls body for each change of the shape of one operand or result.
void ForEachChanged(const Call& call, std::vector<Buffer> Call::* buffers,
                    const std::function<void(const Buffer&, Call)>& body) {
  for (std::size_t i = 0; i < (call.*buffers).size(); ++i) {
    const Buffer& buffer = (call.*buffers)[i];
    std::vector<Shape> shapes;
    for (std::size_t dimension = 0; dimension < buffer.shape.size();
         ++dimension) {
      for (const int change : {-1, 1}) {
        shapes.push_back(buffer.shape);
        shapes.back()[dimension] += change;
      }
    }
    shapes.push_back(buffer.shape);
    shapes.back().push_back(1);
    for (const Shape& shape : shapes) {
      Call changed = call;
      (changed.*buffers)[i] = Buffer(buffer.type, shape);
      body(buffer, std::move(changed));
    }
  }
}

TEST(HandlersTest, RejectWrongOperandShapes) {
  for (const Call& call : AllCalls()) {
    std::size_t i = 0;
    for (const Argument& argument : call.op->signature->inputs) {
      i += ShapesOf(*call.op, argument).size();
    }
    ASSERT_EQ(i, call.operands.size());
    ForEachChanged(call, &Call::operands,
                   [&](const Buffer& buffer, Call changed) {
                     // The CPU ignores host_reserved.
                     if (buffer.type == XLA_FFI_DataType_S8) return;
                     const std::string error = changed.Run();
                     EXPECT_TRUE(NamesAnArgument(*call.op, error))
                         << call.op->signature->name << ": " << error;
                   });
  }
}

TEST(HandlersTest, RejectWrongResultShapes) {
  for (const Call& call : AllCalls()) {
    ForEachChanged(call, &Call::results, [&](const Buffer&, Call changed) {
      const std::string error = changed.Run();
      EXPECT_NE(error.find("must be declared with the shape"),
                std::string::npos)
          << call.op->signature->name << ": " << error;
    });
  }
}

TEST(HandlersTest, RejectWrongTypes) {
  for (const Call& call : AllCalls()) {
    for (auto buffers : {&Call::operands, &Call::results}) {
      for (std::size_t i = 0; i < (call.*buffers).size(); ++i) {
        for (const auto type : {XLA_FFI_DataType_F64, XLA_FFI_DataType_U32}) {
          Call changed = call;
          const Shape& shape = (call.*buffers)[i].shape;
          (changed.*buffers)[i] = Buffer(type, shape);
          const std::string error = changed.Run();
          // The masks may have type float64.
          if (error.empty() && buffers == &Call::results) continue;
          EXPECT_NE(error.find("type"), std::string::npos)
              << call.op->signature->name << ": " << error;
        }
      }
    }
  }
}

TEST(HandlersTest, RejectWrongNumbersOfArrays) {
  for (const Call& call : AllCalls()) {
    for (auto buffers : {&Call::operands, &Call::results}) {
      Call fewer = call;
      (fewer.*buffers).pop_back();
      EXPECT_TRUE(NamesAnArgument(*call.op, fewer.Run()));
      Call more = call;
      (more.*buffers).push_back((more.*buffers).back());
      EXPECT_TRUE(NamesAnArgument(*call.op, more.Run()));
      Call none = call;
      (none.*buffers).clear();
      EXPECT_TRUE(NamesAnArgument(*call.op, none.Run()));
    }
  }
}

TEST(HandlersTest, RejectMissingAttributesAndWrongTypes) {
  for (const Call& call : AllCalls()) {
    for (const auto& [name, value] : call.attributes) {
      Call missing = call;
      missing.attributes.erase(name);
      const std::string error = missing.Run();
      EXPECT_TRUE(error.empty() || error.find(name) != std::string::npos)
          << call.op->signature->name << ": " << error;
      std::vector<Attribute> of_other_types = {true};
      if (std::holds_alternative<bool>(value)) {
        of_other_types = {std::string("text"), std::int64_t{1}};
      } else if (!std::holds_alternative<std::string>(value)) {
        of_other_types = {std::string("text"), true};
      }
      for (const Attribute& other : of_other_types) {
        Call changed = call;
        changed.attributes[name] = other;
        const std::string type_error = changed.Run();
        EXPECT_TRUE(type_error.empty() ||
                    type_error.find(name + " must be of type ") !=
                        std::string::npos)
            << call.op->signature->name << ": " << type_error;
      }
    }
  }
}

TEST(HandlersTest, RejectAttributesOfOtherKinds) {
  const std::vector<Call> calls = AllCalls();
  Call call = *std::find_if(calls.begin(), calls.end(), [](const Call& each) {
    return !each.attributes.empty();
  });
  const std::string name = call.attributes.begin()->first;
  const std::pair<int, const char*> kinds[] = {
      {XLA_FFI_AttrType_ARRAY, "an array"},
      {XLA_FFI_AttrType_DICTIONARY, "a dictionary"},
      {7, "XLA_FFI_AttrType 7"}};
  for (const auto& [kind, text] : kinds) {
    call.attributes[name] = static_cast<XLA_FFI_AttrType>(kind);
    const std::string error = call.Run();
    EXPECT_NE(error.find(name), std::string::npos) << error;
    EXPECT_NE(error.find(std::string("but is ") + text), std::string::npos)
        << error;
  }
}

TEST(HandlersTest, ReturnTheErrorsOfXla) {
  XLA_FFI_Api api = FakeApi();
  Call call = AllCalls().front();
  call.api = &api;
  api.XLA_FFI_Type_Register = [](XLA_FFI_Type_Register_Args*) {
    return new XLA_FFI_Error{"no type", XLA_FFI_Error_Code_INTERNAL};
  };
  EXPECT_EQ(call.Run(), "no type");
  api = FakeApi();
  EXPECT_EQ(call.Run(), "");
  api.XLA_FFI_State_Set = [](XLA_FFI_State_Set_Args*) {
    return new XLA_FFI_Error{"no place", XLA_FFI_Error_Code_INTERNAL};
  };
  EXPECT_EQ(call.Run(), "no place");
  api = FakeApi();
  api.XLA_FFI_State_Get = [](XLA_FFI_State_Get_Args*) {
    return new XLA_FFI_Error{"no state", XLA_FFI_Error_Code_INTERNAL};
  };
  EXPECT_EQ(call.Run(), "no state");
}

TEST(HandlersTest, RejectInvalidAttributeValues) {
  for (const Call& call : AllCalls()) {
    for (const auto& [name, value] : call.attributes) {
      if (!std::holds_alternative<std::string>(value) || name == "skip") {
        continue;
      }
      Call changed = call;
      changed.attributes[name] = "conv";
      const std::string error = changed.Run();
      const bool is_read =
          call.op->signature->name.find("Block") == std::string::npos;
      EXPECT_EQ(error.find(name + " must be one of ") == 0, is_read)
          << call.op->signature->name << ": " << error;
    }
  }
}

TEST(HandlersTest, RejectInvalidLengthsAndReserveSpaces) {
  for (const Call& call : AllCalls()) {
    std::size_t i = 0;
    for (const Argument& argument : call.op->signature->inputs) {
      const std::string name = argument.name;
      if (name == "sequence_lengths" || name == "seq_len_max" ||
          (argument.is_opaque && !argument.is_on_host)) {
        Call changed = call;
        std::memset(changed.operands[i].memory.data(), 0x7f,
                    changed.operands[i].memory.size());
        EXPECT_NE(changed.Run().find(name), std::string::npos)
            << call.op->signature->name;
      }
      i += ShapesOf(*call.op, argument).size();
    }
  }
}

TEST(HandlersTest, RejectUnsupportedTypes) {
  for (const Call& call : AllCalls()) {
    Call changed = call;
    for (auto buffers : {&Call::operands, &Call::results}) {
      for (Buffer& buffer : changed.*buffers) {
        buffer = Buffer(XLA_FFI_DataType_S8, buffer.shape);
      }
    }
    EXPECT_NE(changed.Run().find(" must be of type "), std::string::npos)
        << call.op->signature->name;
  }
}

// A handler that supports more types when the program runs than it did when the
// program was loaded.
TEST(HandlersTest, RejectTypesThatWereNotLoaded) {
  static const FfiOp* op;
  for (const Call& call : AllCalls()) {
    op = call.op;
    FfiOp changed_op = *op;
    changed_op.handler = [](XLA_FFI_CallFrame* frame) {
      FfiOp changed = *op;
      if (frame->stage == XLA_FFI_ExecutionStage_INSTANTIATE) {
        changed.entries.clear();
      }
      return Handle(changed, frame);
    };
    Call changed = call;
    changed.op = &changed_op;
    EXPECT_NE(changed.Run().find(op->signature->name + " was not loaded for "),
              std::string::npos);
  }
}

TEST(HandlersTest, RejectWrongListLengths) {
  for (const Call& call : AllCalls()) {
    for (const auto* arguments :
         {&call.op->signature->inputs, &call.op->signature->outputs}) {
      for (const Argument& argument : *arguments) {
        if (argument.count == nullptr) continue;
        for (const std::int64_t count : {std::int64_t{-1}, INT64_MAX}) {
          Call changed = call;
          changed.attributes[argument.count] = count;
          EXPECT_TRUE(NamesAnArgument(*call.op, changed.Run()))
              << call.op->signature->name;
        }
      }
    }
  }
}

TEST(HandlersTest, RejectOverflowingShapes) {
  for (const Call& call : AllCalls()) {
    Call changed = call;
    changed.operands[0].shape = {INT64_MAX, 2, 0};
    EXPECT_NE(changed.Run().find(" must have fewer elements: "),
              std::string::npos)
        << call.op->signature->name;
  }
}

// The call of GRUBlockCell with another batch, but the arrays of kBatch.
Call GruBlockCellOf(std::int64_t batch) {
  Call call = CallOf("GRUBlockCell");
  for (auto buffers : {&Call::operands, &Call::results}) {
    for (Buffer& buffer : call.*buffers) {
      if (buffer.shape[0] == kBatch) buffer.shape[0] = batch;
    }
  }
  return call;
}

TEST(HandlersTest, RunWithHugePages) {
  Call call = GruBlockCellOf(std::int64_t{1} << 19);
  for (auto buffers : {&Call::operands, &Call::results}) {
    for (Buffer& buffer : call.*buffers) {
      buffer = Buffer(buffer.type, buffer.shape);
    }
  }
  EXPECT_EQ(call.Run(), "");
  Buffer& r = call.results[0];
  ASSERT_GE(r.memory.size(), std::size_t{10} << 20);
  // The sigmoid of zeros.
  EXPECT_EQ(r.As<float>()[0], 0.5f);
  EXPECT_EQ(r.As<float>()[r.Size() - 1], 0.5f);
}

TEST(HandlersTest, ReportThatMemoryIsShort) {
  const std::string error = GruBlockCellOf(std::int64_t{1} << 50).Run();
  EXPECT_EQ(error.find("GRUBlockCell could not allocate "), 0);
}

TEST(ReserveSpaceSizeTest, IsThatOfTheEngine) {
  const auto size = [](const char* mode, std::int64_t element_bytes) {
    return TfRnnOps_KerasRNNReserveSpaceSize(mode, kBatch, kTime, kUnits,
                                             element_bytes);
  };
  rnn::RnnConfig config = Config(/*is_keras=*/true);
  config.input_size = 0;
  const rnn::RnnSize sizes = {kTime, kBatch};
  EXPECT_EQ(size("lstm", 8), rnn::ReserveSpaceSize<double>(config, sizes));
  EXPECT_EQ(size("lstm", 4), rnn::ReserveSpaceSize<float>(config, sizes));
  EXPECT_EQ(size("lstm", 2), rnn::ReserveSpaceSize<rnn::Half>(config, sizes));
  EXPECT_EQ(size("lstm", 2),
            rnn::ReserveSpaceSize<rnn::BFloat16>(config, sizes));
  EXPECT_EQ(size("lstm", 3), -1);
  EXPECT_EQ(size("lstms", 4), -1);
  EXPECT_EQ(size(nullptr, 4), -1);
}

TEST(HandlersTest, RejectUnalignedElements) {
  for (const Call& call : AllCalls()) {
    Call changed = call;
    Buffer& buffer = changed.operands[0];
    buffer.memory.insert(buffer.memory.begin(), 1, 0);
    buffer.shift = 1;
    EXPECT_NE(changed.Run().find(" must be aligned to "), std::string::npos)
        << call.op->signature->name;
  }
}

TEST(HandlersTest, RunAloneIfThePoolRejectsTasks) {
  for (const Call& call : AllCalls()) {
    Call again = call;
    again.num_threads = 4;
    again.takes_tasks = false;
    EXPECT_EQ(again.Run(), "");
    EXPECT_EQ(again.results[0].memory, call.results[0].memory)
        << call.op->signature->name;
  }
}

TEST(HandlersTest, ReportTheApiVersion) {
  for (const FfiOp& op : TfRnnOps_FfiOps()) {
    XLA_FFI_Metadata metadata{};
    metadata.api_version.minor_version = -1;
    XLA_FFI_Metadata_Extension extension{};
    extension.extension_base.type = XLA_FFI_Extension_Metadata;
    extension.metadata = &metadata;
    XLA_FFI_CallFrame frame{};
    frame.extension_start = &extension.extension_base;
    EXPECT_EQ(op.handler(&frame), nullptr);
    EXPECT_EQ(metadata.api_version.major_version, XLA_FFI_API_MAJOR);
    EXPECT_EQ(metadata.api_version.minor_version, XLA_FFI_API_MINOR);
  }
}

}  // namespace
}  // namespace tf_rnn_ops
