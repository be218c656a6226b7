#include "cc/ffi/ffi_frame.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <random>
#include <sstream>
#include <string_view>
#include <utility>

#include "cc/ops/arguments.h"
#include "cc/rnn/join.h"

namespace tf_rnn_ops {
namespace {

// Returns whether there is no error. Destroys the error if there is one.
bool IsOk(const XLA_FFI_Api& api, XLA_FFI_Error* error) {
  if (error == nullptr) return true;
  XLA_FFI_Error_Destroy_Args args{};
  args.struct_size = XLA_FFI_Error_Destroy_Args_STRUCT_SIZE;
  args.error = error;
  api.XLA_FFI_Error_Destroy(&args);
  return false;
}

// The number of threads of XLA's pool; 0 if there is no pool.
std::int64_t NumPoolThreads(const XLA_FFI_CallFrame& call) {
  std::int64_t num_threads = 0;
  XLA_FFI_ThreadPool_NumThreads_Args args{};
  args.struct_size = XLA_FFI_ThreadPool_NumThreads_Args_STRUCT_SIZE;
  args.ctx = call.ctx;
  args.num_threads = &num_threads;
  const bool ok =
      IsOk(*call.api, call.api->XLA_FFI_ThreadPool_NumThreads(&args));
  return ok ? num_threads : 0;
}

// Hands a closure to XLA's pool. If the pool rejects it, the calling thread
// does the work alone.
void ScheduleOnPool(const XLA_FFI_CallFrame& call,
                    std::function<void()> closure) {
  auto task = std::make_unique<std::function<void()>>(std::move(closure));
  XLA_FFI_ThreadPool_Schedule_Args args{};
  args.struct_size = XLA_FFI_ThreadPool_Schedule_Args_STRUCT_SIZE;
  args.ctx = call.ctx;
  args.task = [](void* data) {
    const std::unique_ptr<std::function<void()>> task(
        static_cast<std::function<void()>*>(data));
    (*task)();
  };
  args.data = task.get();
  if (IsOk(*call.api, call.api->XLA_FFI_ThreadPool_Schedule(&args))) {
    task.release();
  }
}

struct TypeTraits {
  XLA_FFI_DataType type;
  const char* name;
  std::int64_t num_bytes;
};
constexpr TypeTraits kTypes[] = {
    {XLA_FFI_DataType_PRED, "bool", 1},
    {XLA_FFI_DataType_S8, "int8", 1},
    {XLA_FFI_DataType_S32, "int32", 4},
    {XLA_FFI_DataType_S64, "int64", 8},
    {XLA_FFI_DataType_BF16, "bfloat16", 2},
    {XLA_FFI_DataType_F16, "float16", 2},
    {XLA_FFI_DataType_F32, "float32", 4},
    {XLA_FFI_DataType_F64, "float64", 8},
};

// Null for a type that no argument of the ops has.
const TypeTraits* FindTypeTraits(XLA_FFI_DataType type) {
  const auto traits =
      std::find_if(std::begin(kTypes), std::end(kTypes),
                   [type](const TypeTraits& t) { return t.type == type; });
  return traits == std::end(kTypes) ? nullptr : traits;
}

std::string NameOf(XLA_FFI_DataType type) {
  const TypeTraits* traits = FindTypeTraits(type);
  return traits ? traits->name : rnn::Join("XLA_FFI_DataType ", type);
}

std::string NameOf(XLA_FFI_AttrType type) {
  switch (type) {
    case XLA_FFI_AttrType_ARRAY:
      return "an array";
    case XLA_FFI_AttrType_DICTIONARY:
      return "a dictionary";
    case XLA_FFI_AttrType_SCALAR:
      return "a scalar";
    case XLA_FFI_AttrType_STRING:
      return "a string";
  }
  return rnn::Join("XLA_FFI_AttrType ", type);
}

// For example "float32 or float64".
std::string NamesOf(ElementTypes types) {
  std::string names;
  for (const TypeTraits& traits : kTypes) {
    if (!(types & SetOf(traits.type))) continue;
    names += (names.empty() ? "" : " or ") + std::string(traits.name);
  }
  return names;
}

std::string NamesOf(const std::vector<Argument>& arguments) {
  std::string names;
  for (const Argument& argument : arguments) {
    names += (names.empty() ? "" : ", ") + argument.name;
    if (argument.count != nullptr) {
      names += rnn::Join(" (", argument.count, " arrays)");
    }
  }
  return names;
}

// Requests huge pages for memory that will be written. If XLA allocates many
// arrays at once, it returns them to the system after each run, so the next run
// faults on its first write to each page.
void RequestHugePages(void* memory, std::int64_t num_bytes) {
  constexpr std::uintptr_t kHugePage = std::uintptr_t{2} << 20;
  constexpr std::uintptr_t kMinSize = 4 * kHugePage;
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  const std::uintptr_t first = (begin + kHugePage - 1) / kHugePage * kHugePage;
  const std::uintptr_t end = (begin + num_bytes) / kHugePage * kHugePage;
  if (end < first + kMinSize) return;
  // Ignores failure: huge pages are only an optimization.
  madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);
}

Array ArrayOf(const XLA_FFI_Buffer& buffer) {
  Array array;
  array.shape = Shape(buffer.dims, buffer.rank);
  array.data = buffer.data;
  array.num_elements = array.shape.NumElements();
  array.num_bytes =
      array.num_elements * FindTypeTraits(buffer.dtype)->num_bytes;
  return array;
}

std::string_view TextOf(const XLA_FFI_ByteSpan& span) {
  return std::string_view(span.ptr, span.len);
}

template <typename Placed>
const auto& FindArgument(const Placed& placed, const char* name) {
  return *std::find_if(placed.begin(), placed.end(), [name](const auto& p) {
    return p.argument->name == name;
  });
}

}  // namespace

