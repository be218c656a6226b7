// The list of the ops with their bodies. What is registered with TensorFlow and
// XLA follows from it.

#ifndef TF_RNN_OPS_CC_OPS_BODIES_H_
#define TF_RNN_OPS_CC_OPS_BODIES_H_

// Calls a macro for each op but AlignTensor, with these arguments:
//
//   - the name of the op, as in signatures.cc;
//   - its element types, a class of op.h;
//   - its body, a class that depends on E, the element type, and on Engines,
//     whose members are the engines of a device:
//
//       template <typename E> class Network;              // cudnn_rnn.h
//       template <typename E> class NetworkBackwardGrad;
//         // cudnn_rnn_backward_grad.h
//       template <typename E> class GruBlockCell;         // gru_block_cell.h
//       class DropoutMasks;  // cudnn_rnn_dropout_masks.h
//       class Copier;        // cudnn_rnn_params.h
//
// OP: the macro for ops that run on CPUs and GPUs. Their bodies are in cc/ops.
// CPU_OP: the macro for ops that run on CPUs only. Theirs are in cc/ops/cpu.
//
// clang-format off: one op on each line.
#define TF_RNN_OPS_FOR_EACH_OP(OP, CPU_OP) \
  OP(GRUBlockCell, Floats, GruBlockCellForwardOp<Engines, E>) \
  OP(GRUBlockCellGrad, Floats, GruBlockCellBackwardOp<Engines, E, false>) \
  OP(GRUBlockCellGradV2, Floats, GruBlockCellBackwardOp<Engines, E, true>) \
  CPU_OP(LSTMBlockCell, Floats, LstmBlockCellForwardOp<E>) \
  CPU_OP(LSTMBlockCellGrad, Floats, LstmBlockCellBackwardOp<E>) \
  CPU_OP(BlockLSTM, Floats, BlockLstmForwardOp<E, LstmVersion::kV1>) \
  CPU_OP(BlockLSTMGrad, Floats, BlockLstmBackwardOp<E, LstmVersion::kV1>) \
  CPU_OP(BlockLSTMV2, Floats, BlockLstmForwardOp<E, LstmVersion::kV2>) \
  CPU_OP(BlockLSTMGradV2, Floats, BlockLstmBackwardOp<E, LstmVersion::kV2>) \
  CPU_OP(BlockLSTMGradV3, Floats, BlockLstmBackwardOp<E, LstmVersion::kV3>) \
  OP(CudnnRNN, Floats, CudnnRnnForwardOp<Engines, E, 1>) \
  OP(CudnnRNNV2, Floats, CudnnRnnForwardOp<Engines, E, 2>) \
  OP(CudnnRNNV3, Floats, CudnnRnnForwardOp<Engines, E, 3>) \
  OP(StatelessCudnnRNN, Floats, CudnnRnnForwardOp<Engines, E, 3, true>) \
  OP(CudnnRNNBackprop, Floats, CudnnRnnBackwardOp<Engines, E, 1>) \
  OP(CudnnRNNBackpropV2, Floats, CudnnRnnBackwardOp<Engines, E, 2>) \
  OP(CudnnRNNBackpropV3, Floats, CudnnRnnBackwardOp<Engines, E, 3>) \
  OP(CudnnRNNBackpropGrad, Floats, CudnnRnnBackwardGradOp<Engines, E>) \
  OP(CudnnRNNDropoutMasks, Floats, CudnnRnnDropoutMasksOp<Engines, E>) \
  OP(CudnnRNNParamsSize, Integers, CudnnRnnParamsSizeOp<E>) \
  OP(CudnnRNNCanonicalToParams, Floats, CudnnRnnCanonicalToParamsOp<Engines, E>) \
  OP(CudnnRNNCanonicalToParamsV2, Floats, CudnnRnnCanonicalToParamsOp<Engines, E>) \
  OP(CudnnRNNParamsToCanonical, Floats, CudnnRnnParamsToCanonicalOp<Engines, E>) \
  OP(CudnnRNNParamsToCanonicalV2, Floats, CudnnRnnParamsToCanonicalOp<Engines, E>) \
  CPU_OP(KerasRNN, Floats, KerasRnnForwardOp<E>) \
  CPU_OP(KerasRNNBackprop, Floats, KerasRnnBackwardOp<E>) \
  CPU_OP(KerasRNNBackpropGrad, Floats, KerasRnnBackwardGradOp<E>) \
  CPU_OP(MixedKerasRNN, Halves, KerasRnnForwardOp<E, float>) \
  CPU_OP(MixedKerasRNNBackprop, Halves, KerasRnnBackwardOp<E, float>) \
  CPU_OP(MixedKerasRNNBackpropGrad, Halves, KerasRnnBackwardGradOp<E, float>)
// clang-format on

// Adds an op to `OpList list`, where Engines and the classes are declared.
#define TF_RNN_OPS_ADD_BODY(name, types, ...)  \
  list.Add<types>(#name, [](auto zero) {       \
    using E [[maybe_unused]] = decltype(zero); \
    return __VA_ARGS__();                      \
  });

#endif  // TF_RNN_OPS_CC_OPS_BODIES_H_
