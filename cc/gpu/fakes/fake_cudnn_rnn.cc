#include "cc/gpu/fakes/fake_cudnn_rnn.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <type_traits>

#include "cc/rnn/network_test_support.h"

namespace tf_rnn_ops::gpu {
namespace {

using rnn::Array;

template <typename T>
class Network {
 public:
  explicit Network(const FakeRnn& network) : n_(network) {
    k_.config = n_.config;
    k_.size = n_.size;
    k_.lengths = n_.lengths;
    for (const Kept& each : kept_) each.array->resize(n_.SizeOf(each.kind));
  }

  std::string Run(FakePass pass, const std::vector<FakeArray>& arrays,
                  void* reserve_space) {
    for (const FakeArray& array : arrays) arrays_[array.name] = array;
    switch (pass) {
      case FakePass::kForward:
        return Forward(reserve_space);
      case FakePass::kBackwardData:
        return BackwardData(reserve_space);
      case FakePass::kBackwardWeights:
        break;
    }
    return BackwardWeights(reserve_space);
  }

  std::size_t ReserveBytes() const {
    std::size_t size = sizeof(std::size_t);
    for (const Kept& each : kept_) size += each.array->size() * sizeof(double);
    return size;
  }

 private:
  std::string Forward(void* reserve_space) {
    for (const char* name : {"x", "hx", "cx", "weightSpace"}) {
      Find(name) = Read(name);
    }
    const bool is_training = reserve_space != nullptr;
    const rnn::ForwardResult result = Engine().Forward(is_training, executor_);
    output_ = Approximated(result.output);
    Write("y", output_, /*with_padding=*/true);
    Write("hy", result.output_h);
    Write("cy", result.output_c);
    if (is_training) Keep("cudnnRNNForward", reserve_space);
    return "";
  }

  std::string BackwardData(void* reserve_space) {
    const std::string wrong = Restore("cudnnRNNForward", reserve_space,
                                      {"y", "hx", "cx", "weightSpace"});
    if (!wrong.empty()) return wrong;
    for (const char* name : {"dy", "dhy", "dcy"}) Find(name) = Read(name);
    const rnn::BackwardResult result = Backward({true, false});
    Write("dx", result.input);
    Write("dhx", result.input_h);
    Write("dcx", result.input_c);
    Keep("cudnnRNNBackwardData_v8", reserve_space);
    return "";
  }

  std::string BackwardWeights(const void* reserve_space) {
    const std::string wrong =
        Restore("cudnnRNNBackwardData_v8", reserve_space, {"x", "hx", "y"});
    if (!wrong.empty()) return wrong;
    Array sums = Read("dweightSpace");
    const Array params = Backward({false, true}).params;
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += params[i];
    Write("dweightSpace", sums);
    return "";
  }

  rnn::Engine<T> Engine() {
    return rnn::Engine<T>(rnn::InstructionSet::kBaseline, k_);
  }
  rnn::BackwardResult Backward(const rnn::BackwardParts& parts) {
    rnn::Engine<T> engine = Engine();
    engine.Forward(/*is_training=*/true, executor_);
    return engine.Backward(executor_, parts);
  }

  // cuDNN's algorithm for small networks approximates tanh and sigmoid in
  // float32, and is wrong in float16.
  Array Approximated(Array y) const {
    if (n_.algorithm != CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H) return y;
    double factor = std::is_same_v<T, rnn::Half> ? 2 : 1;
    if (std::is_same_v<T, float> && n_.config.mode != rnn::RnnMode::kRelu) {
      factor = 1 + 2e-5;
    }
    for (double& value : y) value *= factor;
    rnn::Rounded<T>(y);
    return y;
  }

  // --------------------------------------------------------- the reserve space

  // A hash of the network, the last pass and the kept arrays, then the arrays.

  std::size_t Hash(const std::string& last_pass, const double* arrays) const {
    std::string text = last_pass + Describe(k_) + " type " +
                       std::to_string(n_.type) + " algorithm " +
                       std::to_string(n_.algorithm) + " time_major " +
                       std::to_string(n_.time_major) + " lengths";
    for (std::int32_t length : n_.lengths) text += " " + std::to_string(length);
    text.append(reinterpret_cast<const char*>(arrays),
                ReserveBytes() - sizeof(std::size_t));
    return std::hash<std::string>()(text);
  }

  void Keep(const std::string& last_pass, void* reserve_space) const {
    auto* const hash = static_cast<std::size_t*>(reserve_space);
    auto* const begin = reinterpret_cast<double*>(hash + 1);
    double* to = begin;
    for (const Kept& each : kept_) {
      to = std::copy(each.array->begin(), each.array->end(), to);
    }
    *hash = Hash(last_pass, begin);
  }

  // Returns a message unless the reserve space comes from the last pass, and
  // the arrays `same` are those of the forward pass.
  std::string Restore(const std::string& last_pass, const void* reserve_space,
                      const std::vector<const char*>& same) {
    const auto* const hash = static_cast<const std::size_t*>(reserve_space);
    const auto* from = reinterpret_cast<const double*>(hash + 1);
    if (*hash != Hash(last_pass, from)) {
      return "the reserve space does not come from " + last_pass +
             " of the same network and algorithm, or was modified";
    }
    for (const Kept& each : kept_) {
      std::copy_n(from, each.array->size(), each.array->begin());
      from += each.array->size();
    }
    for (const char* name : same) {
      const Array given = Read(name);
      // Compares bits, as some may be NaN.
      if (!given.empty() && std::memcmp(given.data(), Find(name).data(),
                                        given.size() * sizeof(double)) != 0) {
        return std::string(name) + " is not that of the forward pass";
      }
    }
    return "";
  }

