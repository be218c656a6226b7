/* C interface of the GPU engine, for programs without TensorFlow.

   libtf_rnn_ops_gpu_engine.so does not link to CUDA's libraries. It opens the
   driver, cuDNN 9 and cuBLAS 12 or 13 when it first calls them, and prefers
   libraries that the process has already loaded.

   Unless noted otherwise, arrays are dense, row-major and in the memory of the
   GPU of the stream's context. Empty arrays may be null. Outputs must not
   overlap inputs or other outputs. Shapes are as in the op CudnnRNNV3:
   S = time, B = batch, I = input_size, U = num_units, O = num_proj if there is
   a projection, else U, D = num_directions, P = num_layers * D. Calls are
   asynchronous: they enqueue work on the stream and return.

   Functions that return an int return a TfRnnOpsGpu_Code, which is 0 on
   success. TfRnnOpsGpu_LastError() returns the error message. Arguments are
   checked, except the sizes of arrays and the contents of a reserve space. All
   functions are thread-safe, also for the same network. */

#ifndef TF_RNN_OPS_CC_GPU_C_API_H_
#define TF_RNN_OPS_CC_GPU_C_API_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum TfRnnOpsGpu_Code {
  TF_RNN_OPS_GPU_OK = 0,
  TF_RNN_OPS_GPU_INVALID_ARGUMENT = 1,
  TF_RNN_OPS_GPU_OUT_OF_MEMORY = 2,
  TF_RNN_OPS_GPU_UNIMPLEMENTED = 3, /* by the GPU or the library */
  TF_RNN_OPS_GPU_UNAVAILABLE = 4,   /* a library cannot be opened */
  TF_RNN_OPS_GPU_INTERNAL = 5
};

enum TfRnnOpsGpu_Type {
  TF_RNN_OPS_GPU_HALF = 0,
  TF_RNN_OPS_GPU_BFLOAT16 = 1,
  TF_RNN_OPS_GPU_FLOAT = 2,
  TF_RNN_OPS_GPU_DOUBLE = 3
};

enum TfRnnOpsGpu_Mode {
  TF_RNN_OPS_GPU_RNN_RELU = 0,
  TF_RNN_OPS_GPU_RNN_TANH = 1,
  TF_RNN_OPS_GPU_LSTM = 2,
  TF_RNN_OPS_GPU_GRU = 3
};

/* The last error message of the calling thread, or an empty string. Valid until
   the thread's next error. */
const char* TfRnnOpsGpu_LastError(void);

/* Opens the driver, cuDNN and cuBLAS. Returns a line for each: its version and
   file, or the reason why it cannot be opened. Valid until the program ends. */
const char* TfRnnOpsGpu_Libraries(void);

/* The stream and scratch memory of a call. */
struct TfRnnOpsGpu_Call {
  /* A CUstream; null: default stream of the thread's current context */
  void* stream;
  /* Returns memory on the GPU, aligned to 256 bytes, or null. It must stay
     valid until the work enqueued by the call has run. */
  void* (*allocate_scratch)(void* allocator, size_t num_bytes);
  void* allocator;
  int allow_tf32; /* whether float32 operands may be rounded to 10 bits */
};

/* ------------------------------------------------------------ networks */

/* Attributes, as in the op CudnnRNNV3. */
struct TfRnnOpsGpu_NetworkOptions {
  int type; /* TfRnnOpsGpu_Type */
  int mode; /* TfRnnOpsGpu_Mode */
  int skip_input;
  int num_directions; /* 1 or 2 */
  int64_t num_layers;
  int64_t input_size;
  int64_t num_units;
  int64_t num_proj; /* 0: no projection */
  float dropout;    /* between layers, in training */
  /* For tests */
  int standard_algorithm_only; /* no persistent algorithm */
  int widen_bfloat16;          /* always compute bfloat16 in float32 */
};

typedef struct TfRnnOpsGpu_Network TfRnnOpsGpu_Network;

/* Creates a network. Opens cuDNN. */
int TfRnnOpsGpu_MakeNetwork(const struct TfRnnOpsGpu_NetworkOptions* options,
                            TfRnnOpsGpu_Network** network);
/* Frees a network, which may be null. It must not be in use. */
void TfRnnOpsGpu_FreeNetwork(TfRnnOpsGpu_Network* network);

/* The number of elements of params. */
int TfRnnOpsGpu_ParamsSize(const TfRnnOpsGpu_Network* network, int64_t* size);

/* The sequences of a pass. */
struct TfRnnOpsGpu_Sequences {
  int64_t time;
  int64_t batch;
  int time_major;         /* 0: input, output and states are [B, ...] */
  const int32_t* lengths; /* [B], on the host; null: all are `time` */
};

/* The first random numbers of dropout: Philox 4x32-10. A backward pass requires
   the same values as its forward pass. */
struct TfRnnOpsGpu_RandomStream {
  uint64_t key;
  uint64_t counter_low;
  uint64_t counter_high;
};

/* Returns the size of the reserve space for training in bytes, and the name of
   the cuDNN algorithm. */
int TfRnnOpsGpu_ReserveSpace(TfRnnOpsGpu_Network* network,
                             const struct TfRnnOpsGpu_Call* call,
                             const struct TfRnnOpsGpu_Sequences* sequences,
                             size_t* num_bytes, const char** algorithm);

