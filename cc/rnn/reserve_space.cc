#include "cc/rnn/reserve_space.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "cc/rnn/checked_math.h"
#include "cc/rnn/float16.h"

namespace tf_rnn_ops::rnn {
namespace {

// TensorFlow's name of the element type.
template <typename T>
constexpr char kTypeName[] = "float64";
template <>
constexpr char kTypeName<float>[] = "float32";
template <>
constexpr char kTypeName<Half>[] = "float16";
template <>
constexpr char kTypeName<BFloat16>[] = "bfloat16";

constexpr std::uint64_t kMagic = 0x35'50'53'52'6e'6e'72'74;  // "trnnRSP5"

// The contents of the header.
struct Header {
  std::uint64_t magic;
  std::int16_t mode;
  std::int16_t num_directions;
  std::uint8_t skip_input;
  std::uint8_t time_major;
  std::uint8_t state_activation;
  std::uint8_t gate_activation;
  std::int64_t num_layers;
  std::int64_t input_size;
  std::int64_t num_units;
  std::int64_t num_proj;
  std::int64_t time;
  std::int64_t batch;
  std::uint64_t sequences;  // hash of sequence lengths and step order
  float dropout;
  std::uint8_t device;
  std::uint8_t gate_dropout;  // of the input and the state
  std::uint8_t is_sorted;
  std::uint8_t keeps_output;
  RandomStream stream;
  char type_name[16];
  std::uint64_t variant;
};
static_assert(2 * sizeof(Header) == kReserveSpaceHeaderBytes);

// The header as it is stored: a small number for each byte, so that it has no
// bits in the exponent of any type that would make it NaN or infinite.
using StoredHeader = std::array<std::uint16_t, sizeof(Header)>;
static_assert(sizeof(StoredHeader) == kReserveSpaceHeaderBytes);

// FNV-1a hash of the lengths, the steps and whether the input is reversed. 0 if
// all sequences have full length and natural order.
std::uint64_t HashSequences(const ReserveSpaceKey& key) {
  const StepOrder& order = key.step_order;
  if (key.sequence_lengths == nullptr && order.steps == nullptr &&
      !order.is_input_reversed) {
    return 0;
  }
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&](const std::int32_t* values, std::int64_t size) {
    for (std::int64_t i = 0; values != nullptr && i < size; ++i) {
      hash = (hash ^ static_cast<std::uint32_t>(values[i])) * 0x100000001b3;
    }
  };
  add(key.sequence_lengths, key.size.batch);
  add(order.steps, key.size.batch * key.size.time);
  constexpr std::int32_t kReversed = -1;  // neither a length nor a position
  add(&kReversed, order.is_input_reversed ? 1 : 0);
  return hash;
}

template <typename T>
Header MakeHeader(const ReserveSpaceKey& key, const RandomStream& stream,
                  bool is_sorted) {
  Header header{};
  header.magic = kMagic;
  header.mode = static_cast<std::int16_t>(key.config.mode);
  header.skip_input = key.config.skip_input;
  header.num_directions = static_cast<std::int16_t>(key.config.num_directions);
  header.time_major = key.time_major;
  header.state_activation =
      static_cast<std::uint8_t>(key.config.activations.state);
  header.gate_activation =
      static_cast<std::uint8_t>(key.config.activations.gate);
  header.num_layers = key.config.num_layers;
  header.input_size = key.config.input_size;
  header.num_units = key.config.num_units;
  header.num_proj = key.config.num_proj;
  header.time = key.size.time;
  header.batch = key.size.batch;
  header.sequences = HashSequences(key);
  header.dropout = key.dropout;
  header.device = static_cast<std::uint8_t>(key.device);
  header.gate_dropout =
      static_cast<std::uint8_t>(4 * static_cast<int>(key.config.input_dropout) +
                                static_cast<int>(key.config.state_dropout));
  header.is_sorted = is_sorted;
  header.keeps_output = key.config.keeps_output;
  header.variant = key.variant;
  std::memcpy(header.type_name, kTypeName<T>, sizeof(kTypeName<T>));
  header.stream = stream;
  return header;
}

StoredHeader Store(const Header& header) {
  std::array<unsigned char, sizeof(Header)> bytes;
  std::memcpy(bytes.data(), &header, sizeof(header));
  StoredHeader stored;
  std::copy(bytes.begin(), bytes.end(), stored.begin());
  return stored;
}

Header ReadHeader(const void* reserve_space) {
  StoredHeader stored;
  std::memcpy(&stored, reserve_space, sizeof(stored));
  std::array<unsigned char, sizeof(Header)> bytes;
  std::copy(stored.begin(), stored.end(), bytes.begin());
  Header header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  return header;
}

const char* DeviceName(std::uint8_t device) {
  return device == static_cast<std::uint8_t>(Device::kGpu) ? "GPU" : "CPU";
}

const char* ModeName(std::int64_t mode) {
  const auto modes = RnnModes();
  return mode >= 0 && mode < static_cast<std::int64_t>(modes.size())
             ? modes[mode].name
             : "unknown";
}

// Collects descriptions of differences.
class Differences {
 public:
  template <typename V>
  void Compare(const char* name, V recorded, V expected) {
    if (recorded != expected) {
      Add(name, std::to_string(recorded), std::to_string(expected));
    }
  }
  void CompareTruth(const char* name, bool recorded, bool expected) {
    if (recorded != expected) Add(name, Truth(recorded), Truth(expected));
  }
  void Add(const char* name, const std::string& recorded,
           const std::string& expected) {
    Add(std::string(name) + " was " + recorded + ", but is " + expected);
  }
  void Add(const std::string& difference) {
    text_ += text_.empty() ? "" : "; ";
    text_ += difference;
  }
  const std::string& text() const { return text_; }

