/* Runs a GPU-only graph on a CPU through TensorFlow's C API, without Python.
 *
 *   run_on_cpu KERNELS GRAPH INPUT OUTPUT TIME BATCH FEATURES < numbers
 *
 * KERNELS: path of libtf_rnn_ops_builtin_kernels.so; libtf_rnn_ops_engine.so
 *   must be in the same folder or in its parent.
 * GRAPH: a frozen GraphDef.
 * INPUT: name of its float placeholder of shape [TIME, BATCH, FEATURES]. The
 *   values are read from standard input.
 * OUTPUT: name of the float op whose result is printed, one number per line.
 *
 * docs/guides/gpu_graph.md shows how to compile it.
 */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "tensorflow/c/c_api.h"

static void Fail(const char* what, const char* why) {
  fprintf(stderr, "run_on_cpu: %s: %s\n", what, why);
  exit(1);
}

static void Check(const char* what, const TF_Status* status) {
  if (TF_GetCode(status) != TF_OK) Fail(what, TF_Message(status));
}

/* Registers the kernels until the process ends. */
static void LoadKernels(const char* path) {
  TF_Status* status = TF_NewStatus();
  TF_Library* library = TF_LoadLibrary(path, status);
  Check(path, status);
  TF_DeleteLibraryHandle(library);
  TF_DeleteStatus(status);
}

static void FreeBytes(void* data, size_t length) {
  (void)length;
  free(data);
}

static TF_Buffer* ReadFile(const char* path) {
  FILE* file = fopen(path, "rb");
  if (file == NULL) Fail(path, "cannot be read");
  fseek(file, 0, SEEK_END);
  const long length = ftell(file);
  rewind(file);
  void* data = malloc(length > 0 ? length : 1);
  if (fread(data, 1, length, file) != (size_t)length) {
    Fail(path, "cannot be read");
  }
  fclose(file);
  TF_Buffer* buffer = TF_NewBuffer();
  buffer->data = data;
  buffer->length = length;
  buffer->data_deallocator = FreeBytes;
  return buffer;
}

static TF_Graph* ReadGraph(const char* path) {
  TF_Status* status = TF_NewStatus();
  TF_Graph* graph = TF_NewGraph();
  TF_Buffer* graph_def = ReadFile(path);
  TF_ImportGraphDefOptions* options = TF_NewImportGraphDefOptions();
  TF_GraphImportGraphDef(graph, graph_def, options, status);
  Check(path, status);
  TF_DeleteImportGraphDefOptions(options);
  TF_DeleteBuffer(graph_def);
  TF_DeleteStatus(status);
  return graph;
}

static TF_Output FindOutput(TF_Graph* graph, const char* name) {
  const TF_Output output = {TF_GraphOperationByName(graph, name), 0};
  if (output.oper == NULL) Fail(name, "is not in the graph");
  if (TF_OperationOutputType(output) != TF_FLOAT) Fail(name, "is not float");
  return output;
}

static int64_t ParseSize(const char* name, const char* text) {
  char* end;
  const long long size = strtoll(text, &end, 10);
  if (*end != '\0' || size < 1 || size > 1 << 20) {
    Fail(name, "must be an integer from 1 to 2^20");
  }
  return size;
}

/* [time, batch, features] */
static TF_Tensor* ReadSequence(const int64_t shape[3]) {
  const int64_t size = shape[0] * shape[1] * shape[2];
  TF_Tensor* tensor =
      TF_AllocateTensor(TF_FLOAT, shape, 3, size * sizeof(float));
  float* numbers = TF_TensorData(tensor);
  for (int64_t i = 0; i < size; ++i) {
    if (scanf("%f", &numbers[i]) != 1) Fail("standard input", "is too short");
  }
  return tensor;
}

static TF_Tensor* Run(TF_Graph* graph, TF_Output input, TF_Tensor* sequence,
                      TF_Output output) {
  TF_Status* status = TF_NewStatus();
  TF_SessionOptions* options = TF_NewSessionOptions();
  /* A ConfigProto with allow_soft_placement, in case the graph names a GPU. */
  const unsigned char config[] = {7 << 3, 1};
  TF_SetConfig(options, config, sizeof(config), status);
  Check("session", status);
  TF_Session* session = TF_NewSession(graph, options, status);
  Check("session", status);
  TF_Tensor* result = NULL;
  TF_SessionRun(session, NULL, &input, &sequence, 1, &output, &result, 1, NULL,
                0, NULL, status);
  Check("run", status);
  TF_CloseSession(session, status);
  TF_DeleteSession(session, status);
  TF_DeleteSessionOptions(options);
  TF_DeleteStatus(status);
  return result;
}

static void Print(const TF_Tensor* tensor) {
  const float* numbers = TF_TensorData(tensor);
  for (int64_t i = 0; i < TF_TensorElementCount(tensor); ++i) {
    printf("%.9g\n", numbers[i]);
  }
}

int main(int argc, char** argv) {
  if (argc != 8) {
    Fail("usage", "KERNELS GRAPH INPUT OUTPUT TIME BATCH FEATURES < numbers");
  }
  const int64_t shape[3] = {ParseSize("TIME", argv[5]),
                            ParseSize("BATCH", argv[6]),
                            ParseSize("FEATURES", argv[7])};
  LoadKernels(argv[1]);
  TF_Graph* graph = ReadGraph(argv[2]);
  const TF_Output input = FindOutput(graph, argv[3]);
  const TF_Output output = FindOutput(graph, argv[4]);
  TF_Tensor* sequence = ReadSequence(shape);
  TF_Tensor* result = Run(graph, input, sequence, output);
  Print(result);
  TF_DeleteTensor(result);
  TF_DeleteTensor(sequence);
  TF_DeleteGraph(graph);
  return 0;
}
