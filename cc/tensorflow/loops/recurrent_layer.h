// Recognizes the loop of an LSTM, GRU or SimpleRNN.

#ifndef TF_RNN_OPS_CC_TENSORFLOW_LOOPS_RECURRENT_LAYER_H_
#define TF_RNN_OPS_CC_TENSORFLOW_LOOPS_RECURRENT_LAYER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cc/tensorflow/loops/loop.h"
#include "cc/tensorflow/loops/value.h"

namespace tf_rnn_ops {

// A value that no step changes, or some of its rows and columns.
struct Piece {
  const Value* whole = nullptr;
  std::optional<Columns> columns;  // none: all
  // A matrix that [first, last] is multiplied by: the rows of one of them.
  enum { kAll, kFirst, kLast } rows = kAll;
  const Value* first = nullptr;
  // Whether a bias is a vector of all columns. Or it may be a matrix of one
  // row, or one number for all columns.
  bool is_vector = false;
};

// What a step adds up for a gate: x W + h R + p . c + the biases.
struct Gate {
  Piece kernel;                         // W, [features, units]
  Piece recurrent_kernel;               // R, [units, units]
  std::vector<Piece> biases;            // each [units]
  std::vector<Piece> recurrent_biases;  // added to h R before r multiplies it
  double number = 0;                    // added to a bias
  // p, [units]. The output gate of an LSTM looks at the new c.
  std::optional<Piece> peephole;
};

// A cell of a layer, in terms of the op KerasRNN. `h` and `c` are numbers of
// variables of the loop.
struct Cell {
  std::string rnn_mode;
  std::string activation = "tanh";
  std::string recurrent_activation = "sigmoid";
  std::vector<Gate> gates;  // in the order of the op
  int h = -1;
  int c = -1;           // of an LSTM
  float cell_clip = 0;  // the largest magnitude of c; 0: any
  // P of an LSTM with h = (o . act(c)) P, [units, columns of h].
  std::optional<Piece> projection;
  const Value* x = nullptr;
  const Value* new_h = nullptr;  // after a step without mask
};

// The loop of a layer. Numbers are those of variables of the loop.
struct RecurrentLayer {
  std::vector<Cell> cells;  // The x of each is the new h of the one before.

  int inputs = -1;  // the list of x, each [batch, features]
  int mask = -1;    // the list of masks, each [batch, 1], or -1
  // Or the mask of a step, [batch]: a comparison of the step with a value for
  // each sequence.
  const Value* compared_step = nullptr;
  int last_output = -1;  // the output of the step before, or -1
  int zero_output = -1;  // the output before the first step, zero, or -1
  int outputs = -1;      // the list of outputs

  int size = -1;                   // the limit that is the size of that list
  bool returns_sequences = false;  // or the list has only the last output
  bool zeroes_masked_outputs = false;
};

// Whether each gate of an LSTM but g looks at c. Otherwise, none does.
bool HasPeepholes(const Cell& cell);

// The number of columns of a matrix, or -1 if it is not known.
int64_t NumColumnsOf(const Piece& piece, const Loop& loop);

// Recognizes a layer. An error tells what is not understood.
absl::Status RecognizeLayer(const Loop& loop, RecurrentLayer* layer);

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_TENSORFLOW_LOOPS_RECURRENT_LAYER_H_
