// The data that the forward pass of a network saves for its backward pass.
//
// It starts with a header that describes the configuration and the order of
// the samples. Then come activations for each time and sample in that order, in
// the compute type:
//
//   - for each pseudo-layer, the values that its cell keeps: i, f, g, o and c
//     for LSTM, 5 * num_units; r, u, n and R_n h_prev + bR_n for GRU,
//     4 * num_units; r, u and n for gru_reset_before, 3 * num_units; h for rnn;
//     none for rnn_relu and rnn_tanh, which need only their outputs. In place
//     of the result of some activations (simd/cells/activation.h), the sum;
//   - for each layer except the last, its output, num_directions * output_size;
//   - for the last layer too if the type has 16 bits and the cell is not an
//     LSTM, because rounding the output would lose the gradients of saturated
//     units (1 - h^2 or h - n); and for a Keras layer, whose backward pass does
//     not get the output.
//
// Dropout masks are regenerated from the random stream in the header.
//
// No element is NaN or infinite as a T if the activations are finite, so that
// tools that look for NaN do not find any here. Each byte of the header takes
// two bytes. In 16-bit types, where a float takes two elements, the floats are
// in the form of ToFinitePair (simd/vector/finite_pair.h).

#ifndef TF_RNN_OPS_CC_RNN_RESERVE_SPACE_H_
#define TF_RNN_OPS_CC_RNN_RESERVE_SPACE_H_

#include <array>
#include <cstdint>
#include <string>

#include "cc/rnn/checked_math.h"
#include "cc/rnn/random_stream.h"
#include "cc/rnn/rnn_config.h"

namespace tf_rnn_ops::rnn {

constexpr std::int64_t kReserveSpaceHeaderBytes = 256;

// A copy of the header. The header determines which memory a pass accesses.
// After a pass has checked it, it must not read it again from memory that
// others may modify.
using ReserveSpaceHeader = std::array<char, kReserveSpaceHeaderBytes>;

// Number of layers, counted from the first, whose outputs are kept.
template <typename T>
constexpr std::int64_t NumKeptOutputs(const RnnConfig& config) {
  const bool keeps_last =
      (sizeof(T) == 2 && !config.has_cell_state()) || config.keeps_output;
  return keeps_last ? config.num_layers : config.num_layers - 1;
}

// The size of a layer's output, [time, batch, num_directions * output_size].
inline CheckedInt LayerOutputSize(const RnnConfig& config,
                                  const RnnSize& size) {
  return CheckedInt(size.time) * size.batch * config.num_directions *
         config.output_size();
}

// Number of values that the cells of a layer keep, over all units, samples,
// times and directions.
inline CheckedInt LayerKeptSize(const RnnConfig& config, const RnnSize& size) {
  return CheckedInt(size.time) * size.batch * config.num_directions *
         config.num_kept() * config.num_units;
}

// The device that runs a pass.
enum class Device : std::uint16_t { kCpu, kGpu };

// The parameters that must match between the forward and the backward pass.
struct ReserveSpaceKey {
  RnnConfig config;
  RnnSize size;
  bool time_major;
  const std::int32_t* sequence_lengths;  // [batch], or null
  float dropout;
  Device device = Device::kCpu;
  // Distinguishes the formats that a device may use.
  std::uint64_t variant = 0;
  StepOrder step_order = {};
};

// Number of elements of type T, or -1 if it overflows std::int64_t. For 16-bit
// types, an activation takes two elements.
template <typename T>
std::int64_t ReserveSpaceSize(const RnnConfig& config, const RnnSize& size);

// Fills the header.
// is_sorted: whether the samples are in the order of SortSamples.
template <typename T>
void WriteReserveSpaceHeader(const ReserveSpaceKey& key,
                             const RandomStream& stream, void* reserve_space,
                             bool is_sorted = false);

// Returns why a reserve_space of `num_elements` does not fit a backward pass
// with this key, or an empty string if it does.
// header: its first bytes, if it has that many.
// expected_size: the required number of elements.
template <typename T>
std::string ReserveSpaceMismatch(const ReserveSpaceKey& key, const void* header,
                                 std::int64_t num_elements,
                                 std::int64_t expected_size);

// The same for a reserve_space of the CPU engine that no other thread modifies.
// For tests.
template <typename T>
std::string ReserveSpaceMismatch(const ReserveSpaceKey& key,
                                 const T* reserve_space,
                                 std::int64_t num_elements) {
  return ReserveSpaceMismatch<T>(key, reserve_space, num_elements,
                                 ReserveSpaceSize<T>(key.config, key.size));
}

// Which device and format the forward pass used.
struct ReserveSpaceOrigin {
  Device device;
  std::uint64_t variant;
};
// Returns the CPU if this is not a valid header.
ReserveSpaceOrigin FindReserveSpaceOrigin(const ReserveSpaceHeader& header);

// Copies the header; zeros if there are too few bytes for one.
ReserveSpaceHeader CopyReserveSpaceHeader(const void* reserve_space,
                                          std::int64_t num_bytes);

// The random stream in the header.
RandomStream ReserveSpaceStream(const ReserveSpaceHeader& header);

// Whether the header says that the samples are sorted.
bool ReserveSpaceIsSorted(const ReserveSpaceHeader& header);

// Number of counter values that the dropout mask of a layer's output consumes,
// one for four elements.
inline std::int64_t NumLayerDropoutSamples(const RnnConfig& config,
                                           const RnnSize& size) {
  return (LayerOutputSize(config, size).value() + 3) / 4;
}

// The same for the masks of all layers above the first.
std::int64_t NumDropoutSamples(const RnnConfig& config, const RnnSize& size,
                               float dropout);

}  // namespace tf_rnn_ops::rnn

#endif  // TF_RNN_OPS_CC_RNN_RESERVE_SPACE_H_