std::int64_t FfiAttributes::Find(const char* name) const {
  for (std::int64_t i = 0; i < attributes_.size; ++i) {
    if (TextOf(*attributes_.names[i]) == name) return i;
  }
  return -1;
}

Status FfiAttributes::Find(const char* name, XLA_FFI_AttrType type,
                           const char* type_name,
                           const void** attribute) const {
  const std::int64_t index = Find(name);
  if (index < 0) {
    return InvalidArgument("The attribute ", name,
                           " is missing, but must be given with the type ",
                           type_name);
  }
  if (attributes_.types[index] != type) {
    return InvalidArgument("The attribute ", name, " must be of type ",
                           type_name, ", but is ",
                           NameOf(attributes_.types[index]));
  }
  *attribute = attributes_.attrs[index];
  return Status();
}

template <typename T>
Status FfiAttributes::GetScalar(const char* name, XLA_FFI_DataType type,
                                const char* type_name, T* value) const {
  const void* attribute;
  TF_RNN_OPS_RETURN_IF_ERROR(
      Find(name, XLA_FFI_AttrType_SCALAR, type_name, &attribute));
  const auto* scalar = static_cast<const XLA_FFI_Scalar*>(attribute);
  if (scalar->dtype != type) {
    return InvalidArgument("The attribute ", name, " must be of type ",
                           type_name, ", but is of type ",
                           NameOf(scalar->dtype));
  }
  std::memcpy(value, scalar->value, sizeof(T));
  return Status();
}

bool FfiAttributes::Has(const char* name) const { return Find(name) >= 0; }

Status FfiAttributes::Get(const char* name, bool* value) const {
  return GetScalar(name, XLA_FFI_DataType_PRED, "bool", value);
}

Status FfiAttributes::Get(const char* name, std::int64_t* value) const {
  return GetScalar(name, XLA_FFI_DataType_S64, "int64", value);
}

Status FfiAttributes::Get(const char* name, float* value) const {
  return GetScalar(name, XLA_FFI_DataType_F32, "float32", value);
}

Status FfiAttributes::Get(const char* name, std::string* value) const {
  const void* attribute;
  TF_RNN_OPS_RETURN_IF_ERROR(
      Find(name, XLA_FFI_AttrType_STRING, "string", &attribute));
  *value = TextOf(*static_cast<const XLA_FFI_ByteSpan*>(attribute));
  return Status();
}

Status FfiAttributes::Get(const char* name,
                          std::vector<std::string>* values) const {
  std::string joined;
  TF_RNN_OPS_RETURN_IF_ERROR(Get(name, &joined));
  std::istringstream parts(joined);
  values->clear();
  for (std::string part; std::getline(parts, part, ',');) {
    values->push_back(std::move(part));
  }
  return Status();
}

Status FfiAttributes::MakeSeeds(std::uint64_t* seed,
                                std::uint64_t* seed2) const {
  std::random_device device;
  std::uniform_int_distribution<std::uint64_t> any;
  *seed = any(device);
  *seed2 = any(device);
  return Status();
}

Status FfiFrame::Init() {
  TF_RNN_OPS_RETURN_IF_ERROR(Place(op_.signature->inputs, "operands",
                                   call_.args.args, call_.args.size, &inputs_));
  TF_RNN_OPS_RETURN_IF_ERROR(Place(op_.signature->outputs, "results",
                                   call_.rets.rets, call_.rets.size,
                                   &outputs_));
  for (const auto* arguments : {&inputs_, &outputs_}) {
    for (const Buffers& buffers : *arguments) {
      if (type_ != XLA_FFI_DataType_INVALID) break;
      if (op_.TypesOf(*buffers.argument) == kTypeOfOp && buffers.count > 0) {
        type_ = buffers.first[0]->dtype;
      }
    }
  }
  TF_RNN_OPS_RETURN_IF_ERROR(CheckBuffers(inputs_));
  return CheckBuffers(outputs_);
}

