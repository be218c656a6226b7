#include "cc/gpu/network_status.h"

#include <string>

namespace tf_rnn_ops::gpu {
namespace {

std::string DescribeNetwork(const rnn::RnnConfig& config,
                            const rnn::RnnSize& size) {
  return std::string("rnn_mode ") + rnn::TraitsOf(config.mode).name + ", " +
         (config.num_directions == 2 ? "bidirectional" : "unidirectional") +
         (config.skip_input ? ", skip_input" : "") + ", num_layers " +
         std::to_string(config.num_layers) + ", input_size " +
         std::to_string(config.input_size) + ", num_units " +
         std::to_string(config.num_units) + ", num_proj " +
         std::to_string(config.num_proj) + ", time " +
         std::to_string(size.time) + ", batch " + std::to_string(size.batch);
}

}  // namespace

Status Named(const Status& status, const rnn::RnnConfig& config,
             const rnn::RnnSize& size) {
  if (status.ok()) return status;
  return Status(status.code(),
                status.message() + ": " + DescribeNetwork(config, size));
}

}  // namespace tf_rnn_ops::gpu