 private:
  static const char* Truth(bool value) { return value ? "true" : "false"; }

  std::string text_;
};

std::string Describe(const Header& recorded, const Header& expected) {
  Differences differences;
  if (recorded.device != expected.device) {
    differences.Add("the device", DeviceName(recorded.device),
                    DeviceName(expected.device));
  }
  if (recorded.mode != expected.mode) {
    differences.Add("rnn_mode", ModeName(recorded.mode),
                    ModeName(expected.mode));
  }
  if (recorded.state_activation != expected.state_activation ||
      recorded.gate_activation != expected.gate_activation) {
    differences.Add("the activations differ");
  }
  differences.CompareTruth("skip_input", recorded.skip_input,
                           expected.skip_input);
  differences.Compare("the number of directions", recorded.num_directions,
                      expected.num_directions);
  differences.CompareTruth("time_major", recorded.time_major,
                           expected.time_major);
  differences.Compare("num_layers", recorded.num_layers, expected.num_layers);
  differences.Compare("input_size", recorded.input_size, expected.input_size);
  differences.Compare("num_units", recorded.num_units, expected.num_units);
  differences.Compare("num_proj", recorded.num_proj, expected.num_proj);
  differences.Compare("time", recorded.time, expected.time);
  differences.Compare("batch", recorded.batch, expected.batch);
  if (std::memcmp(recorded.type_name, expected.type_name,
                  sizeof(recorded.type_name)) != 0) {
    differences.Add("T", "another type", expected.type_name);
  }
  differences.Compare("dropout", recorded.dropout, expected.dropout);
  if (recorded.gate_dropout != expected.gate_dropout) {
    differences.Add("input_masks or state_masks differ");
  }
  if (recorded.keeps_output != expected.keeps_output) {
    differences.Add("the layout of the weights differs");
  } else if (recorded.sequences != expected.sequences) {
    differences.Add(expected.keeps_output ? "mask or go_backwards differ"
                                          : "sequence_lengths differ");
  }
  if (recorded.device == expected.device &&
      recorded.variant != expected.variant) {
    differences.Add(
        "it ran with another version of cuDNN, another precision or "
        "another algorithm");
  }
  return differences.text();
}

}  // namespace

