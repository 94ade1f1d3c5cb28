#include <new>

#include <openssl/err.h>

#include <towpath/net/openssl_memory.h>

namespace towpath::net {

void end_without_memory() {
  ERR_clear_error();
  throw std::bad_alloc();
}

}  // namespace towpath::net
