#include "cc/gpu/fakes/fake_cudnn_rnn.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "cc/rnn/cudnn_rnn.h"
#include "cc/rnn/cudnn_rnn_params.h"
#include "cc/rnn/executor.h"
#include "cc/rnn/float16.h"
#include "cc/rnn/instruction_set.h"
#include "cc/rnn/reserve_space.h"
#include "cc/rnn/test_support.h"

namespace tf_rnn_ops::gpu {
namespace {

constexpr int kProjectionId = 8;

// The reserve space: a header, what the engine leaves for its backward pass,
// once for each of cuDNN's backward passes, and what the second of them needs
// but is not given.

constexpr std::uint64_t kMagic = 0x6e'6e'64'75'63'65'6b'61;
constexpr std::uint64_t kForwardDone = 1;
constexpr std::uint64_t kBackwardDataDone = 2;
constexpr unsigned char kGarbage = 0xff;

struct Header {
  std::uint64_t magic;
  std::uint64_t state;
  std::uint64_t hash;  // of all that follows
  std::uint64_t unused[5];
};

std::int64_t OutputWidth(const FakeNetwork& network) {
  return network.config.num_directions * network.config.output_size();
}

// [S, B, width]
rnn::CheckedInt StepsSize(const FakeNetwork& network, std::int64_t width) {
  return rnn::CheckedInt(network.size.time) * network.size.batch * width;
}

// [P, B, width]
rnn::CheckedInt StateSize(const FakeNetwork& network, std::int64_t width) {
  return rnn::CheckedInt(network.config.num_pseudo_layers()) *
         network.size.batch * width;
}

std::int64_t InputSize(const FakeNetwork& network) {
  return StepsSize(network, network.config.input_size).value();
}

std::int64_t OutputSize(const FakeNetwork& network) {
  return StepsSize(network, OutputWidth(network)).value();
}

std::int64_t HiddenSize(const FakeNetwork& network) {
  return StateSize(network, network.config.output_size()).value();
}

std::int64_t CellSize(const FakeNetwork& network) {
  return network.config.has_cell_state()
             ? StateSize(network, network.config.num_units).value()
             : 0;
}

// The arrays after the header.
template <typename T>
struct Reserve {
  std::vector<T> for_data;     // the engine's
  std::vector<T> for_weights;  // the same
  std::vector<T> params;
  std::vector<T> dy;
  std::vector<T> dhy;
  std::vector<T> dcy;
  std::vector<T> cx;

  explicit Reserve(const FakeNetwork& n)
      : for_data(rnn::ReserveSpaceSize<T>(n.config, n.size)),
        for_weights(for_data.size()),
        params(rnn::CudnnRnnParamsSize(n.config)),
        dy(OutputSize(n)),
        dhy(HiddenSize(n)),
        dcy(CellSize(n)),
        cx(CellSize(n)) {}

  // Of the header and the arrays; -1 if they exceed what std::int64_t can
  // count.
  static std::int64_t NumBytes(const FakeNetwork& n) {
    const std::int64_t engine = rnn::ReserveSpaceSize<T>(n.config, n.size);
    const std::int64_t params = rnn::CudnnRnnParamsSize(n.config);
    const rnn::CheckedInt elements =
        rnn::CheckedInt(engine) * 2 + params + StepsSize(n, OutputWidth(n)) +
        StateSize(n, n.config.output_size()) + rnn::CheckedInt(CellSize(n)) * 2;
    const rnn::CheckedInt bytes = elements * sizeof(T) + sizeof(Header);
    return engine < 0 || params < 0 || !bytes.valid() ? -1 : bytes.value();
  }

  template <typename Visitor>
  void ForEach(const Visitor& visit) {
    for (std::vector<T>* array :
         {&for_data, &for_weights, &params, &dy, &dhy, &dcy, &cx}) {
      visit(array);
    }
  }

  void Write(std::uint64_t state, void* memory) {
    char* next = static_cast<char*>(memory) + sizeof(Header);
    ForEach([&](auto* array) {
      const std::size_t size = array->size() * sizeof(T);
      if (size > 0) std::memcpy(next, array->data(), size);
      next += size;
    });
    const Header header = {kMagic, state, Hash(memory), {}};
    std::memcpy(memory, &header, sizeof(header));
  }