template <typename T>
std::int64_t ReserveSpaceSize(const RnnConfig& config, const RnnSize& size) {
  const CheckedInt cells = LayerKeptSize(config, size) * config.num_layers;
  const CheckedInt outputs =
      LayerOutputSize(config, size) * NumKeptOutputs<T>(config);
  constexpr std::int64_t kElements =
      sizeof(ComputeType<T>) / sizeof(T);  // per activation
  const CheckedInt total =
      (cells + outputs) * kElements +
      kReserveSpaceHeaderBytes / static_cast<std::int64_t>(sizeof(T));
  const CheckedInt bytes = total * static_cast<std::int64_t>(sizeof(T));
  return bytes.valid() ? total.value() : -1;
}

template <typename T>
void WriteReserveSpaceHeader(const ReserveSpaceKey& key,
                             const RandomStream& stream, void* reserve_space,
                             bool is_sorted) {
  const StoredHeader header = Store(MakeHeader<T>(key, stream, is_sorted));
  std::memcpy(reserve_space, &header, sizeof(header));
}

template <typename T>
std::string ReserveSpaceMismatch(const ReserveSpaceKey& key, const void* header,
                                 std::int64_t num_elements,
                                 std::int64_t expected_size) {
  const std::string sizes = "it has " + std::to_string(num_elements) +
                            " elements instead of " +
                            std::to_string(expected_size);
  if (num_elements * static_cast<std::int64_t>(sizeof(T)) <
      kReserveSpaceHeaderBytes) {
    return "it does not come from a forward pass with is_training=True: " +
           sizes;
  }
  const Header recorded = ReadHeader(header);
  const std::string foreign =
      "it does not come from a forward pass of tf_rnn_ops; for example, "
      "TensorFlow's own GPU kernel may have run it";
  if (recorded.magic != kMagic || recorded.is_sorted > 1) return foreign;
  const std::string differences = Describe(
      recorded, MakeHeader<T>(key, recorded.stream, recorded.is_sorted != 0));
  if (!differences.empty()) {
    return "it comes from a different forward pass: " + differences;
  }
  // Samples without lengths cannot be sorted.
  if (recorded.is_sorted != 0 && key.sequence_lengths == nullptr) {
    return foreign;
  }
  return num_elements == expected_size ? "" : sizes;
}

ReserveSpaceOrigin FindReserveSpaceOrigin(const ReserveSpaceHeader& bytes) {
  const Header header = ReadHeader(bytes.data());
  const bool is_of_gpu =
      header.magic == kMagic &&
      header.device == static_cast<std::uint8_t>(Device::kGpu);
  if (!is_of_gpu) return {Device::kCpu, 0};
  return {Device::kGpu, header.variant};
}

ReserveSpaceHeader CopyReserveSpaceHeader(const void* reserve_space,
                                          std::int64_t num_bytes) {
  ReserveSpaceHeader header{};
  if (num_bytes >= kReserveSpaceHeaderBytes) {
    std::memcpy(header.data(), reserve_space, header.size());
  }
  return header;
}

RandomStream ReserveSpaceStream(const ReserveSpaceHeader& header) {
  return ReadHeader(header.data()).stream;
}

bool ReserveSpaceIsSorted(const ReserveSpaceHeader& header) {
  return ReadHeader(header.data()).is_sorted != 0;
}

std::int64_t NumDropoutSamples(const RnnConfig& config, const RnnSize& size,
                               float dropout) {
  if (dropout == 0) return 0;
  return (config.num_layers - 1) * NumLayerDropoutSamples(config, size);
}

#define INSTANTIATE(T)                                                         \
  template std::int64_t ReserveSpaceSize<T>(const RnnConfig&, const RnnSize&); \
  template void WriteReserveSpaceHeader<T>(const ReserveSpaceKey&,             \
                                           const RandomStream&, void*, bool);  \
  template std::string ReserveSpaceMismatch<T>(                                \
      const ReserveSpaceKey&, const void*, std::int64_t, std::int64_t)

INSTANTIATE(Half);
INSTANTIATE(BFloat16);
INSTANTIATE(float);
INSTANTIATE(double);

#undef INSTANTIATE

}  // namespace tf_rnn_ops::rnn
