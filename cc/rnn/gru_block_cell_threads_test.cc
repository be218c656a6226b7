#include <gtest/gtest.h>

#include "cc/rnn/gru_block_cell_test_support.h"

namespace tf_rnn_ops::rnn {
namespace {

template <typename T>
class GruBlockCellThreadsTest : public testing::Test {};
TYPED_TEST_SUITE(GruBlockCellThreadsTest, StorageTypes);

TYPED_TEST(GruBlockCellThreadsTest, SameBitsForAnyNumberOfThreads) {
  ForEachSize<TypeParam>([&](Case&, Engine<TypeParam>& engine) {
    SerialExecutor serial;
    ForwardResult forward = engine.Forward(serial);
    const BackwardResult backward = engine.Backward(forward, true, serial);
    for (int num_threads : {2, 5}) {
      Threads threads;
      // If an executor has just left, short steps are shared too.
      PoolUsers users;
      users.Enter();
      users.Leave();
      for (PoolUsers* each : {&users, static_cast<PoolUsers*>(nullptr)}) {
        PoolExecutor pool(threads.Schedule(), num_threads, {}, each);
        ExpectSameBits(engine.Forward(pool), forward);
        ExpectSameBits(engine.Backward(forward, true, pool), backward);
      }
    }
  });
}

}  // namespace
}  // namespace tf_rnn_ops::rnn
