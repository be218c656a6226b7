#include "cc/tensorflow/loops/layer_function.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/tensorflow/loops/chain.h"
#include "cc/tensorflow/loops/function_builder.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/graph/graph.h"
#include "tensorflow/core/graph/node_builder.h"

namespace tf_rnn_ops {
namespace {

using ::tensorflow::DataType;
using ::tensorflow::Node;
using ::tensorflow::NodeBuilder;
using ::tensorflow::Tensor;
using NodeOut = NodeBuilder::NodeOut;

// The steps of sequences, [batch, time, features], or time first.
struct Sequences {
  NodeOut steps;
  bool is_time_major = false;
};

// What the op of a cell computes.
struct Results {
  Sequences outputs;  // or the output of the last step, [batch, units]
  NodeOut h;          // after the last step, [batch, units]
  NodeOut c;
};

class Builder : private FunctionBuilder {
 public:
  Builder(const Loop& loop, const RecurrentLayer& layer,
          const tensorflow::FunctionLibraryDefinition& library)
      : FunctionBuilder(library), loop_(loop), layer_(layer) {}

  absl::Status Run(tensorflow::FunctionDef* function);

 private:
  NodeOut Integers(const std::vector<int32_t>& values);
  NodeOut Integer(int32_t value);
  NodeOut Number(double value);

  void AddArguments();
  NodeOut ValueOf(const Limit& limit);
  NodeOut NumSteps();
  NodeOut Steps(int list);
  NodeOut Mask();
  NodeOut Copy(const Value* value);
  NodeOut Rows(const Piece& piece);
  NodeOut Columns(const Piece& piece);
  NodeOut Join(const std::vector<Piece>& pieces, const Cell* bias_of = nullptr,
               const std::vector<double>& numbers = {});
  NodeOut Bias(const Cell& cell);
  NodeOut MatrixAs(const Value* value);
  NodeOut NumColumns(const NodeOut& matrix);
  NodeOut Units(const Cell& cell);
  NodeOut Vector(const Piece& piece, const Cell& cell);
  NodeOut StateBefore(int index);
  NodeOut InitialState(const Cell& cell, int index);
  NodeOut StepsOf(const Sequences& sequences, bool time_major);
  NodeOut JoinKernels(const std::vector<Gate>& gates);
  NodeOut JoinRecurrentKernels(const std::vector<Gate>& gates);
  NodeOut Weights(const std::vector<Gate>& gates);
  NodeOut Peephole(const Gate& gate, const Cell& cell);
  NodeOut Lengths(const NodeOut& mask);
  NodeOut Last(const NodeOut& initial, const NodeOut& steps,
               const NodeOut& lengths);
  NodeOut WithoutMasked(const NodeOut& steps, const NodeOut& mask);
  NodeOut WithoutGradient(const NodeOut& value);
  Results KerasRnn(const Cell& cell, const Sequences& sequences,
                   const NodeOut& mask);
  Results BlockLstm(const Cell& cell, const Sequences& sequences,
                    const NodeOut& mask);
  NodeOut Transposed(const NodeOut& matrix);
  NodeOut ParamsOfNetwork(const Cell& cell);
  Results ProjectedLstm(const Cell& cell, const Sequences& sequences,
                        const NodeOut& mask);
  Results TimeMajorResults(const Cell& cell, const NodeOut& steps,
                           const NodeOut& mask, const NodeOut& h,
                           const NodeOut& c);
  Results Op(const Cell& cell, const Sequences& sequences, const NodeOut& mask);
  std::vector<Results> Ops();
  NodeOut ListOf(const NodeOut& tensor);
  NodeOut LastOutput(const Sequences& outputs);
  NodeOut WithZeros(const NodeOut& outputs);
  NodeOut State(int index, const std::vector<Results>& results);
  void AddResults(const std::vector<Results>& of_cells);
  void DescribeVariables(tensorflow::FunctionDef* function) const;
  DataType type() const;
  const Cell& last() const { return layer_.cells.back(); }
  bool has_mask() const {
    return layer_.mask >= 0 || layer_.compared_step != nullptr;
  }

