// The mask of a Keras layer: which steps the engine runs, and the outputs of
// the others.

#ifndef TF_RNN_OPS_CC_RNN_STEP_MASK_H_
#define TF_RNN_OPS_CC_RNN_STEP_MASK_H_

#include <cstdint>

#include "cc/rnn/rnn_config.h"

namespace tf_rnn_ops::rnn {

// The place of a step is its index in processing order; the output of the step
// is at its place.
class StepMask {
 public:
  StepMask() = default;
  // Keeps all steps.
  StepMask(const RnnSize& size, bool go_backwards)
      : size_(size), go_backwards_(go_backwards) {}

  // Keeps the steps where the mask is not 0.
  // mask: [batch, time]. Bytes rather than bool, since the memory of the caller
  //   may contain values other than 0 and 1. Each is read only once, since
  //   another thread may change it.
  // places: [batch, time], and lengths: [batch]: memory to use from now on.
  void Apply(const unsigned char* mask, std::int32_t* places,
             std::int32_t* lengths);

  // [batch], or null if every sequence has all steps.
  const std::int32_t* lengths() const {
    return has_masked_ ? lengths_ : nullptr;
  }
  StepOrder order() const {
    return {has_gaps_ ? places_ : nullptr, go_backwards_};
  }

  const RnnSize& size() const { return size_; }
  // Whether any step is masked.
  bool has_masked() const { return has_masked_; }
  std::int64_t length(std::int64_t sample) const {
    return has_masked_ ? lengths_[sample] : size_.time;
  }
  // The places of the steps of a sample: first those kept, in order, then those
  // masked, in order. Only if any step is masked.
  const std::int32_t* places(std::int64_t sample) const {
    return places_ + sample * size_.time;
  }

 private:
  void ApplyToSample(const unsigned char* mask, std::int64_t sample);

  RnnSize size_{};
  bool go_backwards_ = false;
  bool has_masked_ = false;
  bool has_gaps_ = false;  // masked steps before the last kept step
  std::int32_t* places_ = nullptr;
  std::int32_t* lengths_ = nullptr;
};

// The outputs of a Keras layer are a linear function of the outputs of the kept
// steps, and of the final hidden state. Computes this function, which is also
// that of tangents, and its transpose for gradients.
// E: the type of the elements.
template <typename E>
class MaskedOutputs {
 public:
  // zero_output_for_mask: whether the outputs of masked steps are zeros;
  //   otherwise they repeat the output of the place before, if there is one.
  MaskedOutputs(const StepMask& steps, std::int64_t units,
                bool zero_output_for_mask)
      : steps_(steps),
        units_(units),
        repeats_(steps.has_masked() && !zero_output_for_mask) {}

  // Whether masked steps repeat an output. If not, the outputs of all steps are
  // those of the engine, which are zeros where steps are masked.
  bool repeats() const { return repeats_; }

  // Makes the outputs of all steps from those of the engine, if they differ.
  // outputs: [batch, time, units]
  void Repeat(E* outputs) const;
  // The transpose of Repeat. Requires repeats().
  // d_outputs, d_kept: [batch, time, units], gradients with respect to the
  //   outputs of all steps and to those of the engine.
  void AddUp(const E* d_outputs, E* d_kept) const;

  // Makes the output of the last step. Both arrays are [batch, units].
  void TakeLast(const E* final_h, E* last) const;
  // The transpose of TakeLast, added to another gradient: sum = d_final_h +
  // TakeLast^T d_last. All arrays are [batch, units].
  void AddLast(const E* d_last, const E* d_final_h, E* sum) const;

 private:
  // Adds up some of the units of a sample.
  // d_outputs, d_kept: at the first of these units, [time, units]
  void AddUpUnits(std::int64_t sample, std::int64_t num_units,
                  const E* d_outputs, E* d_kept) const;

  // Whether the output of the last step is the final state: the step is kept,
  // or its place repeats the output of a kept step.
  bool IsLastOfFinal(std::int64_t sample) const;

  const StepMask& steps_;
  const std::int64_t units_;
  const bool repeats_;
};

}  // namespace tf_rnn_ops::rnn

#endif  // TF_RNN_OPS_CC_RNN_STEP_MASK_H_
