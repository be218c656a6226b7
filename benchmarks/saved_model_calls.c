/* Serves a SavedModel through TensorFlow's C API, without Python, and times the
 * requests of several clients.
 *
 *   saved_model_calls OP_LIBRARY FOLDER CLIENTS SECONDS COPIES THREADS OUTPUT
 *                     NAME=SIZE,SIZE,... ...
 *
 * OP_LIBRARY: path of libtf_rnn_ops.so, or - if the model contains no such op.
 * FOLDER: the SavedModel, with the tag "serve".
 * CLIENTS: threads that send requests without a pause, at least one each.
 * SECONDS: time for which they do so.
 * COPIES: how often the model is loaded. Clients take turns to choose a copy.
 * THREADS: intra-op threads of each copy, at most 127.
 * OUTPUT: tensor that a request fetches, such as StatefulPartitionedCall:0.
 * NAME=SIZE,...: op and shape of each float input. Element i of an input is
 *   (37 * i mod 201 - 100) / 100.
 *
 * Prints a JSON object: the number of requests and the seconds that they took
 * together; the seconds of each request in ascending order, or kMaxWaits
 * quantiles of them; resident bytes before the model is loaded and after the
 * first requests to each copy; and the elements of the output.
 */

#define _POSIX_C_SOURCE 200809L

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tensorflow/c/c_api.h"

enum { kMaxInputs = 8, kMaxDims = 4, kMaxName = 256, kMaxWaits = 200 };
enum { kMost = 1000 };       /* clients or copies */
enum { kMostThreads = 127 }; /* a byte of the options */
enum { kFirstRequests = 3 }; /* the first ones allocate memory */
static const double kWarmUpSeconds = 0.1;

/* A loaded model, and what a request feeds and fetches. */
typedef struct Model {
  TF_Session* session;
  int num_inputs;
  TF_Output inputs[kMaxInputs];
  TF_Tensor* values[kMaxInputs]; /* not owned */
  TF_Output output;
} Model;

/* A thread that sends requests to a model. */
typedef struct Client {
  pthread_t thread;
  const Model* model;
  double end;    /* the time to stop */
  double* waits; /* [num_requests], the seconds of each request */
  int64_t num_requests;
  int64_t capacity; /* of waits */
} Client;

static void Fail(const char* what, const char* why) {
  fprintf(stderr, "saved_model_calls: %s: %s\n", what, why);
  exit(1);
}

static void Check(const char* what, const TF_Status* status) {
  if (TF_GetCode(status) != TF_OK) Fail(what, TF_Message(status));
}

static void* CheckMemory(void* memory) {
  if (memory == NULL) Fail("memory", "is exhausted");
  return memory;
}

static double Now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec + 1e-9 * now.tv_nsec;
}

static int64_t ResidentBytes(void) {
  FILE* file = fopen("/proc/self/status", "r");
  if (file == NULL) Fail("/proc/self/status", "cannot be read");
  char line[256];
  long long kilobytes = 0;
  while (fgets(line, sizeof(line), file) != NULL) {
    if (sscanf(line, "VmRSS: %lld", &kilobytes) == 1) break;
  }
  fclose(file);
  return 1024 * kilobytes;
}

/* -------------------------------------------------------------- arguments */

static int ParseCount(const char* name, const char* text, int most) {
  char* end;
  const long count = strtol(text, &end, 10);
  if (*end != '\0' || count < 1 || count > most) {
    fprintf(stderr, "saved_model_calls: %s: must be an integer from 1 to %d\n",
            name, most);
    exit(1);
  }
  return (int)count;
}

/* Splits "name:index" or "name=sizes". Returns what follows the mark. */
static const char* SplitName(const char* text, char mark, char name[kMaxName]) {
  const char* end = strchr(text, mark);
  if (end == NULL || end - text >= kMaxName) Fail(text, "is not valid");
  memcpy(name, text, end - text);
  name[end - text] = '\0';
  return end + 1;
}

