// Replaces the loops of recurrent layers in a serialized graph, for converters
// of files.

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cc/rnn/status.h"
#include "cc/tensorflow/conversions.h"
#include "cc/tensorflow/loops/loop.h"
#include "cc/tensorflow/loops/recurrent_layer.h"
#include "cc/tensorflow/loops/replace_loops.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/op.h"

extern "C" {

// A loop over the steps of sequences.
struct TfRnnOps_Loop {
  const char* function;  // that has it, or "" for the graph
  const char* node;      // or "", if the function could not be read
  const char* mode;      // rnn_mode of each cell, or ""
  const char* why_not;   // why it cannot be replaced, or ""
  // If it can be replaced: the function that replaces it, serialized.
  const void* layer;
  int64_t layer_size;
  // The graph with the loop, serialized, if it is not the one that was given.
  const void* graph;
  int64_t graph_size;
  // What each variable of the loop is for, separated by spaces: "invariant",
  // "time", the number of steps, "lengths", that of each sequence, "counter",
  // "inputs", "mask", "outputs", "state", or "zero", an output before the first
  // step. Each with its shape: "state:-1,128", or "state:?" if it is not known.
  const char* roles;
  // Sizes, or, also in shapes, -1 if the graph does not contain them.
  int64_t time;
  int64_t batch;
  int64_t features;
};
}

