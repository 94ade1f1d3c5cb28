// shm: agents of one host, one-sided, by loads and stores or process_vm_readv/writev. See
// README.md. Thread: immutable; what it opens follows the contract (backend/backend.h).
#pragma once

#include <towpath/backend/registry.h>

namespace towpath::backends::shm {

backend::BackendType shm_type();

}  // namespace towpath::backends::shm