static TF_Tensor* NewInput(const char* sizes) {
  int64_t shape[kMaxDims];
  int64_t num_elements = 1;
  int num_dims = 0;
  for (const char* rest = sizes;; ++rest) {
    char* end;
    if (num_dims == kMaxDims) Fail(sizes, "has too many sizes");
    shape[num_dims] = strtoll(rest, &end, 10);
    if (shape[num_dims] < 1 || (*end != ',' && *end != '\0')) {
      Fail(sizes, "must be positive integers with commas in between");
    }
    num_elements *= shape[num_dims++];
    rest = end;
    if (*end == '\0') break;
  }
  TF_Tensor* tensor = CheckMemory(TF_AllocateTensor(
      TF_FLOAT, shape, num_dims, num_elements * sizeof(float)));
  float* elements = TF_TensorData(tensor);
  for (int64_t i = 0; i < num_elements; ++i) {
    elements[i] = (float)(37 * i % 201 - 100) / 100;
  }
  return tensor;
}

/* -------------------------------------------------------------- the model */

/* Registers ops and kernels until the process ends. */
static void LoadOps(const char* path) {
  TF_Status* status = TF_NewStatus();
  TF_Library* library = TF_LoadLibrary(path, status);
  Check(path, status);
  TF_DeleteLibraryHandle(library);
  TF_DeleteStatus(status);
}

static TF_Output FindTensor(TF_Graph* graph, const char* name, int index) {
  const TF_Output tensor = {TF_GraphOperationByName(graph, name), index};
  if (tensor.oper == NULL || index >= TF_OperationNumOutputs(tensor.oper)) {
    Fail(name, "is not in the graph");
  }
  if (TF_OperationOutputType(tensor) != TF_FLOAT) Fail(name, "is not float");
  return tensor;
}

static TF_Session* LoadSession(const char* folder, int num_threads,
                               TF_Graph* graph) {
  TF_Status* status = TF_NewStatus();
  TF_SessionOptions* options = TF_NewSessionOptions();
  /* A ConfigProto: intra_op_parallelism_threads, and -1 as 64 bits for
   * inter_op_parallelism_threads: ops run on the thread that sends the request.
   */
  const unsigned char config[] = {2 << 3, num_threads, 5 << 3, 0xff, 0xff,
                                  0xff,   0xff,        0xff,   0xff, 0xff,
                                  0xff,   0xff,        1};
  TF_SetConfig(options, config, sizeof(config), status);
  Check("session", status);
  const char* const tags[] = {"serve"};
  TF_Session* session = TF_LoadSessionFromSavedModel(
      options, NULL, folder, tags, 1, graph, NULL, status);
  Check(folder, status);
  TF_DeleteSessionOptions(options);
  TF_DeleteStatus(status);
  return session;
}

/* Sends a request and returns its result. */
static TF_Tensor* Request(const Model* model) {
  TF_Status* status = TF_NewStatus();
  TF_Tensor* result = NULL;
  TF_SessionRun(model->session, NULL, model->inputs, model->values,
                model->num_inputs, &model->output, &result, 1, NULL, 0, NULL,
                status);
  Check("request", status);
  TF_DeleteStatus(status);
  return result;
}

static Model LoadModel(const char* folder, int num_threads, const char* output,
                       int num_inputs, char** inputs, TF_Tensor** values) {
  TF_Graph* graph = TF_NewGraph(); /* as the session, until the process ends */
  Model model = {.session = LoadSession(folder, num_threads, graph)};
  char name[kMaxName];
  const char* index = SplitName(output, ':', name);
  model.output = FindTensor(graph, name, atoi(index));
  model.num_inputs = num_inputs;
  for (int i = 0; i < num_inputs; ++i) {
    SplitName(inputs[i], '=', name);
    model.inputs[i] = FindTensor(graph, name, 0);
    model.values[i] = values[i];
  }
  for (int i = 0; i < kFirstRequests; ++i) TF_DeleteTensor(Request(&model));
  return model;
}

/* -------------------------------------------------------------- clients */

static void AddWait(Client* client, double seconds) {
  if (client->num_requests == client->capacity) {
    client->capacity = 2 * client->capacity + 1024;
    client->waits =
        CheckMemory(realloc(client->waits, client->capacity * sizeof(double)));
  }
  client->waits[client->num_requests++] = seconds;
}

static void* RunClient(void* argument) {
  Client* client = argument;
  double now = Now();
  do {
    const double begin = now;
    TF_DeleteTensor(Request(client->model));
    now = Now();
    AddWait(client, now - begin);
  } while (now < client->end);
  return NULL;
}