namespace tf_rnn_ops {
namespace {

using Accept = int (*)(const TfRnnOps_Loop*);
using Finish = void (*)(const void* graph, int64_t size);

const char* RoleOfInvariant(int index, const Loop& loop,
                            const RecurrentLayer& layer) {
  if (index == layer.zero_output) return "zero";
  for (const Limit& limit : loop.limits) {
    if (IsEqual(limit, loop.variables[index].initial, loop)) return "time";
  }
  const bool is_compared = layer.compared_step != nullptr &&
                           IsVariable(layer.compared_step->inputs[0], index);
  return is_compared ? "lengths" : "invariant";
}

// A size of a matrix, or -1 if it is not known.
int64_t SizeOf(const Value& matrix, int axis, const Loop& loop) {
  const auto shape = ShapeOf(matrix, loop);
  return shape.dims() == 2 ? shape.dim_size(axis) : -1;
}

// The columns of a state of a cell, or of its output, or -1 if they are not
// known.
int64_t WidthOf(int state, const Cell& cell, const Loop& loop) {
  const bool is_c = cell.projection.has_value() && state == cell.c;
  int64_t width =
      SizeOf(*loop.values->OfVariable(is_c ? cell.c : cell.h), 1, loop);
  if (width < 0 && cell.projection.has_value() && !is_c) {
    return NumColumnsOf(*cell.projection, loop);
  }
  for (const Gate& gate : cell.gates) {
    if (width < 0) width = NumColumnsOf(gate.recurrent_kernel, loop);
  }
  return width;
}

std::string TextOf(const tensorflow::PartialTensorShape& shape) {
  return shape.unknown_rank() ? "?" : absl::StrJoin(shape.dim_sizes(), ",");
}

// The cell that has a state, or whose output it is.
const Cell& CellOf(int state, const RecurrentLayer& layer) {
  for (const Cell& cell : layer.cells) {
    if (state == cell.h || state == cell.c) return cell;
  }
  return layer.cells.back();
}

// The shape of a variable of the loop of a layer.
tensorflow::PartialTensorShape ShapeOfVariable(int index, const Loop& loop,
                                               const RecurrentLayer& layer) {
  const auto shape = ShapeOfVariable(index, loop);
  const Variable& variable = loop.variables[index];
  const bool has_halves = variable.role == Role::kHalves;
  if (variable.role != Role::kState && !has_halves &&
      index != layer.zero_output) {
    return shape;
  }
  const int64_t batch = shape.dims() == 2 ? shape.dim_size(0) : -1;
  const int state = has_halves ? variable.halves : index;
  const int64_t width = WidthOf(state, CellOf(state, layer), loop);
  return tensorflow::PartialTensorShape(
      {batch, has_halves && width > 0 ? 2 * width : width});
}

std::string RolesOf(const Loop& loop, const RecurrentLayer& layer) {
  std::vector<std::string> roles;
  for (size_t i = 0; i < loop.variables.size(); ++i) {
    const int index = static_cast<int>(i);
    switch (loop.variables[i].role) {
      case Role::kInvariant:
        roles.emplace_back(RoleOfInvariant(index, loop, layer));
        break;
      case Role::kCounter:
        roles.emplace_back("counter");
        break;
      case Role::kInputList:
        roles.emplace_back(index == layer.mask ? "mask" : "inputs");
        break;
      case Role::kHalf:
        continue;
      case Role::kHalves:
        roles.emplace_back("state");
        break;
      case Role::kOutputList:
        roles.emplace_back("outputs");
        break;
      case Role::kState:
        roles.emplace_back(index == layer.zero_output ? "zero" : "state");
        break;
    }
    absl::StrAppend(&roles.back(), ":",
                    TextOf(ShapeOfVariable(index, loop, layer)));
  }
  return absl::StrJoin(roles, " ");
}

bool Ask(const Candidate& candidate, Accept accept) {
  const Loop& loop = candidate.loop;
  const Cell& cell = candidate.layer.cells[0];
  const Piece& kernel = cell.gates[0].kernel;
  const std::string layer = candidate.function.SerializeAsString();
  const std::string roles = RolesOf(loop, candidate.layer);
  const std::string graph =
      candidate.graph == nullptr ? "" : candidate.graph->SerializeAsString();
  int64_t features = SizeOf(*kernel.whole, 0, loop);
  if (kernel.rows != Piece::kAll) {
    const int64_t width = WidthOf(cell.h, cell, loop);
    features = features > width && width > 0 ? features - width : -1;
  }
  int64_t time = -1;
  for (const Limit& limit : loop.limits) {
    time = std::max(time, limit.constant);
  }
  const LoopReport& report = candidate.report;
  const TfRnnOps_Loop asked = {
      report.function.c_str(),
      report.node.c_str(),
      report.mode.c_str(),
      report.why_not.c_str(),
      layer.data(),
      static_cast<int64_t>(layer.size()),
      graph.data(),
      static_cast<int64_t>(graph.size()),
      roles.c_str(),
      time,
      SizeOf(*loop.values->OfVariable(cell.h), 0, loop),
      features};
  return accept(&asked) != 0;
}

absl::Status Convert(const void* bytes, int64_t size, Accept accept,
                     Finish finish) {
  tensorflow::GraphDef graph;
  if (!graph.ParseFromArray(bytes, static_cast<int>(size))) {
    return absl::InvalidArgumentError("it is no graph");
  }
  tensorflow::FunctionLibraryDefinition library(
      tensorflow::OpRegistry::Global(), graph.library());
  std::set<std::pair<std::string, std::string>> asked;
  LoopReplacer replacer(&library, [&](const Candidate& candidate) {
    asked.emplace(candidate.report.function, candidate.report.node);
    return Ask(candidate, accept);
  });
  absl::Status status = replacer.ReplaceInGraphDef(&graph);
  if (!status.ok()) return status;
  for (const LoopReport& loop : replacer.loops()) {
    if (asked.count({loop.function, loop.node}) == 0) {
      TfRnnOps_Loop other = {};
      other.function = loop.function.c_str();
      other.node = loop.node.c_str();
      other.mode = loop.mode.c_str();
      other.why_not = loop.why_not.c_str();
      accept(&other);
    }
  }
  const std::string converted = graph.SerializeAsString();
  finish(converted.data(), static_cast<int64_t>(converted.size()));
  return absl::OkStatus();
}

}  // namespace
}  // namespace tf_rnn_ops

extern "C" {

// Replaces loops in a serialized GraphDef and its functions. Calls `accept` for
// each loop, which returns whether to replace it, if it can be, and at last
// `finish` with the new graph. Returns "", or what is wrong, which is valid
// until the next call in this thread.
__attribute__((visibility("default"))) const char* TfRnnOps_ConvertGraph(
    const void* graph, int64_t size, tf_rnn_ops::Accept accept,
    tf_rnn_ops::Finish finish) {
  static thread_local std::string message;
  const absl::Status status =
      tf_rnn_ops::CatchInKernel("TfRnnOps_ConvertGraph", [&] {
        return tf_rnn_ops::FromAbslStatus(
            tf_rnn_ops::Convert(graph, size, accept, finish));
      });
  message = std::string(status.message());
  return message.c_str();
}
}
