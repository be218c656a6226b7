#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <utility>

#include "cc/gpu/fakes/host_device.h"
// clang-format off
#include "cc/gpu/device_grid.h"
// clang-format on

namespace tf_rnn_ops::gpu {
namespace {

// How often the threads of a grid compute each element.
std::map<std::pair<std::int64_t, std::int64_t>, int> Computed(
    const FakeDim3& grid, const FakeDim3& block, std::int64_t rows,
    std::int64_t cols, int width) {
  std::map<std::pair<std::int64_t, std::int64_t>, int> counts;
  gridDim = grid;
  blockDim = block;
  ForEachIndex(gridDim, &blockIdx, [&] {
    ForEachIndex(blockDim, &threadIdx, [&] {
      ForEachOfThread(
          rows, cols, width,
          [&](std::int64_t row, std::int64_t col) { ++counts[{row, col}]; });
    });
  });
  return counts;
}

TEST(DeviceGridTest, ComputesEachElementOnceForAnyGrid) {
  for (const FakeDim3& grid :
       {FakeDim3{1, 1, 1}, FakeDim3{2, 3, 1}, FakeDim3{7, 5, 1}}) {
    for (const FakeDim3& block : {FakeDim3{1, 1, 1}, FakeDim3{4, 2, 1}}) {
      for (int width : {1, 4}) {
        for (std::int64_t rows : {1, 13}) {
          for (std::int64_t cols : {4, 100}) {
            const auto counts = Computed(grid, block, rows, cols, width);
            EXPECT_EQ(counts.size(), rows * cols / width);
            for (const auto& [place, count] : counts) {
              EXPECT_EQ(count, 1);
              EXPECT_LT(place.first, rows);
              EXPECT_LT(place.second, cols);
              EXPECT_EQ(place.second % width, 0);
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace tf_rnn_ops::gpu