/* Runs the clients and returns the seconds until all are done. */
static double RunClients(Client* clients, int num_clients, const Model* models,
                         int num_models, double seconds) {
  const double begin = Now();
  for (int i = 0; i < num_clients; ++i) {
    clients[i] = (Client){.model = &models[i % num_models]};
    clients[i].end = begin + seconds;
    if (pthread_create(&clients[i].thread, NULL, RunClient, &clients[i]) != 0) {
      Fail("CLIENTS", "cannot be started");
    }
  }
  for (int i = 0; i < num_clients; ++i) pthread_join(clients[i].thread, NULL);
  return Now() - begin;
}

/* -------------------------------------------------------------- results */

static int CompareDoubles(const void* first, const void* second) {
  const double a = *(const double*)first, b = *(const double*)second;
  return (a > b) - (a < b);
}

/* Returns the waits of all clients in ascending order. */
static double* SortWaits(const Client* clients, int num_clients,
                         int64_t* num_waits) {
  *num_waits = 0;
  for (int i = 0; i < num_clients; ++i) *num_waits += clients[i].num_requests;
  double* sorted = CheckMemory(malloc(*num_waits * sizeof(double)));
  double* next = sorted;
  for (int i = 0; i < num_clients; ++i) {
    memcpy(next, clients[i].waits, clients[i].num_requests * sizeof(double));
    next += clients[i].num_requests;
  }
  qsort(sorted, *num_waits, sizeof(double), CompareDoubles);
  return sorted;
}

static void PrintWaits(const double* sorted, int64_t size) {
  printf("\"waits\": [");
  const int count = size < kMaxWaits ? (int)size : kMaxWaits;
  for (int i = 0; i < count; ++i) {
    const int64_t quantile = (int64_t)((i + 0.5) / count * size);
    printf("%s%.9g", i == 0 ? "" : ", ", sorted[quantile]);
  }
  printf("], ");
}

static void PrintOutput(const TF_Tensor* tensor) {
  const float* elements = TF_TensorData(tensor);
  printf("\"output\": [");
  for (int64_t i = 0; i < TF_TensorElementCount(tensor); ++i) {
    printf("%s%.9g", i == 0 ? "" : ", ", elements[i]);
  }
  printf("]");
}

int main(int argc, char** argv) {
  enum { kFirstInput = 8 };
  if (argc <= kFirstInput || argc > kFirstInput + kMaxInputs) {
    Fail("usage",
         "OP_LIBRARY FOLDER CLIENTS SECONDS COPIES THREADS OUTPUT "
         "NAME=SIZE,SIZE,... ...");
  }
  const char* folder = argv[2];
  const int num_clients = ParseCount("CLIENTS", argv[3], kMost);
  const double seconds = atof(argv[4]);
  const int num_copies = ParseCount("COPIES", argv[5], kMost);
  const int num_threads = ParseCount("THREADS", argv[6], kMostThreads);
  const int num_inputs = argc - kFirstInput;
  TF_Tensor* values[kMaxInputs];
  char name[kMaxName];
  for (int i = 0; i < num_inputs; ++i) {
    values[i] = NewInput(SplitName(argv[kFirstInput + i], '=', name));
  }
  if (strcmp(argv[1], "-") != 0) LoadOps(argv[1]);

  const int64_t before = ResidentBytes();
  Model* models = CheckMemory(calloc(num_copies, sizeof(Model)));
  for (int i = 0; i < num_copies; ++i) {
    models[i] = LoadModel(folder, num_threads, argv[7], num_inputs,
                          argv + kFirstInput, values);
  }
  const int64_t loaded = ResidentBytes();

  const double end_of_warm_up = Now() + (seconds > 0 ? kWarmUpSeconds : 0);
  while (Now() < end_of_warm_up) TF_DeleteTensor(Request(&models[0]));
  Client* clients = CheckMemory(calloc(num_clients, sizeof(Client)));
  const double took =
      RunClients(clients, num_clients, models, num_copies, seconds);

  int64_t num_requests;
  double* waits = SortWaits(clients, num_clients, &num_requests);
  printf("{\"requests\": %lld, \"seconds\": %.9g, ", (long long)num_requests,
         took);
  PrintWaits(waits, num_requests);
  printf("\"resident_before\": %lld, \"resident_loaded\": %lld, ",
         (long long)before, (long long)loaded);
  PrintOutput(Request(&models[0]));
  printf("}\n");
  return 0;
}