  const Loop& loop_;
  const RecurrentLayer& layer_;
  NodeOut limit_;
};

// The type of the states.
DataType Builder::type() const {
  const int whole = loop_.variables[last().h].whole;
  return loop_.body->arg_types[whole < 0 ? last().h : whole];
}

NodeOut Builder::Integers(const std::vector<int32_t>& values) {
  Tensor tensor(tensorflow::DT_INT32, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) {
    tensor.flat<int32_t>()(i) = values[i];
  }
  return Constant(tensor);
}

NodeOut Builder::Integer(int32_t value) {
  Tensor tensor(tensorflow::DT_INT32, {});
  tensor.scalar<int32_t>()() = value;
  return Constant(tensor);
}

// A number of the type of the states.
NodeOut Builder::Number(double value) {
  Tensor tensor(tensorflow::DT_DOUBLE, {});
  tensor.scalar<double>()() = value;
  return Add("Cast", {Constant(tensor)},
             [&](NodeBuilder* builder) { builder->Attr("DstT", type()); });
}

void Builder::AddArguments() {
  for (size_t i = 0; i < loop_.variables.size(); ++i) {
    const Variable& variable = loop_.variables[i];
    if (variable.role == Role::kHalf) continue;
    const DataType type = variable.role == Role::kInputList
                              ? variable.initial.node->input_type(0)
                              : loop_.body->arg_types[i];
    AddArgument(type);
  }
}

NodeOut Builder::ValueOf(const Limit& limit) {
  return limit.variable < 0 ? Integer(static_cast<int32_t>(limit.constant))
                            : Argument(limit.variable);
}

// The number of steps.
NodeOut Builder::NumSteps() {
  NodeOut least = ValueOf(loop_.limits[0]);
  for (size_t i = 1; i < loop_.limits.size(); ++i) {
    least = Add("Minimum", {least, ValueOf(loop_.limits[i])});
  }
  return Add("Maximum", {least, Integer(0)});
}

// The tensor of a list without the steps that the loop does not reach. A loop
// of more steps is an error, as it is for the list.
NodeOut Builder::Steps(int list) {
  const NodeOut rest = Integer(-1);
  const NodeOut sizes = Add("Pack", {}, [&](NodeBuilder* builder) {
    builder->Input({limit_, rest, rest});
  });
  return Add("Slice", {Argument(list), Integers({0, 0, 0}), sizes});
}

// [batch, time], or empty.
NodeOut Builder::Mask() {
  if (layer_.compared_step != nullptr) {
    const Value& comparison = *layer_.compared_step;
    // [batch, 1], or [1, 1] if it is the same for all sequences
    const NodeOut of_sequences =
        Add("Reshape", {Copy(comparison.inputs[0]), Integers({-1, 1})});
    const NodeOut steps = Add("Range", {Integer(0), limit_, Integer(1)});
    const NodeOut mask = Add(comparison.op == "less" ? "Less" : "Greater",
                             {of_sequences, steps});
    const NodeOut batch =
        Add("StridedSlice",
            {Add("Shape", {StateBefore(last().h)}), Integers({0}),
             Integers({1}), Integers({1})},
            [](NodeBuilder* builder) { builder->Attr("shrink_axis_mask", 1); });
    const NodeOut shape = Add("Pack", {}, [&](NodeBuilder* builder) {
      builder->Input({batch, limit_});
    });
    return Add("BroadcastTo", {mask, shape});
  }
  if (layer_.mask < 0) return Constant(Tensor(tensorflow::DT_BOOL, {0}));
  Node* const steps =
      Add("Squeeze", {Steps(layer_.mask)}, [](NodeBuilder* builder) {
        builder->Attr("squeeze_dims", std::vector<int>{2});
      });
  return Add("Transpose", {steps, Integers({1, 0})});
}

// Computes a value that no step changes before the loop.
NodeOut Builder::Copy(const Value* value) {
  if (value->op == "variable") {
    if (loop_.variables[value->variable].role == Role::kInputList) {
      Fail("it uses a list as a weight");
    }
    return Argument(value->variable);
  }
  Node* const copy = CopyOf(value->node, [&] {
    return AddCopy(value->node, [&](const tensorflow::Edge* edge) {
      return Copy(loop_.values->Of(edge->src(), edge->src_output()));
    });
  });
  return NodeOut(copy, value->output);
}

// A matrix with the columns of the x or h of a cell.
NodeOut Builder::MatrixAs(const Value* value) {
  for (const Cell& cell : layer_.cells) {
    if (IsVariable(value, cell.h) || value == cell.new_h) {
      return StateBefore(cell.h);
    }
  }
  return Argument(layer_.inputs);
}

// The size of the last dimension, [1].
NodeOut Builder::NumColumns(const NodeOut& matrix) {
  const NodeOut shape = Add("Shape", {matrix});
  return Add("StridedSlice",
             {shape, Integers({-1}), Integers({0}), Integers({1})},
             [](NodeBuilder* builder) { builder->Attr("end_mask", 1); });
}

// The units of a cell, [1].
NodeOut Builder::Units(const Cell& cell) {
  const int of_units = cell.projection.has_value() ? cell.c : cell.h;
  return NumColumns(StateBefore(of_units));
}

// Some rows of a matrix.
NodeOut Builder::Rows(const Piece& piece) {
  const NodeOut whole = Copy(piece.whole);
  if (piece.rows == Piece::kAll) return whole;
  // The rows that multiply x or h are as many as it has columns.
  const NodeOut number = NumColumns(MatrixAs(piece.first));
  const NodeOut first = Integers({0});
  // whole[:number] or whole[number:]
  const bool is_first = piece.rows == Piece::kFirst;
  return Add("StridedSlice",
             {whole, is_first ? first : number, is_first ? number : first,
              Integers({1})},
             [&](NodeBuilder* builder) {
               builder->Attr("end_mask", is_first ? 0 : 1);
             });
}

NodeOut Builder::Columns(const Piece& piece) {
  const NodeOut whole = Rows(piece);
  if (!piece.columns.has_value()) return whole;
  const auto& columns = *piece.columns;
  if (columns.count > 0) {
    Node* const split =
        Add("Split", {Integer(-1), whole}, [&](NodeBuilder* builder) {
          builder->Attr("num_split", columns.count);
        });
    return NodeOut(split, static_cast<int>(columns.index));
  }
  // whole[..., begin:end]
  const NodeOut begin = Integers({0, static_cast<int32_t>(columns.begin)});
  const NodeOut end = Integers({0, static_cast<int32_t>(columns.end)});
  return Add("StridedSlice", {whole, begin, end, Integers({1, 1})},
             [&](NodeBuilder* builder) {
               builder->Attr("ellipsis_mask", 1)
                   .Attr("end_mask", columns.end == 0 ? 2 : 0);
             });
}

// Whether pieces are, in order, all columns of one value.
bool AreWhole(const std::vector<Piece>& pieces, const Loop& loop) {
  const int64_t size = static_cast<int64_t>(pieces.size());
  if (size == 1 && !pieces[0].columns.has_value()) return true;
  const int64_t width = pieces[0].columns.value_or(Columns{}).end;
  const auto shape = ShapeOf(*pieces[0].whole, loop);
  const int64_t last = shape.dims() > 0 ? shape.dim_size(shape.dims() - 1) : -1;
  for (int64_t i = 0; i < size; ++i) {
    if (pieces[i].whole != pieces[0].whole ||
        pieces[i].rows != pieces[0].rows || !pieces[i].columns.has_value()) {
      return false;
    }
    const auto& [axis, index, count, begin, end] = *pieces[i].columns;
    const bool is_part = count == size && index == i;
    const bool is_range =
        count == 0 && width > 0 && begin == i * width &&
        (i < size - 1 ? end == begin + width : end == 0 || end == last);
    if (!is_part && !is_range) return false;
  }
  return true;
}

// Whether a vector may be one number for all units of a gate.
bool MayBroadcast(const Piece& vector) {
  return !vector.is_vector && !vector.columns.has_value();
}

// A vector of the units of a gate, [units].
NodeOut Builder::Vector(const Piece& piece, const Cell& cell) {
  const NodeOut vector = Columns(piece);
  if (!MayBroadcast(piece)) return vector;
  // [1, units], [units] or [1]
  return Add("BroadcastTo",
             {Add("Reshape", {vector, Integers({-1})}), Units(cell)});
}

// Pieces of equal sizes beside each other; of biases of a cell, with numbers
// that are added to each.
NodeOut Builder::Join(const std::vector<Piece>& pieces, const Cell* bias_of,
                      const std::vector<double>& numbers) {
  const bool has_numbers =
      std::any_of(numbers.begin(), numbers.end(),
                  [](double number) { return number != 0; });
  const bool may_broadcast =
      bias_of != nullptr &&
      std::any_of(pieces.begin(), pieces.end(), MayBroadcast);
  if (AreWhole(pieces, loop_) && !has_numbers && !may_broadcast) {
    return Rows(pieces[0]);
  }
  std::vector<NodeOut> parts;
  for (size_t i = 0; i < pieces.size(); ++i) {
    NodeOut part =
        bias_of == nullptr ? Columns(pieces[i]) : Vector(pieces[i], *bias_of);
    if (has_numbers && numbers[i] != 0) {
      part = Add("AddV2", {part, Number(numbers[i])});
    }
    parts.push_back(part);
  }
  if (parts.size() == 1) return parts[0];
  return Add("ConcatV2", {}, [&](NodeBuilder* builder) {
    builder->Input(parts).Input(Integer(-1));
  });
}

// The biases of all gates, [gates * units], or empty. For a GRU
// [2, gates * units].
NodeOut Builder::Bias(const Cell& cell) {
  const bool is_gru = cell.rnn_mode == "gru";
  const Gate& last = cell.gates.back();
  // r multiplies one of two biases, and no number.
  if (is_gru && (last.biases.size() > 1 || last.recurrent_biases.size() > 1 ||
                 (last.number != 0 && last.biases.empty()))) {
    Fail("its biases are not known");
    return limit_;
  }
  // For each bias, its pieces by gate.
  std::vector<std::vector<Piece>> biases(last.biases.size() +
                                         last.recurrent_biases.size());
  for (const Gate& gate : cell.gates) {
    std::vector<Piece> pieces = gate.biases;
    pieces.insert(pieces.end(), gate.recurrent_biases.begin(),
                  gate.recurrent_biases.end());
    if (pieces.size() != biases.size() || (is_gru && pieces.size() > 2)) {
      Fail("its biases are not known");
      return limit_;
    }
    // A GRU only adds both biases, except those of its last gate.
    if (is_gru && pieces.size() == 2 && last.biases.size() == 1 &&
        pieces[1].whole == last.biases[0].whole) {
      std::swap(pieces[0], pieces[1]);
    }
    for (size_t i = 0; i < pieces.size(); ++i) biases[i].push_back(pieces[i]);
  }
  std::vector<double> numbers;
  for (const Gate& gate : cell.gates) {
    numbers.push_back(gate.number);
    if (gate.number != 0 && biases.empty()) {
      Fail("it adds a number without a bias");
    }
  }
  std::vector<NodeOut> sums;
  for (const auto& pieces : biases) {
    NodeOut joined = Join(pieces, &cell, numbers);
    numbers.clear();
    const bool are_vectors =
        std::all_of(pieces.begin(), pieces.end(),
                    [](const Piece& piece) { return piece.is_vector; });
    if (!are_vectors) joined = Add("Reshape", {joined, Integers({-1})});
    sums.push_back(joined);
  }
  if (sums.empty()) return Constant(Tensor(type(), {0}));
  if (!is_gru) {
    NodeOut sum = sums[0];
    for (size_t i = 1; i < sums.size(); ++i) sum = Add("AddV2", {sum, sums[i]});
    return sum;
  }
  if (sums.size() == 1) {
    const bool is_of_inputs = last.biases.size() == 1;
    sums.insert(is_of_inputs ? sums.end() : sums.begin(),
                Add("ZerosLike", {sums[0]}));
  }
  return Add("Pack", {}, [&](NodeBuilder* builder) { builder->Input(sums); });
}

// Whether the gates may have the same number of units. A sum may broadcast
// those of one unit.
bool MayHaveSameUnits(const Cell& cell, const Loop& loop) {
  std::set<int64_t> numbers;
  for (const Gate& gate : cell.gates) {
    for (const Piece* piece : {&gate.kernel, &gate.recurrent_kernel}) {
      numbers.insert(NumColumnsOf(*piece, loop));
    }
  }
  numbers.erase(-1);
  return numbers.size() <= 1;
}

// A state, or half of one, before the first step.
NodeOut Builder::StateBefore(int index) {
  const int whole = loop_.variables[index].whole;
  if (whole < 0) return Argument(index);
  Node* const halves =
      Add("Split", {Integer(1), Argument(whole)},
          [](NodeBuilder* builder) { builder->Attr("num_split", 2); });
  return NodeOut(halves, index - loop_.variables[whole].halves);
}

// A state before the first step, [batch, units]. Without a loop, the steps may
// also begin with one that a sum broadcasts.
NodeOut Builder::InitialState(const Cell& cell, int index) {
  if (loop_.node->attrs().Find(kStepsAttribute) == nullptr) {
    return StateBefore(index);
  }
  // From the shape [time, batch, features].
  const NodeOut batch =
      Add("StridedSlice", {Add("Shape", {Argument(layer_.inputs)}),
                           Integers({1}), Integers({2}), Integers({1})});
  const NodeOut shape = Add("ConcatV2", {}, [&](NodeBuilder* builder) {
    builder
        ->Input({batch,
                 index == cell.h ? NumColumns(Argument(index)) : Units(cell)})
        .Input(Integer(0));
  });
  return Add("BroadcastTo", {Argument(index), shape});
}

// The steps of sequences, with time or the batch first.
NodeOut Builder::StepsOf(const Sequences& sequences, bool time_major) {
  if (sequences.is_time_major == time_major) return sequences.steps;
  return Add("Transpose", {sequences.steps, Integers({1, 0, 2})});
}

// The weights of gates for x, [features, gates * units].
NodeOut Builder::JoinKernels(const std::vector<Gate>& gates) {
  std::vector<Piece> pieces;
  for (const Gate& gate : gates) pieces.push_back(gate.kernel);
  return Join(pieces);
}

// The weights of gates for h, [units, gates * units].
NodeOut Builder::JoinRecurrentKernels(const std::vector<Gate>& gates) {
  std::vector<Piece> pieces;
  for (const Gate& gate : gates) pieces.push_back(gate.recurrent_kernel);
  return Join(pieces);
}

// The weights of gates for x above those for h, [features + units, gates *
// units].
NodeOut Builder::Weights(const std::vector<Gate>& gates) {
  std::vector<Piece> wholes;
  bool are_joined = true;
  for (const Gate& gate : gates) {
    wholes.push_back(gate.kernel);
    wholes.back().rows = Piece::kAll;
    // Then both are the same columns, as `FindTerms` says.
    are_joined &= gate.kernel.whole == gate.recurrent_kernel.whole &&
                  gate.kernel.rows == Piece::kFirst &&
                  gate.recurrent_kernel.rows == Piece::kLast;
  }
  if (are_joined) return Join(wholes);
  const std::vector<NodeOut> parts = {JoinKernels(gates),
                                      JoinRecurrentKernels(gates)};
  return Add("ConcatV2", {}, [&](NodeBuilder* builder) {
    builder->Input(parts).Input(Integer(0));
  });
}

// The weights with which a gate looks at c, or zeros.
NodeOut Builder::Peephole(const Gate& gate, const Cell& cell) {
  return gate.peephole.has_value() ? Vector(*gate.peephole, cell)
                                   : Add("Fill", {Units(cell), Number(0)});
}

// The number of steps of each sequence, [batch].
NodeOut Builder::Lengths(const NodeOut& mask) {
  if (has_mask()) {
    // Of a comparison length > step, the first steps are true.
    if (layer_.mask >= 0 || layer_.compared_step->op != "greater") {
      Fail("its mask is not one of the last steps");
    }
    Node* const steps = Add("Cast", {mask}, [](NodeBuilder* builder) {
      builder->Attr("DstT", tensorflow::DT_INT32);
    });
    return Add("Sum", {steps, Integer(1)});
  }
  // From the shape [time, batch, features].
  const NodeOut batch =
      Add("StridedSlice", {Add("Shape", {Argument(layer_.inputs)}),
                           Integers({1}), Integers({2}), Integers({1})});
  return Add("Fill", {batch, limit_});
}

// A state after the last step of each sequence, [batch, units], of those after
// all steps, [time, batch, units].
NodeOut Builder::Last(const NodeOut& initial, const NodeOut& steps,
                      const NodeOut& lengths) {
  const NodeOut states = Add("ConcatV2", {}, [&](NodeBuilder* builder) {
    builder->Input({Add("ExpandDims", {initial, Integer(0)}), steps})
        .Input(Integer(0));
  });
  const NodeOut sequences =
      Add("Range", {Integer(0), Add("Size", {lengths}), Integer(1)});
  const NodeOut indices = Add("Pack", {}, [&](NodeBuilder* builder) {
    builder->Input({lengths, sequences}).Attr("axis", 1);
  });
  return Add("GatherNd", {states, indices});
}

// Outputs, [time, batch, units], with zeros in masked steps.
NodeOut Builder::WithoutMasked(const NodeOut& steps, const NodeOut& mask) {
  if (!layer_.returns_sequences || !layer_.zeroes_masked_outputs) {
    Fail("its outputs of masked steps are not zeros");
  }
  const NodeOut of_steps = Add(
      "ExpandDims", {Add("Transpose", {mask, Integers({1, 0})}), Integer(-1)});
  return Add("SelectV2", {of_steps, steps, Number(0)});
}

// A value that TensorFlow does not differentiate, but reports an error. The
// gradient of BlockLSTM passes through clipping, that of the loop does not.
NodeOut Builder::WithoutGradient(const NodeOut& value) {
  return Add("PreventGradient", {value}, [](NodeBuilder* builder) {
    builder->Attr("message",
                  "a converted LSTM that clips its cell state has no gradient");
  });
}

// Adds the op BlockLSTM for an LSTM. It has no masks: all sequences have all
// steps, of which those after the last of a sequence are left out.
Results Builder::BlockLstm(const Cell& cell, const Sequences& sequences,
                           const NodeOut& mask) {
  if (cell.activation != "tanh" || cell.recurrent_activation != "sigmoid") {
    Fail("its LSTM has peepholes or clipping and other activations");
  }
  if (cell.gates[0].biases.empty()) {
    Fail("its LSTM has peepholes or clipping and no biases");
  }
  // The op has the order of TensorFlow 1: i, g, f, o.
  Cell ordered = cell;
  std::vector<Gate>& gates = ordered.gates;
  std::swap(gates[1], gates[2]);
  const NodeOut initial_h = InitialState(cell, cell.h);
  const NodeOut initial_c = InitialState(cell, cell.c);
  Node* const num_steps = Add("Cast", {limit_}, [](NodeBuilder* builder) {
    builder->Attr("DstT", tensorflow::DT_INT64);
  });
  Node* const op =
      Add("TfRnnOps>BlockLSTM",
          {num_steps, StepsOf(sequences, /*time_major=*/true), initial_c,
           initial_h, Weights(gates), Peephole(gates[0], cell),
           Peephole(gates[2], cell), Peephole(gates[3], cell), Bias(ordered)},
          [&](NodeBuilder* builder) {
            // It is part of the biases.
            builder->Attr("forget_bias", 0.0f)
                .Attr("cell_clip", cell.cell_clip)
                .Attr("use_peephole", HasPeepholes(cell));
          });
  constexpr int kC = 1;
  constexpr int kH = 6;
  const auto output = [&](int index) {
    return cell.cell_clip == 0 ? NodeOut(op, index)
                               : WithoutGradient(NodeOut(op, index));
  };
  const NodeOut lengths = Lengths(mask);
  const NodeOut steps = output(kH);
  const NodeOut h = Last(initial_h, steps, lengths);
  const NodeOut c = Last(initial_c, output(kC), lengths);
  return TimeMajorResults(cell, steps, mask, h, c);
}

// The rows of the transposed matrix, one after the other.
NodeOut Builder::Transposed(const NodeOut& matrix) {
  return Add("Reshape",
             {Add("Transpose", {matrix, Integers({1, 0})}), Integers({-1})});
}

// The weights of a cell as the input `params` of CudnnRNN.
NodeOut Builder::ParamsOfNetwork(const Cell& cell) {
  const NodeOut biases = Bias(cell);
  const std::vector<NodeOut> parts = {
      Transposed(JoinKernels(cell.gates)),
      Transposed(JoinRecurrentKernels(cell.gates)),
      Transposed(Rows(*cell.projection)), biases, Add("ZerosLike", {biases})};
  return Add("ConcatV2", {}, [&](NodeBuilder* builder) {
    builder->Input(parts).Input(Integer(0));
  });
}

// Adds the op StatelessCudnnRNN for an LSTM with a projection.
Results Builder::ProjectedLstm(const Cell& cell, const Sequences& sequences,
                               const NodeOut& mask) {
  const int64_t size = NumColumnsOf(*cell.projection, loop_);
  const int64_t units = NumColumnsOf(cell.gates[0].recurrent_kernel, loop_);
  if (HasPeepholes(cell) || cell.cell_clip != 0) {
    Fail("its LSTM has a projection, and peepholes or clipping");
  } else if (cell.activation != "tanh" ||
             cell.recurrent_activation != "sigmoid") {
    Fail("its LSTM has a projection and other activations");
  } else if (cell.gates[0].biases.empty()) {
    Fail("its LSTM has a projection and no biases");
  } else if (cell.projection->columns.has_value() || size < 0 || units < 0) {
    Fail("the size of its projection is not in the graph");
  } else if (size >= units) {
    Fail("its projection is not smaller than its units");
  }
  const auto state = [&](int index) {
    return Add("ExpandDims", {InitialState(cell, index), Integer(0)});
  };
  Tensor seed(tensorflow::DT_INT64, {2});
  seed.flat<int64_t>().setZero();
  Node* const op =
      Add("TfRnnOps>StatelessCudnnRNN",
          {StepsOf(sequences, /*time_major=*/true), state(cell.h),
           state(cell.c), ParamsOfNetwork(cell), Lengths(mask), Constant(seed)},
          [&](NodeBuilder* builder) {
            builder->Attr("rnn_mode", "lstm")
                .Attr("num_proj", size)
                .Attr("is_training", false)
                .Attr("time_major", true);
          });
  const auto final_state = [&](int output) {
    return Add("Squeeze", {NodeOut(op, output)}, [](NodeBuilder* builder) {
      builder->Attr("squeeze_dims", std::vector<int>{0});
    });
  };
  return TimeMajorResults(cell, NodeOut(op, 0), mask, final_state(1),
                          final_state(2));
}

// What the op of a cell computes, if its outputs are [time, batch, units].
Results Builder::TimeMajorResults(const Cell& cell, const NodeOut& steps,
                                  const NodeOut& mask, const NodeOut& h,
                                  const NodeOut& c) {
  Sequences outputs{steps, /*is_time_major=*/true};
  if (&cell == &last()) {
    if (has_mask()) outputs.steps = WithoutMasked(steps, mask);
    if (!layer_.returns_sequences) outputs.steps = h;
  }
  return {outputs, h, c};
}

// Adds the op KerasRNN for a cell.
Results Builder::KerasRnn(const Cell& cell, const Sequences& sequences,
                          const NodeOut& mask) {
  const NodeOut initial_h = InitialState(cell, cell.h);
  const NodeOut initial_c = InitialState(cell, cell.c < 0 ? cell.h : cell.c);
  const bool is_last = &cell == &last();
  Node* const op = Add(
      "TfRnnOps>KerasRNN",
      {StepsOf(sequences, /*time_major=*/false), mask, initial_h, initial_c,
       JoinKernels(cell.gates), JoinRecurrentKernels(cell.gates), Bias(cell)},
      [&](NodeBuilder* builder) {
        builder
            ->Input(std::vector<NodeOut>())  // input_masks
            .Input(std::vector<NodeOut>())   // state_masks
            .Attr("rnn_mode", cell.rnn_mode)
            .Attr("activation", cell.activation)
            .Attr("recurrent_activation", cell.recurrent_activation)
            .Attr("return_sequences", !is_last || layer_.returns_sequences)
            .Attr("zero_output_for_mask",
                  is_last && layer_.zeroes_masked_outputs)
            .Attr("is_training", false);
      });
  return {{NodeOut(op, 0)}, NodeOut(op, 1), NodeOut(op, 2)};
}

// Adds the op for a cell.
Results Builder::Op(const Cell& cell, const Sequences& sequences,
                    const NodeOut& mask) {
  if (!MayHaveSameUnits(cell, loop_)) {
    Fail("its gates have different numbers of units");
  }
  if (cell.projection.has_value()) return ProjectedLstm(cell, sequences, mask);
  return HasPeepholes(cell) || cell.cell_clip != 0
             ? BlockLstm(cell, sequences, mask)
             : KerasRnn(cell, sequences, mask);
}

// Adds the ops of all cells.
std::vector<Results> Builder::Ops() {
  Sequences sequences{Steps(layer_.inputs), /*is_time_major=*/true};
  const NodeOut mask = Mask();
  std::vector<Results> results;
  for (const Cell& cell : layer_.cells) {
    results.push_back(Op(cell, sequences, mask));
    sequences = results.back().outputs;
  }
  return results;
}

NodeOut Builder::ListOf(const NodeOut& tensor) {
  return Add(
      "TensorListFromTensor", {tensor, Integer(-1)},
      [&](NodeBuilder* builder) { builder->Attr("element_dtype", tensor.dt); });
}

// The output of the last step, [batch, units].
NodeOut Builder::LastOutput(const Sequences& outputs) {
  if (!layer_.returns_sequences) return outputs.steps;
  // outputs[:, -1]
  return Add("StridedSlice",
             {StepsOf(outputs, /*time_major=*/false), Integers({0, -1}),
              Integers({0, 0}), Integers({1, 1})},
             [](NodeBuilder* builder) {
               builder->Attr("begin_mask", 1)
                   .Attr("end_mask", 1)
                   .Attr("shrink_axis_mask", 2);
             });
}

// The outputs, with zeros for the steps that the loop does not reach.
NodeOut Builder::WithZeros(const NodeOut& outputs) {
  const NodeOut rest = Add("Sub", {ValueOf(loop_.limits[layer_.size]), limit_});
  const NodeOut zero = Integer(0);
  // [[0, rest], [0, 0], [0, 0]]
  const NodeOut flat = Add("Pack", {}, [&](NodeBuilder* builder) {
    builder->Input({zero, rest, zero, zero, zero, zero});
  });
  return Add("Pad", {outputs, Add("Reshape", {flat, Integers({3, 2})})});
}

// The final value of a state.
NodeOut Builder::State(int index, const std::vector<Results>& results) {
  for (size_t i = 0; i < results.size(); ++i) {
    const Cell& cell = layer_.cells[i];
    if (index == cell.h) return results[i].h;
    if (index == cell.c) return results[i].c;
  }
  return LastOutput(results.back().outputs);
}

void Builder::AddResults(const std::vector<Results>& of_cells) {
  const Sequences& last_outputs = of_cells.back().outputs;
  // [time or 1, batch, units]
  NodeOut outputs = layer_.returns_sequences
                        ? StepsOf(last_outputs, /*time_major=*/true)
                        : Add("ExpandDims", {last_outputs.steps, Integer(0)});
  if (layer_.returns_sequences && loop_.limits.size() > 1) {
    outputs = WithZeros(outputs);
  }
  std::vector<NodeOut> results;
  for (size_t i = 0; i < loop_.variables.size(); ++i) {
    switch (loop_.variables[i].role) {
      case Role::kInvariant:
        results.push_back(Argument(i));
        break;
      case Role::kCounter:
        results.push_back(limit_);
        break;
      case Role::kInputList:
        results.push_back(ListOf(Argument(i)));
        break;
      case Role::kOutputList:
        results.push_back(ListOf(outputs));
        break;
      case Role::kState:
        results.push_back(State(static_cast<int>(i), of_cells));
        break;
      case Role::kHalves: {
        const int first = loop_.variables[i].halves;
        results.push_back(Add("ConcatV2", {}, [&](NodeBuilder* builder) {
          const std::vector<NodeOut> halves = {State(first, of_cells),
                                               State(first + 1, of_cells)};
          builder->Input(halves).Input(Integer(1));
        }));
        break;
      }
      case Role::kHalf:
        break;
    }
  }
  results.push_back(outputs);
  for (const NodeOut& result : results) AddResult(result);
}

// Sets which TensorFlow variables the arguments are. Without that, Python
// cannot differentiate the function.
void Builder::DescribeVariables(tensorflow::FunctionDef* function) const {
  for (const Node* node : loop_.body->graph->op_nodes()) {
    if (!Has(node, "ReadVariableOp")) continue;
    const Node* const handle = InputOf(node, 0).node;
    if (!handle->IsArg()) continue;
    int index = 0;
    tensorflow::TryGetNodeAttr(handle->attrs(), "index", &index);
    auto* const argument =
        function->mutable_signature()->mutable_input_arg(index);
    argument->clear_handle_data();
    auto* const data = argument->add_handle_data();
    data->set_dtype(node->output_type(0));
    ShapeOf(*loop_.values->Of(node, 0), loop_).AsProto(data->mutable_shape());
  }
}

absl::Status Builder::Run(tensorflow::FunctionDef* function) {
  AddArguments();
  limit_ = NumSteps();
  AddResults(Ops());
  absl::Status status = Finish("layer", function);
  if (!status.ok()) return status;
  DescribeVariables(function);
  const uint64_t hash = tensorflow::FunctionDefHash(*function);
  function->mutable_signature()->set_name(
      absl::StrCat("__tf_rnn_ops_layer_", absl::Hex(hash)));
  return absl::OkStatus();
}

}  // namespace

absl::Status MakeLayerFunction(
    const Loop& loop, const RecurrentLayer& layer,
    const tensorflow::FunctionLibraryDefinition& library,
    tensorflow::FunctionDef* function) {
  return Builder(loop, layer, library).Run(function);
}

}  // namespace tf_rnn_ops
