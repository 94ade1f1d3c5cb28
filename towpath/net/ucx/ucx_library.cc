#include <array>
#include <csignal>
#include <cstdarg>
#include <cstdio>

#include <ucs/debug/log_def.h>

#include <towpath/core/text.h>
#include <towpath/net/ucx/ucx_library.h>
#include <towpath/sys/dynamic_library.h>

namespace towpath::net {
namespace {

constexpr const char* kSoname = "libucp.so.0";

// libucs catches SIGSEGV and others from the moment it is loaded, to print a backtrace. A library
// inside somebody else's program has no business there; whoever loaded UCX before us decides.
void let_go_of_signals(const sys::DynamicLibrary& ucp) {
  const auto disable = reinterpret_cast<void (*)(int)>(ucp.find("ucs_debug_disable_signal"));
  if (disable == nullptr) return;
  for (const int signal : {SIGILL, SIGSEGV, SIGBUS, SIGFPE}) disable(signal);
}

extern "C" ucs_log_func_rc_t towpath_ucx_says(const char*, unsigned, const char*,
                                              ucs_log_level_t level,
                                              const ucs_log_component_config_t*,
                                              const char* message, va_list values) {
  if (level != UCS_LOG_LEVEL_ERROR && level != UCS_LOG_LEVEL_WARN) return UCS_LOG_FUNC_RC_CONTINUE;
  std::array<char, 512> text{};
  (void)std::vsnprintf(text.data(), text.size(), message, values);
  std::fputs(
      cat("UCX ", level == UCS_LOG_LEVEL_ERROR ? "ERROR" : "WARN", " ", text.data(), "\n").c_str(),
      stderr);
  return UCS_LOG_FUNC_RC_STOP;
}

// It prints to standard output, which is the program's: what somebody reads there as JSON would
// begin with UCX's word on a connection that was refused.
void say_to_stderr(const sys::DynamicLibrary& ucp) {
  const auto push =
      reinterpret_cast<decltype(&::ucs_log_push_handler)>(ucp.find("ucs_log_push_handler"));
  if (push != nullptr) push(towpath_ucx_says);
}

}  // namespace

Result<UcxLibrary> UcxLibrary::open() {
  const auto ucp = sys::DynamicLibrary::open(kSoname);
  if (!ucp.ok())
    return error(ucp.code(), cat("UCX is not here: ", ucp.status().message()),
                 "apt-get install libucx0");
  if (!ucp->was_loaded()) {
    let_go_of_signals(*ucp);
    say_to_stderr(*ucp);
  }
  UcxLibrary library;
  const char* missing = nullptr;
#define TOWPATH_UCX_FIND(name)                                               \
  library.name = reinterpret_cast<decltype(library.name)>(ucp->find(#name)); \
  if (library.name == nullptr) missing = #name;
  TOWPATH_UCX_FUNCTIONS(TOWPATH_UCX_FIND)
#undef TOWPATH_UCX_FIND
  if (missing != nullptr) {
    return error(Code::unsupported, cat(kSoname, " has no ", missing),
                 "install UCX 1.13 or a later 1.x");
  }
  return library;
}

}  // namespace towpath::net
