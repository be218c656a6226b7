/* The fakes as a shared library, libfake_gpu.so. It exports the functions that
   the GPU engine calls: under the names libcuda.so.1, libcudnn.so.9 and
   libcublas.so.12 it lets programs run without a GPU. The functions below
   replace CUDA's runtime or PyTorch: they create contexts, streams and memory.
   All functions are thread-safe. */

#ifndef TF_RNN_OPS_CC_GPU_FAKES_FAKE_GPU_LIBRARY_H_
#define TF_RNN_OPS_CC_GPU_FAKES_FAKE_GPU_LIBRARY_H_

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Creates a CUcontext on a new GPU with the given compute capability. Use
   cuCtxPushCurrent_v2 to make it current. */
void* TfRnnOpsFake_NewContext(int major, int minor);
/* Creates a CUstream in a context. */
void* TfRnnOpsFake_NewStream(void* context);

/* Allocates memory on the GPU, for all contexts: aligned to 256 bytes, filled
   with NaNs, and accessible by the host. Null if num_bytes is 0. */
void* TfRnnOpsFake_Allocate(size_t num_bytes);
/* Frees memory. Records a misuse if the bytes around it were written, or if it
   was not allocated. */
void TfRnnOpsFake_Free(void* memory);

/* Returns the misuses recorded since the last call, or an empty string. Valid
   until the thread's next call. */
const char* TfRnnOpsFake_TakeMisuses(void);

/* Sets the result of cudnnGetVersion, such as 91300. */
void TfRnnOpsFake_SetCudnnVersion(size_t version);
/* Sets whether the GPU supports bfloat16. The cuDNN version must be at least
   91300, too. */
void TfRnnOpsFake_SetHasBFloat16(int has_bfloat16);

#ifdef __cplusplus
}
#endif

#endif /* TF_RNN_OPS_CC_GPU_FAKES_FAKE_GPU_LIBRARY_H_ */
