// What OpenSSL could not do for want of memory, which ends the call as operator new does: with
// std::bad_alloc. For those of its functions that fail for nothing else, in a build that has
// SHA-256, AES and TLS 1.3. Thread: any.
#pragma once

namespace towpath::net {

[[noreturn]] void end_without_memory();

/// What it has made.
template <typename T>
T* allocated(T* made) {
  if (made == nullptr) end_without_memory();
  return made;
}

/// What it has done (1) or not.
inline void done(int succeeded) {
  if (succeeded != 1) end_without_memory();
}

}  // namespace towpath::net