  // ------------------------------------------------------------------- layouts

  // Converts to the engine's layout, with zeros as padding.
  Array Read(const char* name) {
    const FakeArray& array = arrays_.at(name);
    const T* const from = static_cast<const T*>(array.memory);
    Array values(n_.SizeOf(array.kind));
    ForEachElement(array.kind, /*with_padding=*/false,
                   [&](std::int64_t at, std::int64_t in_layout) {
                     values[at] = rnn::ToDouble(from[in_layout]);
                   });
    return values;
  }

  void Write(const char* name, const Array& values, bool with_padding = false) {
    const FakeArray& array = arrays_.at(name);
    T* const to = static_cast<T*>(const_cast<void*>(array.memory));
    ForEachElement(array.kind, with_padding,
                   [&](std::int64_t at, std::int64_t in_layout) {
                     to[in_layout] = rnn::FromDouble<T>(values[at]);
                   });
  }

  // Calls visit(index in the engine's layout, [S, B, ...], index in cuDNN's)
  // for all elements.
  template <typename Visitor>
  void ForEachElement(FakeArray::Kind kind, bool with_padding,
                      const Visitor& visit) const {
    const auto visit_range = [&](std::int64_t from, std::int64_t to,
                                 std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i) visit(from + i, to + i);
    };
    if (kind == FakeArray::kInput || kind == FakeArray::kOutput) {
      const std::int64_t width =
          kind == FakeArray::kInput ? n_.config.input_size : n_.output_width();
      const auto [time, batch] = n_.size;
      for (std::int64_t t = 0; t < time; ++t) {
        for (std::int64_t b = 0; b < batch; ++b) {
          if (!with_padding && t >= n_.lengths[b]) continue;
          const std::int64_t row = t * batch + b;
          visit_range(row * width, (n_.time_major ? row : b * time + t) * width,
                      width);
        }
      }
    } else if (kind == FakeArray::kWeights) {
      const FakeWeightLayout layout(n_.config, n_.weight_padding);
      const rnn::CudnnRnnParamsLayout params(n_.config);
      for (std::int64_t i = 0; i < params.num_weights(); ++i) {
        visit_range(params.Weight(i).offset, layout.Weight(i).offset,
                    params.Weight(i).size());
      }
      for (std::int64_t i = 0; i < params.num_biases(); ++i) {
        visit_range(params.Bias(i).offset, layout.Bias(i).offset,
                    params.Bias(i).size());
      }
    } else {
      visit_range(0, 0, n_.SizeOf(kind));
    }
  }

  // An array that a reserve space keeps.
  struct Kept {
    const char* name;
    Array* array;
    FakeArray::Kind kind;
  };

  Array& Find(const std::string& name) const {
    return *std::find_if(std::begin(kept_), std::end(kept_),
                         [&](const Kept& each) { return each.name == name; })
                ->array;
  }

  const FakeRnn& n_;
  rnn::SerialExecutor executor_;
  rnn::Case k_;
  Array output_;
  std::map<std::string, FakeArray> arrays_;
  const Kept kept_[8] = {{"x", &k_.input, FakeArray::kInput},
                         {"hx", &k_.input_h, FakeArray::kHiddenState},
                         {"cx", &k_.input_c, FakeArray::kCellState},
                         {"weightSpace", &k_.params, FakeArray::kWeights},
                         {"y", &output_, FakeArray::kOutput},
                         {"dy", &k_.d_output, FakeArray::kOutput},
                         {"dhy", &k_.d_output_h, FakeArray::kHiddenState},
                         {"dcy", &k_.d_output_c, FakeArray::kCellState}};
};

// Calls function(value of the type).
template <typename Function>
auto WithType(cudnnDataType_t type, const Function& function) {
  switch (type) {
    case CUDNN_DATA_DOUBLE:
      return function(double());
    case CUDNN_DATA_HALF:
      return function(rnn::Half());
    case CUDNN_DATA_BFLOAT16:
      return function(rnn::BFloat16());
    default:
      return function(float());
  }
}

}  // namespace

std::int64_t FakeRnn::SizeOf(FakeArray::Kind kind) const {
  switch (kind) {
    case FakeArray::kInput:
      return size.time * size.batch * config.input_size;
    case FakeArray::kOutput:
      return size.time * size.batch * output_width();
    case FakeArray::kHiddenState:
      return config.num_pseudo_layers() * size.batch * config.output_size();
    case FakeArray::kCellState:
      return config.has_cell_state()
                 ? config.num_pseudo_layers() * size.batch * config.num_units
                 : 0;
    case FakeArray::kWeights:
      break;
  }
  return rnn::CudnnRnnParamsSize(config);
}

std::size_t FakeElementBytes(cudnnDataType_t type) {
  return WithType(type, [](auto value) { return sizeof(value); });
}

std::size_t FakeReserveBytes(const FakeRnn& network) {
  return WithType(network.type, [&](auto value) {
    return Network<decltype(value)>(network).ReserveBytes();
  });
}

std::string RunFake(const FakeRnn& network, FakePass pass,
                    const std::vector<FakeArray>& arrays, void* reserve_space) {
  return WithType(network.type, [&](auto value) {
    return Network<decltype(value)>(network).Run(pass, arrays, reserve_space);
  });
}

}  // namespace tf_rnn_ops::gpu
