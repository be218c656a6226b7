// Constant weights, packed once for the ops of all graphs in this process that
// have them.

#ifndef TF_RNN_OPS_CC_OPS_CPU_PACKED_WEIGHTS_H_
#define TF_RNN_OPS_CC_OPS_CPU_PACKED_WEIGHTS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "cc/ops/call_frame.h"
#include "cc/ops/cpu/run_pass.h"
#include "cc/rnn/instruction_set.h"
#include "cc/rnn/network.h"
#include "cc/rnn/status.h"
#include "cc/rnn/weights.h"

namespace tf_rnn_ops {

// Packed weights, aligned as the engine requires.
class PackedWeights {
 public:
  // Returns null if there is not enough memory.
  static std::unique_ptr<PackedWeights> Allocate(std::int64_t num_bytes);
  ~PackedWeights();
  PackedWeights(const PackedWeights&) = delete;

  void* data() const { return data_; }
  std::int64_t num_bytes() const { return num_bytes_; }

  // Returns earlier weights with the same bytes that are still in use, if there
  // are any; otherwise `weights`, which must not change from now on.
  static std::shared_ptr<const PackedWeights> Share(
      std::unique_ptr<PackedWeights> weights);

 private:
  PackedWeights(void* data, std::int64_t num_bytes)
      : data_(data), num_bytes_(num_bytes) {}

  void* const data_;
  const std::int64_t num_bytes_;
};

// The constant weights of an op. They are packed again if they change.
template <typename E>
class ConstantWeights {
 public:
  // inputs: the names of the op's weights.
  explicit ConstantWeights(std::vector<const char*> inputs)
      : inputs_(std::move(inputs)) {}

  Status Init(const Attributes& attributes) {
    are_constant_ = attributes.Has(kConstantWeights);
    if (!are_constant_) return Status();
    std::string format;
    TF_RNN_OPS_RETURN_IF_ERROR(attributes.Get(kConstantWeights, &format));
    for (const auto& [name, each] : kFormats) {
      format_ = each;
      if (format == name) return Status();
    }
    return InvalidArgument(
        kConstantWeights,
        " must be \"float32\", \"bfloat16\" or \"int8\", but is \"", format,
        "\"");
  }

  // Runs a forward pass, in inference with packed weights if possible.
  // inputs: see RunPass.
  template <typename Inputs>
  Status RunForward(CallFrame* frame, const Inputs& inputs,
                    rnn::NetworkForward<E>* pass) {
    auto kernels = KernelsFor<E>(inputs);
    std::shared_ptr<const PackedWeights> packed;
    if (are_constant_ && !pass->is_training) {
      if constexpr (std::is_same_v<E, float>) {
        kernels = rnn::GetInferenceKernels(rnn::ActiveInstructionSet(),
                                           inputs.config(), format_);
      }
      pass->has_constant_weights = true;
      TF_RNN_OPS_RETURN_IF_ERROR(
          FindOrPack(frame, inputs, kernels, pass, &packed));
    }
    return RunPass(frame, inputs, kernels.forward_workspace, kernels.forward,
                   pass);
  }

 private:
  static constexpr std::pair<const char*, rnn::WeightFormat> kFormats[] = {
      {"float32", rnn::WeightFormat::kFloat32},
      {"bfloat16", rnn::WeightFormat::kBFloat16},
      {"int8", rnn::WeightFormat::kInt8}};

  // Gives the pass its weights, packed if possible. The caller keeps `packed`
  // until the pass has ended.
  template <typename Inputs>
  Status FindOrPack(CallFrame* frame, const Inputs& inputs,
                    const rnn::NetworkKernels<E>& kernels,
                    rnn::NetworkForward<E>* pass,
                    std::shared_ptr<const PackedWeights>* packed) {
    const Identity identity = IdentityOf(*pass);
    std::shared_ptr<const Entry> entry = std::atomic_load(&entry_);
    if (entry == nullptr || entry->identity != identity) {
      // Other calls do not wait for the one that packs: they pack for
      // themselves.
      if (is_packing_.exchange(true)) return Status();
      const Status status =
          MakeEntry(frame, inputs, kernels, *pass, identity, &entry);
      is_packing_ = false;
      TF_RNN_OPS_RETURN_IF_ERROR(status);
      if (entry == nullptr) return Status();
    }
    *packed = entry->packed;
    pass->packed_weights = entry->packed->data();
    return Status();
  }

  // The addresses of weights, and the sizes that their shapes depend on.
  using Identity = std::tuple<const E*, const E*, const E*, const E*,
                              std::int64_t, std::int64_t, std::int64_t>;

  struct Entry {
    // Constants and variables with this identity are the same while there are
    // references to them: TensorFlow writes only to memory to which nobody else
    // refers.
    Identity identity;
    std::vector<std::shared_ptr<const void>> references;
    std::shared_ptr<const PackedWeights> packed;
  };

  static Identity IdentityOf(const rnn::NetworkForward<E>& pass) {
    return {pass.params,
            pass.keras_weights.kernel,
            pass.keras_weights.recurrent_kernel,
            pass.keras_weights.bias,
            pass.config.input_size,
            pass.config.num_units,
            pass.config.num_layers};
  }

  // Packs the weights of a pass. Sets `made` to null if that is not possible.
  template <typename Inputs>
  Status MakeEntry(CallFrame* frame, const Inputs& inputs,
                   const rnn::NetworkKernels<E>& kernels,
                   const rnn::NetworkForward<E>& pass, const Identity& identity,
                   std::shared_ptr<const Entry>* made) {
    made->reset();
    auto entry = std::make_shared<Entry>();
    entry->identity = identity;
    for (const char* input : inputs_) {
      entry->references.push_back(frame->Hold(input));
      if (entry->references.back() == nullptr) return Status();
    }
    auto packed =
        PackedWeights::Allocate(kernels.packed_weights_bytes(pass.config));
    if (packed == nullptr) return Status();
    rnn::WeightPacking<E> packing{pass.config, pass.params, pass.keras_weights,
                                  packed->data(), /*workspace=*/nullptr};
    // After an error, the pass itself reports the next one, if any.
    if (!RunPass(frame, inputs, kernels.pack_weights_workspace,
                 kernels.pack_weights, &packing)
             .ok()) {
      return Status();
    }
    entry->packed = PackedWeights::Share(std::move(packed));
    std::atomic_store(&entry_, std::shared_ptr<const Entry>(entry));
    *made = std::move(entry);
    return Status();
  }

  const std::vector<const char*> inputs_;
  bool are_constant_ = false;
  rnn::WeightFormat format_ = rnn::WeightFormat::kFloat32;
  std::atomic<bool> is_packing_{false};
  std::shared_ptr<const Entry> entry_;  // atomic; of the last weights
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_OPS_CPU_PACKED_WEIGHTS_H_
