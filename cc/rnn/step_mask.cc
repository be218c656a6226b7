#include "cc/rnn/step_mask.h"

#include <algorithm>
#include <array>

#include "cc/rnn/float16.h"
#include "cc/rnn/float16_conversion.h"

namespace tf_rnn_ops::rnn {

void StepMask::Apply(const unsigned char* mask, std::int32_t* places,
                     std::int32_t* lengths) {
  places_ = places;
  lengths_ = lengths;
  for (std::int64_t sample = 0; sample < size_.batch; ++sample) {
    ApplyToSample(mask + sample * size_.time, sample);
  }
}

void StepMask::ApplyToSample(const unsigned char* mask, std::int64_t sample) {
  const auto time = static_cast<std::int32_t>(size_.time);
  std::int32_t* const places = places_ + sample * size_.time;
  std::int32_t length = 0;
  std::int32_t first_left_out = time;
  for (std::int32_t place = 0; place < time; ++place) {
    if (mask[go_backwards_ ? time - 1 - place : place] != 0) {
      places[length++] = place;
    } else {
      places[--first_left_out] = place;  // last place first
    }
  }
  std::reverse(places + length, places + time);
  lengths_[sample] = length;
  has_masked_ = has_masked_ || length < time;
  has_gaps_ = has_gaps_ || (length > 0 && places[length - 1] != length - 1);
}

template <typename E>
void MaskedOutputs<E>::Repeat(E* outputs) const {
  if (!repeats_) return;
  const auto [time, batch] = steps_.size();
  for (std::int64_t sample = 0; sample < batch; ++sample) {
    E* const rows = outputs + sample * time * units_;
    for (std::int64_t i = steps_.length(sample); i < time; ++i) {
      const std::int64_t place = steps_.places(sample)[i];
      if (place == 0) continue;
      E* const row = rows + place * units_;
      std::copy_n(row - units_, units_, row);
    }
  }
}

// Sums of so many units are kept on the stack.
constexpr std::int64_t kUnitsAtOnce = 256;

template <typename E>
void MaskedOutputs<E>::AddUp(const E* d_outputs, E* d_kept) const {
  const auto [time, batch] = steps_.size();
  for (std::int64_t sample = 0; sample < batch; ++sample) {
    for (std::int64_t unit = 0; unit < units_; unit += kUnitsAtOnce) {
      const std::int64_t first = sample * time * units_ + unit;
      AddUpUnits(sample, std::min(kUnitsAtOnce, units_ - unit),
                 d_outputs + first, d_kept + first);
    }
  }
}

template <typename E>
void MaskedOutputs<E>::AddUpUnits(std::int64_t sample, std::int64_t num_units,
                                  const E* d_outputs, E* d_kept) const {
  // The sums over the masked steps after a place.
  std::array<ComputeType<E>, kUnitsAtOnce> sums{};
  const std::int64_t time = steps_.size().time;
  // The index in places of the last masked step up to a place.
  std::int64_t last = time - 1;
  for (std::int64_t place = time - 1; place >= 0; --place) {
    const bool is_masked =
        last >= steps_.length(sample) && steps_.places(sample)[last] == place;
    if (is_masked) --last;
    const std::int64_t row = place * units_;
    for (std::int64_t unit = 0; unit < num_units; ++unit) {
      const auto sum = sums[unit] + ToCompute(d_outputs[row + unit]);
      // The engine writes zeros at masked steps, so they have no gradient.
      Round(is_masked ? 0 : sum, &d_kept[row + unit]);
      sums[unit] = is_masked ? sum : 0;
    }
  }
}

template <typename E>
void MaskedOutputs<E>::TakeLast(const E* final_h, E* last) const {
  if (units_ == 0) return;  // batch may be huge
  for (std::int64_t sample = 0; sample < steps_.size().batch; ++sample) {
    const std::int64_t row = sample * units_;
    if (IsLastOfFinal(sample)) {
      std::copy_n(final_h + row, units_, last + row);
    } else {
      std::fill_n(last + row, units_, E{});
    }
  }
}

template <typename E>
void MaskedOutputs<E>::AddLast(const E* d_last, const E* d_final_h,
                               E* sum) const {
  if (units_ == 0) return;
  for (std::int64_t sample = 0; sample < steps_.size().batch; ++sample) {
    const std::int64_t row = sample * units_;
    std::copy_n(d_final_h + row, units_, sum + row);
    if (!IsLastOfFinal(sample)) continue;
    for (std::int64_t i = row; i < row + units_; ++i) {
      Round(ToCompute(d_final_h[i]) + ToCompute(d_last[i]), &sum[i]);
    }
  }
}

template <typename E>
bool MaskedOutputs<E>::IsLastOfFinal(std::int64_t sample) const {
  const std::int64_t length = steps_.length(sample);
  if (length == 0) return false;
  const std::int64_t time = steps_.size().time;
  return length == time || repeats_ ||
         steps_.places(sample)[length - 1] == time - 1;
}

template class MaskedOutputs<Half>;
template class MaskedOutputs<BFloat16>;
template class MaskedOutputs<float>;
template class MaskedOutputs<double>;

}  // namespace tf_rnn_ops::rnn
