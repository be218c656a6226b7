// Constant weights, packed once for the ops of all graphs in this process that
// have them.

#ifndef TF_RNN_OPS_CC_OPS_CPU_PACKED_WEIGHTS_H_
#define TF_RNN_OPS_CC_OPS_CPU_PACKED_WEIGHTS_H_

#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
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

  // For pointers to packed weights that several threads use. Held for a few
  // instructions.
  static std::mutex& MutexOfUsers();

 private:
  explicit PackedWeights(std::int64_t num_bytes) : num_bytes_(num_bytes) {}

  void* data_ = nullptr;
  const std::int64_t num_bytes_;
};

// Reads the attribute kConstantWeights, which an op has.
Status ReadFormat(const Attributes& attributes, rnn::WeightFormat* format);

// The constant weights of an op. They are packed again if they change.
template <typename E>
class ConstantWeights {
 public:
  // inputs: the names of the op's weights.
  explicit ConstantWeights(std::vector<const char*> inputs)
      : inputs_(std::move(inputs)) {}

  Status Init(const Attributes& attributes) {
    are_constant_ = attributes.Has(kConstantWeights);
    return are_constant_ ? ReadFormat(attributes, &format_) : Status();
  }

  // Runs a forward pass, in inference with packed weights if possible.
  // inputs: see RunPass.
  template <typename Inputs>
  Status RunForward(CallFrame* frame, const Inputs& inputs,
                    rnn::NetworkForward<E>* pass) {
    auto kernels = KernelsFor<E>(inputs);
    std::shared_ptr<const Entry> entry;  // until the pass has ended
    Identity identity;
    const bool is_marked = are_constant_ && !pass->is_training();
    if (is_marked && !FindIdentity(frame, *pass, &identity)) {
      SetEntry(nullptr);  // frees earlier weights
    } else if (is_marked) {
      if constexpr (std::is_same_v<E, float>) {
        kernels = rnn::GetInferenceKernels(rnn::ActiveInstructionSet(),
                                           inputs.config(), format_);
      }
      pass->has_constant_weights = true;
      entry = FindOrPack(frame, inputs, kernels, *pass, identity);
      if (entry != nullptr) {
        pass->weights = rnn::Weights<const E>::Packed(entry->packed->data());
      }
    }
    return RunPass(frame, inputs, kernels.forward_workspace, kernels.forward,
                   pass);
  }

 private:
  // What weights with the same contents have in common, while there are
  // references to them: their memory, their places in it, and the sizes that
  // their shapes depend on.
  using Identity =
      std::tuple<std::array<const void*, 3>, const E*, const E*, const E*,
                 const E*, std::int64_t, std::int64_t, std::int64_t>;

  struct Entry {
    Identity identity;
    std::vector<std::shared_ptr<const void>> references;
    std::shared_ptr<const PackedWeights> packed;
  };

  // Returns whether the weights of a pass have an identity.
  bool FindIdentity(CallFrame* frame, const rnn::NetworkForward<E>& pass,
                    Identity* identity) const {
    std::array<const void*, 3> memory{};
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      memory[i] = frame->FindOwnMemory(inputs_[i]);
      if (memory[i] == nullptr) return false;
    }
    *identity = {memory,
                 pass.weights.params,
                 pass.weights.kernel,
                 pass.weights.recurrent_kernel,
                 pass.weights.bias,
                 pass.config.input_size,
                 pass.config.num_units,
                 pass.config.num_layers};
    return true;
  }

  // Finds the packed weights of a pass, or packs them. Null if that is not
  // possible; the pass then packs for itself.
  template <typename Inputs>
  std::shared_ptr<const Entry> FindOrPack(CallFrame* frame,
                                          const Inputs& inputs,
                                          const rnn::NetworkKernels<E>& kernels,
                                          const rnn::NetworkForward<E>& pass,
                                          const Identity& identity) {
    std::shared_ptr<const Entry> entry = LastEntry();
    if (entry != nullptr && entry->identity == identity) return entry;
    // Other calls do not wait for the one that packs. A process that was forked
    // meanwhile has no such call.
    const pid_t process = getpid();
    pid_t packing = packing_process_.load();
    if (packing == process ||
        !packing_process_.compare_exchange_strong(packing, process)) {
      return nullptr;
    }
    const struct End {
      ~End() { packing_process = 0; }
      std::atomic<pid_t>& packing_process;
    } end{packing_process_};
    // Frees earlier weights before it allocates memory for these.
    entry = nullptr;
    SetEntry(nullptr);
    try {
      entry = MakeEntry(frame, inputs, kernels, pass, identity);
      SetEntry(entry);
    } catch (const std::bad_alloc&) {
    }
    return entry;
  }

  // Packs the weights of a pass. Returns null if that is not possible.
  template <typename Inputs>
  std::shared_ptr<const Entry> MakeEntry(CallFrame* frame, const Inputs& inputs,
                                         const rnn::NetworkKernels<E>& kernels,
                                         const rnn::NetworkForward<E>& pass,
                                         const Identity& identity) const {
    auto entry = std::make_shared<Entry>();
    entry->identity = identity;
    for (const char* input : inputs_) {
      entry->references.push_back(frame->Hold(input));
    }
    auto packed =
        PackedWeights::Allocate(kernels.packed_weights_bytes(pass.config));
    if (packed == nullptr) return nullptr;
    rnn::WeightPacking<E> packing{pass.config, pass.weights, packed->data(),
                                  /*workspace=*/nullptr};
    // After an error, the pass itself reports the next one, if any.
    if (!RunPass(frame, inputs, kernels.pack_weights_workspace,
                 kernels.pack_weights, &packing)
             .ok()) {
      return nullptr;
    }
    entry->packed = PackedWeights::Share(std::move(packed));
    return entry;
  }

  std::shared_ptr<const Entry> LastEntry() const {
    const std::lock_guard<std::mutex> lock(PackedWeights::MutexOfUsers());
    return entry_;
  }
  void SetEntry(std::shared_ptr<const Entry> entry) {
    const std::lock_guard<std::mutex> lock(PackedWeights::MutexOfUsers());
    entry_.swap(entry);
  }

  const std::vector<const char*> inputs_;
  bool are_constant_ = false;
  rnn::WeightFormat format_ = rnn::WeightFormat::kFloat32;
  std::atomic<pid_t> packing_process_{0};  // or 0 if no call packs
  std::shared_ptr<const Entry> entry_;     // of the last weights
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_OPS_CPU_PACKED_WEIGHTS_H_
