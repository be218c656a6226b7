#include "cc/gpu/fakes/fake_cudnn_rnn.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <string_view>
#include <type_traits>

#include "cc/rnn/executor.h"
#include "cc/rnn/float16.h"
#include "cc/rnn/instruction_set.h"
#include "cc/rnn/network.h"
#include "cc/rnn/reserve_space.h"
#include "cc/rnn/test_support.h"

namespace tf_rnn_ops::gpu {
namespace {

std::int64_t OutputWidth(const FakeNetwork& network) {
  return network.config.num_directions * network.config.output_size();
}

// The header of a reserve space.
struct Header {
  static constexpr std::uint64_t kMagic = 0x6e'6e'64'75'63'65'6b'61;
  static constexpr std::uint64_t kForwardDone = 1;
  static constexpr std::uint64_t kBackwardDataDone = 2;

  std::uint64_t magic;
  std::uint64_t state;
  std::uint64_t algorithm;
  std::uint64_t hash;  // of the data after the header
};

// The data after the header: the reserve space of the CPU engine, and arguments
// that cudnnRNNBackwardWeights_v8 needs but does not get.
template <typename T>
struct Reserve {
  std::vector<T> engine;
  std::vector<T> params;
  std::vector<T> dy;
  std::vector<T> dhy;
  std::vector<T> dcy;
  std::vector<T> cx;

  explicit Reserve(const FakeNetwork& n)
      : engine(rnn::ReserveSpaceSize<T>(n.config, n.size)),
        params(rnn::CudnnRnnParamsSize(n.config)),
        dy(n.output_size()),
        dhy(n.hidden_state_size()),
        dcy(n.cell_state_size()),
        cx(n.cell_state_size()) {}

  // Calls visit(array, size in bytes, offset after the header) for all arrays,
  // and returns the total size in bytes.
  template <typename Visitor>
  std::size_t ForEach(const Visitor& visit) {
    std::size_t offset = 0;
    for (std::vector<T>* array : {&engine, &params, &dy, &dhy, &dcy, &cx}) {
      const std::size_t num_bytes = array->size() * sizeof(T);
      if (num_bytes > 0) visit(array->data(), num_bytes, offset);
      offset += num_bytes;
    }
    return offset;
  }

  std::size_t NumBytes() {
    return ForEach([](T*, std::size_t, std::size_t) {});
  }
  std::uint64_t Hash(const char* bytes) {
    return std::hash<std::string_view>()({bytes, NumBytes()});
  }

  void Write(const FakeNetwork& network, std::uint64_t state, void* memory) {
    char* const bytes = static_cast<char*>(memory) + sizeof(Header);
    ForEach([&](T* array, std::size_t num_bytes, std::size_t offset) {
      std::memcpy(bytes + offset, array, num_bytes);
    });
    const Header header = {Header::kMagic, state, network.algorithm,
                           Hash(bytes)};
    std::memcpy(memory, &header, sizeof(header));
  }

