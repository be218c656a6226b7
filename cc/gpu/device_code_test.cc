// Checks the compiled device code without a GPU.

#include "cc/gpu/device_code.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "cc/gpu/arrays_device.h"
#include "cc/gpu/dual_layer_device.h"
#include "cc/gpu/gru_block_cell_device.h"

namespace tf_rnn_ops::gpu {
namespace {

// Device code, with its kernels and the sizes of their arguments.
struct Compiled {
  const DeviceCode* code;
  std::map<std::string, std::size_t> kernels;
};

const Compiled kArrays = {&kArraysCode,
                          {
#define TF_RNN_OPS_KERNEL(name, Kernel) {#name, sizeof(Kernel)},
                              TF_RNN_OPS_ARRAY_KERNELS(TF_RNN_OPS_KERNEL)
#undef TF_RNN_OPS_KERNEL
                          }};
const Compiled kDualLayer = {
    &kDualLayerCode,
    {
#define TF_RNN_OPS_KERNEL(name, Kernel) {#name, sizeof(Kernel)},
        TF_RNN_OPS_DUAL_LAYER_KERNELS(TF_RNN_OPS_KERNEL)
#undef TF_RNN_OPS_KERNEL
    }};
const Compiled kGruBlockCell = {
    &kGruBlockCellCode,
    {
#define TF_RNN_OPS_KERNEL(name, Kernel, T) {#name, sizeof(Kernel<T>)},
        TF_RNN_OPS_GRU_BLOCK_CELL_KERNELS(TF_RNN_OPS_KERNEL)
#undef TF_RNN_OPS_KERNEL
    }};

std::string Bytes(const DeviceImage& image) {
  return std::string(static_cast<const char*>(image.data), image.size);
}

class DeviceCodeTest : public testing::TestWithParam<const Compiled*> {
 protected:
  static std::vector<DeviceImage> Images(bool is_ptx) {
    std::vector<DeviceImage> images;
    const DeviceCode& code = *GetParam()->code;
    for (std::size_t i = 0; i < code.num_images; ++i) {
      if (code.images[i].is_ptx == is_ptx) images.push_back(code.images[i]);
    }
    return images;
  }
};

TEST_P(DeviceCodeTest, SupportsEveryGpuThatTensorFlowSupports) {
  std::set<std::tuple<int, int, bool>> actual;
  for (bool is_ptx : {false, true}) {
    for (const DeviceImage& image : Images(is_ptx)) {
      actual.insert({image.major, image.minor, is_ptx});
    }
  }
  const std::set<std::tuple<int, int, bool>> expected = {
      {6, 0, false}, {7, 0, false}, {8, 0, false},
      {8, 9, false}, {9, 0, false}, {9, 0, true}};
  EXPECT_EQ(actual, expected);
}

TEST_P(DeviceCodeTest, MachineCodeIsForItsGpuAndHasTheKernels) {
  constexpr int kCudaMachine = 190;
  for (const DeviceImage& image : Images(/*is_ptx=*/false)) {
    Elf64_Ehdr header;
    ASSERT_GT(image.size, sizeof(header));
    std::memcpy(&header, image.data, sizeof(header));
    EXPECT_EQ(std::memcmp(header.e_ident, ELFMAG, SELFMAG), 0);
    EXPECT_EQ(header.e_machine, kCudaMachine);
    EXPECT_EQ(static_cast<int>(header.e_flags & 0xff),
              10 * image.major + image.minor);
    const std::string bytes = Bytes(image);
    for (const auto& [name, num_bytes] : GetParam()->kernels) {
      // The section with its code.
      EXPECT_NE(bytes.find(".text." + name + '\0'), std::string::npos) << name;
    }
  }
}

TEST_P(DeviceCodeTest, PtxIsOldEnoughForAnyDriverAndHasTheKernels) {
  for (const DeviceImage& image : Images(/*is_ptx=*/true)) {
    const std::string text = Bytes(image);
    // The driver expects a null-terminated string.
    EXPECT_EQ(text.find('\0'), text.size() - 1);
    const std::string version = ".version ";
    const std::size_t position = text.find(version);
    ASSERT_NE(position, std::string::npos);
    // The PTX version of CUDA 12.0.
    EXPECT_LE(std::atof(text.c_str() + position + version.size()), 8.0);
    EXPECT_NE(text.find(".target sm_" + std::to_string(image.major) +
                        std::to_string(image.minor) + "\n"),
              std::string::npos);
    for (const auto& [name, num_bytes] : GetParam()->kernels) {
      // The argument has the same size on the device.
      const std::string entry = ".entry " + name + "(\n\t.param .align 8 .b8 " +
                                name + "_param_0[" + std::to_string(num_bytes) +
                                "]\n";
      EXPECT_NE(text.find(entry), std::string::npos) << entry;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Arrays, DeviceCodeTest, testing::Values(&kArrays));
INSTANTIATE_TEST_SUITE_P(DualLayer, DeviceCodeTest,
                         testing::Values(&kDualLayer));
INSTANTIATE_TEST_SUITE_P(GruBlockCell, DeviceCodeTest,
                         testing::Values(&kGruBlockCell));

}  // namespace
}  // namespace tf_rnn_ops::gpu