  // Returns what is wrong.
  std::string Read(std::uint64_t state, const void* memory) {
    Header header;
    std::memcpy(&header, memory, sizeof(header));
    if (header.magic != kMagic) {
      return "the reserve space does not come from cudnnRNNForward";
    }
    if (header.state != state) {
      return state == kForwardDone
                 ? "cudnnRNNBackwardData_v8 has used this reserve space up"
                 : "cudnnRNNBackwardData_v8 has not had this reserve space";
    }
    if (header.hash != Hash(memory)) {
      return "the reserve space is not as the pass before left it, or is "
             "another network's";
    }
    const char* next = static_cast<const char*>(memory) + sizeof(Header);
    ForEach([&](auto* array) {
      const std::size_t size = array->size() * sizeof(T);
      if (size > 0) std::memcpy(array->data(), next, size);
      next += size;
    });
    return "";
  }

  // FNV-1a of what follows the header.
  std::uint64_t Hash(const void* memory) {
    std::size_t num_bytes = 0;
    ForEach([&](auto* array) { num_bytes += array->size() * sizeof(T); });
    const auto* bytes =
        static_cast<const unsigned char*>(memory) + sizeof(Header);
    return std::accumulate(bytes, bytes + num_bytes, 0xcbf29ce484222325,
                           [](std::uint64_t hash, unsigned char byte) {
                             return (hash ^ byte) * 0x100000001b3;
                           });
  }
};

// Calls visit(row of the dense form [S, B], row of the layout) for each step
// within a sequence, and with is_padding for those past an end that the layout
// has.
template <typename Visitor>
void ForEachRow(const FakeNetwork& network, bool is_padding,
                const Visitor& visit) {
  const auto [time, batch] = network.size;
  std::int64_t packed_row = 0;
  for (std::int64_t t = 0; t < time; ++t) {
    for (std::int64_t b = 0; b < batch; ++b) {
      if ((t >= network.lengths[b]) != is_padding) continue;
      switch (network.layout) {
        case CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED:
          visit(t * batch + b, t * batch + b);
          break;
        case CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED:
          if (!is_padding) visit(t * batch + b, packed_row++);
          break;
        case CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED:
          visit(t * batch + b, b * time + t);
          break;
      }
    }
  }
}

// [S, B, width] from the layout; zero past the sequences' ends, whatever is
// there.
template <typename T>
std::vector<T> ReadSteps(const FakeNetwork& network, const void* memory,
                         std::int64_t width) {
  std::vector<T> steps(StepsSize(network, width).value());
  const T* const from = static_cast<const T*>(memory);
  ForEachRow(network, false, [&](std::int64_t dense, std::int64_t row) {
    std::copy_n(from + row * width, width, steps.data() + dense * width);
  });
  return steps;
}

// The inverse, which leaves the padding alone.
template <typename T>
void WriteSteps(const FakeNetwork& network, const std::vector<T>& steps,
                std::int64_t width, void* memory) {
  T* const to = static_cast<T*>(memory);
  ForEachRow(network, false, [&](std::int64_t dense, std::int64_t row) {
    std::copy_n(steps.data() + dense * width, width, to + row * width);
  });
}

template <typename T>
void FillPadding(const FakeNetwork& network, const void* value,
                 std::int64_t width, void* memory) {
  T* const to = static_cast<T*>(memory);
  ForEachRow(network, true, [&](std::int64_t, std::int64_t row) {
    std::fill_n(to + row * width, width, *static_cast<const T*>(value));
  });
}

template <typename T>
std::vector<T> ReadState(const void* memory, std::int64_t size) {
  std::vector<T> state(size);
  if (memory != nullptr) {
    std::copy_n(static_cast<const T*>(memory), size, state.data());
  }
  return state;
}

template <typename T>
void WriteState(const std::vector<T>& state, void* memory) {
  if (memory == nullptr) return;
  std::copy(state.begin(), state.end(), static_cast<T*>(memory));
}

// Calls visit(place in the weight space, place in the engine's params) for each
// matrix and bias.
template <typename Visitor>
void ForEachWeight(const FakeNetwork& network, const Visitor& visit) {
  const FakeWeightLayout layout(network.config, network.weight_padding);
  const rnn::CudnnRnnParamsLayout params(network.config);
  const int gates = static_cast<int>(network.config.num_gates());
  std::int64_t matrix = 0;
  std::int64_t bias = 0;
  for (std::int64_t p = 0; p < network.config.num_pseudo_layers(); ++p) {
    for (int id = 0; id < 2 * gates; ++id, ++matrix, ++bias) {
      if (const auto weight = layout.Matrix(p, id)) {
        visit(*weight, params.Weight(matrix));
      }
      visit(*layout.Bias(p, id), params.Bias(bias));
    }
    if (network.config.num_proj > 0) {
      visit(*layout.Matrix(p, kProjectionId), params.Weight(matrix++));
    }
  }
}

template <typename T>
std::vector<T> ReadWeights(const FakeNetwork& network, const void* weights) {
  std::vector<T> params(rnn::CudnnRnnParamsSize(network.config));
  ForEachWeight(network,
                [&](const FakeWeight& weight, const rnn::ParamsRegion& region) {
                  std::copy_n(static_cast<const T*>(weights) + weight.offset,
                              weight.size(), params.data() + region.offset);
                });
  return params;
}

template <typename T>
void AddToWeights(const FakeNetwork& network, const std::vector<T>& params,
                  void* weights) {
  ForEachWeight(
      network, [&](const FakeWeight& weight, const rnn::ParamsRegion& region) {
        T* const to = static_cast<T*>(weights) + weight.offset;
        for (std::int64_t i = 0; i < weight.size(); ++i) {
          to[i] = rnn::FromDouble<T>(rnn::ToDouble(to[i]) +
                                     rnn::ToDouble(params[region.offset + i]));
        }
      });
}

template <typename T>
rnn::CudnnRnnKernels<T> Kernels(const rnn::RnnConfig& config) {
  return rnn::GetCudnnRnnKernels<T>(rnn::InstructionSet::kBaseline,
                                    config.mode);
}

template <typename Pass>
void Fill(const FakeNetwork& network, Pass& pass) {
  pass.config = network.config;
  pass.size = network.size;
  pass.time_major = true;
  pass.sequence_lengths = network.lengths.data();
  pass.dropout = network.dropout;
}

template <typename T>
void Forward(const FakeNetwork& network, const FakeForward& pass) {
  const rnn::RnnConfig& config = network.config;
  const auto x = ReadSteps<T>(network, pass.x, config.input_size);
  const auto hx = ReadState<T>(pass.hx, HiddenSize(network));
  const auto cx = ReadState<T>(pass.cx, CellSize(network));
  const auto params = ReadWeights<T>(network, pass.weights);
  std::vector<T> y(OutputSize(network)), hy(hx.size()), cy(cx.size());
  Reserve<T> reserve(network);

  rnn::CudnnRnnForward<T> a{};
  Fill(network, a);
  a.is_training = pass.reserve_space != nullptr;
  if (a.is_training) a.stream = *pass.stream;
  a.input = x.data();
  a.input_h = hx.data();
  a.input_c = cx.data();
  a.params = params.data();
  a.output = y.data();
  a.output_h = hy.data();
  a.output_c = cy.data();
  a.reserve_space = reserve.for_data.data();
  rnn::SerialExecutor executor;
  std::vector<char> workspace(Kernels<T>(config).forward_workspace(a, 1));
  a.workspace = workspace.data();
  Kernels<T>(config).forward(a, executor);

  WriteSteps(network, y, OutputWidth(network), pass.y);
  if (pass.padding_fill != nullptr) {
    FillPadding<T>(network, pass.padding_fill, OutputWidth(network), pass.y);
  }
  WriteState(hy, pass.hy);
  WriteState(cy, pass.cy);
  if (!a.is_training) return;
  reserve.for_weights = reserve.for_data;
  reserve.Write(kForwardDone, pass.reserve_space);
  pass.stream->counter_low +=
      rnn::NumDropoutSamples(config, network.size, network.dropout);
}

// What the engine's backward pass is given beside the reserve space.
template <typename T>
struct BackwardInputs {
  std::vector<T> x, hx, y;
};

template <typename T>
struct BackwardResults {
  std::vector<T> dx, dhx, dcx, dparams;
};

template <typename T>
BackwardResults<T> Backward(const FakeNetwork& network,
                            const BackwardInputs<T>& inputs,
                            const Reserve<T>& reserve,
                            const std::vector<T>& reserve_space) {
  BackwardResults<T> results;
  results.dx.resize(inputs.x.size());
  results.dhx.resize(inputs.hx.size());
  results.dcx.resize(reserve.cx.size());
  results.dparams.resize(reserve.params.size());

  rnn::CudnnRnnBackward<T> a{};
  Fill(network, a);
  a.input = inputs.x.data();
  a.input_h = inputs.hx.data();
  a.input_c = reserve.cx.data();
  a.params = reserve.params.data();
  a.output = inputs.y.data();
  a.output_backprop = reserve.dy.data();
  a.output_h_backprop = reserve.dhy.data();
  a.output_c_backprop = reserve.dcy.data();
  a.reserve_space = reserve_space.data();
  const rnn::ReserveSpaceHeader header = rnn::CopyReserveSpaceHeader(
      reserve_space.data(), rnn::kReserveSpaceHeaderBytes);
  a.reserve_space_header = &header;
  a.input_backprop = results.dx.data();
  a.input_h_backprop = results.dhx.data();
  a.input_c_backprop = results.dcx.data();
  a.params_backprop = results.dparams.data();
  rnn::SerialExecutor executor;
  std::vector<char> workspace(
      Kernels<T>(network.config).backward_workspace(a, 1));
  a.workspace = workspace.data();
  Kernels<T>(network.config).backward(a, executor);
  return results;
}

template <typename T>
std::string Mismatch(const FakeNetwork& network,
                     const std::vector<T>& reserve_space) {
  return rnn::ReserveSpaceMismatch(
      {network.config, network.size, true, network.lengths.data(),
       network.dropout},
      reserve_space.data(), static_cast<std::int64_t>(reserve_space.size()));
}

template <typename T>
std::string BackwardData(const FakeNetwork& network,
                         const FakeBackwardData& pass) {
  const rnn::RnnConfig& config = network.config;
  Reserve<T> reserve(network);
  std::string wrong = reserve.Read(kForwardDone, pass.reserve_space);
  if (wrong.empty()) wrong = Mismatch(network, reserve.for_data);
  if (!wrong.empty()) return wrong;
  reserve.params = ReadWeights<T>(network, pass.weights);
  reserve.dy = ReadSteps<T>(network, pass.dy, OutputWidth(network));
  reserve.dhy = ReadState<T>(pass.dhy, HiddenSize(network));
  reserve.dcy = ReadState<T>(pass.dcy, CellSize(network));
  reserve.cx = ReadState<T>(pass.cx, CellSize(network));

  // The gradients that are asked for do not depend on x.
  const BackwardInputs<T> inputs = {
      std::vector<T>(InputSize(network)),
      ReadState<T>(pass.hx, HiddenSize(network)),
      ReadSteps<T>(network, pass.y, OutputWidth(network))};
  const BackwardResults<T> results =
      Backward(network, inputs, reserve, reserve.for_data);

  WriteSteps(network, results.dx, config.input_size, pass.dx);
  WriteState(results.dhx, pass.dhx);
  WriteState(results.dcx, pass.dcx);
  std::memset(reserve.for_data.data(), kGarbage,
              reserve.for_data.size() * sizeof(T));
  reserve.Write(kBackwardDataDone, pass.reserve_space);
  return "";
}

template <typename T>
std::string BackwardWeights(const FakeNetwork& network,
                            const FakeBackwardWeights& pass) {
  const rnn::RnnConfig& config = network.config;
  Reserve<T> reserve(network);
  std::string wrong = reserve.Read(kBackwardDataDone, pass.reserve_space);
  if (wrong.empty()) wrong = Mismatch(network, reserve.for_weights);
  if (!wrong.empty()) return wrong;
  const BackwardInputs<T> inputs = {
      ReadSteps<T>(network, pass.x, config.input_size),
      ReadState<T>(pass.hx, HiddenSize(network)),
      ReadSteps<T>(network, pass.y, OutputWidth(network))};
  AddToWeights(network,
               Backward(network, inputs, reserve, reserve.for_weights).dparams,
               pass.dweights);
  return "";
}

// Calls function(a value of the type).
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

FakeWeightLayout::FakeWeightLayout(const rnn::RnnConfig& config,
                                   std::int64_t padding)
    : config_(config), padding_(padding) {
  for (std::int64_t p = 0; p < config.num_pseudo_layers(); ++p) {
    for (int id = 0; id < num_linear_layers(); ++id) {
      matrices_.push_back(AppendMatrix(p, id));
    }
  }
  for (std::int64_t p = 0; p < config.num_pseudo_layers(); ++p) {
    for (int id = 0; id < num_linear_layers(); ++id) {
      const bool has_bias = id < 2 * config.num_gates();
      biases_.push_back(has_bias ? Append(config.num_units, 1) : std::nullopt);
    }
  }
}

int FakeWeightLayout::num_linear_layers() const {
  return static_cast<int>(2 * config_.num_gates() + 1);
}

std::optional<FakeWeight> FakeWeightLayout::Matrix(std::int64_t pseudo_layer,
                                                   int id) const {
  return matrices_[pseudo_layer * num_linear_layers() + id];
}

std::optional<FakeWeight> FakeWeightLayout::Bias(std::int64_t pseudo_layer,
                                                 int id) const {
  return biases_[pseudo_layer * num_linear_layers() + id];
}

std::optional<FakeWeight> FakeWeightLayout::Append(std::int64_t rows,
                                                   std::int64_t cols) {
  const rnn::CheckedInt offset = size_ + padding_;
  size_ = offset + rnn::CheckedInt(rows) * cols;
  return FakeWeight{offset.value(), rows, cols};
}

std::optional<FakeWeight> FakeWeightLayout::AppendMatrix(
    std::int64_t pseudo_layer, int id) {
  const std::int64_t layer = pseudo_layer / config_.num_directions;
  if (id < config_.num_gates()) {
    if (layer == 0 && config_.skip_input) return std::nullopt;
    return Append(config_.num_units, config_.fan_in(layer));
  }
  if (id < 2 * config_.num_gates()) {
    return Append(config_.num_units, config_.output_size());
  }
  if (config_.num_proj == 0) return std::nullopt;
  return Append(config_.num_proj, config_.num_units);
}

std::int64_t FakeNetwork::num_rows() const {
  return layout == CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED
             ? std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0})
             : size.time * size.batch;
}

bool FakeNetwork::has_padding() const {
  return std::any_of(lengths.begin(), lengths.end(),
                     [&](std::int64_t length) { return length < size.time; });
}

std::size_t FakeElementBytes(cudnnDataType_t type) {
  return WithType(type, [](auto value) { return sizeof(value); });
}

std::int64_t FakeReserveBytes(const FakeNetwork& network) {
  return WithType(network.type, [&](auto value) {
    return Reserve<decltype(value)>::NumBytes(network);
  });
}

void RunFake(const FakeNetwork& network, const FakeForward& pass) {
  WithType(network.type,
           [&](auto value) { Forward<decltype(value)>(network, pass); });
}

std::string RunFake(const FakeNetwork& network, const FakeBackwardData& pass) {
  return WithType(network.type, [&](auto value) {
    return BackwardData<decltype(value)>(network, pass);
  });
}

std::string RunFake(const FakeNetwork& network,
                    const FakeBackwardWeights& pass) {
  return WithType(network.type, [&](auto value) {
    return BackwardWeights<decltype(value)>(network, pass);
  });
}

}  // namespace tf_rnn_ops::gpu