/* Arrays of cell states are ignored unless the mode is LSTM. */
struct TfRnnOpsGpu_Forward {
  const void* input;   /* [S, B, I] */
  const void* input_h; /* [P, B, O] */
  const void* input_c; /* [P, B, U] */
  const void* params;
  void* output;   /* [S, B, D * O] */
  void* output_h; /* [P, B, O] */
  void* output_c; /* [P, B, U] */
  /* [TfRnnOpsGpu_ReserveSpace] bytes, aligned to 256; null: inference */
  void* reserve_space;
  struct TfRnnOpsGpu_RandomStream dropout_stream;
};
int TfRnnOpsGpu_RunForward(TfRnnOpsGpu_Network* network,
                           const struct TfRnnOpsGpu_Call* call,
                           const struct TfRnnOpsGpu_Sequences* sequences,
                           const struct TfRnnOpsGpu_Forward* pass);

struct TfRnnOpsGpu_Backward {
  const void* input;
  const void* input_h;
  const void* input_c;
  const void* params;
  const void* output;
  const void* output_backprop;
  const void* output_h_backprop;
  const void* output_c_backprop;
  void* reserve_space; /* from the forward pass of the same network */
  /* 1: the pass may overwrite the reserve space, which is then invalid for
     further passes. 0: the engine uses a copy. */
  int owns_reserve_space;
  struct TfRnnOpsGpu_RandomStream dropout_stream;
  void* input_backprop;
  void* input_h_backprop;
  void* input_c_backprop;
  void* params_backprop; /* or null: not computed */
};
int TfRnnOpsGpu_RunBackward(TfRnnOpsGpu_Network* network,
                            const struct TfRnnOpsGpu_Call* call,
                            const struct TfRnnOpsGpu_Sequences* sequences,
                            const struct TfRnnOpsGpu_Backward* pass);

/* The gradient of the backward pass, as the op CudnnRNNBackpropGrad. */
struct TfRnnOpsGpu_BackwardGrad {
  /* As for the backward pass. */
  const void* input;
  const void* input_h;
  const void* input_c;
  const void* params;
  const void* output_backprop;
  const void* output_h_backprop;
  const void* output_c_backprop;
  struct TfRnnOpsGpu_RandomStream dropout_stream;
  /* Gradients with respect to its results; null for zeros. */
  const void* dot_input;   /* [S, B, I] */
  const void* dot_input_h; /* [P, B, O] */
  const void* dot_input_c; /* [P, B, U] */
  const void* dot_params;
  /* Gradients with respect to the arrays above; null: not computed. */
  void* input_grad;
  void* input_h_grad;
  void* input_c_grad;
  void* params_grad;
  void* output_backprop_grad;
  void* output_h_backprop_grad;
  void* output_c_backprop_grad;
};
int TfRnnOpsGpu_RunBackwardGrad(TfRnnOpsGpu_Network* network,
                                const struct TfRnnOpsGpu_Call* call,
                                const struct TfRnnOpsGpu_Sequences* sequences,
                                const struct TfRnnOpsGpu_BackwardGrad* pass);

/* ------------------------------------------------------------ GRUBlockCell */

/* One step, as in the op GRUBlockCell; C = cell_size. */
struct TfRnnOpsGpu_GruCellForward {
  int64_t batch, input_size, cell_size;
  const void* x;      /* [B, I] */
  const void* h_prev; /* [B, C] */
  const void* w_ru;   /* [I + C, 2C] */
  const void* w_c;    /* [I + C, C] */
  const void* b_ru;   /* [2C] */
  const void* b_c;    /* [C] */
  void* r;            /* [B, C] */
  void* u;            /* [B, C] */
  void* c;            /* [B, C] */
  void* h;            /* [B, C] */
};
int TfRnnOpsGpu_RunGruCellForward(
    int type, const struct TfRnnOpsGpu_Call* call,
    const struct TfRnnOpsGpu_GruCellForward* step);

/* Its gradients, as in the op GRUBlockCellGrad. */
struct TfRnnOpsGpu_GruCellBackward {
  int64_t batch, input_size, cell_size;
  const void* h_prev;  /* [B, C] */
  const void* w_ru;    /* [I + C, 2C] */
  const void* w_c;     /* [I + C, C] */
  const void* r;       /* [B, C] */
  const void* u;       /* [B, C] */
  const void* c;       /* [B, C] */
  const void* d_r;     /* [B, C], or null for zeros */
  const void* d_u;     /* [B, C], or null for zeros */
  const void* d_c;     /* [B, C], or null for zeros */
  const void* d_h;     /* [B, C] */
  void* d_x;           /* [B, I] */
  void* d_h_prev;      /* [B, C] */
  void* d_c_bar;       /* [B, C] */
  void* d_r_bar_u_bar; /* [B, 2C] */
};
int TfRnnOpsGpu_RunGruCellBackward(
    int type, const struct TfRnnOpsGpu_Call* call,
    const struct TfRnnOpsGpu_GruCellBackward* step);

#ifdef __cplusplus
}
#endif

#endif /* TF_RNN_OPS_CC_GPU_C_API_H_ */
