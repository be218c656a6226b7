// The shape functions of the ops, by the names of the ops.

#ifndef TF_RNN_OPS_CC_TENSORFLOW_OPS_SHAPE_FUNCTIONS_H_
#define TF_RNN_OPS_CC_TENSORFLOW_OPS_SHAPE_FUNCTIONS_H_

#include <map>
#include <string>

#include "tensorflow/core/framework/op_def_builder.h"

namespace tf_rnn_ops {

using ShapeFunctions = std::map<std::string, tensorflow::OpShapeInferenceFn>;

ShapeFunctions GruBlockCellShapes();
ShapeFunctions CudnnRnnShapes();
ShapeFunctions CudnnRnnParamsShapes();
ShapeFunctions KerasRnnShapes();

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_TENSORFLOW_OPS_SHAPE_FUNCTIONS_H_
