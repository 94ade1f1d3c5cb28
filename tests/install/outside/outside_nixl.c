/* A user of the C interface: linked as pkg-config says, and loaded at run time as nixl-sys does. */
#include <dlfcn.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/random.h>

#include <nixl_capi.h>

int main(void) {
  /* The system's headers, which have names that some of ours have too. */
  char byte;
  if (flock(-1, LOCK_UN) != -1 || getrandom(&byte, sizeof(byte), 0) != 1) return 1;
  nixl_capi_agent_t agent = NULL;
  if (nixl_capi_create_agent("outside", &agent) != NIXL_CAPI_SUCCESS) return 1;
  if (nixl_capi_destroy_agent(agent) != NIXL_CAPI_SUCCESS) return 1;
  void* library = dlopen("libnixl_capi.so", RTLD_NOW | RTLD_LOCAL);
  if (library == NULL || dlsym(library, "nixl_capi_is_stub") == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  return nixl_capi_is_stub() ? 1 : 0;
}
