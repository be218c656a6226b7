// The shapes of the tile registers of the CPU's tile unit (AMX).

#ifndef TF_RNN_OPS_CC_RNN_SIMD_MATMUL_TILE_CONFIGURATION_H_
#define TF_RNN_OPS_CC_RNN_SIMD_MATMUL_TILE_CONFIGURATION_H_

#if defined(__AMX_TILE__)

#include <immintrin.h>

#include <cstdint>

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// Shapes that are active from Load to the end of this object's life.
class TileConfiguration {
 public:
  TileConfiguration() = default;
  ~TileConfiguration() { _tile_release(); }
  TileConfiguration(const TileConfiguration&) = delete;

  // row_bytes: up to 64.
  void Set(int tile, std::int64_t rows, std::int64_t row_bytes) {
    config_.rows[tile] = static_cast<std::uint8_t>(rows);
    config_.row_bytes[tile] = static_cast<std::uint16_t>(row_bytes);
  }
  void Load() const {
    // GCC does not know that the instruction reads all of it.
    asm volatile("" : : "r"(&config_) : "memory");
    _tile_loadconfig(&config_);
  }

 private:
  struct alignas(64) {
    std::uint8_t palette = 1;
    std::uint8_t start_row = 0;
    std::uint8_t reserved[14] = {};
    std::uint16_t row_bytes[16] = {};
    std::uint8_t rows[16] = {};
  } config_;
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // __AMX_TILE__

#endif  // TF_RNN_OPS_CC_RNN_SIMD_MATMUL_TILE_CONFIGURATION_H_
