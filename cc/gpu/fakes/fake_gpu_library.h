/* The fakes as a shared library, libfake_gpu.so. Where it is found under the
   names libcuda.so.1, libcudnn.so.9 and libcublas.so.12, programs that open
   these run without a GPU: it exports the functions that the GPU engine calls.
   What the real libraries have elsewhere (contexts, streams and memory come
   from CUDA's runtime or from PyTorch) is here. All functions may be called by
   several threads. */

#ifndef TF_RNN_OPS_CC_GPU_FAKES_FAKE_GPU_LIBRARY_H_
#define TF_RNN_OPS_CC_GPU_FAKES_FAKE_GPU_LIBRARY_H_

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A context of a GPU of its own, of that compute capability: a CUcontext, which
   cuCtxPushCurrent_v2 makes the calling thread's. */
void* TfRnnOpsFake_NewContext(int major, int minor);
/* A CUstream of that context. */
void* TfRnnOpsFake_NewStream(void* context);

/* Memory on the GPU, aligned to 256 bytes and full of NaNs, that the host can
   read and write; null if num_bytes is 0. It is for all contexts. */
void* TfRnnOpsFake_Allocate(size_t num_bytes);
/* Notes a misuse if memory around it was written, or it was not allocated. */
void TfRnnOpsFake_Free(void* memory);

/* What the libraries were given wrongly since the last such call, in words;
   empty if nothing. Lives until the thread's next such call. */
const char* TfRnnOpsFake_TakeMisuses(void);

/* What cudnnGetVersion returns, such as 91300. */
void TfRnnOpsFake_SetCudnnVersion(size_t version);
/* Whether the GPU computes in bfloat16, for which cuDNN must be 91300 or later,
   too. */
void TfRnnOpsFake_SetHasBFloat16(int has_bfloat16);

#ifdef __cplusplus
}
#endif

#endif /* TF_RNN_OPS_CC_GPU_FAKES_FAKE_GPU_LIBRARY_H_ */