// Assigns the buffers to the arguments.
// what: "operands" or "results", for the error message.
Status FfiFrame::Place(const std::vector<Argument>& arguments, const char* what,
                       void** buffers, std::int64_t num_buffers,
                       std::vector<Buffers>* placed) const {
  const FfiAttributes attributes(call_.attrs);
  auto* next = reinterpret_cast<const XLA_FFI_Buffer* const*>(buffers);
  std::int64_t num_placed = 0;
  placed->reserve(arguments.size());
  for (const Argument& argument : arguments) {
    // A caller may leave out the count of a list that is empty.
    std::int64_t count = argument.count == nullptr ? 1 : 0;
    if (argument.count != nullptr && attributes.Has(argument.count)) {
      TF_RNN_OPS_RETURN_IF_ERROR(attributes.Get(argument.count, &count));
    }
    if (count < 0 || count > num_buffers - num_placed) {
      num_placed = -1;
      break;
    }
    placed->push_back({&argument, next + num_placed, count});
    num_placed += count;
  }
  if (num_placed == num_buffers) return Status();
  return InvalidArgument("A call of ", op_.signature->name, " must have the ",
                         what, " ", NamesOf(arguments), ", but has ",
                         num_buffers, " ", what);
}

Status FfiFrame::CheckBuffers(const std::vector<Buffers>& placed) const {
  const ElementTypes all = op_.types();
  const ElementTypes of_op = all & SetOf(type_) ? SetOf(type_) : all;
  for (const auto& [argument, first, count] : placed) {
    ElementTypes types = op_.TypesOf(*argument);
    if (types == kTypeOfOp) types = of_op;
    for (std::int64_t i = 0; i < count; ++i) {
      const XLA_FFI_DataType type = first[i]->dtype;
      if (FindTypeTraits(type) == nullptr || !(types & SetOf(type))) {
        return InvalidArgument(argument->name, " must be of type ",
                               NamesOf(types), ", but is of type ",
                               NameOf(type));
      }
      const Array array = ArrayOf(*first[i]);
      if (array.num_elements < 0) {
        return InvalidArgument(argument->name,
                               " must have fewer elements: their number "
                               "overflows int64 for the shape ",
                               array.shape.ToString());
      }
    }
  }
  return Status();
}

Status FfiFrame::FindInput(const char* name, Array* array) {
  *array = ArrayOf(**FindArgument(inputs_, name).first);
  return CheckAddress(name, *array);
}

Status FfiFrame::FindInputs(const char* name, std::vector<Array>* arrays) {
  const Buffers& buffers = FindArgument(inputs_, name);
  arrays->clear();
  for (std::int64_t i = 0; i < buffers.count; ++i) {
    arrays->push_back(ArrayOf(*buffers.first[i]));
    TF_RNN_OPS_RETURN_IF_ERROR(
        CheckAddress(rnn::Join(name, "[", i, "]"), arrays->back()));
  }
  return Status();
}

int FfiFrame::NumOutputs(const char* name) const {
  return static_cast<int>(FindArgument(outputs_, name).count);
}

Status FfiFrame::MakeOutputs(const char* name, const std::vector<Shape>& shapes,
                             std::vector<Array>* arrays) {
  const Buffers& buffers = FindArgument(outputs_, name);
  arrays->clear();
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    arrays->push_back(ArrayOf(*buffers.first[i]));
    const Array& array = arrays->back();
    if (!array.shape.Fits(shapes[i])) {
      return InvalidArgument(
          "The result ", name, " must be declared with the shape ",
          shapes[i].ToString(), ", but has ", array.shape.ToString());
    }
    RequestHugePages(array.data, array.num_bytes);
  }
  return Status();
}

bool FfiFrame::IsWanted(const char* output) const {
  const FfiAttributes attributes(call_.attrs);
  std::vector<std::string> unwanted;
  if (!attributes.Has(kUnwantedOutputs) ||
      !attributes.Get(kUnwantedOutputs, &unwanted).ok()) {
    return true;
  }
  return std::find(unwanted.begin(), unwanted.end(), output) == unwanted.end();
}

Status FfiFrame::MakeScratch(std::int64_t num_bytes, void** memory) {
  constexpr std::int64_t kAlignment = 64;
  // A positive multiple of the alignment, even for 0 bytes.
  const std::uint64_t rounded =
      (static_cast<std::uint64_t>(num_bytes) / kAlignment + 1) * kAlignment;
  scratch_.emplace_back(std::aligned_alloc(kAlignment, rounded));
  *memory = scratch_.back().get();
  if (*memory == nullptr) {
    return Status(StatusCode::kResourceExhausted,
                  rnn::Join(op_.signature->name, " could not allocate ",
                            num_bytes, " bytes of scratch memory"));
  }
  RequestHugePages(*memory, num_bytes);
  return Status();
}

Threads FfiFrame::FindThreads() {
  Threads threads;
  threads.schedule = [this](std::function<void()> closure) {
    ScheduleOnPool(call_, std::move(closure));
  };
  threads.count = NumPoolThreads(call_);
  return threads;
}

}  // namespace tf_rnn_ops
