// loopback: agents of one process, or an agent and itself, by plain copies. See README.md.
// Thread: immutable; what it opens follows the contract (backend/backend.h).
#pragma once

#include <memory>

#include <towpath/backend/registry.h>

namespace towpath::backends::loopback {

class Exchange;

/// Backends opened through this type reach each other and nobody else.
backend::BackendType loopback_type();
/// Backends opened through types with the same exchange reach each other.
backend::BackendType loopback_type(std::shared_ptr<Exchange> exchange);
std::shared_ptr<Exchange> make_exchange();

}  // namespace towpath::backends::loopback
