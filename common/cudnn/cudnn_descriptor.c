/* cuDNN's descriptors with one place for errors. See cudnn_api.h. */
#include "common/cudnn/cudnn_api.h"

#ifdef HAVE_CUDNN
#include <stdio.h>
#include <string.h>

void cudnn_failure(char *text, size_t size, const char *call, cudnnStatus_t status) {
  char message[300] = "";
  cudnn.GetLastErrorString(message, sizeof message);
  message[sizeof message - 1] = 0;
  for (char *c = message; *c; c++)
    if (*c == '\n') *c = ' ';
  snprintf(text, size, "%s: %s%s%s", call, cudnn.GetErrorString(status), message[0] ? ": " : "", message);
}

static bool note(cudnn_pool *pool, cudnnStatus_t status, const char *call, const char *what, int number) {
  if (status == CUDNN_STATUS_SUCCESS) return true;
  char where[96];
  if (what) snprintf(where, sizeof where, "%s(%s)", call, what);
  else snprintf(where, sizeof where, "%s(%d)", call, number);
  pool->status = status;
  cudnn_failure(pool->failure, sizeof pool->failure, where, status);
  return false;
}

cudnnBackendDescriptor_t pool_create(cudnn_pool *pool, cudnnBackendDescriptorType_t type) {
  cudnnBackendDescriptor_t d = NULL;
  if (pool->status) return NULL;
  if (pool->count == POOL_SIZE) {
    pool->status = CUDNN_STATUS_BAD_PARAM;
    snprintf(pool->failure, sizeof pool->failure, "more than %d descriptors in one graph or plan", POOL_SIZE);
    return NULL;
  }
  if (note(pool, cudnn.BackendCreateDescriptor(type, &d), "cudnnBackendCreateDescriptor", NULL, (int)type)) pool->item[pool->count++] = d;
  return d;
}

void pool_set(cudnn_pool *pool, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
              const void *values) {
  if (!pool->status) note(pool, cudnn.BackendSetAttribute(d, name, type, count, values), "cudnnBackendSetAttribute", NULL, (int)name);
}

void pool_set_integer(cudnn_pool *pool, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name, int64_t value) {
  pool_set(pool, d, name, CUDNN_TYPE_INT64, 1, &value);
}

void pool_set_float(cudnn_pool *pool, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name, float value) {
  pool_set(pool, d, name, CUDNN_TYPE_FLOAT, 1, &value);
}

void pool_set_descriptor(cudnn_pool *pool, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t value) {
  pool_set(pool, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

void pool_finalize(cudnn_pool *pool, cudnnBackendDescriptor_t d, const char *what) {
  if (!pool->status) note(pool, cudnn.BackendFinalize(d), "cudnnBackendFinalize", what, 0);
}

int pool_get(cudnn_pool *pool, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int room, void *values) {
  int64_t count = 0;
  if (pool->status || cudnn.BackendGetAttribute(d, name, type, room, &count, values) != CUDNN_STATUS_SUCCESS) return 0;
  return count < room ? (int)count : room;
}

void pool_free(cudnn_pool *pool) {
  while (pool->count > 0) cudnn.BackendDestroyDescriptor(pool->item[--pool->count]);
}
#endif