  // Returns an error message, or an empty string.
  std::string Read(const FakeNetwork& network, std::uint64_t state,
                   const void* memory) {
    Header header;
    std::memcpy(&header, memory, sizeof(header));
    const char* const bytes = static_cast<const char*>(memory) + sizeof(Header);
    if (header.magic != Header::kMagic) {
      return "the reserve space does not come from cudnnRNNForward";
    }
    if (header.state != state) {
      return state == Header::kForwardDone
                 ? "cudnnRNNBackwardData_v8 has already used this reserve space"
                 : "cudnnRNNBackwardData_v8 has not run on this reserve space";
    }
    if (header.algorithm != network.algorithm) {
      return "an algorithm other than that of the forward pass";
    }
    if (header.hash != Hash(bytes)) {
      return "the reserve space was modified or is from another network";
    }
    ForEach([&](T* array, std::size_t num_bytes, std::size_t offset) {
      std::memcpy(array, bytes + offset, num_bytes);
    });
    return rnn::ReserveSpaceMismatch({network.config, network.size, true,
                                      network.lengths.data(), /*dropout=*/0},
                                     engine.data(),
                                     static_cast<std::int64_t>(engine.size()));
  }
};

// Calls visit(row in the engine's layout [S, B, ...], row in cuDNN's layout)
// for all steps, or for steps within the sequences only.
template <typename Visitor>
void ForEachRow(const FakeNetwork& network, bool with_padding,
                const Visitor& visit) {
  const auto [time, batch] = network.size;
  for (std::int64_t t = 0; t < time; ++t) {
    for (std::int64_t b = 0; b < batch; ++b) {
      if (!with_padding && t >= network.lengths[b]) continue;
      const std::int64_t row = t * batch + b;
      visit(row, network.time_major ? row : b * time + t);
    }
  }
}

// Converts from cuDNN's layout to [S, B, width], with zeros as padding.
template <typename T>
std::vector<T> ReadSteps(const FakeNetwork& network, const void* memory,
                         std::int64_t width) {
  std::vector<T> steps(network.size.time * network.size.batch * width);
  const T* const from = static_cast<const T*>(memory);
  ForEachRow(network, false, [&](std::int64_t row, std::int64_t in_layout) {
    std::copy_n(from + in_layout * width, width, steps.data() + row * width);
  });
  return steps;
}

template <typename T>
void WriteSteps(const FakeNetwork& network, const std::vector<T>& steps,
                std::int64_t width, bool with_padding, void* memory) {
  T* const to = static_cast<T*>(memory);
  ForEachRow(
      network, with_padding, [&](std::int64_t row, std::int64_t in_layout) {
        std::copy_n(steps.data() + row * width, width, to + in_layout * width);
      });
}

template <typename T>
std::vector<T> Read(const void* memory, std::int64_t size) {
  const T* const begin = static_cast<const T*>(memory);
  return std::vector<T>(begin, begin + size);
}

template <typename T>
void Write(const std::vector<T>& values, void* memory) {
  std::copy(values.begin(), values.end(), static_cast<T*>(memory));
}

// Calls visit(index in the weight space, index in the engine's params) for each
// weight.
template <typename Visitor>
void ForEachWeight(const FakeNetwork& network, const Visitor& visit) {
  const FakeWeightLayout layout(network.config, network.weight_padding);
  const rnn::CudnnRnnParamsLayout params(network.config);
  const auto visit_region = [&](const rnn::ParamsRegion& from,
                                const rnn::ParamsRegion& to) {
    for (std::int64_t i = 0; i < from.size(); ++i) {
      visit(from.offset + i, to.offset + i);
    }
  };
  for (std::int64_t i = 0; i < params.num_weights(); ++i) {
    visit_region(layout.Weight(i), params.Weight(i));
  }
  for (std::int64_t i = 0; i < params.num_biases(); ++i) {
    visit_region(layout.Bias(i), params.Bias(i));
  }
}

template <typename T>
std::vector<T> ReadWeights(const FakeNetwork& network, const void* weights) {
  std::vector<T> params(rnn::CudnnRnnParamsSize(network.config));
  const T* const from = static_cast<const T*>(weights);
  ForEachWeight(network, [&](std::int64_t place, std::int64_t in_params) {
    params[in_params] = from[place];
  });
  return params;
}

template <typename T>
rnn::NetworkKernels<T> Kernels(const rnn::RnnConfig& config) {
  return rnn::GetNetworkKernels<T>(rnn::InstructionSet::kBaseline, config);
}

template <typename Pass>
void Fill(const FakeNetwork& network, Pass* pass) {
  pass->config = network.config;
  pass->size = network.size;
  pass->time_major = true;
  pass->sequence_lengths = network.lengths.data();
}

// cuDNN's algorithm for small networks approximates tanh and sigmoid in
// float32, and is wrong in float16.
template <typename T>
void Approximate(const FakeNetwork& network, std::vector<T>* y) {
  if (network.algorithm != CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H) return;
  double factor = std::is_same_v<T, rnn::Half> ? 2 : 1;
  if (std::is_same_v<T, float> && network.config.mode != rnn::RnnMode::kRelu) {
    factor = 1 + 2e-5;
  }
  for (T& value : *y) value = rnn::FromDouble<T>(factor * rnn::ToDouble(value));
}

template <typename T>
std::string Run(const FakeNetwork& network, const FakeForward& pass) {
  const rnn::RnnConfig& config = network.config;
  const auto x = ReadSteps<T>(network, pass.x, config.input_size);
  const auto hx = Read<T>(pass.hx, network.hidden_state_size());
  const auto cx = Read<T>(pass.cx, network.cell_state_size());
  const auto params = ReadWeights<T>(network, pass.weights);
  std::vector<T> y(network.output_size()), hy(hx.size()), cy(cx.size());
  Reserve<T> reserve(network);

  rnn::NetworkForward<T> a{};
  Fill(network, &a);
  a.is_training = pass.reserve_space != nullptr;
  a.input = x.data();
  a.input_h = hx.data();
  a.input_c = cx.data();
  a.params = params.data();
  a.output = y.data();
  a.output_h = hy.data();
  a.output_c = cy.data();
  a.reserve_space = reserve.engine.data();
  rnn::SerialExecutor executor;
  std::vector<char> workspace(Kernels<T>(config).forward_workspace(a, 1));
  a.workspace = workspace.data();
  Kernels<T>(config).forward(a, executor);
  Approximate(network, &y);

  WriteSteps(network, y, OutputWidth(network), pass.fills_padding, pass.y);
  Write(hy, pass.hy);
  Write(cy, pass.cy);
  if (a.is_training)
    reserve.Write(network, Header::kForwardDone, pass.reserve_space);
  return "";
}

template <typename T>
struct Gradients {
  std::vector<T> dx, dhx, dcx, dparams;
};

template <typename T>
Gradients<T> Backward(const FakeNetwork& network, const Reserve<T>& reserve,
                      const std::vector<T>& x, const void* hx, const void* y) {
  const auto hidden = Read<T>(hx, network.hidden_state_size());
  const auto output = ReadSteps<T>(network, y, OutputWidth(network));
  Gradients<T> gradients = {
      std::vector<T>(x.size()), std::vector<T>(hidden.size()),
      std::vector<T>(reserve.cx.size()), std::vector<T>(reserve.params.size())};
  const rnn::ReserveSpaceHeader header = rnn::CopyReserveSpaceHeader(
      reserve.engine.data(), rnn::kReserveSpaceHeaderBytes);

  rnn::NetworkBackward<T> a{};
  Fill(network, &a);
  a.input = x.data();
  a.input_h = hidden.data();
  a.input_c = reserve.cx.data();
  a.params = reserve.params.data();
  a.output = output.data();
  a.output_backprop = reserve.dy.data();
  a.output_h_backprop = reserve.dhy.data();
  a.output_c_backprop = reserve.dcy.data();
  a.reserve_space = reserve.engine.data();
  a.reserve_space_header = &header;
  a.input_backprop = gradients.dx.data();
  a.input_h_backprop = gradients.dhx.data();
  a.input_c_backprop = gradients.dcx.data();
  a.params_backprop = gradients.dparams.data();
  rnn::SerialExecutor executor;
  std::vector<char> workspace(
      Kernels<T>(network.config).backward_workspace(a, 1));
  a.workspace = workspace.data();
  Kernels<T>(network.config).backward(a, executor);
  return gradients;
}

template <typename T>
std::string Run(const FakeNetwork& network, const FakeBackwardData& pass) {
  Reserve<T> reserve(network);
  const std::string wrong =
      reserve.Read(network, Header::kForwardDone, pass.reserve_space);
  if (!wrong.empty()) return wrong;
  reserve.params = ReadWeights<T>(network, pass.weights);
  reserve.dy = ReadSteps<T>(network, pass.dy, OutputWidth(network));
  reserve.dhy = Read<T>(pass.dhy, network.hidden_state_size());
  reserve.dcy = Read<T>(pass.dcy, network.cell_state_size());
  reserve.cx = Read<T>(pass.cx, network.cell_state_size());
  // The requested gradients do not depend on x.
  const std::vector<T> x(network.input_size());
  const Gradients<T> gradients = Backward(network, reserve, x, pass.hx, pass.y);
  WriteSteps(network, gradients.dx, network.config.input_size, false, pass.dx);
  Write(gradients.dhx, pass.dhx);
  Write(gradients.dcx, pass.dcx);
  reserve.Write(network, Header::kBackwardDataDone, pass.reserve_space);
  return "";
}

template <typename T>
std::string Run(const FakeNetwork& network, const FakeBackwardWeights& pass) {
  Reserve<T> reserve(network);
  const std::string wrong =
      reserve.Read(network, Header::kBackwardDataDone, pass.reserve_space);
  if (!wrong.empty()) return wrong;
  const auto x = ReadSteps<T>(network, pass.x, network.config.input_size);
  const std::vector<T> dparams =
      Backward(network, reserve, x, pass.hx, pass.y).dparams;
  T* const to = static_cast<T*>(pass.dweights);
  ForEachWeight(network, [&](std::int64_t place, std::int64_t in_params) {
    to[place] = rnn::FromDouble<T>(rnn::ToDouble(to[place]) +
                                   rnn::ToDouble(dparams[in_params]));
  });
  return "";
}

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

template <typename Pass>
std::string RunWithType(const FakeNetwork& network, const Pass& pass) {
  return WithType(network.type, [&](auto value) {
    return Run<decltype(value)>(network, pass);
  });
}

}  // namespace

std::int64_t FakeNetwork::input_size() const {
  return size.time * size.batch * config.input_size;
}
std::int64_t FakeNetwork::output_size() const {
  return size.time * size.batch * OutputWidth(*this);
}
std::int64_t FakeNetwork::hidden_state_size() const {
  return config.num_pseudo_layers() * size.batch * config.output_size();
}
std::int64_t FakeNetwork::cell_state_size() const {
  return config.has_cell_state()
             ? config.num_pseudo_layers() * size.batch * config.num_units
             : 0;
}

std::size_t FakeElementBytes(cudnnDataType_t type) {
  return WithType(type, [](auto value) { return sizeof(value); });
}

std::size_t FakeReserveBytes(const FakeNetwork& network) {
  return WithType(network.type, [&](auto value) {
    return sizeof(Header) + Reserve<decltype(value)>(network).NumBytes();
  });
}

std::string RunFake(const FakeNetwork& network, const FakeForward& pass) {
  return RunWithType(network, pass);
}
std::string RunFake(const FakeNetwork& network, const FakeBackwardData& pass) {
  return RunWithType(network, pass);
}
std::string RunFake(const FakeNetwork& network,
                    const FakeBackwardWeights& pass) {
  return RunWithType(network, pass);
}

}  // namespace tf_rnn_ops::gpu
