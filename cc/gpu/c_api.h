/* The GPU engine's C interface, for programs that have no TensorFlow.

   libtf_rnn_ops_gpu_engine.so needs no library of CUDA at link time. It opens
   the driver, cuDNN 9 and cuBLAS 12 or 13 when it first calls them, first those
   that the process has open. All arrays are dense and row-major, in the memory
   of the GPU to whose context the stream belongs, unless said otherwise. Arrays
   of size zero may be null. Outputs may not overlap inputs or other outputs.
   Shapes are those of the op CudnnRNNV3: S = time, B = batch, I = input_size,
   U = num_units, O = num_proj or else U, D = num_directions, P = num_layers *
   D. A call enqueues its work on the stream and returns before that has run.

   Functions that return an int return 0, or a TfRnnOpsGpu_Code, and
   TfRnnOpsGpu_LastError() then says what went wrong. Arguments are checked;
   what cannot be is the size of an array and what a reserve space holds.
   Several threads may call functions at once, for the same network, too. */

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
  TF_RNN_OPS_GPU_UNIMPLEMENTED = 3, /* by the GPU or the library at hand */
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

/* The last error of the calling thread, in words; empty if there was none.
   Lives until its next error. */
const char* TfRnnOpsGpu_LastError(void);

/* The driver, cuDNN and cuBLAS, each in a line: its version and file, or why it
   cannot be opened. Opens them. Lives as long as the program. */
const char* TfRnnOpsGpu_Libraries(void);

/* What a call runs on. */
struct TfRnnOpsGpu_Call {
  /* A CUstream; null is the default stream of the thread's current context. */
  void* stream;
  /* Gives memory on the GPU, aligned to 256 bytes, or returns null. It stays
     valid until the work that the call enqueues has run. */
  void* (*allocate_scratch)(void* allocator, size_t num_bytes);
  void* allocator;
  int allow_tf32; /* whether products of float32 may be rounded to 10 bits */
};

/* ------------------------------------------------------------ networks */

/* As the attributes of the op CudnnRNNV3. */
struct TfRnnOpsGpu_NetworkOptions {
  int type; /* TfRnnOpsGpu_Type */
  int mode; /* TfRnnOpsGpu_Mode */
  int skip_input;
  int num_directions; /* 1 or 2 */
  int64_t num_layers;
  int64_t input_size;
  int64_t num_units;
  int64_t num_proj; /* 0: no projection */
  float dropout;    /* between layers, of passes that train */
  /* For tests of the choices that the engine makes. */
  int standard_algorithm_only; /* never a persistent one */
  int widen_bfloat16;          /* float32 on copies, whatever cuDNN has */
};

typedef struct TfRnnOpsGpu_Network TfRnnOpsGpu_Network;

/* Opens cuDNN. */
int TfRnnOpsGpu_MakeNetwork(const struct TfRnnOpsGpu_NetworkOptions* options,
                            TfRnnOpsGpu_Network** network);
/* Null is no error. No call may use the network any more. */
void TfRnnOpsGpu_FreeNetwork(TfRnnOpsGpu_Network* network);

/* The number of params. */
int TfRnnOpsGpu_ParamsSize(const TfRnnOpsGpu_Network* network, int64_t* size);

/* The sequences of a pass. */
struct TfRnnOpsGpu_Sequences {
  int64_t time;
  int64_t batch;
  int time_major;         /* otherwise input, output and states are [B, ...] */
  const int32_t* lengths; /* [B], on the host; null: all are `time` */
};

/* Where the random numbers of a pass's dropout begin: Philox 4x32-10. The
   backward pass gets that of its forward pass. */
struct TfRnnOpsGpu_RandomStream {
  uint64_t key;
  uint64_t counter_low;
  uint64_t counter_high;
};

/* The bytes of the reserve space of a pass that trains, and the name of the
   algorithm that cuDNN is told. */
int TfRnnOpsGpu_ReserveSpace(TfRnnOpsGpu_Network* network,
                             const struct TfRnnOpsGpu_Call* call,
                             const struct TfRnnOpsGpu_Sequences* sequences,
                             size_t* num_bytes, const char** algorithm);

/* Arrays of cell states are for LSTMs; in other modes they are ignored. */
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
  void* reserve_space; /* as the forward pass of the same network left it */
  /* Whether the reserve space may be written to. It then serves no other
     pass. Otherwise the engine works on a copy. */
  int owns_reserve_space;
  struct TfRnnOpsGpu_RandomStream dropout_stream;
  void* input_backprop;
  void* input_h_backprop;
  void* input_c_backprop;
  void* params_backprop; /* or null if not wanted */
};
int TfRnnOpsGpu_RunBackward(TfRnnOpsGpu_Network* network,
                            const struct TfRnnOpsGpu_Call* call,
                            const struct TfRnnOpsGpu_Sequences* sequences,
                            const struct TfRnnOpsGpu_Backward* pass);

/* The gradient of the backward pass, as the op CudnnRNNBackpropGrad. */
struct TfRnnOpsGpu_BackwardGrad {
  /* As the backward pass was given them. */
  const void* input;
  const void* input_h;
  const void* input_c;
  const void* params;
  const void* output_backprop;
  const void* output_h_backprop;
  const void* output_c_backprop;
  struct TfRnnOpsGpu_RandomStream dropout_stream;
  /* Gradients with respect to its results, each null for zeros. */
  const void* dot_input;   /* [S, B, I] */
  const void* dot_input_h; /* [P, B, O] */
  const void* dot_input_c; /* [P, B, U] */
  const void* dot_params;
  /* Gradients with respect to the arrays above, each null if not wanted. */
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

/* One step, as the op GRUBlockCell; C = cell_size. */
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

/* Its gradients, as the op GRUBlockCellGrad. */
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
