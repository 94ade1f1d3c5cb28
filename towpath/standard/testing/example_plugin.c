/* A plug-in: copies within ordinary memory, an extent for each look at it. An example to follow,
 * and what the tests load.
 *
 * EXAMPLE_VARIANT changes what is wrong with it: 0 nothing, 1 it is made for another version, 2 it
 * lacks a function, 3 its routes are of unknown kinds, 4 it has a name that is taken. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <towpath/standard/plugin_abi.h>

#ifndef EXAMPLE_VARIANT
#define EXAMPLE_VARIANT 0
#endif

enum { kSystem = 0, kInvalidArgument = 1, kCancelled = 11 };

struct backend {
  const towpath_host_v1* host;
  /* The one transfer that is active, and how far it is. */
  void* operation;
  const towpath_segment_v1* segments;
  size_t count;
  size_t segment;
  uint64_t extent;
  uint64_t bytes;
  uint32_t op;
};

static int32_t open_backend(const towpath_host_v1* host, const towpath_param_v1* params,
                            size_t count, void** backend, char* why, size_t why_size) {
  for (size_t i = 0; i < count; ++i) {
    if (strcmp(params[i].name, "mood") == 0 && strcmp(params[i].value, "good") == 0) continue;
    snprintf(why, why_size, "the mood is %s", params[i].value);
    return kInvalidArgument;
  }
  struct backend* made = calloc(1, sizeof *made);
  made->host = host;
  *backend = made;
  return 0;
}

static void close_backend(void* backend) { free(backend); }

static int32_t register_memory(void* backend, const towpath_region_v1* region, void** memory,
                               char* why, size_t why_size) {
  (void)backend;
  if (region->length == 13) {
    snprintf(why, why_size, "it brings bad luck");
    return kInvalidArgument;
  }
  *memory = malloc(1); /* so that a leak would be seen */
  return 0;
}

static void deregister_memory(void* backend, void* memory) {
  (void)backend;
  free(memory);
}

static void end(struct backend* self, int32_t code, const char* message) {
  void* operation = self->operation;
  self->operation = NULL;
  self->host->complete(self->host->self, operation, code, message, self->bytes);
}

static void post(void* backend, void* operation, uint32_t op, const towpath_segment_v1* segments,
                 size_t count) {
  struct backend* self = backend;
  if (self->operation != NULL) {
    self->host->complete(self->host->self, operation, kInvalidArgument, "one at a time", 0);
    return;
  }
  self->operation = operation;
  self->segments = segments;
  self->count = count;
  self->segment = 0;
  self->extent = self->bytes = 0;
  self->op = op;
}

static void cancel(void* backend, void* operation) {
  struct backend* self = backend;
  if (self->operation == operation) end(self, kCancelled, "asked to stop");
}

static bool progress(void* backend) {
  struct backend* self = backend;
  if (self->operation == NULL) return false;
  if (self->segment == self->count) {
    end(self, 0, NULL);
    return false;
  }
  const towpath_segment_v1* at = &self->segments[self->segment];
  char* local = (char*)(uintptr_t)(at->local_address + self->extent * at->local_stride);
  char* remote = (char*)(uintptr_t)(at->remote_address + self->extent * at->remote_stride);
  memcpy(self->op == 0 ? local : remote, self->op == 0 ? remote : local, at->length);
  self->bytes += at->length;
  if (++self->extent == at->count) {
    ++self->segment;
    self->extent = 0;
  }
  return true;
}

static int wait_fd(void* backend) {
  (void)backend;
  return -1;
}

static const towpath_pair_v1 kRoutes[] = {
    {EXAMPLE_VARIANT == 3 ? 99 : kSystem, kSystem, true, true}};
static const towpath_param_v1 kParams[] = {{"mood", "good", "good, or it does not open"}};

static const towpath_backend_v1_t kPlugin = {
    .size = EXAMPLE_VARIANT == 1 ? 8 : sizeof kPlugin,
    .name = EXAMPLE_VARIANT == 4 ? "shm" : "example",
    .summary = "copies an extent at a time",
    .pairs = kRoutes,
    .pair_count = 1,
    .params = kParams,
    .param_count = 1,
    .alignment = 1,
    .latency_ns = 100,
    .bytes_per_second = 1e9,
    .open = open_backend,
    .close = close_backend,
    .register_memory = register_memory,
    .deregister_memory = deregister_memory,
    .post = post,
    .cancel = EXAMPLE_VARIANT == 2 ? NULL : cancel,
    .progress = progress,
    .wait_fd = wait_fd,
};

const towpath_backend_v1_t* towpath_backend_v1(void) { return &kPlugin; }
